"""Activation functions of the feed-forward network and the heads."""

from typing import Any

import keras
from keras import ops


@keras.saving.register_keras_serializable("keras_bert_impl")
def gelu(inputs: Any) -> Any:
    """Computes exact GELU, `x * Phi(x)` (Hendrycks and Gimpel 2016, section 2), with `erf`.

    Keras's own uses `erfc`, which exports to an ONNX file that no runtime accepts.
    """
    return 0.5 * inputs * (1.0 + ops.erf(inputs * 0.7071067811865476))


@keras.saving.register_keras_serializable("keras_bert_impl")
def gelu_tanh(inputs: Any) -> Any:
    """Computes GELU's tanh approximation (Hendrycks and Gimpel 2016), as in the first BERT code."""
    inner = 0.7978845608028654 * (inputs + 0.044715 * inputs * inputs * inputs)
    return 0.5 * inputs * (1.0 + ops.tanh(inner))


ACTIVATIONS = {"gelu": gelu, "gelu_tanh": gelu_tanh, "relu": ops.relu}
# For dense layers in heads.
HEAD_ACTIVATIONS = ACTIVATIONS | {"tanh": ops.tanh, "linear": keras.activations.linear}
