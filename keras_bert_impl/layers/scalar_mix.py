"""One vector of those of several layers."""

import keras
from keras import ops


@keras.saving.register_keras_serializable("keras_bert_impl")
class ScalarMix(keras.layers.Layer):
    """A learned weighted mean of the states of several layers, times a learned number.

    `scale * sum_j softmax(weights)_j inputs_j`, at first the mean. Computed in float32.

    Call arguments:
        inputs: `[..., layers, hidden]`.

    Returns:
        `[..., hidden]`.

    Source: Peters et al. 2018, "Deep contextualized word representations", equation 1.
    """

    def build(self, inputs_shape):
        self.mix = self.add_weight(
            shape=(inputs_shape[-2],), initializer="zeros", autocast=False, name="weights"
        )
        self.scale = self.add_weight(shape=(1,), initializer="ones", autocast=False, name="scale")
        self.built = True

    def call(self, inputs):
        weights = self.scale * ops.softmax(self.mix[None])[0]  # [layers]
        mixed = ops.sum(ops.cast(inputs, "float32") * weights[:, None], axis=-2)
        return ops.cast(mixed, self.compute_dtype)

    def compute_output_shape(self, inputs_shape):
        return (*inputs_shape[:-2], inputs_shape[-1])
