"""Kinds of files for `tests.mutated_files`: sound files in a folder, and what reads them.

`KINDS` maps a name to a function of a folder. It writes the files and returns (names of those to
change, function that reads the folder).
"""

import bz2
import contextlib
import functools
import gzip
import json
import lzma
import tempfile
import zipfile
from pathlib import Path

import numpy as np

from keras_bert_impl.io.errors import InputError
from tests import test_hostile_files as hostile

ROWS = [
    ("a film, good", "pos", "7", ["pos"]),
    ('a "bad" film', "neg", "8", ["neg", "pos"]),
    ("größe 😀", "pos", "9", []),
    ("", "neg", "10", ["neg"]),
]
TEXT = "One sentence here.\nAnother one, too.\n\nA second document 😀.\n"
CONLL = "-DOCSTART- O\n\nEU B-ORG\nrejects O\nGerman B-MISC\ncall I-MISC\n\nAnn B-PER\n. O\n"
CONLLU = (
    "# sent_id = 1\n# text = They buy\n1\tThey\tthey\tPRON\tPRP\tCase=Nom\t2\tnsubj\t_\t_\n"
    "2-3\tbuys\t_\t_\t_\t_\t_\t_\t_\t_\n2\tbuy\tbuy\tVERB\tVBP\t_\t0\troot\t_\t_\n\n"
)
SPANS = [
    {"text": "Ann lives in Rome.", "label": [[0, 3, "PER"], [13, 17, "LOC"]]},
    {"text": "Nobody.", "label": []},
]
WORDS = [
    {"tokens": ["Ann", "left"], "ner_tags": ["B-PER", "O"]},
    {"tokens": ["x"], "ner_tags": ["O"]},
]
RECIPE = "# a run\nmodel: bert-base-uncased\nlearning_rate: 3.0e-5\nepochs: 3\nlabels: [a, b]\n"
RECIPE += "adapter: {kind: lora, size: 8}\nseed: 0\nname: 'x'\n"

# === Tables and texts ===


def csv_text():
    lines = ["text,label,id"]
    for text, label, number, _ in ROWS:
        quoted = text.replace('"', '""')
        lines.append(f'"{quoted}",{label},{number}')
    return "\n".join(lines) + "\n"


def tsv_text():
    return "text\tlabel\tid\n" + "".join(f"{a}\t{b}\t{c}\n" for a, b, c, _ in ROWS)


def rows():
    return [
        {
            "text": text,
            "label": label,
            "id": int(number),
            "labels": labels,
            "cats": {"a": 1, "b": 0},
        }
        for text, label, number, labels in ROWS
    ]


def _all(*reads):
    """Calls all functions; raises the `InputError` of the first if it does."""
    for read in reads[1:]:
        with contextlib.suppress(InputError):
            read()
    reads[0]()


def read_tables(path):
    from keras_bert_impl.runs.prediction_table import count_rows, read_rows
    from keras_bert_impl.tasks import read_table
    from keras_bert_impl.tasks.data.layout import Layout
    from keras_bert_impl.tasks.data.tables import check_columns, table_columns

    layout = Layout("text", id="id", allow_empty=True)
    more = {"allow_empty": True, "skip_bad_rows": True}
    reads = [
        lambda: read_table(path, "text", label="label", id="id", allow_empty=True),
        lambda: read_table(path, "text", "id", "label", **more),
        lambda: read_table(path, "text", label="id", numeric=True, **more),
        lambda: read_table(path, "0", label="1", header=False, label_separator=",", **more),
        lambda: table_columns(path),
        lambda: check_columns(path, layout),
        lambda: count_rows(path, layout),
        lambda: list(read_rows(path, layout)),
    ]
    if path.suffix not in (".csv", ".tsv", ".gz", ".xz", ".bz2"):
        reads.append(lambda: read_table(path, "text", label="labels", **more))
        reads.append(lambda: read_table(path, "text", label="cats", **more))
        reads.append(lambda: read_table(path, "text", label="cats.a", **more))
    _all(*reads)


def table(name, content):
    def make(folder):
        (folder / name).write_bytes(content())
        return [name], lambda folder: read_tables(folder / name)

    return make


def encoded(function, coding="utf-8"):
    return lambda: function().encode(coding)


def json_lines():
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows())


def arrow(write):
    import pyarrow

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a"
        write(pyarrow.Table.from_pylist(rows()), path)
        return path.read_bytes()


def parquet():
    from pyarrow import parquet

    return arrow(functools.partial(parquet.write_table, compression="zstd"))


def feather():
    from pyarrow import feather

    return arrow(functools.partial(feather.write_feather, compression="lz4"))


def file(name, content, read):
    """Returns a kind with one file, which `read` takes."""

    def make(folder):
        (folder / name).write_text(content, encoding="utf-8")
        return [name], lambda folder: read(folder / name)

    return make


def read_corpus(path):
    from keras_bert_impl.pretraining import read_documents
    from keras_bert_impl.tasks.data.tables import text_lines
    from keras_bert_impl.tasks.embedding.vectors import read_texts

    formats = ("auto", "sentences", "wikiextractor", "jsonl", "files")
    _all(
        *(functools.partial(_listed, read_documents, path, one) for one in formats),
        lambda: list(text_lines(path)),
        lambda: list(read_texts(path, unit="file")),
    )


def _listed(function, *arguments):
    return list(function(*arguments))


def read_tagged(path):
    from keras_bert_impl.tasks import read_columns, read_conllu, read_tags

    _all(
        lambda: read_tags(path),
        lambda: read_tags(path, skip_bad_rows=True),
        lambda: read_columns(path, skip_bad_rows=True),
        lambda: read_conllu(path, skip_bad_rows=True),
    )


def read_questions(path):
    from keras_bert_impl.tasks import read_squad

    _all(lambda: read_squad(path), lambda: read_squad(path, skip_bad_rows=True))


def read_answers(path):
    from keras_bert_impl.tasks import read_choices

    _all(lambda: read_choices(path), lambda: read_choices(path, skip_bad_rows=True))


SWAG = "id,sent1,sent2,ending0,ending1,ending2,ending3,label\n"
SWAG += '1,A man sits.,"A man, old,",sings.,reads.,eats.,runs.,2\n'
CHOICE = [
    {"prompt": "I am", "endings": ["a", "b"], "answer": 1},
    {"prompt": "x", "endings": ["y", "z"], "answer": 0},
]

# === Models ===


def vocabulary(folder):
    from keras_bert_impl.tokenizers.wordpiece import files

    (folder / "vocab.txt").write_text("\n".join(hostile.WORDS) + "\n")
    return ["vocab.txt"], files.read


def merges(folder):
    from tokenizers.pre_tokenizers import ByteLevel

    from keras_bert_impl.tokenizers.byte_level_bpe import files

    tokens = [*hostile.ROBERTA, *sorted(ByteLevel.alphabet()), "ab", "Ġa"]
    (folder / "vocab.json").write_text(json.dumps({token: n for n, token in enumerate(tokens)}))
    (folder / "merges.txt").write_text("#version: 0.2\na b\nĠ a\n")
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "RobertaTokenizer"}')
    return ["merges.txt", "vocab.json"], files.read


def sentence_piece(folder):
    from keras_bert_impl.tokenizers.sentencepiece import files
    from tests.tokenizers.sentencepiece_models import train

    train(folder, "ALBERT")
    names = [path.name for path in folder.iterdir() if path.suffix == ".model"]
    return names, files.read


def _tensors():
    draw = np.random.default_rng(0)
    names = ("bert.embeddings.word_embeddings.weight", "classifier.bias", "classifier.weight")
    return {name: draw.normal(size=(4, 6)).astype("float32") for name in names}


def _read_all(tensors):
    for name in tensors.header:
        np.asarray(tensors.read(name)).sum()


def safetensors_file(folder):
    import safetensors.numpy

    from keras_bert_impl.interop.source import SafetensorsFile

    safetensors.numpy.save_file(_tensors(), folder / "model.safetensors")
    return ["model.safetensors"], lambda f: _read_all(SafetensorsFile(f / "model.safetensors"))


def torch_file(is_zip, folder):
    import torch

    from keras_bert_impl.interop.torch_file import TorchFile

    tensors = {name: torch.tensor(array) for name, array in _tensors().items()}
    path = folder / "pytorch_model.bin"
    torch.save(tensors, path, _use_new_zipfile_serialization=is_zip)
    return [path.name], lambda f: _read_all(TorchFile(f / path.name))


def checkpoint(folder):
    import tensorflow as tf

    from keras_bert_impl.interop.google.checkpoint import Checkpoint

    names = sorted(_tensors())
    tf.raw_ops.SaveV2(
        prefix=str(folder / "model.ckpt"),
        tensor_names=names,
        shape_and_slices=[""] * len(names),
        tensors=[_tensors()[name] for name in names],
    )

    def read(folder):
        found = Checkpoint(folder / "model.ckpt")
        for name in found.variables:
            found.read(name)

    return ["model.ckpt.index", "model.ckpt.data-00000-of-00001"], read


def keras_weights(folder):
    import h5py

    from keras_bert_impl.interop.keras_hub.preset import _weights_files

    contents = hostile.preset_directory(folder)
    for name, content in contents.items():
        hostile.write(folder, name, json.dumps(content).encode())
    with h5py.File(folder / "model_00000.weights.h5", "w") as weights:
        for name, array in _tensors().items():
            weights.create_dataset(f"layers/{name}/vars/0", data=array)

    def read(folder):
        from keras_bert_impl.interop.hdf5 import find_array, opened

        _weights_files(folder)
        path = folder / "model_00000.weights.h5"
        with opened(path) as weights:
            names = [f"layers/{name}/vars/0" for name in _tensors()]
            found = [find_array(weights, name, path) for name in names]
        for array in filter(None, found):
            np.asarray(array.read()).sum()

    return ["model_00000.weights.h5", "model.weights.json"], read


def tensorflow_file(folder):
    import h5py

    from keras_bert_impl.interop.hdf5 import Hdf5File

    path = folder / "tf_model.h5"
    with h5py.File(path, "w") as file:
        for name, array in _tensors().items():
            file[f"bert/tf_bert_model/bert/{name}:0"] = array
    return [path.name], lambda f: _read_all(Hdf5File(f / path.name))


def keras_file(folder):
    from keras_bert_impl.interop.hdf5 import Hdf5File, model_config

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
    from keras_bert_impl.interop.flax_file import FlaxFile
    from tests.interop.test_flax_file import array, mapping

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


def from_hostile(name):
    """Returns the kind of some files of JSON that `test_hostile_files` has."""

    def make(folder):
        prepare, read = hostile.READERS[name]
        contents = prepare(folder)
        for file, content in contents.items():
            hostile.write(folder, file, json.dumps(content).encode())
        return list(contents), read

    return make


def read_recipe(path):
    from keras_bert_impl.io.reading import read_yaml

    read_yaml(path)


KINDS = {
    "csv": table("a.csv", encoded(csv_text)),
    "csv of UTF-16": table("b.csv", encoded(csv_text, "utf-16")),
    "csv.gz": table("a.csv.gz", lambda: gzip.compress(csv_text().encode(), mtime=0)),
    "csv.bz2": table("a.csv.bz2", lambda: bz2.compress(csv_text().encode())),
    "csv.xz": table("a.csv.xz", lambda: lzma.compress(csv_text().encode())),
    "tsv": table("a.tsv", encoded(tsv_text)),
    "jsonl": table("a.jsonl", encoded(json_lines)),
    "json": table("a.json", lambda: json.dumps(rows(), indent=1).encode()),
    "parquet": table("a.parquet", parquet),
    "arrow": table("a.arrow", feather),
    "text": file("a.txt", TEXT, read_corpus),
    "wikiextractor": file("w.txt", f'<doc id="1" title="T">\nT\n{TEXT}</doc>\n', read_corpus),
    "conll": file("a.conll", CONLL, read_tagged),
    "conllu": file("a.conllu", CONLLU, read_tagged),
    "spans": file("s.jsonl", "".join(json.dumps(one) + "\n" for one in SPANS), read_tagged),
    "lists of words": file("w.json", json.dumps(WORDS), read_tagged),
    "squad": file("q.json", json.dumps({"data": hostile.SQUAD}, indent=1), read_questions),
    "swag.csv": file("c.csv", SWAG, read_answers),
    "choices.jsonl": file("c.jsonl", "".join(json.dumps(c) + "\n" for c in CHOICE), read_answers),
    "recipe.yaml": file("recipe.yaml", RECIPE, read_recipe),
    "config.json": from_hostile("config of bert"),
    "config.json of ModernBERT": from_hostile("config of modernbert"),
    "adapter_config.json": from_hostile("tuned"),
    "modules.json": from_hostile("sentences"),
    "preset": from_hostile("preset"),
    "tokenizer.json, WordPiece": from_hostile("WordPiece"),
    "tokenizer.json, BPE": from_hostile("byte-level BPE"),
    "tokenizer.json, Unigram": from_hostile("SentencePiece"),
    "files of a run": from_hostile("run"),
    "vocab.txt": vocabulary,
    "merges.txt": merges,
    "spiece.model": sentence_piece,
    "model.safetensors": safetensors_file,
    "pytorch_model.bin": functools.partial(torch_file, True),
    "pytorch_model.bin, old": functools.partial(torch_file, False),
    "ckpt.index": checkpoint,
    "weights.h5": keras_weights,
    "tf_model.h5": tensorflow_file,
    "flax_model.msgpack": flax_file,
    "model.keras": keras_file,
    "vectors.npy": vectors,
    "records": records,
}


@functools.cache
def sound_files() -> list[bytes]:
    """Returns files of other kinds, whose parts replace those of a file."""
    plain = [csv_text(), json_lines(), CONLL, CONLLU, RECIPE, TEXT, json.dumps(hostile.SQUAD)]
    with contextlib.suppress(ImportError):
        return [
            *(text.encode() for text in plain),
            gzip.compress(TEXT.encode(), mtime=0),
            parquet(),
        ]
    return [text.encode() for text in plain]
