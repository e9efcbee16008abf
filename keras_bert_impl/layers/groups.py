"""Flattening of groups of rows into a batch, and back.

A group is, for example, the choices of an example or the windows of a text. Groups can be nested,
such as when each choice has windows.
"""

from typing import Any

import keras
from keras import ops

Tensor = Any  # of any Keras backend

# Finite, so that no gradient is NaN; its probability is exactly 0 in float32.
_HIDDEN = -1e9


def in_groups(rows: Tensor, padding_mask: Tensor) -> Tensor:
    """Reshapes `[batch * group, dim]` to `[batch, group, dim]`.

    Args:
        padding_mask: `[batch, group, ..., length]`. Only its shape is used.
    """
    return ops.reshape(rows, (*ops.shape(padding_mask)[:2], rows.shape[-1]))


def is_row(padding_mask: Tensor) -> Tensor:
    """Returns bool `[batch, group]`: True where a row has a real token, False for padding rows."""
    within = tuple(range(2, len(padding_mask.shape)))
    return ops.any(ops.not_equal(padding_mask, 0), axis=within)


@keras.saving.register_keras_serializable("keras_bert_impl")
class MergeGroups(keras.layers.Layer):
    """Flattens the rows of all groups into one batch.

    Call arguments:
        inputs: `[batch, group, ..., length]`.

    Returns:
        `[batch * group, ..., length]`.
    """

    def call(self, inputs: Tensor) -> Tensor:
        return ops.reshape(inputs, (-1, *ops.shape(inputs)[2:]))

    def compute_output_spec(self, inputs: Tensor) -> keras.KerasTensor:
        return keras.KerasTensor((None, *inputs.shape[2:]), dtype=inputs.dtype)

    def get_config(self) -> dict:  # Keras requires it of layers whose dtype is a policy
        return super().get_config()


@keras.saving.register_keras_serializable("keras_bert_impl")
class SplitGroups(keras.layers.Layer):
    """Splits a batch of row vectors back into groups; see `in_groups`.

    Call arguments:
        rows: `[batch * group, dim]`.
        padding_mask: int32 `[batch, group, ..., length]`.

    Returns:
        `[batch, group, dim]`.
    """

    def call(self, rows: Tensor, padding_mask: Tensor) -> Tensor:
        return in_groups(rows, padding_mask)

    # Keras 3.12 does not accept a separate shape for each of two inputs in `compute_output_shape`.
    def compute_output_spec(self, rows: Tensor, padding_mask: Tensor) -> keras.KerasTensor:
        return keras.KerasTensor((*padding_mask.shape[:2], rows.shape[-1]), self.compute_dtype)

    def get_config(self) -> dict:  # Keras requires it of layers whose dtype is a policy
        return super().get_config()


@keras.saving.register_keras_serializable("keras_bert_impl")
class ChoiceLogits(keras.layers.Layer):
    """Reshapes the logits of rows to one logit per choice of each example.

    Call arguments:
        logits: float32 `[batch * choices, 1]`.
        padding_mask: int32 `[batch, choices, ..., length]`. A choice without real tokens is
            padding.

    Returns:
        float32 `[batch, choices]`, -1e9 for padding.
    """

    def call(self, logits: Tensor, padding_mask: Tensor) -> Tensor:
        return ops.where(is_row(padding_mask), in_groups(logits, padding_mask)[:, :, 0], _HIDDEN)

    def compute_output_spec(self, logits: Tensor, padding_mask: Tensor) -> keras.KerasTensor:
        return keras.KerasTensor(padding_mask.shape[:2], dtype="float32")

    def get_config(self) -> dict:  # Keras requires it of layers whose dtype is a policy
        return super().get_config()
