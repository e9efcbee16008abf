"""Longformer: attention with a local window and global tokens."""

from typing import Any

import keras
from keras import ops

from keras_bert_impl.layers.adapters import freeze_parts
from keras_bert_impl.layers.attention import HIDDEN, AttentionBias, SelfAttention
from keras_bert_impl.layers.fused_attention import (
    from_blocks,
    in_blocks,
    weights_of_row,
    with_neighbors,
)

Tensor = Any  # a tensor of any Keras backend


@keras.saving.register_keras_serializable("keras_bert_impl")
class GlobalAttentionBias(keras.layers.Layer):
    """Finds the global tokens of each sequence, and computes the biases of `LongformerAttention`.

    XLA needs fixed shapes, so each sequence has `max_global_tokens` slots for global tokens. The
    first global token is in slot 0, the second one in slot 1, and so on. No token attends to an
    empty slot.

    Args:
        window: largest distance, in tokens, that a query attends to on each side.
        max_global_tokens: number of slots. If a sequence has more global tokens, all outputs of
            the sequence are NaN.

    Call arguments:
        token_ids, padding_mask, example_ids: see `AttentionBias`.
        global_mask: int32 `[batch, length]`, 1 for a global token. Padding is never global. None
            means the first token of each example.

    Returns:
        dict with these keys, where g is `max_global_tokens`:
            window: float32 `[batch, 1, blocks, window, 3 * window + g]`, bias where the queries are
                all tokens, and the keys are the tokens in the window and the global tokens.
            row: float32 `[batch, 1, g, length]`, bias where the queries are the global tokens, and
                the keys are all tokens.
            positions: int32 `[batch, g]`, position of the token in each slot; 0 for an empty slot.
            slots: int32 `[batch, length]`, slot of each global token; -1 for all other tokens.
    """

    def __init__(self, window: int, max_global_tokens: int, **kwargs) -> None:
        super().__init__(**kwargs)
        self.window = window
        self.max_global_tokens = max_global_tokens
        self.in_window = AttentionBias(window, dtype=self.dtype_policy, name="in_window")

    def build(self, *args: Any, **kwargs: Any) -> None:
        self.built = True  # avoids Keras's warning about a layer without variables

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
        to_slots = in_blocks(ops.where(to_slots, 0.0, HIDDEN), self.window)
        too_many = ops.any(number > self.max_global_tokens, axis=1)[:, None, None, None, None]
        to_slots = ops.where(too_many, float("nan"), to_slots)
        # Global tokens are keys in the slots, so they are masked as keys in the windows.
        is_local = ops.logical_and(is_real, ops.logical_not(is_global))
        window = self.in_window.additive(token_ids, ops.cast(is_local, "int32"), example_ids)
        return {
            "window": ops.concatenate([window, to_slots], axis=-1),
            "row": ops.where(to_row, 0.0, HIDDEN)[:, None],
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


@keras.saving.register_keras_serializable("keras_bert_impl")
class SegmentMask(keras.layers.Layer):
    """Marks the tokens in one segment of a pair, up to `limit` tokens.

    Args:
        segment: `"first"` marks all tokens before the first separator, such as `<s>` and a
            question. `"second"` marks all real tokens after the separators of the pair.
        sep_id: token id of the separator.
        num_separators: number of separators between the segments.
        limit: maximum number of tokens to mark.

    Call arguments:
        token_ids, padding_mask: int32 `[rows, length]`.

    Returns:
        int32 `[rows, length]`, 1 for a marked token.

    Source: Beltagy et al. 2020 (arXiv:2004.05150), section 5 and appendix; the second segment of
    multiple choice: `LongformerForMultipleChoice` of `transformers`.
    """

    def __init__(
        self, segment: str, sep_id: int, num_separators: int, limit: int, **kwargs
    ) -> None:
        super().__init__(**kwargs)
        self.segment = segment
        self.sep_id = sep_id
        self.num_separators = num_separators
        self.limit = limit

    def call(self, token_ids: Tensor, padding_mask: Tensor) -> Tensor:
        is_separator = ops.cast(ops.equal(token_ids, self.sep_id), "int32")
        # number of separators before each token
        before = ops.cumsum(is_separator, axis=1) - is_separator
        if self.segment == "first":
            mask = ops.logical_and(ops.equal(before, 0), ops.equal(is_separator, 0))
        else:
            mask = ops.greater_equal(before, self.num_separators)
        mask = ops.cast(ops.logical_and(mask, ops.not_equal(padding_mask, 0)), "int32")
        return mask * ops.cast(ops.cumsum(mask, axis=1) <= self.limit, "int32")

    def compute_output_spec(self, token_ids: Tensor, padding_mask: Tensor) -> keras.KerasTensor:
        return keras.KerasTensor(token_ids.shape, dtype="int32")

    def get_config(self) -> dict:
        return {
            **super().get_config(),
            "segment": self.segment,
            "sep_id": self.sep_id,
            "num_separators": self.num_separators,
            "limit": self.limit,
        }


@keras.saving.register_keras_serializable("keras_bert_impl")
class LongformerAttention(SelfAttention):
    """Attention with a local window and global tokens.

    Each token attends to its window and to the global tokens. The global tokens attend to all
    tokens, with separate projections. The cost is linear in the length.

    Args:
        num_heads, dropout, initializer_range, use_bias, window, adapter: see `SelfAttention`. LoRA
            on `query`, `key` or `value` also applies to the separate projection of global tokens.

    Call arguments:
        bias: the output of `GlobalAttentionBias`.
        inputs, position_ids, return_attention_scores: see `SelfAttention`. `position_ids` is
            ignored, and `"logits"` is not available.

    Returns:
        See `SelfAttention`.
    """

    def build(
        self,
        inputs_shape: tuple,
        bias_shape: Any = None,
        position_ids_shape: tuple | None = None,
    ) -> None:
        super().build(inputs_shape)
        hidden_dim = inputs_shape[-1]
        self.query_global = self._create_dense(hidden_dim, "query_global", "query")
        self.key_global = self._create_dense(hidden_dim, "key_global", "key")
        self.value_global = self._create_dense(hidden_dim, "value_global", "value")
        freeze_parts(self)

    def call(
        self,
        inputs: Tensor,
        bias: dict[str, Tensor],
        position_ids: Tensor = None,
        return_attention_scores: bool | str = False,
        training: bool = False,
        cache: Any = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        outputs, weights = self._compute_windows(inputs, bias, training)
        slot_outputs, slot_weights = self._compute_slots(inputs, bias, training)
        slots = bias["slots"][..., None]  # [b, length, 1]
        global_outputs = ops.take_along_axis(slot_outputs, ops.maximum(slots, 0), axis=1)
        outputs = self.output_dense(ops.where(slots >= 0, global_outputs, outputs))
        if not return_attention_scores:
            return outputs
        return outputs, self._expand_weights(weights, slot_weights, slots)

    def _compute_windows(self, inputs, bias, training):
        """Returns (outputs, weights). Each token attends to its window and to the global tokens."""
        query, key, value = (
            self._split_heads(layer(inputs)) for layer in (self.query, self.key, self.value)
        )  # [b, n, length, d]
        key, value = (self._append_slots(part, bias["positions"]) for part in (key, value))
        query = in_blocks(query * self.head_dim**-0.5, self.window)
        outputs, weights, _ = self._apply_attention(query, key, value, bias["window"], training)
        outputs = from_blocks(outputs, ops.shape(inputs)[1])
        return self._join_heads(outputs), weights

    def _append_slots(self, keys, positions):
        """Returns the keys or values that each block attends to: window and global tokens."""
        slot_keys = ops.take_along_axis(keys, positions[:, None, :, None], axis=2)
        blocks = with_neighbors(in_blocks(keys, self.window))  # [b, n, blocks, 3 * window, d]
        shape = (*ops.shape(blocks)[:3], *ops.shape(slot_keys)[2:])
        slot_keys = ops.broadcast_to(slot_keys[:, :, None], shape)
        return ops.concatenate([blocks, slot_keys], axis=3)

    def _compute_slots(self, inputs, bias, training):
        """Returns (outputs of the global tokens `[b, g, hidden]`, attention weights)."""
        queries = ops.take_along_axis(inputs, bias["positions"][..., None], axis=1)
        query = self._split_heads(self.query_global(queries)) * self.head_dim**-0.5  # [b, n, g, d]
        key, value = (
            self._split_heads(layer(inputs)) for layer in (self.key_global, self.value_global)
        )
        outputs, weights, _ = self._apply_attention(query, key, value, bias["row"], training)
        return self._join_heads(outputs), weights

    def _expand_weights(self, weights, slot_weights, slots):
        length, keys = ops.shape(slots)[1], 3 * self.window
        row_weights = weights_of_row(weights[..., :keys], length)
        to_slots = from_blocks(weights[..., keys:], length)  # [b, n, length, g]
        in_slot = ops.equal(slots, ops.arange(ops.shape(slot_weights)[2]))  # [b, length, g]
        in_slot = ops.cast(in_slot, "float32")
        row_weights += ops.einsum("bnqg,bkg->bnqk", to_slots, in_slot)
        global_weights = ops.einsum("bngk,bqg->bnqk", slot_weights, in_slot)
        return ops.where(slots[:, None] >= 0, global_weights, row_weights)
