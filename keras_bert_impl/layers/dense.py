"""A dense layer whose bias learns in bfloat16, too."""

import keras
from keras import ops


@keras.saving.register_keras_serializable("keras_bert_impl")
class Dense(keras.layers.Dense):
    """`keras.layers.Dense`, with the gradient of a bfloat16 bias summed in float32.

    That of Keras adds the bias by TensorFlow's `BiasAdd`, whose gradient, a sum over all tokens, has
    on a CPU the precision of what is added: in bfloat16 what comes behind the first few hundred
    tokens is lost, and a third of the gradient and more with it.

    Args: as of `keras.layers.Dense`.

    Example:
        Dense(384, dtype="mixed_bfloat16")(states)
    """

    def call(self, inputs, training=None):
        if self.compute_dtype == "float32" or self.bias is None:
            return super().call(inputs, training=training)
        outputs = ops.matmul(inputs, self.kernel)
        outputs = ops.add(self.bias, outputs)  # in this order no `BiasAdd`
        return outputs if self.activation is None else self.activation(outputs)
