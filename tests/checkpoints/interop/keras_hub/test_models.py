"""KerasHub backbones and heads: ours in float32 against theirs in float64; exact round trips."""

import dataclasses
import logging

import keras
import keras_hub
import numpy as np
import pytest
import transformers

from keras_bert_impl.checkpoints.interop import (
    encoder_tensors,
    head_tensors,
    open_keras_hub_model,
    read_encoder_config,
    to_keras_hub,
    write_model_directory,
)
from keras_bert_impl.checkpoints.interop.keras_hub.models import open_keras_hub
from keras_bert_impl.models import heads
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.models.weights import load_weights
from keras_bert_impl.utils.errors import InputError
from tests.checkpoints.interop import parity
from tests.checkpoints.interop.keras_hub_models import (
    CASES,
    SIZES,
    features_for,
    in_float64,
    original_outputs,
    random_backbone,
    random_task,
)
from tests.helpers import TINY, difference, randomize, to_numpy

TOLERANCE = 1e-5  # see test_parity.py
# Both libraries compute in float64, but Keras holds constants in float32, rounded by up to 2 **
# -25. All values here are below 3.
DOUBLE_TOLERANCE = 1e-7
LENGTHS = [[1, 1], [9, 5, 3], [20, 20, 13]]


def assert_same_weights(received, expected):
    assert len(received.weights) == len(expected.weights)
    for first, second in zip(received.weights, expected.weights):
        assert first.path == second.path
        assert to_numpy(first.value).tobytes() == to_numpy(second.value).tobytes(), first.path


def differences(received, expected, features):
    real = features["padding_mask"] == 1
    errors = [
        difference(np.asarray(received["sequence_output"])[real], expected["sequence_output"][real])
    ]
    if "pooled_output" in expected:
        errors.append(difference(received["pooled_output"], expected["pooled_output"]))
    return errors


# === Encoders ===


@pytest.mark.parametrize("case", CASES)
def test_encoder(case):
    backbone = random_backbone(case)
    has_pooler = isinstance(backbone.output, dict)
    encoder = Encoder.from_keras_hub(backbone, use_pooler=has_pooler)
    original = in_float64(backbone)
    for lengths in LENGTHS:
        features = features_for(backbone, lengths)
        expected = original_outputs(original, features)
        errors = differences(encoder(features), expected, features)
        assert len(errors) == 1 + has_pooler
        assert np.max(errors) < TOLERANCE


@pytest.mark.parametrize("case", CASES)
def test_round_trip_from_keras_hub_is_exact(case):
    backbone = random_backbone(case)
    has_pooler = isinstance(backbone.output, dict)
    again = Encoder.from_keras_hub(backbone, use_pooler=has_pooler).to_keras_hub()
    assert type(again) is type(backbone)
    assert again.get_config() | {"name": ""} == backbone.get_config() | {"name": ""}
    assert_same_weights(backbone, again)


@pytest.mark.parametrize("case", CASES)
def test_round_trip_to_keras_hub_is_exact(case):
    backbone = random_backbone(case)
    first = Encoder.from_keras_hub(backbone, use_pooler=isinstance(backbone.output, dict))
    randomize(first)
    second = Encoder.from_keras_hub(first.to_keras_hub(), use_pooler=first.config.use_pooler)
    assert second.config == first.config
    for weight, restored in zip(first.weights, second.weights):
        weight, restored = to_numpy(weight.value), to_numpy(restored.value)
        # KerasHub cannot represent position rows that only padding uses, nor a single segment
        # embedding, which is added to the position embeddings.
        if first.config.position_offset and weight.shape == (22, 32):
            assert (restored[:2] == 0).all()
            segment = to_numpy(first.embeddings.segment_embeddings.value)
            assert (restored[2:] == weight[2:] + segment).all()
        elif first.config.position_offset and weight.shape == (1, 32):
            assert (restored == 0).all()
        else:
            assert weight.tobytes() == restored.tobytes()


@pytest.mark.parametrize("case", ["roberta", "xlm-roberta"])
def test_one_segment_is_added_to_the_positions(case):
    encoder = Encoder.from_keras_hub(random_backbone(case), use_pooler=False)
    randomize(encoder)
    backbone = encoder.to_keras_hub()
    features = features_for(backbone, [9, 5, 3])
    expected = original_outputs(in_float64(backbone), features)
    assert np.max(differences(encoder(features), expected, features)) < TOLERANCE


@pytest.mark.parametrize("case", CASES)
def test_our_directory_in_transformers(case, tmp_path):
    backbone = random_backbone(case)
    Encoder.from_keras_hub(backbone, use_pooler=isinstance(backbone.output, dict)).save_pretrained(
        tmp_path
    )
    model = transformers.AutoModel.from_pretrained(tmp_path, attn_implementation="eager")
    features = features_for(backbone, [9, 5, 3])
    expected = original_outputs(in_float64(backbone), features)
    outputs = parity.original_outputs(model, features)
    received = {"sequence_output": outputs["hidden_states"][-1]}
    if CASES[case][0] in ("Bert", "Albert"):  # KerasHub's ELECTRA has no pooler
        received["pooled_output"] = outputs["pooled_output"]
    else:
        expected.pop("pooled_output", None)
    assert max(differences(received, expected, features)) < DOUBLE_TOLERANCE


def test_pooler_of_roberta(caplog):
    with caplog.at_level(logging.WARNING):
        encoder = Encoder.from_keras_hub(random_backbone("roberta"))
    assert (
        "RobertaBackbone: newly initialized; train before use: pooler/dense/kernel" in caplog.text
    )
    caplog.clear()
    encoder.to_keras_hub()
    assert "has no variables for: pooler.dense.bias, pooler.dense.weight" in caplog.text


def test_bert_without_pooler(caplog):
    backbone = random_backbone("bert")
    again = Encoder.from_keras_hub(backbone, use_pooler=False).to_keras_hub()
    assert "newly initialized: pooled_dense/kernel, pooled_dense/bias" in caplog.text
    block = "transformer_layer_1"
    assert_same_weights(backbone.get_layer(block), again.get_layer(block))


def test_half_precision():
    backbone = random_backbone("bert", dtype="bfloat16")
    encoder = Encoder.from_keras_hub(backbone)
    table = to_numpy(backbone.token_embedding.embeddings.value)
    assert table.dtype.name == "bfloat16"
    assert (to_numpy(encoder.embeddings.token_embeddings.value) == table.astype("float32")).all()
    assert encoder.to_keras_hub(dtype="bfloat16").dtype_policy.name == "bfloat16"
    assert_same_weights(backbone, encoder.to_keras_hub(dtype="bfloat16"))


# === Heads ===


def symbols(*names):
    return {name: keras.Input((None,), dtype="int32", name=name) for name in names}


@pytest.mark.parametrize("case", ["roberta", "xlm-roberta"])
def test_masked_lm_head(case):
    task = random_task(case, "MaskedLM")
    source = open_keras_hub_model(task)
    config = dataclasses.replace(read_encoder_config(source), use_pooler=False)
    encoder = Encoder(config)
    inputs = symbols("token_ids", "padding_mask")
    logits = heads.masked_lm_head(encoder)(encoder(inputs)["sequence_output"])
    ours = keras.Model(inputs, logits)
    names = encoder_tensors(config) + head_tensors(config, "masked_lm")
    assert not load_weights(ours, source, names)
    assert source.unread() == []
    features = {name: features_for(task.backbone, [9, 5, 3])[name] for name in inputs}
    places = np.array([[0, 8], [4, 1], [2, 0]], "int32")
    expected = in_float64(task)({**features, "mask_positions": places})
    received = np.take_along_axis(np.asarray(ours(features)), places[..., None], axis=1)
    assert difference(received, expected) < TOLERANCE


CLASSIFIERS = ["bert", "albert", "roberta", "xlm-roberta", "distilbert"]


@pytest.mark.parametrize("case", CLASSIFIERS)
def test_classifier_head(case):
    task = random_task(case, "TextClassifier", num_classes=3, dropout=0.25)
    source = open_keras_hub_model(task)
    assert list(source.config["id2label"].values()) == ["LABEL_0", "LABEL_1", "LABEL_2"]
    config = read_encoder_config(source)
    config = dataclasses.replace(config, use_pooler=heads.needs_pooler(config))
    encoder = Encoder(config)
    features = features_for(task.backbone, [9, 5, 3])
    inputs = symbols(*features)
    vector = heads.sequence_vector(encoder, encoder(inputs))
    ours = keras.Model(inputs, heads.sequence_head(encoder, 3)(vector))
    names = encoder_tensors(config) + head_tensors(config, "classifier")
    assert not load_weights(ours, source, names)
    assert source.unread() == []
    expected = in_float64(task)({name: features[name] for name in task.input})
    assert difference(ours(features), expected) < TOLERANCE


@pytest.mark.parametrize("case", CLASSIFIERS)
def test_classifier_in_transformers(case, tmp_path):
    task = random_task(case, "TextClassifier", num_classes=3)
    config, tensors = open_keras_hub(task)
    write_model_directory(tmp_path, config, {name: tensors.read(name) for name in tensors.header})
    model = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path)
    features = features_for(task.backbone, [9, 5, 3])
    received = model.double().eval()(**parity.original_features(model, features)).logits
    expected = in_float64(task)({name: features[name] for name in task.input})
    assert difference(received.detach().numpy(), expected) < DOUBLE_TOLERANCE


# === Invalid input ===


@pytest.mark.parametrize(
    ("make", "message"),
    {
        "inner repetitions": (
            lambda: random_backbone("albert", num_inner_repetitions=2),
            "AlbertBackbone: num_inner_repetitions must be 1",
        ),
        "another class": (
            lambda: keras.layers.Dense(2),
            "expected a KerasHub backbone.*Received: Dense",
        ),
        "a subclass": (
            lambda: type("Mine", (keras_hub.models.BertBackbone,), {})(**SIZES),
            "expected a KerasHub backbone.*Received: Mine",
        ),
        "head of bert": (
            lambda: random_task("bert", "MaskedLM"),
            "the head of BertMaskedLM uses a different GELU or epsilon.*; pass its backbone",
        ),
        "head of albert": (lambda: random_task("albert", "MaskedLM"), "the head of AlbertMaskedLM"),
        "head of distilbert": (
            lambda: random_task("distilbert", "MaskedLM"),
            "the head of DistilBertMaskedLM",
        ),
        "softmax": (
            lambda: random_task("bert", "TextClassifier", num_classes=2, activation="softmax"),
            "BertTextClassifier has an activation on its logits: 'softmax'",
        ),
        "another width": (
            lambda: random_task("roberta", "TextClassifier", num_classes=2, hidden_dim=8),
            "RobertaTextClassifier has hidden_dim=8, not the encoder's",
        ),
        "another task": (
            lambda: keras_hub.models.BertTextEmbedder(random_backbone("bert")),
            "BertTextEmbedder has no supported head",
        ),
    }.values(),
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_rejects_unsupported_models(make, message):
    with pytest.raises(InputError, match=message) as caught:
        open_keras_hub(make())
    assert "\n" not in str(caught.value)


def test_rejects_models_with_other_variables():
    backbone = random_backbone("bert")
    backbone.enable_lora(2)
    with pytest.raises(
        InputError, match="BertBackbone: the model has unexpected variables.*lora_kernel"
    ):
        open_keras_hub(backbone)


@pytest.mark.parametrize(
    ("changes", "message"),
    {
        "activation": (
            {"activation": "gelu"},
            "BertBackbone does not support activation='gelu'. To use activation='gelu_tanh' instead",
        ),
        "epsilon": (
            {"layer_norm_epsilon": 1e-5},
            "does not support activation='gelu', layer_norm_epsilon=1e-05",
        ),
        "dropout": ({"attention_dropout": 0.0}, "attention_dropout=0.0"),
        "no segments": ({"num_segments": 0}, "num_segments=0"),
        "camembert": (
            {"architecture": "camembert"},
            "KerasHub has no camembert backbone, only bert, rob",
        ),
        "flaubert": ({"architecture": "flaubert"}, "KerasHub has no flaubert"),
        "segments": (
            {"architecture": "roberta"},
            "RobertaBackbone does not support .*num_segments=3",
        ),
        "offset": (
            {"architecture": "roberta", "num_segments": 1, "layer_norm_epsilon": 1e-5},
            "RobertaBackbone does not support position_offset=0",
        ),
        "no map": ({"architecture": "albert"}, "AlbertBackbone"),
    }.values(),
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_rejects_configurations_that_keras_hub_lacks(changes, message):
    with pytest.raises(InputError, match=message):
        to_keras_hub(dataclasses.replace(TINY, **changes), {})
