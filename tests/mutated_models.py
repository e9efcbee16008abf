"""Sound files of models, vectors and records, and what reads them, for `tests.mutated_kinds`."""

import json
import zipfile

import numpy as np

from tests.hostile_models import WORDS, preset_directory
from tests.hostile_readers import ROBERTA, write


def vocabulary(folder):
    from keras_bert_impl.tokenizers import Tokenizer

    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    return ["vocab.txt"], Tokenizer.from_pretrained


def merges(folder):
    from tokenizers.pre_tokenizers import ByteLevel

    from keras_bert_impl.tokenizers import Tokenizer

    tokens = [*ROBERTA, *sorted(ByteLevel.alphabet()), "ab", "Ġa"]
    (folder / "vocab.json").write_text(json.dumps({token: n for n, token in enumerate(tokens)}))
    (folder / "merges.txt").write_text("#version: 0.2\na b\nĠ a\n")
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "RobertaTokenizer"}')
    return ["merges.txt", "vocab.json"], Tokenizer.from_pretrained


def sentence_piece(folder):
    from keras_bert_impl.tokenizers import Tokenizer
    from tests.tokenizers.sentencepiece_models import train

    train(folder, "ALBERT")
    names = [path.name for path in folder.iterdir() if path.suffix == ".model"]
    return names, Tokenizer.from_pretrained


def _tensors():
    draw = np.random.default_rng(0)
    names = ("bert.embeddings.word_embeddings.weight", "classifier.bias", "classifier.weight")
    return {name: draw.normal(size=(4, 6)).astype("float32") for name in names}


def _read_all(tensors):
    for name in tensors.header:
        np.asarray(tensors.read(name)).sum()


def safetensors_file(folder):
    import safetensors.numpy

    from keras_bert_impl.checkpoints.interop.source import SafetensorsFile

    safetensors.numpy.save_file(_tensors(), folder / "model.safetensors")
    return ["model.safetensors"], lambda f: _read_all(SafetensorsFile(f / "model.safetensors"))


def torch_file(is_zip, folder):
    import torch

    from keras_bert_impl.checkpoints.interop.torch_file import TorchFile

    tensors = {name: torch.tensor(array) for name, array in _tensors().items()}
    path = folder / "pytorch_model.bin"
    torch.save(tensors, path, _use_new_zipfile_serialization=is_zip)
    return [path.name], lambda f: _read_all(TorchFile(f / path.name))


def checkpoint(folder):
    import tensorflow as tf

    from keras_bert_impl.checkpoints.interop.google.checkpoint import Checkpoint

    names = sorted(_tensors())
    tf.raw_ops.SaveV2(
        prefix=str(folder / "model.ckpt"),
        tensor_names=names,
        shape_and_slices=[""] * len(names),
        tensors=[_tensors()[name] for name in names],
    )

    def read(folder):
        reader = Checkpoint(folder / "model.ckpt")
        for name in reader.variables:
            reader.read(name)

    return ["model.ckpt.index", "model.ckpt.data-00000-of-00001"], read


def keras_weights(folder):
    import h5py

    from keras_bert_impl.checkpoints.interop.keras_hub.preset import _resolve_weights

    contents = preset_directory(folder)
    for name, content in contents.items():
        write(folder, name, json.dumps(content).encode())
    with h5py.File(folder / "model_00000.weights.h5", "w") as weights:
        for name, array in _tensors().items():
            weights.create_dataset(f"layers/{name}/vars/0", data=array)

    def read(folder):
        from keras_bert_impl.checkpoints.interop.hdf5 import find_array, opened

        _resolve_weights(folder)
        path = folder / "model_00000.weights.h5"
        with opened(path) as weights:
            names = [f"layers/{name}/vars/0" for name in _tensors()]
            arrays = [find_array(weights, name, path) for name in names]
        for array in filter(None, arrays):
            np.asarray(array.read()).sum()

    return ["model_00000.weights.h5", "model.weights.json"], read


def tensorflow_file(folder):
    import h5py

    from keras_bert_impl.checkpoints.interop.hdf5 import Hdf5File

    path = folder / "tf_model.h5"
    with h5py.File(path, "w") as file:
        for name, array in _tensors().items():
            file[f"bert/tf_bert_model/bert/{name}:0"] = array
    return [path.name], lambda f: _read_all(Hdf5File(f / path.name))


def keras_file(folder):
    from keras_bert_impl.checkpoints.interop.hdf5 import Hdf5File, model_config

    weights, _ = tensorflow_file(folder)
    path, config = folder / "model.keras", json.dumps({"config": {"model_type": "bert"}})
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("config.json", config)
        archive.write(folder / weights[0], "model.weights.h5")

    def read(folder):
        model_config(folder / path.name)
        _read_all(Hdf5File(folder / path.name))

    (folder / weights[0]).unlink()
    return [path.name], read


def flax_file(folder):
    from keras_bert_impl.checkpoints.interop.flax_file import FlaxFile
    from tests.checkpoints.interop.test_flax_file import array, mapping

    path = folder / "flax_model.msgpack"
    inner = mapping({name: array(value) for name, value in _tensors().items()})
    path.write_bytes(mapping({"bert": inner}))
    return [path.name], lambda f: _read_all(FlaxFile(f / path.name))


def vectors(folder):
    from keras_bert_impl.tasks.embedding.search import read_vectors

    np.save(folder / "vectors.npy", np.random.default_rng(0).normal(size=(5, 8)).astype("float32"))
    return ["vectors.npy"], lambda f: np.asarray(read_vectors(f / "vectors.npy")).sum()


def records(folder):
    from keras_bert_impl.pretraining.corpus.preparation import prepare
    from keras_bert_impl.pretraining.examples.records import check_first_rows, read_manifest
    from keras_bert_impl.tokenizers import WordPieceTokenizer

    texts = folder / "corpus.txt"
    draw = np.random.default_rng(0)
    texts.write_text(
        "".join(
            " ".join(draw.permutation([*"abcdefghij"])) + ".\n" + "\n" * (n % 3 // 2)
            for n in range(90)
        )
    )
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "."]
    tokenizer = WordPieceTokenizer([*special, *"abcdefghij"])
    prepare(texts, folder / "records", tokenizer, length=32, held_out=0.2, num_workers=1)

    def read(folder):
        check_first_rows(folder / "records", read_manifest(folder / "records"))

    files = (folder / "records").iterdir()
    names = [path.name for path in files if path.suffix == ".gz" or path.name == "manifest.json"]
    return [f"records/{name}" for name in sorted(names)], read
