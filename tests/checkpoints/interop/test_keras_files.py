"""Files of models that others built around an encoder in Keras 2, against what they computed.

The files in `tests/fixtures/tensorflow_files.tar.xz` are a few of those that `tools/make_keras_files.py`
writes with keras-bert, bert4keras, bert-for-tf2, TF Hub, and `transformers` in a functional model. For
all of them:

    KERAS_FILES=FOLDER python -m pytest -m slow tests/checkpoints/interop/test_keras_files.py
"""

import json
import os
import re
import shutil
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl import MaskedLM, TextClassifier
from keras_bert_impl.checkpoints.interop import open_model
from keras_bert_impl.models.conversion.formats import convert
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.utils.errors import InputError
from tests.checkpoints.interop.tensorflow_models import difference, unpack
from tests.checkpoints.interop.test_tensorflow_names import TOLERANCE, WORDS
from tests.helpers import to_numpy

SMALL = """
    bert4keras-checkpoint bert_for_tf2-without_segments-weights hub_layer-weights keras_bert-whole
    notebook-keras
""".split()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return unpack(tmp_path_factory.mktemp("made"))


@pytest.fixture
def copied(made, tmp_path):
    def copy(name):
        return shutil.copytree(made / name, tmp_path / name)

    return copy


@pytest.mark.parametrize("name", SMALL)
def test_states_equal_those_of_the_original(made, name):
    assert difference(made / name, is_complete=False) < TOLERANCE


@pytest.mark.slow
def test_states_of_all_libraries_and_forms():
    if "KERAS_FILES" not in os.environ:
        pytest.skip("KERAS_FILES is not set to a folder that the tool has written")
    files = Path(os.environ["KERAS_FILES"]).glob("*/expected.npz")
    differences = {file.parent.name: difference(file.parent, is_complete=False) for file in files}
    assert len(differences) >= 16
    assert {name: value for name, value in differences.items() if not value < TOLERANCE} == {}


def test_sizes_come_from_the_file_and_the_gelu_from_the_library(made):
    config = open_model(made / "keras_bert-whole").config
    assert config["num_attention_heads"] == config["num_hidden_layers"] == 2
    assert (config["vocab_size"], config["hidden_size"], config["intermediate_size"]) == (40, 8, 16)
    assert config["hidden_act"] == "gelu_new"
    stated = json.loads(
        (made / "bert_for_tf2-without_segments-weights/bert_config.json").read_text()
    )
    assert stated["hidden_act"] == "gelu"
    assert (
        open_model(made / "bert_for_tf2-without_segments-weights").config["hidden_act"]
        == "gelu_new"
    )
    assert open_model(made / "bert4keras-checkpoint").config["hidden_act"] == "gelu"


@pytest.mark.parametrize(
    "layers, stated, expected",
    [
        ("FeedForward", {"activation": "relu"}, {"hidden_act": "relu"}),
        ("FeedForward", {"activation": "gelu_erf"}, {"hidden_act": "gelu"}),
        (
            "FeedForward",
            {"activation": [{"class_name": "function", "config": "gelu_tanh"}]},
            {"hidden_act": "gelu_new"},
        ),
        ("Norm", {"epsilon": 1e-5}, {"layer_norm_eps": 1e-5}),
        ("Dropout", {"rate": 0.3}, {"hidden_dropout_prob": 0.3}),
        ("SelfAttention", {"head_num": 4}, {"num_attention_heads": 4}),
        ("FeedForward", {"activation": "swish"}, "hidden_act is 'swish'; supported are"),
        ("1-FeedForward", {"activation": "relu"}, "activation='gelu_new', which is not .* differ"),
        ("2-.*Norm", {"epsilon": 1e-5}, "epsilon=1e-05, which is not supported because other"),
        ("SelfAttention", {"history_only": True}, "history_only=True, which is not supported"),
        ("SelfAttention", {"activation": "relu"}, "SelfAttention' has activation='relu'"),
    ],
)
def test_settings_of_the_layers_of_a_whole_model(copied, layers, stated, expected):
    path = copied("keras_bert-whole")
    with h5py.File(path / "tf_model.h5", "a") as file:
        model = json.loads(file.attrs["model_config"])
        for layer in model["config"]["layers"]:
            if re.search(f"({layers})$", layer["config"]["name"]):
                layer["config"] |= stated
        file.attrs["model_config"] = json.dumps(model)
    if isinstance(expected, dict):
        assert open_model(path).config.items() >= expected.items()
    else:
        with pytest.raises(InputError, match=expected):
            open_model(path)


def test_heads_for_pretraining_are_read(copied):
    path = copied("keras_bert-whole")
    (path / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    model = MaskedLM.from_pretrained(path)
    with h5py.File(path / "tf_model.h5") as file:
        kernel = file["model_weights/MLM-Dense/MLM-Dense/kernel:0"][:]
        bias = file["model_weights/MLM-Sim/MLM-Sim/bias:0"][:]
        pairs = file["model_weights/NSP/NSP/kernel:0"][:]
    weights = {weight.path: to_numpy(weight.value) for weight in model.weights}
    assert np.array_equal(weights["masked_lm/dense/kernel"], kernel)
    assert np.array_equal(weights["masked_lm/output_bias"], bias)
    assert np.array_equal(open_model(path).read("cls.seq_relationship.weight"), pairs.T)


def test_layers_of_the_user_are_named(made, caplog):
    Encoder.from_pretrained(made / "notebook-keras")
    assert "not loaded: layers/dense/vars/0, layers/dense/vars/1, layers/dense_1/va" in caplog.text
    assert "optimizer" not in caplog.text and "metrics" not in caplog.text


def test_a_new_head_is_trained_on_the_encoder_and_saved(copied, tmp_path):
    path = copied("notebook-keras")
    (path / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    model = TextClassifier.from_pretrained(path, labels=["ham", "spam"])
    model.save_pretrained(tmp_path / "new")
    assert TextClassifier.from_pretrained(tmp_path / "new").labels == ["ham", "spam"]
    convert(path, tmp_path / "converted")
    name = "encoder.layer.1.attention.self.key.weight"
    key = open_model(path).read(name)
    assert np.array_equal(open_model(tmp_path / "converted").read(name), key)


def test_variables_of_a_saved_model_are_read_and_nothing_of_it_runs(copied, tmp_path):
    source = open_model(copied("keras_bert-whole"))
    names = {name: source.read(name) for name in source.unread()}
    kernel = "encoder.layer.{}.output.dense.weight"
    module = tf.Module()
    module.all = []
    for name, array in names.items():
        is_kernel = name.endswith("weight") and "mbeddings" not in name
        place = re.sub(r"/layer/(\d+)", r"/layer_._\1", name.rpartition(".")[0].replace(".", "/"))
        variable = tf.Variable(array.T if is_kernel else array)
        # Keras 2 sets this name through scopes.
        last = "kernel" if name.endswith("weight") else "bias"
        variable._handle_name = f"tf_bert_model/bert/{place}/{last}:0"
        module.all.append(variable)
    tf.saved_model.save(module, str(tmp_path / "saved"))
    (tmp_path / "saved" / "config.json").write_text(json.dumps(source.config))
    (tmp_path / "saved" / "saved_model.pb").write_bytes(b"no program")
    saved_model = open_model(tmp_path / "saved")
    for layer in (0, 1):
        assert np.array_equal(saved_model.read(kernel.format(layer)), names[kernel.format(layer)])


# === Files that are not understood ===


def test_several_files_are_an_error(copied):
    path = copied("hub_layer-weights")
    shutil.copy(path / "w.h5", path / "other.hdf5")
    with pytest.raises(InputError, match=r"several weights files: 'other.hdf5', 'w.h5'; keep one"):
        open_model(path)


def test_weights_without_a_configuration_say_what_to_do(copied):
    path = copied("hub_layer-weights")
    (path / "bert_config.json").unlink()
    with pytest.raises(
        InputError, match=r"w.h5 does not contain the config.* Add the model's config"
    ):
        open_model(path)


def test_a_checkpoint_of_tensorflow_1_needs_its_own_configuration(copied):
    path = copied("hub_layer-weights")
    (path / "w.h5").unlink()
    (path / "bert_config.json").rename(path / "config.json")
    tf.raw_ops.SaveV2(
        prefix=str(path / "x.ckpt"),
        tensor_names=["a"],
        shape_and_slices=[""],
        tensors=[np.zeros(2, "float32")],
    )
    with pytest.raises(
        InputError, match="is a TensorFlow 1 checkpoint. Rename its config.json to bert_con"
    ):
        open_model(path)


def rezipped(path, change):
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", **change(entries)) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)


def without_weights(entries):
    del entries["model.weights.h5"]
    return {}


def lambda_layer(entries):
    """A `Lambda` of marshalled code, as Keras would run it, and no encoder."""
    layer = {"class_name": "Lambda", "config": {"function": ["gA==", None, None]}}
    entries["config.json"] = json.dumps({"config": {"layers": [layer]}}).encode()
    return {}


DAMAGED = {
    "compressed": (lambda e: {"compression": zipfile.ZIP_DEFLATED}, "is compressed or encrypted"),
    "no weights": (without_weights, "There is no item named 'model.weights.h5'"),
    "code": (lambda_layer, "does not contain the configuration of the encoder"),
    "text": (lambda e: e.update({"model.weights.h5": b"x" * 99}) or {}, "is damaged"),
    "no JSON": (lambda e: e.update({"config.json": b"\xff"}) or {}, "is damaged"),
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_damaged_keras_files(copied, kind):
    path = copied("notebook-keras")
    change, message = DAMAGED[kind]
    rezipped(path / "model.keras", change)
    with pytest.raises(InputError, match=rf"model.keras.*{message}"):
        open_model(path)
