"""Several choices of an example as rows of their own, and back."""

import keras
from keras import ops

# Finite, so that no gradient is NaN; its probability is exactly 0 in float32.
_HIDDEN = -1e9


@keras.saving.register_keras_serializable("keras_bert_impl")
class ChoicesToRows(keras.layers.Layer):
    """A row for each choice of each example.

    Call arguments:
        inputs: `[batch, choices, length]`.

    Returns:
        `[batch * choices, length]`.
    """

    def call(self, inputs):
        return ops.reshape(inputs, (-1, ops.shape(inputs)[2]))

    def compute_output_spec(self, inputs):
        return keras.KerasTensor((None, inputs.shape[2]), dtype=inputs.dtype)


@keras.saving.register_keras_serializable("keras_bert_impl")
class RowsToChoices(keras.layers.Layer):
    """The logits of rows as those of the choices of each example.

    Call arguments:
        logits: float32 `[batch * choices, 1]`.
        padding_mask: int32 `[batch, choices, length]`; a choice without a real token is padding.

    Returns:
        float32 `[batch, choices]`, -1e9 for padding.
    """

    def call(self, logits, padding_mask):
        logits = ops.reshape(logits, ops.shape(padding_mask)[:2])
        is_real = ops.any(ops.not_equal(padding_mask, 0), axis=2)
        return ops.where(is_real, logits, _HIDDEN)

    def compute_output_spec(self, logits, padding_mask):
        return keras.KerasTensor(padding_mask.shape[:2], dtype="float32")
