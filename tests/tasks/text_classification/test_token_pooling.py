"""`TextClassifier(pooling=...)`: formulas in PyTorch, files, exports."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf
import torch

from keras_bert_impl import TextClassifier
from keras_bert_impl.layers import LastPooling
from keras_bert_impl.serving.graphs import layers
from keras_bert_impl.serving.onnx import export_onnx
from keras_bert_impl.tasks.text_classification import poolings
from keras_bert_impl.utils.errors import InputError
from tests.tasks import helpers

TEXTS, LABELS = helpers.examples(count=12)


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return helpers.save_base(tmp_path_factory.mktemp("base"), dropout=0.0)


@pytest.fixture(autouse=True)
def last(monkeypatch):
    """Adds a pooling by the one declaration that a new file or a user would write."""
    monkeypatch.setattr(poolings, "POOLINGS", dict(poolings.POOLINGS))
    poolings.Pooling(
        "last",
        lambda encoder, states, mask: LastPooling(dtype=encoder.dtype_policy)(states, mask),
        lambda graph, config, states, mask: layers.last_token(graph, states, mask),
    )


def built(base, pooling, **arguments):
    keras.utils.set_random_seed(0)
    model = TextClassifier.from_pretrained(base, labels=["a", "b"], pooling=pooling, **arguments)
    model.head_layer.dense.bias.assign([0.5, -0.5])
    return model


def expected(model, pooling):
    """Computes the logits from the hidden states of the tokens, in float64."""
    features = model.tokenizer(TEXTS, length=model.max_length)
    states = torch.tensor(np.asarray(model.encoder(features)["sequence_output"])).double()
    real = torch.tensor(np.asarray(features["padding_mask"]) == 1)[:, :, None]
    if pooling == "cls":
        pooled = states[:, 0]
    elif pooling == "max":
        pooled = states.masked_fill(~real, -torch.inf).max(1).values
    elif pooling == "mean":
        pooled = (states * real).sum(1) / real.sum(1)
    elif pooling == "last":
        pooled = states[torch.arange(len(states)), real[:, :, 0].sum(1) - 1]
    else:
        layer = model.get_layer("pooling")
        weights = [torch.tensor(weight.numpy()).double() for weight in layer.weights]
        scores = torch.tanh(states @ weights[0] + weights[1]) @ weights[2]
        pooled = (torch.softmax(scores.masked_fill(~real, -torch.inf), dim=1) * states).sum(1)
    kernel, bias = (torch.tensor(w.numpy()).double() for w in model.head_layer.dense.weights)
    return (pooled @ kernel + bias).numpy()


@pytest.mark.parametrize(
    "pooling",
    [
        pytest.param("cls", marks=pytest.mark.slow),
        pytest.param("mean", marks=pytest.mark.slow),
        pytest.param("max", marks=pytest.mark.slow),
        "attention",
        "last",
    ],
)
def test_pooling_is_in_all_saved_and_exported_forms(base, tmp_path, pooling):
    model = built(base, pooling)
    assert not model.config.use_pooler
    features = model.tokenizer(TEXTS, length=model.max_length)
    logits = model(features, training=False)
    np.testing.assert_allclose(logits, expected(model, pooling), atol=1e-5)
    model.save_pretrained(tmp_path / "saved")
    again = TextClassifier.from_pretrained(tmp_path / "saved")
    assert again.pooling == pooling
    np.testing.assert_allclose(again(features, training=False), logits, atol=1e-6)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(loaded(features, training=False), logits, atol=1e-6)
    if pooling == "last" and keras.backend.backend() == "jax":
        # Another process exports on TensorFlow; it imports this package, but not this file.
        with pytest.raises(InputError, match="pooling must be one of cls, mean, max, attention"):
            model.export(tmp_path / "exported")
        return
    model.export(tmp_path / "exported")
    served = tf.saved_model.load(tmp_path / "exported").signatures["serving_default"]
    scores = served(text=tf.constant(TEXTS))["scores"]
    np.testing.assert_allclose(scores, tf.nn.softmax(logits), atol=1e-5)
    assert export_onnx(model, tmp_path / "onnx").difference < 1e-4


def test_attention_pooling_is_trained_and_saved(base, tmp_path):
    model = built(base, "attention")
    before = model.get_layer("pooling").get_weights()
    model.compile(keras.optimizers.Adam(0.01))
    model.fit(TEXTS, ["a", "b"] * 6, batch_size=6, verbose=0)
    after = model.get_layer("pooling").get_weights()
    assert all((old != new).any() for old, new in zip(before, after))
    model.save_pretrained(tmp_path)
    again = TextClassifier.from_pretrained(tmp_path).get_layer("pooling").get_weights()
    for old, new in zip(after, again, strict=True):
        np.testing.assert_array_equal(old, new)
    settings = json.loads((tmp_path / "config.json").read_text())["keras_bert_impl"]
    assert settings["pooling"] == "attention"


def test_rejects_invalid_poolings(base):
    with pytest.raises(
        InputError, match="pooling must be one of cls, mean, max, attention, last, or None"
    ):
        TextClassifier.from_pretrained(base, num_classes=2, pooling="sum")
