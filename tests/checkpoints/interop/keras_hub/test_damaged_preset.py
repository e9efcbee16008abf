"""Damaged presets raise one clear error, and nothing named in a preset is run."""

import json
import os

import h5py
import keras
import keras_hub
import numpy as np
import pytest

from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.utils.errors import InputError
from tests.checkpoints.interop.keras_hub_models import SIZES, random_backbone

QUERY = "layers/transformer_encoder/_self_attention_layer/query_dense/vars/0"


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


def link(target, name=QUERY):
    def change(file):
        del file[name]
        file[name] = target

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
