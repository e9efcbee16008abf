"""Groups of rows, such as the choices of an example or the windows of a text: to rows, and back.

Rows may themselves be groups, as where each choice has windows.
"""

import keras
from keras import ops

# Finite, so that no gradient is NaN; its probability is exactly 0 in float32.
_HIDDEN = -1e9


def in_groups(rows, padding_mask):
    """What was made of the rows of groups, one for each row, as that of the groups.

    Args:
        rows: `[batch * group, dim]`.
        padding_mask: `[batch, group, ..., length]`, of the groups.

    Returns:
        `[batch, group, dim]`.
    """
    return ops.reshape(rows, (*ops.shape(padding_mask)[:2], rows.shape[-1]))


def is_row(padding_mask):
    """bool `[batch, group]`: whether a row has any token; those without are padding."""
    within = tuple(range(2, len(padding_mask.shape)))
    return ops.any(ops.not_equal(padding_mask, 0), axis=within)


@keras.saving.register_keras_serializable("keras_bert_impl")
class MergeGroups(keras.layers.Layer):
    """The rows of all groups as rows of one batch.

    Call arguments:
        inputs: `[batch, group, ..., length]`.

    Returns:
        `[batch * group, ..., length]`.
    """

    def call(self, inputs):
        return ops.reshape(inputs, (-1, *ops.shape(inputs)[2:]))

    def compute_output_spec(self, inputs):
        return keras.KerasTensor((None, *inputs.shape[2:]), dtype=inputs.dtype)


@keras.saving.register_keras_serializable("keras_bert_impl")
class SplitGroups(keras.layers.Layer):
    """What was made of rows, as that of their groups.

    Call arguments:
        rows: `[batch * group, dim]`.
        padding_mask: int32 `[batch, group, ..., length]`.

    Returns:
        `[batch, group, dim]`.
    """

    def call(self, rows, padding_mask):
        return in_groups(rows, padding_mask)

    # Of shapes alone Keras 3.12 does not take one for each of two inputs.
    def compute_output_spec(self, rows, padding_mask):
        return keras.KerasTensor((*padding_mask.shape[:2], rows.shape[-1]), self.compute_dtype)


@keras.saving.register_keras_serializable("keras_bert_impl")
class ChoiceLogits(keras.layers.Layer):
    """The logits of rows as those of the choices of each example.

    Call arguments:
        logits: float32 `[batch * choices, 1]`.
        padding_mask: int32 `[batch, choices, ..., length]`; a choice without a real token is
            padding.

    Returns:
        float32 `[batch, choices]`, -1e9 for padding.
    """

    def call(self, logits, padding_mask):
        return ops.where(is_row(padding_mask), in_groups(logits, padding_mask)[:, :, 0], _HIDDEN)

    def compute_output_spec(self, logits, padding_mask):
        return keras.KerasTensor(padding_mask.shape[:2], dtype="float32")
