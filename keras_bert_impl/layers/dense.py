"""A dense layer with an accurate bias gradient in bfloat16."""

from typing import Any

import keras
from keras import ops


@keras.saving.register_keras_serializable("keras_bert_impl")
class Dense(keras.layers.Dense):
    """`keras.layers.Dense` with the gradient of a bfloat16 bias summed in float32.

    Keras's own layer adds the bias with TensorFlow's `BiasAdd`. On a CPU its gradient, a sum over
    all tokens, is accumulated in the inputs' precision: in bfloat16 everything after the first few
    hundred tokens is lost, which is a third of the gradient or more.

    Args: see `keras.layers.Dense`.

    Example:
        from keras_bert_impl.layers import Dense
        Dense(384, dtype="mixed_bfloat16")(states)
    """

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        if self.compute_dtype == "float32" or self.bias is None:
            return super().call(inputs, training=training)
        outputs = ops.matmul(inputs, self.kernel)
        outputs = ops.add(self.bias, outputs)  # this operand order avoids `BiasAdd`
        return outputs if self.activation is None else self.activation(outputs)
