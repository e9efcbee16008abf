"""Longformer's attention: a window around each token, and a few global tokens.

Shapes: b: batch, n: heads, d: hidden / heads, g: `max_global_tokens`, see `GlobalAttentionBias`.

Source: Beltagy et al. 2020, "Longformer" (arXiv:2004.05150), section 3.1.
"""

from typing import Any

import keras
from keras import ops

from keras_bert_impl.layers.attention import SelfAttention
from keras_bert_impl.layers.freezing import freeze_parts
from keras_bert_impl.layers.windows import from_blocks, in_blocks, weights_of_row, with_neighbors

Tensor = Any  # of any Keras backend


@keras.saving.register_keras_serializable("keras_bert_impl")
class LongformerAttention(SelfAttention):
    """Attention of each token to its window and to the global tokens, and of those to all tokens.

    Global tokens attend with projections of their own. The cost is linear in the length.

    Args:
        num_heads, dropout, initializer_range, use_bias, window, adapter: see `SelfAttention`.
            LoRA on a projection is also added to the global one.

    Call arguments:
        bias: the output of `GlobalAttentionBias`.
        inputs, position_ids, return_attention_scores: see `SelfAttention`. `position_ids` are not
            used, and `"logits"` are not available.

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
        self.query_global = self._dense(hidden_dim, "query_global", "query")
        self.key_global = self._dense(hidden_dim, "key_global", "key")
        self.value_global = self._dense(hidden_dim, "value_global", "value")
        freeze_parts(self)

    def call(
        self,
        inputs: Tensor,
        bias: dict[str, Tensor],
        position_ids: Tensor = None,
        return_attention_scores: bool | str = False,
        training: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        outputs, weights = self._of_windows(inputs, bias, training)
        of_slots, slot_weights = self._of_slots(inputs, bias, training)
        slots = bias["slots"][..., None]  # [b, length, 1]
        of_global = ops.take_along_axis(of_slots, ops.maximum(slots, 0), axis=1)
        outputs = self.output_dense(ops.where(slots >= 0, of_global, outputs))
        if not return_attention_scores:
            return outputs
        return outputs, self._weights_of_row(weights, slot_weights, slots)

    def _of_windows(self, inputs, bias, training):
        """Returns the outputs of all tokens as if none were global, and their weights."""
        query, key, value = (
            self._split_heads(layer(inputs)) for layer in (self.query, self.key, self.value)
        )  # [b, n, length, d]
        key, value = (self._with_slots(part, bias["positions"]) for part in (key, value))
        query = in_blocks(query, self.window)
        outputs, weights = self._attend(query, key, value, bias["window"], training)
        outputs = from_blocks(outputs, ops.shape(inputs)[1])
        return self._join_heads(outputs), weights

    def _with_slots(self, keys, positions):
        """Returns the keys or values of each block: its own, its neighbors' and the slots'."""
        of_slots = ops.take_along_axis(keys, positions[:, None, :, None], axis=2)
        blocks = with_neighbors(in_blocks(keys, self.window))  # [b, n, blocks, 3 * window, d]
        shape = (*ops.shape(blocks)[:3], *ops.shape(of_slots)[2:])
        of_slots = ops.broadcast_to(of_slots[:, :, None], shape)
        return ops.concatenate([blocks, of_slots], axis=3)

    def _of_slots(self, inputs, bias, training):
        """Returns the outputs of the global tokens, `[b, g, hidden]`, and their weights."""
        queries = ops.take_along_axis(inputs, bias["positions"][..., None], axis=1)
        query = self._split_heads(self.query_global(queries))  # [b, n, g, d]
        key, value = (
            self._split_heads(layer(inputs)) for layer in (self.key_global, self.value_global)
        )
        outputs, weights = self._attend(query, key, value, bias["row"], training)
        return self._join_heads(outputs), weights

    def _attend(self, query, key, value, bias, training):
        query = query * self.head_dim**-0.5
        logits = ops.cast(ops.matmul(query, ops.swapaxes(key, -1, -2)), "float32")
        weights = ops.softmax(logits + ops.cast(bias, "float32"), axis=-1)
        dropped = self.dropout(ops.cast(weights, self.compute_dtype), training=training)
        return ops.matmul(dropped, value), weights

    def _weights_of_row(self, weights, slot_weights, slots):
        """Returns the weights of all tokens as `[b, n, length, length]`."""
        length, keys = ops.shape(slots)[1], 3 * self.window
        own = weights_of_row(weights[..., :keys], length)
        to_slots = from_blocks(weights[..., keys:], length)  # [b, n, length, g]
        in_slot = ops.equal(slots, ops.arange(ops.shape(slot_weights)[2]))  # [b, length, g]
        in_slot = ops.cast(in_slot, "float32")
        own += ops.einsum("bnqg,bkg->bnqk", to_slots, in_slot)
        of_global = ops.einsum("bngk,bqg->bnqk", slot_weights, in_slot)
        return ops.where(slots[:, None] >= 0, of_global, own)
