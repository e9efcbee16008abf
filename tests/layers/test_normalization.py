"""`LayerNormalization` against PyTorch's, values and gradients."""

import keras
import numpy as np
import pytest

from keras_bert_impl.layers import LayerNormalization
from keras_bert_impl.layers import basic as module
from tests.helpers import to_numpy

torch = pytest.importorskip("torch")
EPSILON = 1e-5


def gradients(layer, inputs, slope, training):
    """Returns the outputs and the gradients of inputs and weights."""
    if keras.backend.backend() == "jax":
        import jax

        weights = [weight.value for weight in layer.trainable_variables]

        def outputs(inputs, weights):
            return layer.stateless_call(weights, [], inputs, training=training)[0]

        values, pull = jax.vjp(outputs, inputs, weights)
        of_inputs, of_weights = pull(slope.astype(values.dtype))
    else:
        import tensorflow as tf

        inputs = tf.constant(inputs)
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            values = layer(inputs, training=training)
        of_inputs, *of_weights = tape.gradient(
            values,
            [inputs, *(weight.value for weight in layer.trainable_variables)],
            tf.cast(slope, values.dtype),
        )
    return [to_numpy(part) for part in (values, of_inputs, *of_weights)]


def drawn(center, shape=(3, 5, 48)):
    random = np.random.default_rng(0)
    inputs = random.normal(2.0, 3.0, shape).astype("float32")
    layer = LayerNormalization(epsilon=EPSILON, center=center)
    layer.build(shape)
    layer.set_weights([random.normal(1, 0.3, shape[-1:]) for _ in layer.weights])
    return layer, inputs, random.normal(size=shape).astype("float32")


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("training", [True, False])
def test_values_and_gradients_equal_those_of_pytorch(center, training):
    layer, inputs, slope = drawn(center)
    parts = [torch.tensor(part, dtype=torch.float64) for part in (inputs, *layer.get_weights())]
    for part in parts:
        part.requires_grad_()
    expected = torch.nn.functional.layer_norm(parts[0], (48,), *parts[1:], eps=EPSILON)
    expected.backward(torch.tensor(slope, dtype=torch.float64))
    received = gradients(layer, inputs, slope, training)
    for value, exact in zip(received, [expected.detach(), *(p.grad for p in parts)], strict=True):
        # A sum of 48 (or 15) products of float32, each rounded.
        np.testing.assert_allclose(value, exact.numpy(), atol=48 * 2.0**-24 * abs(exact).max())


def test_half_precision_is_computed_in_float32():
    layer, inputs, slope = drawn(True)
    half = LayerNormalization(epsilon=EPSILON, dtype="bfloat16")
    half.build(inputs.shape)
    half.set_weights(layer.get_weights())
    layer.set_weights(half.get_weights())  # rounded
    rounded = np.asarray(keras.ops.cast(inputs, "bfloat16"))
    outputs = half(rounded, training=True)
    assert keras.backend.standardize_dtype(outputs.dtype) == "bfloat16"
    expected = keras.ops.cast(layer(rounded.astype("float32")), "bfloat16")
    np.testing.assert_array_equal(
        *(to_numpy(keras.ops.cast(part, "float32")) for part in (outputs, expected))
    )


def test_the_closed_form_is_used_in_training_alone(monkeypatch):
    layer, inputs, _ = drawn(True)
    calls = []
    closed = module._make_normalization
    monkeypatch.setattr(
        module, "_make_normalization", lambda epsilon: calls.append(1) or closed(epsilon)
    )
    layer(inputs)
    layer(inputs, training=False)
    assert not calls
    layer(inputs, training=True)
    assert calls == [1]
    monkeypatch.setattr(module, "_is_accelerated", lambda: True)
    layer(inputs, training=True)
    assert calls == [1]


@pytest.mark.parametrize("options", [{"axis": 1}, {"axis": [1, 2]}, {"scale": False}])
def test_other_options_give_what_keras_gives(options):
    inputs = np.random.default_rng(0).normal(size=(3, 5, 48)).astype("float32")
    received = LayerNormalization(**options)(inputs, training=True)
    expected = keras.layers.LayerNormalization(**options)(inputs)
    np.testing.assert_array_equal(to_numpy(received), to_numpy(expected))
