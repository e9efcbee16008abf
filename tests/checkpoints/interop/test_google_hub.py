"""TF Hub modules of TensorFlow 1 and early SavedModels of TensorFlow 2, against TensorFlow.

tests/fixtures/google/README.md describes how they were made.
"""

import json

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

from keras_bert_impl.checkpoints.interop import open_model
from keras_bert_impl.checkpoints.interop.google import open_google_checkpoint
from keras_bert_impl.utils.errors import InputError
from tests.checkpoints.interop.google_models import loaded, unpacked, write_variables
from tests.checkpoints.interop.test_google_named import BERT, SETTINGS, SIZES, original, variables
from tests.checkpoints.interop.test_google_objects import FEATURES, REAL, TOLERANCE

ALBERT_BLOCK = "albert.encoder.albert_layer_groups.0.albert_layers.0.attention"
HEADS = {"masked_lm": "mlm_logits", "sentence_order": "sop_log_probs"}
KEY_BIAS = {  # name in a model directory and name in TensorFlow
    "module_bert": (
        "bert.encoder.layer.1.attention.self.key.bias",
        "bert/encoder/layer_1/attention/self/key/bias",
    ),
    "module_albert": (
        f"{ALBERT_BLOCK}.key.bias",
        "bert/encoder/transformer/group_0/inner_group_0/attention_1/self/key/bias",
    ),
    "hub_bert_1": (
        "bert.encoder.layer.1.attention.self.key.bias",
        "trainable_variables/24/.ATTRIBUTES/VARIABLE_VALUE",
    ),
    "hub_bert_2": (
        "bert.encoder.layer.1.attention.self.key.bias",
        "variables/24/.ATTRIBUTES/VARIABLE_VALUE",
    ),
    "hub_albert_1": (f"{ALBERT_BLOCK}.key.bias", "variables/10/.ATTRIBUTES/VARIABLE_VALUE"),
}
FORMS = sorted(KEY_BIAS)


def change_program(path, change):
    """Rewrites a SavedModel: `change` receives each of its lists of operations."""
    file = path / "saved_model.pb"
    saved = SavedModel.FromString(file.read_bytes())
    for meta in saved.meta_graphs:
        change(meta.graph_def.node)
        for function in meta.graph_def.library.function:
            change(function.node_def)
    file.write_bytes(saved.SerializeToString())


@pytest.mark.parametrize("form", FORMS)
def test_outputs_equal_tensorflow(form, tmp_path):
    path, expected = unpacked(form, tmp_path)
    heads = [ours for ours, theirs in HEADS.items() if theirs in expected]
    model, source = loaded(path, *heads)
    received = {name: np.asarray(value) for name, value in model(FEATURES).items()}
    if "sentence_order" in received:
        logits = received["sentence_order"]
        received["sentence_order"] = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    for ours, output in received.items():
        expected_output = expected[HEADS.get(ours, ours)]
        if output.ndim == 3:
            output, expected_output = output[REAL], expected_output[REAL]
        assert output.shape == expected_output.shape
        assert np.abs(expected_output).max() > 0.5
        assert np.abs(output - expected_output).max() < TOLERANCE, ours
    assert len(received) == len(expected)
    assert source.unread() == []


@pytest.mark.parametrize("form", FORMS)
def test_no_output_depends_on_the_bias_of_a_key(form, tmp_path):
    """The key bias cancels in the softmax, so outputs cannot show whether it was read correctly."""
    path, _ = unpacked(form, tmp_path)
    ours, theirs = KEY_BIAS[form]
    reader = tf.train.load_checkpoint(str(path / "variables" / "variables"))
    expected = reader.get_tensor(theirs)
    assert np.array_equal(open_model(path).read(ours), expected.reshape(-1))
    assert np.abs(expected).max() > 0.1


@pytest.mark.parametrize("form", FORMS)
def test_settings_come_from_shapes_and_program(form, tmp_path):
    path, _ = unpacked(form, tmp_path)
    for file in path.glob("assets/*.json"):
        file.unlink()
    config, _ = open_google_checkpoint(path)
    assert (config["num_hidden_layers"], config["num_attention_heads"]) == (2, 3)
    assert (config["hidden_size"], config["intermediate_size"]) == (12, 20)
    assert config["hidden_act"] == "gelu_new"
    assert "hidden_dropout_prob" not in config


def test_settings_of_a_module_come_from_its_assets(tmp_path):
    path, _ = unpacked("module_albert", tmp_path)
    file = path / "assets" / "albert_config.json"
    settings = json.loads(file.read_text())
    file.write_text(json.dumps(settings | {"hidden_dropout_prob": 0.3}))
    assert open_google_checkpoint(path)[0]["hidden_dropout_prob"] == 0.3
    for key in ("num_hidden_layers", "num_attention_heads"):
        file.write_text(json.dumps(settings | {key: 6}))
        message = f"albert_config.json: {key} is 6, but .* in the program in .*saved_model.pb"
        with pytest.raises(InputError, match=message):
            open_google_checkpoint(path)


def test_program_with_the_exact_gelu(tmp_path):
    path, _ = unpacked("module_bert", tmp_path)
    change_program(path, lambda nodes: nodes.add(name="an_erf", op="Erf"))
    assert open_google_checkpoint(path)[0]["hidden_act"] == "gelu"


def test_does_not_run_the_program(tmp_path):
    """Replaces operations that are never parsed by one that TensorFlow does not have."""

    def change(nodes):
        for node in nodes:
            if node.op not in ("Softmax", "Mul", "Const"):
                node.op = "NoSuchOperation"

    path, expected = unpacked("module_bert", tmp_path)
    change_program(path, change)
    with pytest.raises(tf.errors.NotFoundError, match="NoSuchOperation"):
        tf.saved_model.load(str(path), tags=[])
    model, _ = loaded(path)
    received = np.asarray(model(FEATURES)["sequence_output"])
    assert np.abs(received - expected["sequence_output"])[REAL].max() < TOLERANCE


def test_classifier_softmax_is_not_a_layer(tmp_path):
    def change(nodes):
        last = [node.name for node in nodes if node.op == "Tanh"][-1:]
        nodes.add(name="of_a_classifier", op="Softmax", input=[f"{name}:y:0" for name in last])

    path, _ = unpacked("hub_albert_1", tmp_path)
    change_program(path, change)
    assert open_google_checkpoint(path)[0]["num_hidden_layers"] == 2


@pytest.mark.parametrize("form", ["module_bert", "hub_bert_1"])
def test_program_without_a_scale(form, tmp_path):
    def change(nodes):
        for node in nodes:
            if node.op == "Mul":
                node.op = "BatchMatMulV2"

    path, _ = unpacked(form, tmp_path)
    change_program(path, change)
    with pytest.raises(
        InputError, match="the num_attention_heads of this bert model is unknown. Add"
    ):
        open_google_checkpoint(path)
    (path / "bert_config.json").write_text(json.dumps({"num_attention_heads": 3}))
    assert open_google_checkpoint(path)[0]["num_attention_heads"] == 3


def test_rejects_head_width_that_does_not_divide_the_model_width(tmp_path):
    def change(nodes):
        for node in nodes:
            number = node.attr["value"].tensor
            if list(number.float_val) == [0.5] and node.name.endswith("self/Mul/y"):
                number.float_val[0] = 0.2

    path, _ = unpacked("module_bert", tmp_path)
    change_program(path, change)
    with pytest.raises(InputError, match="saved_model.pb has attention heads of width 25"):
        open_google_checkpoint(path)


def test_program_without_attention(tmp_path):
    path, _ = unpacked("hub_bert_2", tmp_path)
    change_program(path, lambda nodes: nodes.__delitem__(slice(None)))
    with pytest.raises(InputError, match="saved_model.pb contains no graph with an encoder"):
        open_google_checkpoint(path)


def test_very_large_program(tmp_path):
    path, _ = unpacked("module_bert", tmp_path)
    with open(path / "saved_model.pb", "ab") as file:
        file.truncate(1 << 40)  # sparse: takes no disk space
    with pytest.raises(InputError, match="saved_model.pb is larger than 64 MiB"):
        open_google_checkpoint(path)


def test_model_trained_on_top_of_a_module(tmp_path):
    """As `run_classifier_with_tfhub.py` saves it: tensor names start with the module's name."""
    model = original("BertForSequenceClassification", num_labels=3)
    theirs = variables(model, BERT)
    within = {n if n.startswith("output_") else f"module/{n}": a for n, a in theirs.items()}
    slot = {"module/bert/pooler/dense/bias/adam_m": np.float32(theirs["bert/pooler/dense/bias"])}
    write_variables(tmp_path, within | slot, SIZES | SETTINGS)
    plain = write_variables(tmp_path / "plain", theirs, SIZES | SETTINGS)

    config, tensors = open_google_checkpoint(tmp_path)
    expected, plain_tensors = open_google_checkpoint(plain)
    assert config == expected
    assert config["architectures"] == ["BertForSequenceClassification"]
    assert tensors.header == plain_tensors.header
    for name in tensors.header:
        assert np.array_equal(tensors.read(name), plain_tensors.read(name)), name
    assert tensors.read_slot("bert.pooler.dense.bias", "adam_m").shape == (32,)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("bert/embeddings/word_embeddings", "and module/bert/embeddings/word_embeddings; a"),
        (
            "other/bert/embeddings/word_embeddings",
            "a checkpoint with two encoders is not supported",
        ),
        ("cls/predictions/output_bias", "has both cls/predictions/output_bias and module/cls"),
    ],
)
def test_rejects_two_encoders(name, message, tmp_path):
    theirs = variables(original("BertForPreTraining"), BERT)
    within = {f"module/{n}": a for n, a in theirs.items()}
    write_variables(tmp_path, within | {name: np.zeros((2, 2), "float32")}, SIZES | SETTINGS)
    with pytest.raises(InputError, match=message):
        open_google_checkpoint(tmp_path)


def test_rejects_other_encoders(tmp_path):
    """Such as TF Hub's talking-heads encoders, which mix the scores of the heads."""
    names = ("query/kernel", "pre_softmax_weight")
    tf.train.Checkpoint(
        **{
            name.split("/")[0]: tf.Variable(
                np.zeros((2, 2, 1), "float32"),
                name=f"transformer/layer_0/self_attention/{name}",
            )
            for name in names
        }
    ).write(str(tmp_path / "ckpt-1"))
    message = "transformer/layer_0/self_attention/pre_softmax_weight is not a variable of BERT"
    with pytest.raises(InputError, match=message):
        open_google_checkpoint(tmp_path)


def test_rejects_other_tensorflow_1_encoders(tmp_path):
    """MobileBERT has more layers in each block; optimizer slots are not layers."""
    theirs = variables(original("BertForPreTraining"), BERT)
    layer, zeros = "bert/encoder/layer_0", np.zeros(32, "float32")
    write_variables(
        tmp_path, theirs | {f"{layer}/output/dense/bias/lamb_m": zeros}, SIZES | SETTINGS
    )
    assert open_model(tmp_path).unread() != []
    write_variables(tmp_path, theirs | {f"{layer}/output/bottleneck/dense/bias": zeros})
    with pytest.raises(InputError, match=f"{layer}/output/bottleneck/dense/bias is not a variable"):
        open_google_checkpoint(tmp_path)
