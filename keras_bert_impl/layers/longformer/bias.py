"""Positions of the global tokens, and the biases of `LongformerAttention`."""

from typing import Any

import keras
from keras import ops

from keras_bert_impl.layers.attention import AttentionBias
from keras_bert_impl.layers.windows import in_blocks

Tensor = Any  # of any Keras backend
_HIDDEN = -3e4  # same as in `AttentionBias`


@keras.saving.register_keras_serializable("keras_bert_impl")
class GlobalAttentionBias(keras.layers.Layer):
    """Locates the global tokens of each row and computes the biases of `LongformerAttention`.

    XLA needs fixed shapes, so each row has `max_global_tokens` slots. Its global tokens, in order,
    take the first ones; the others are empty, and no token attends to them.

    Args:
        window: largest distance, in tokens, that a query attends to on each side.
        max_global_tokens: number of slots. A row with more global tokens has outputs of NaN.

    Call arguments:
        token_ids, padding_mask, example_ids: see `AttentionBias`.
        global_mask: int32 `[batch, length]`, 1 for a global token. Padding is never global. None
            means the first token of each example.

    Returns:
        dict of:
            window: float32 `[batch, 1, blocks, window, 3 * window + g]`, the bias of each token's
                attention to its window, in the blocks of `layers.windows`, and to the slots.
            row: float32 `[batch, 1, g, length]`, the bias of the slots' attention to all tokens.
            positions: int32 `[batch, g]`, position of the token in each slot; 0 if it is empty.
            slots: int32 `[batch, length]`, slot of each global token; -1 for all other tokens.
    """

    def __init__(self, window: int, max_global_tokens: int, **kwargs) -> None:
        super().__init__(**kwargs)
        self.window = window
        self.max_global_tokens = max_global_tokens
        self.in_window = AttentionBias(window, dtype=self.dtype_policy, name="in_window")

    def build(self, *args: Any, **kwargs: Any) -> None:
        self.built = True  # without variables; Keras would warn of the layer inside

    def call(
        self,
        token_ids: Tensor,
        padding_mask: Tensor = None,
        example_ids: Tensor = None,
        global_mask: Tensor = None,
    ) -> dict[str, Tensor]:
        examples = ops.ones_like(token_ids) if example_ids is None else example_ids
        is_real = ops.not_equal(examples, 0)
        if padding_mask is not None:
            is_real = ops.logical_and(is_real, ops.not_equal(padding_mask, 0))
        if global_mask is None:
            before = ops.pad(examples[:, :-1], [[0, 0], [1, 0]])
            global_mask = ops.not_equal(examples, before)
        is_global = ops.logical_and(ops.not_equal(global_mask, 0), is_real)
        number = ops.cumsum(ops.cast(is_global, "int32"), axis=1)  # [batch, length], from 1
        has_slot = ops.logical_and(is_global, number <= self.max_global_tokens)
        slots = ops.where(has_slot, number - 1, -1)
        in_slot = ops.equal(slots[:, None], ops.arange(self.max_global_tokens)[:, None])
        places = ops.arange(ops.shape(token_ids)[1])
        positions = ops.sum(ops.where(in_slot, places, 0), axis=2)  # [batch, g]

        # Packed examples do not attend to each other.
        same = ops.take_along_axis(examples, positions, axis=1)[..., None] == examples[:, None]
        is_used = ops.any(in_slot, axis=2)[..., None]  # [batch, g, 1]
        to_row = ops.logical_and(same, is_real[:, None])
        to_slots = ops.swapaxes(ops.logical_and(same, is_used), 1, 2)[:, None]
        to_slots = in_blocks(ops.where(to_slots, 0.0, _HIDDEN), self.window)
        too_many = ops.any(number > self.max_global_tokens, axis=1)[:, None, None, None, None]
        to_slots = ops.where(too_many, float("nan"), to_slots)
        # Global tokens are attended to in their slots, so not in the window too.
        is_local = ops.logical_and(is_real, ops.logical_not(is_global))
        window = self.in_window.additive(token_ids, ops.cast(is_local, "int32"), example_ids)
        return {
            "window": ops.concatenate([window, to_slots], axis=-1),
            "row": ops.where(to_row, 0.0, _HIDDEN)[:, None],
            "positions": positions,
            "slots": slots,
        }

    def compute_output_spec(
        self,
        token_ids: Tensor,
        padding_mask: Tensor = None,
        example_ids: Tensor = None,
        global_mask: Tensor = None,
    ) -> dict[str, keras.KerasTensor]:
        batch, length = token_ids.shape
        slots = self.max_global_tokens
        blocks = None if length is None else -(-length // self.window)
        window = batch, 1, blocks, self.window, 3 * self.window + slots
        return {
            "window": keras.KerasTensor(window, dtype="float32"),
            "row": keras.KerasTensor((batch, 1, slots, length), dtype="float32"),
            "positions": keras.KerasTensor((batch, slots), dtype="int32"),
            "slots": keras.KerasTensor((batch, length), dtype="int32"),
        }

    def get_config(self) -> dict:
        return {
            **super().get_config(),
            "window": self.window,
            "max_global_tokens": self.max_global_tokens,
        }
