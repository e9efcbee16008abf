"""Presets: round trips through KerasHub's own reader and writer, and damaged presets."""

import dataclasses
import json
import logging
import os
import subprocess
import sys

import h5py
import keras
import keras_hub
import ml_dtypes
import numpy as np
import pytest

from keras_bert_impl.interop import (
    encoder_tensors,
    huggingface_config,
    open_model,
    write_keras_hub_preset,
)
from keras_bert_impl.interop.keras_hub.preset import open_preset
from keras_bert_impl.io.errors import InputError
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.models.weights import tensors_of
from keras_bert_impl.tasks import TextClassifier
from keras_bert_impl.tokenizers import Tokenizer, WordPieceTokenizer
from keras_bert_impl.tokenizers.keras_hub_saving import to_keras_hub
from tests.helpers import TINY, difference, randomize, small_disk, to_numpy
from tests.interop.keras_hub.test_models import assert_same_weights
from tests.interop.keras_hub_models import (
    CASES,
    SIZES,
    features_for,
    in_float64,
    original_outputs,
    random_backbone,
    random_task,
)

QUERY = "layers/transformer_encoder/_self_attention_layer/query_dense/vars/0"
TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "cafe", "##s", "the", "?"]


def write_preset(encoder, directory, tokenizer=None):
    tensors = tensors_of(encoder, encoder_tensors(encoder.config))
    write_keras_hub_preset(directory, huggingface_config(encoder.config), tensors, tokenizer)


def assert_equal_weights(one, other):
    assert one.config == other.config
    for first, second in zip(one.weights, other.weights):
        assert first.path == second.path
        assert to_numpy(first.value).tobytes() == to_numpy(second.value).tobytes(), first.path


# === Round trips ===


@pytest.mark.parametrize("case", CASES)
def test_preset(case, tmp_path):
    backbone = random_backbone(case)
    has_pooler = isinstance(backbone.output, dict)
    backbone.save_to_preset(str(tmp_path / "theirs"))
    read = Encoder.from_pretrained(tmp_path / "theirs", use_pooler=has_pooler)
    assert_equal_weights(read, Encoder.from_keras_hub(backbone, use_pooler=has_pooler))
    write_preset(read, tmp_path / "ours")
    again = type(backbone).from_preset(str(tmp_path / "ours"))
    assert_same_weights(again, backbone)


def test_bfloat16(tmp_path):
    backbone = random_backbone("bert", dtype="bfloat16")
    backbone.save_to_preset(str(tmp_path))
    _, tensors = open_preset(tmp_path)
    assert {dtype for dtype, _ in tensors.header.values()} == {"BF16"}
    assert tensors.read("pooler.dense.weight").dtype == ml_dtypes.bfloat16
    assert_equal_weights(Encoder.from_pretrained(tmp_path), Encoder.from_keras_hub(backbone))


def test_shards(tmp_path):
    backbone = random_backbone("bert")
    backbone.save_to_preset(str(tmp_path), max_shard_size=2e-5)  # GiB, about 21 kB
    assert len(list(tmp_path.glob("model_*.weights.h5"))) > 3
    assert_equal_weights(Encoder.from_pretrained(tmp_path), Encoder.from_keras_hub(backbone))


def test_old_spellings(tmp_path):
    """Keras 3 reads folders with Keras 2's names, and so must we."""
    backbone = random_backbone("bert")
    backbone.save_to_preset(str(tmp_path))
    with h5py.File(tmp_path / "model.weights.h5", "a") as file:
        file.move("layers", "_layer_checkpoint_dependencies")
        for block in file["_layer_checkpoint_dependencies"].values():
            if "_self_attention_layer" in block:
                attention = block["_self_attention_layer"]
                for name in ("query_dense", "key_dense", "value_dense", "output_dense"):
                    attention.move(name, f"_{name}")
    config = json.loads((tmp_path / "config.json").read_text())
    config["registered_name"] = "keras_nlp>BertBackbone"
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert_same_weights(keras_hub.models.BertBackbone.from_preset(str(tmp_path)), backbone)
    assert_equal_weights(Encoder.from_pretrained(tmp_path), Encoder.from_keras_hub(backbone))


@pytest.mark.parametrize("case", ["bert", "roberta", "distilbert"])
def test_classifier(case, tmp_path):
    task = random_task(case, "TextClassifier", num_classes=3)
    task.save_to_preset(str(tmp_path))
    WordPieceTokenizer([*TOKENS, *map(str, range(44))]).save_pretrained(tmp_path)
    features = features_for(task.backbone, [9, 5, 3])
    classifier = TextClassifier.from_pretrained(tmp_path)
    expected = task({name: features[name] for name in task.input})
    # Both in float32: twice the tolerance of one against float64, see test_models.py.
    assert difference(classifier(features), expected) < 2e-5
    assert classifier.num_classes == 3


def test_leaves_out_an_unsupported_head(tmp_path, caplog):
    random_task("bert", "MaskedLM").save_to_preset(str(tmp_path))
    with caplog.at_level(logging.WARNING):
        source = open_model(tmp_path)
    assert "only the encoder is read: the head of BertMaskedLM uses a different" in caplog.text
    assert source.config["architectures"] == ["BertModel"]


def test_written_with_a_tokenizer(tmp_path):
    encoder = Encoder(
        dataclasses.replace(TINY, activation="gelu_tanh", vocabulary_size=len(TOKENS))
    )
    tokenizer = WordPieceTokenizer(TOKENS)
    write_preset(encoder, tmp_path, to_keras_hub(tokenizer, "bert"))
    theirs = keras_hub.models.BertTokenizer.from_preset(str(tmp_path))
    texts = ["The Cafés?", "the [MASK] ?!"]
    ours = tokenizer.tokenize(texts).to_list()
    assert ours == [[7, 5, 6, 8], [7, 4, 8, 1]]
    assert [list(ids) for ids in theirs(texts)] == ours
    assert Tokenizer.from_pretrained(tmp_path).tokenize(texts).to_list() == ours


def test_full_disk(tmp_path):
    backbone = random_backbone("bert", vocabulary_size=30_000)
    encoder = Encoder.from_keras_hub(backbone)
    disk = tmp_path / "disk"
    with small_disk(disk):
        with pytest.raises(InputError, match="cannot write"):
            write_preset(encoder, disk / "preset")
        assert list(disk.iterdir()) == []


# === Damaged presets ===


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    path = tmp_path_factory.mktemp("original")
    random_backbone("bert").save_to_preset(str(path))
    return {file.name: file.read_bytes() for file in path.iterdir()}


@pytest.fixture
def preset(original, tmp_path):
    path = tmp_path / "preset"
    path.mkdir()
    for name, content in original.items():
        (path / name).write_bytes(content)
    return path


def edit_config(inner=None, **changes):
    def damage(preset):
        path = preset / "config.json"
        config = json.loads(path.read_text()) | changes
        config["config"] = config["config"] | (inner or {})
        config["config"] = {k: v for k, v in config["config"].items() if v is not ...}
        path.write_text(json.dumps(config))

    return damage


def edit_weights(change):
    def damage(preset):
        with h5py.File(preset / "model.weights.h5", "a") as file:
            change(file)

    return damage


def replace(array, **arguments):
    def change(file):
        del file[QUERY]
        file.create_dataset(QUERY, data=array, **arguments)

    return edit_weights(change)


def link(made, name=QUERY):
    def change(file):
        del file[name]
        file[name] = made

    return edit_weights(change)


def external(file):
    del file[QUERY]
    secret = os.path.join(os.path.dirname(file.filename), "config.json")
    file.create_dataset(QUERY, (32, 4, 8), "float32", external=[(secret, 0, 4096)])


def virtual(file):
    del file[QUERY]
    layout = h5py.VirtualLayout((32, 4, 8), "float32")
    layout[:] = h5py.VirtualSource(file.filename, "layers/dense/vars/0", (32, 4, 8))
    file.create_virtual_dataset(QUERY, layout)


def terabytes(file):
    """Declares a huge dataset that is never written and takes no space in the file."""
    del file[QUERY]
    file.create_dataset(QUERY, (10**6, 4, 25 * 10**4), "float32")


def vlen(file):
    del file[QUERY]
    file.create_dataset(QUERY, (32, 4, 8), h5py.vlen_dtype("float32"))


def never_written(file):
    del file[QUERY]
    file.create_dataset(QUERY, (32, 4, 8), "float32")


def edit_file(name, change):
    return lambda preset: (preset / name).write_bytes(change((preset / name).read_bytes()))


def remove(name):
    return lambda preset: (preset / name).unlink()


def index(content):
    def damage(preset):
        (preset / "model.weights.h5").unlink()
        (preset / "model.weights.json").write_text(json.dumps(content))

    return damage


def task(**changes):
    def damage(preset):
        content = {"registered_name": "keras_hub>BertTextClassifier"}
        content["config"] = {"num_classes": 2, "dropout": 0.1}
        (preset / "task.json").write_text(json.dumps(content | changes))

    return damage


NUMBERS = np.zeros((32, 4, 8), "float32")
WEIGHTS = "model.weights.h5"
LAMBDA = {"module": "keras.layers", "class_name": "Lambda", "registered_name": "Lambda"}


@pytest.mark.parametrize(
    ("damage", "message"),
    {
        "no JSON": (edit_file("config.json", lambda b: b[:-3]), "config.json.* is not valid JSON"),
        "unknown class": (
            edit_config(registered_name="keras_hub>GemmaBackbone"),
            "config.json: registered_name 'GemmaBackbone' is not supported; supported are BertBackbone, Rob",
        ),
        "a lambda": (edit_config(**LAMBDA), "registered_name 'Lambda' is not a class of KerasHub"),
        "another package": (
            edit_config(registered_name="evil>BertBackbone"),
            "is not a class of KerasHub",
        ),
        "a list for a name": (
            edit_config(registered_name=["a"]),
            "registered_name must be a string",
        ),
        "no config": (
            edit_file("config.json", lambda b: b'{"registered_name": "keras_hub>BertBackbone"}'),
            "config is missing",
        ),
        "argument missing": (edit_config({"hidden_dim": ...}), "json: hidden_dim is missing"),
        "argument unknown": (edit_config({"new_trick": 1}), "json: new_trick is not supported"),
        "text for a number": (
            edit_config({"num_layers": "2"}),
            "num_layers must be an integer",
        ),
        "text for a rate": (edit_config({"dropout": "x"}), "config.json: "),
        "a billion layers": (
            edit_config({"num_layers": 10**9}),
            "config.num_layers must be an int",
        ),
        "many layers": (
            edit_config({"num_layers": 900}),
            "has 900 blocks, but the weights have 12 blocks",
        ),
        "huge": (
            edit_config({"vocabulary_size": 10**9}),
            r"reversible_embedding/vars/0 must have shape \(1000000000, 32\).*\(53, 32\)",
        ),
        "other heads": (
            edit_config({"num_heads": 8}),
            rf"{WEIGHTS}: /?{QUERY} must have shape \(32, 8, 4\), .*Received: \(32, 4, 8\)",
        ),
        "no weights": (remove(WEIGHTS), f"has no weights: neither {WEIGHTS} nor model.weights.js"),
        "empty": (edit_file(WEIGHTS, lambda b: b""), f"{WEIGHTS} is damaged"),
        "cut": (edit_file(WEIGHTS, lambda b: b[: len(b) // 2]), f"{WEIGHTS} is damaged"),
        "no HDF5": (edit_file(WEIGHTS, lambda b: b"\x80\x04]\x94." * 999), f"{WEIGHTS} is damaged"),
        "variable missing": (edit_weights(lambda f: f.pop(QUERY)), f"5: {QUERY} is missing"),
        "layers missing": (
            edit_weights(lambda f: f.pop("layers")),
            "but the weights have 0 blocks",
        ),
        "layers are an array": (
            edit_weights(lambda f: (f.pop("layers"), f.create_dataset("layers", data=[1.0]))),
            "but the weights have 0 blocks",
        ),
        "a group for an array": (
            edit_weights(lambda f: (f.pop(QUERY), f.create_group(QUERY))),
            f"{QUERY} is not an array",
        ),
        "wrong shape": (replace(NUMBERS[1:]), r"must have shape \(32, 4, 8\).*\(31, 4, 8\)"),
        "integers": (replace(NUMBERS.astype("int32")), "dtype int32; supported are"),
        "strings": (replace(["a", "b"]), "has dtype object"),
        "vlen": (
            edit_weights(vlen),
            "has dtype object",
        ),
        "compressed": (replace(NUMBERS, compression="gzip"), "must be stored contiguously"),
        "soft link": (link(h5py.SoftLink("/layers/dense/vars/0")), f"{QUERY} is a link"),
        "soft link of a group": (
            link(h5py.SoftLink("/layers/dense"), "layers/dense/vars"),
            "dense/vars is a link",
        ),
        "external link": (link(h5py.ExternalLink("other.h5", "/x")), f"{QUERY} is a link"),
        "external layers": (link(h5py.ExternalLink("o.h5", "/x"), "layers"), "/layers is a link"),
        "external data": (edit_weights(external), f"{QUERY} is stored in another file"),
        "virtual": (edit_weights(virtual), f"{QUERY} is stored in another file"),
        "terabytes": (edit_weights(terabytes), "must be stored contiguously"),
        "never written": (edit_weights(never_written), "must be stored contiguously"),
        "index without map": (index({}), "model.weights.json has no weight_map"),
        "index is empty": (index({"weight_map": {}}), "model.weights.json is empty"),
        "shard elsewhere": (
            index({"weight_map": {"/a": ["../model_00000.weights.h5"]}}),
            "'../model_00000.weights.h5' is not the name of a shard",
        ),
        "shard missing": (
            index({"weight_map": {"/a": "model_00000.weights.h5"}}),
            "lists model_00000.weights.h5, which is missing",
        ),
        "head missing": (task(), "has a task.json, but no task.weights.h5"),
        "strange task": (task(registered_name=3), "task.json: registered_name must be a string"),
        "task without config": (task(config=[]), "task.json: config must be a dict"),
    }.values(),
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_damaged(preset, damage, message):
    damage(preset)
    with pytest.raises(InputError, match=message) as caught:
        Encoder.from_pretrained(preset)
    assert "\n" not in str(caught.value)
    assert str(preset) in str(caught.value)


def test_instantiates_no_class(preset, monkeypatch):
    """Layers, policies and initializers named in the files are never instantiated."""
    hostile = {"module": "os", "class_name": "system", "config": {"command": "true"}}
    edit_config({"dtype": hostile})(preset)

    def made(*args, **kwargs):
        raise AssertionError(f"made {args}")

    monkeypatch.setattr(keras.saving, "deserialize_keras_object", made)
    monkeypatch.setattr(keras_hub.models.BertBackbone, "__init__", made)
    assert Encoder.from_pretrained(preset).config.hidden_dim == SIZES["hidden_dim"]


def test_flipped_bytes(preset):
    """A file with flipped bytes is either read or rejected with one clear error."""
    random = np.random.default_rng(0)
    content = (preset / WEIGHTS).read_bytes()
    structure = np.flatnonzero(np.frombuffer(content[:4096], "uint8"))
    outcomes = set()
    for _ in range(150):
        damaged = bytearray(content)
        for place in random.choice(structure, 4):
            damaged[place] = random.integers(256)
        (preset / WEIGHTS).write_bytes(damaged)
        try:
            config, tensors = open_preset(preset)
            outcomes.add(sum(tensors.read(name).size for name in tensors.header) > 0)
        except InputError as error:
            outcomes.add(type(error))
    assert outcomes == {True, InputError}


READ = """
import sys

def memory(name):
    lines = open("/proc/self/status").read().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(name))

from keras_bert_impl.config import EncoderConfig
from keras_bert_impl.models.encoder import Encoder

Encoder(EncoderConfig.named("bert_uncased_L-2_H-128_A-2"))  # what TensorFlow takes to start
before = memory("VmRSS")
encoder = Encoder.from_pretrained(sys.argv[1])
print(memory("VmHWM") - before)
"""


@pytest.mark.slow
def test_published_shape(tmp_path):
    """BERT base: checks the outputs, and that memory stays below 1.3 times the file size."""
    backbone = keras_hub.models.BertBackbone(30522, 12, 12, 768, 3072)
    randomize(backbone, scale=0.02)
    backbone.save_to_preset(str(tmp_path))
    random = np.random.default_rng(0)
    mask = (np.arange(128)[None] < np.array([[128], [57]])).astype("int32")
    features = {
        "token_ids": random.integers(0, 30522, (2, 128)).astype("int32"),
        "segment_ids": random.integers(0, 2, (2, 128)).astype("int32"),
        "padding_mask": mask,
    }
    expected = original_outputs(in_float64(backbone), features)
    received = Encoder.from_pretrained(tmp_path)(features)
    real = mask == 1
    sequence = np.asarray(received["sequence_output"])[real]
    assert difference(sequence, expected["sequence_output"][real]) < 1e-5
    assert difference(received["pooled_output"], expected["pooled_output"]) < 1e-5
    command = [sys.executable, "-c", READ, str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    size = (tmp_path / WEIGHTS).stat().st_size
    assert 0.9 * size < int(result.stdout.split()[-1]) < 1.3 * size
