"""Activation functions of the feed-forward network and the heads."""

from typing import Any

import keras
from keras import ops

from keras_bert_impl.layers.own_gradient import own_gradient


@keras.saving.register_keras_serializable("keras_bert_impl")
def gelu(inputs: Any) -> Any:
    """Computes exact GELU, `x * Phi(x)` (Hendrycks and Gimpel 2016, section 2), with `erf`."""
    return 0.5 * (ops.erf(inputs * 0.7071067811865476) + 1.0) * inputs


@keras.saving.register_keras_serializable("keras_bert_impl")
def gelu_tanh(inputs: Any) -> Any:
    """Computes GELU's tanh approximation (Hendrycks and Gimpel 2016), as in the first BERT code."""
    inner = 0.7978845608028654 * (inputs + 0.044715 * inputs * inputs * inputs)
    return 0.5 * inputs * (1.0 + ops.tanh(inner))


@own_gradient
def _gelu_and_slope(inputs):
    """Computes `gelu` and, in the same pass, its derivative `Phi(x) + x * phi(x)`."""
    x = ops.cast(inputs, keras.backend.result_type(inputs.dtype, "float32"))
    probability = 0.5 * ops.erf(x * 0.7071067811865476) + 0.5
    # A product instead of `square` and `negative`, which TensorFlow would join into a slower one.
    density = 0.3989422804014327 * ops.exp(x * (-0.5 * x))
    slope = ops.cast(probability + x * density, inputs.dtype)

    def gradient(upstream):
        return upstream * slope

    return ops.cast(x * probability, inputs.dtype), gradient


def in_training(activation: Any) -> Any:
    """Returns a function with the values of an activation and a gradient in fewer operations."""
    is_long = activation is gelu and keras.backend.backend() == "tensorflow"
    return _gelu_and_slope if is_long else activation


ACTIVATIONS = {"gelu": gelu, "gelu_tanh": gelu_tanh, "relu": ops.relu}
# For dense layers in heads.
HEAD_ACTIVATIONS = ACTIVATIONS | {"tanh": ops.tanh, "linear": keras.activations.linear}
