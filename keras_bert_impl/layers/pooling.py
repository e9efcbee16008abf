"""One vector for a sequence."""

import keras


@keras.saving.register_keras_serializable("keras_bert_impl")
class Pooler(keras.layers.Layer):
    """A dense layer with tanh, applied to the hidden state of `[CLS]`.

    Args:
        initializer_range: float. Standard deviation of the initial weights.

    Call arguments:
        inputs: `[..., hidden]`, hidden states of `[CLS]` tokens.

    Returns:
        A tensor of the same shape.

    Source: Devlin et al., "BERT", section 3 (the vector C) and the published code.
    """

    def __init__(self, initializer_range=0.02, **kwargs):
        super().__init__(**kwargs)
        self.initializer_range = initializer_range

    def build(self, input_shape):
        self.dense = keras.layers.Dense(
            input_shape[-1],
            activation="tanh",
            kernel_initializer=keras.initializers.TruncatedNormal(stddev=self.initializer_range),
            dtype=self.dtype_policy,
            name="dense",
        )
        self.dense.build(input_shape)
        self.built = True

    def call(self, inputs):
        return self.dense(inputs)

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        return {**super().get_config(), "initializer_range": self.initializer_range}
