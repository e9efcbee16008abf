"""On JAX, a training step of `Pretrainer` reads logits in factors, and nobody else sees them."""

import dataclasses

import keras
import numpy as np
import pytest

from keras_bert_impl import Encoder, Pretrainer
from keras_bert_impl.layers import heads
from keras_bert_impl.pretraining.objectives import LeftToRight, MaskedLM
from tests.helpers import TINY

pytestmark = pytest.mark.skipif(keras.backend.backend() != "jax", reason="logits on JAX")

ROWS, LENGTH, PREDICTIONS = 4, 12, 3


def batch(output="masked_lm"):
    draw = np.random.default_rng(0)
    shape = (ROWS, PREDICTIONS if output == "masked_lm" else LENGTH)
    features = {
        "token_ids": draw.integers(1, TINY.vocabulary_size, (ROWS, LENGTH)),
        "segment_ids": np.zeros((ROWS, LENGTH)),
        "position_ids": np.tile(np.arange(LENGTH), (ROWS, 1)),
        "example_ids": np.ones((ROWS, LENGTH)),
    }
    if output == "masked_lm":
        features["masked_positions"] = np.tile([2, 5, 7], (ROWS, 1))
    labels = draw.integers(0, TINY.vocabulary_size, shape).astype("int32")
    weights = draw.integers(0, 2, shape).astype("float32")
    features = {name: array.astype("int32") for name, array in features.items()}
    return features, {output: labels}, {output: weights}


def trained(objective, **compiling):
    """Returns (logs of three steps, weights after them, the model)."""
    keras.utils.set_random_seed(0)
    causal = isinstance(objective, LeftToRight)
    config = dataclasses.replace(TINY, num_layers=1, dropout=0.0, causal=causal)
    model = Pretrainer(Encoder(config), [objective])
    model.compile(keras.optimizers.SGD(0.1), **compiling)
    data = batch(objective.name)
    logs = [model.train_on_batch(*data, return_dict=True) for _ in range(3)]
    return logs, [np.asarray(weight) for weight in model.weights], model


@pytest.mark.parametrize("objective", [MaskedLM(), LeftToRight()])
def test_steps_equal_those_with_whole_logits(objective, monkeypatch):
    logs, weights, _ = trained(objective)
    monkeypatch.setattr(heads, "are_logits_factored", lambda: False)
    expected_logs, expected, _ = trained(objective)
    assert {"loss", f"{objective.name}_loss", f"{objective.name}_accuracy"} <= set(logs[0])
    for actual, reference in zip(logs, expected_logs):
        assert actual == pytest.approx(reference, rel=1e-5)
    # Gradients are sums of some hundred products of up to 1; attention's dropout is drawn alike.
    for actual, reference in zip(weights, expected):
        np.testing.assert_allclose(actual, reference, rtol=0, atol=300 * 2.0**-24)


def test_other_calls_return_logits():
    _, _, model = trained(MaskedLM())
    features, _, _ = batch()
    shape = (ROWS, PREDICTIONS, TINY.vocabulary_size)
    assert model.predict(features, verbose=0)["masked_lm"].shape == shape
    assert model(features, training=True)["masked_lm"].shape == shape


def test_metrics_and_losses_of_a_user_get_logits():
    shapes = []

    def width(labels, logits):
        shapes.append(logits.shape)
        return keras.ops.mean(logits, axis=-1)

    metric = keras.metrics.MeanMetricWrapper(width, name="width")
    trained(MaskedLM(), weighted_metrics={"masked_lm": [metric]})

    class Smoothed(MaskedLM):
        def losses(self, output, labels, logits):
            shapes.append(logits.shape)
            return super().losses(output, labels, logits)

    count = len(shapes)
    trained(Smoothed())
    assert count and len(shapes) > count
    assert {shape[-1] for shape in shapes} == {TINY.vocabulary_size}
