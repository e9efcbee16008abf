"""A dense layer with an accurate bias gradient in bfloat16 and a short gradient of GELU."""

import contextlib
from collections.abc import Iterator
from typing import Any

import keras
from keras import ops

from keras_bert_impl.layers.activations import in_training
from keras_bert_impl.thread_value import ThreadValue

_has_gradients = ThreadValue(True)


@contextlib.contextmanager
def without_gradients() -> Iterator[None]:
    """Context for graphs of which nobody takes the gradient, where `Dense` is faster in bfloat16."""
    with _has_gradients.set(False):
        yield


@keras.saving.register_keras_serializable("keras_bert_impl")
class Dense(keras.layers.Dense):
    """`keras.layers.Dense` with the gradient of a bfloat16 bias summed in float32.

    Keras's own layer adds the bias with TensorFlow's `BiasAdd`. On a CPU its gradient, a sum over
    all tokens, is accumulated in the inputs' precision: in bfloat16 everything after the first few
    hundred tokens is lost, which is a third of the gradient or more.

    In training the activation is that of `in_training`. Outside of it the graph has no custom
    gradient, so that it can be exported. With `training=False`, in float32 or inside
    `without_gradients`, TensorFlow's graph optimizer joins product, bias and activation into one
    operation of oneDNN: these stand next to each other, on the rows of a matrix.

    Args: see `keras.layers.Dense`.

    Example:
        from keras_bert_impl.layers import Dense
        Dense(384, dtype="mixed_bfloat16")(states)
    """

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        is_float32 = self.compute_dtype == "float32"
        may_join = is_float32 or not _has_gradients.value
        if training is False and may_join and len(inputs.shape) > 2:
            return self._joined(inputs)
        activation = in_training(self.activation) if training else self.activation
        if activation is self.activation and (is_float32 or self.bias is None):
            return super().call(inputs, training=training)
        outputs = ops.matmul(inputs, self.kernel)
        if self.bias is not None:
            # In half precision, the other operand order avoids `BiasAdd`.
            outputs = ops.add(*((outputs, self.bias) if is_float32 else (self.bias, outputs)))
        return outputs if activation is None else activation(outputs)

    def _joined(self, inputs):
        rows = super().call(ops.reshape(inputs, (-1, inputs.shape[-1])), training=False)
        return ops.reshape(rows, (*ops.shape(inputs)[:-1], self.units))
