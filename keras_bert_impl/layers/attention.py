"""Attention bias and self-attention."""

import dataclasses
from typing import Any

import keras
from keras import ops

from keras_bert_impl.checkpoints.config import Adapter
from keras_bert_impl.layers.adapters import Prefix, freeze_parts
from keras_bert_impl.layers.adapters import dense as dense_with
from keras_bert_impl.layers.basic import Dropout
from keras_bert_impl.layers.fused_attention import (
    from_blocks,
    fused_attention,
    in_blocks,
    reads_example_ids,
    weights_of_row,
    with_neighbors,
)
from keras_bert_impl.layers.key_value_cache import KeyValueCache
from keras_bert_impl.layers.rotary import RotaryPositions

Tensor = Any  # a tensor of any Keras backend


# Value added to the attention score of a masked position. After the softmax in float32, the weight
# is exactly 0. The value is finite in float16, so that fully masked rows do not give NaN.
HIDDEN = -3e4


@keras.saving.register_keras_serializable("keras_bert_impl")
class AttentionBias(keras.layers.Layer):
    """Additive attention bias that masks padding and the other examples in a packed row.

    Args:
        window: largest distance, in tokens, that a query attends to on each side. None means no
            limit.
        causal: whether to mask the tokens after a query.
        num_virtual_tokens: number of virtual tokens at the start of each sequence. They count as
            real tokens.

    Call arguments:
        token_ids: int32 `[batch, length]`. Only the shape is used.
        padding_mask: int32 `[batch, length]`, 1 for a real token. None means no padding.
        example_ids: int32 `[batch, length]`, for packed examples: 1-based index of each token's
            example, or 0 for padding. None means that examples are not packed.

    Returns:
        float32 `[batch, 1, 1, length]`, or `[batch, 1, length, length]` if packed or causal. The
        last two axes are queries and keys. The bias is 0 where a query attends to a key, and a
        large negative number everywhere else. With a window, the shape is
        `[batch, 1, blocks, window, 3 * window]`, because each block attends to itself and to the
        two neighboring blocks.

        On a TPU with JAX, the fused kernel of a non-causal encoder needs example ids instead of a
        bias. In this case, the layer returns the example ids, int32 `[batch, length]`.
    """

    def __init__(
        self,
        window: int | None = None,
        causal: bool = False,
        num_virtual_tokens: int = 0,
        **kwargs,
    ) -> None:
        super().__init__(**kwargs)
        self.window = window
        self.causal = causal
        self.num_virtual_tokens = num_virtual_tokens

    def call(
        self,
        token_ids: Tensor,
        padding_mask: Tensor = None,
        example_ids: Tensor = None,
    ) -> Tensor:
        token_ids, padding_mask, example_ids = (
            self._add_virtual_tokens(ids) for ids in (token_ids, padding_mask, example_ids)
        )
        if not self._should_return_ids(token_ids, example_ids):
            return self.additive(token_ids, padding_mask, example_ids)
        ids = ops.ones_like(token_ids) if example_ids is None else example_ids
        if padding_mask is not None:
            ids = ops.where(ops.not_equal(padding_mask, 0), ids, 0)
        return ops.cast(ids, "int32")

    def _should_return_ids(self, token_ids, example_ids):
        if self.causal:
            return False
        return reads_example_ids(token_ids.shape[1], self.window, example_ids is not None)

    def additive(
        self, token_ids: Tensor, padding_mask: Tensor = None, example_ids: Tensor = None
    ) -> Tensor:
        """Computes the additive bias. Unlike in `call`, the inputs include the virtual tokens."""
        if self.window is not None:
            return self._compute_window_bias(token_ids, padding_mask, example_ids)
        if example_ids is not None:
            queries, keys = example_ids[:, :, None], example_ids[:, None, :]
            visible = ops.logical_and(ops.equal(queries, keys), ops.not_equal(keys, 0))
            if padding_mask is not None:
                visible = ops.logical_and(visible, ops.not_equal(padding_mask[:, None, :], 0))
            visible = visible[:, None]  # [batch, 1, length, length]
        elif padding_mask is not None:
            visible = ops.not_equal(padding_mask, 0)[:, None, None, :]  # [batch, 1, 1, length]
        else:
            visible = ops.ones_like(token_ids, dtype="bool")[:, None, None, :]
        if self.causal:
            positions = ops.arange(ops.shape(token_ids)[1])
            visible = ops.logical_and(visible, positions[:, None] >= positions)
        return ops.where(visible, 0.0, HIDDEN)

    def _add_virtual_tokens(self, ids):
        if ids is None or not self.num_virtual_tokens:
            return ids
        return ops.pad(ids, [[0, 0], [self.num_virtual_tokens, 0]], constant_values=1)

    def _compute_window_bias(self, token_ids, padding_mask, example_ids):
        numbers = ops.ones_like(token_ids) if example_ids is None else example_ids
        real = ops.cast(ops.not_equal(numbers, 0), "int32")
        if padding_mask is not None:
            real = real * ops.cast(ops.not_equal(padding_mask, 0), "int32")
        # Blocks are padded with 0, which masks positions outside the row.
        real, numbers = (
            in_blocks(ids[:, None, :, None], self.window) for ids in (real, numbers)
        )  # [batch, 1, blocks, window, 1]
        keys = ops.swapaxes(with_neighbors(numbers), -1, -2)
        visible = ops.not_equal(ops.swapaxes(with_neighbors(real), -1, -2), 0)
        visible = ops.logical_and(visible, ops.equal(numbers, keys))
        distance = ops.arange(self.window)[:, None] + self.window - ops.arange(3 * self.window)
        near = ops.less_equal(ops.abs(distance), self.window)  # [window, 3 * window]
        if self.causal:
            near = ops.logical_and(near, distance >= 0)
        return ops.where(ops.logical_and(visible, near), 0.0, HIDDEN)

    def of_positions(self, queries: Tensor, keys: Tensor, padding_mask: Tensor) -> Tensor:
        """Returns the bias of a causal encoder for tokens with the given positions.

        Args:
            queries: int32 `[batch, queries]`, positions of the queries.
            keys, padding_mask: int32 `[batch, keys]`.

        Returns:
            float32 `[batch, 1, queries, keys]`, both with and without a window.
        """
        distance = queries[:, :, None] - keys[:, None, :]
        visible = ops.logical_and(distance >= 0, ops.not_equal(padding_mask[:, None, :], 0))
        if self.window is not None:
            visible = ops.logical_and(visible, distance <= self.window)
        return ops.where(visible, 0.0, HIDDEN)[:, None]

    def compute_output_spec(
        self, token_ids: Tensor, padding_mask: Tensor = None, example_ids: Tensor = None
    ) -> keras.KerasTensor:
        batch, length = token_ids.shape
        length = None if length is None else length + self.num_virtual_tokens
        if self._should_return_ids(keras.KerasTensor((batch, length)), example_ids):
            return keras.KerasTensor((batch, length), dtype="int32")
        if self.window is not None:
            blocks = None if length is None else -(-length // self.window)
            shape = (batch, 1, blocks, self.window, 3 * self.window)
            return keras.KerasTensor(shape, dtype="float32")
        queries = 1 if example_ids is None and not self.causal else length
        return keras.KerasTensor((batch, 1, queries, length), dtype="float32")

    def get_config(self) -> dict:
        return {
            **super().get_config(),
            "window": self.window,
            "causal": self.causal,
            "num_virtual_tokens": self.num_virtual_tokens,
        }


@keras.saving.register_keras_serializable("keras_bert_impl")
class SelfAttention(keras.layers.Layer):
    """Computes `softmax(Q K^T / sqrt(d) + bias) V` for each head, followed by a projection.

    Args:
        num_heads: must divide the width of the inputs.
        dropout: rate on the attention weights.
        initializer_range: standard deviation of the initial weights.
        use_bias: whether the projections add a bias.
        rotary_base: base of the `RotaryPositions` applied to queries and keys. None disables them.
        window: the `window` of the `AttentionBias`.
        adapter: `Adapter`, or a dict of its fields.

    Call arguments:
        inputs: `[batch, length, hidden]`.
        bias: the output of `AttentionBias`.
        position_ids: int32 `[batch, length]`, for rotary positions. None means 0, 1, 2, ...
        return_attention_scores: True, False or `"logits"`.
        cache: `KeyValueCache` of earlier tokens. The call appends the keys and values of `inputs`.
            With a cache, `bias` must be the output of `AttentionBias.of_positions`.

    Returns:
        `[batch, length, hidden]`. With `return_attention_scores=True`, also returns the attention
        weights after the softmax and before dropout, float32 `[batch, heads, length, length]`. With
        `"logits"`, also returns `Q K^T / sqrt(d)`, without the bias, in the same shape. `"logits"`
        is not available with a window.

    Source: Vaswani et al. 2017, section 3.2.
    """

    def __init__(
        self,
        num_heads: int,
        dropout: float = 0.1,
        initializer_range: float = 0.02,
        use_bias: bool = True,
        rotary_base: float | None = None,
        window: int | None = None,
        adapter: Adapter | dict | None = None,
        **kwargs,
    ) -> None:
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.window = window
        self.initializer_range = initializer_range
        self.use_bias = use_bias
        self.rotary_base = rotary_base
        self.adapter = Adapter.of(adapter)
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")
        self.rotary = None
        if rotary_base is not None:
            self.rotary = RotaryPositions(rotary_base, dtype=self.dtype_policy, name="rotary")
        self.prefix = None
        if self.adapter is not None and self.adapter.kind == "prefix":
            self.prefix = Prefix(
                self.adapter.size, initializer_range, dtype=self.dtype_policy, name="prefix"
            )

    def build(
        self,
        inputs_shape: tuple,
        bias_shape: tuple | None = None,
        position_ids_shape: tuple | None = None,
    ) -> None:
        hidden_dim = inputs_shape[-1]
        self.head_dim = hidden_dim // self.num_heads
        self.query = self._create_dense(hidden_dim, "query", "query")
        self.key = self._create_dense(hidden_dim, "key", "key")
        self.value = self._create_dense(hidden_dim, "value", "value")
        self.output_dense = self._create_dense(hidden_dim, "output", "attention_output")
        self.dropout.build()
        if self.prefix is not None:
            self.prefix.build((None, self.num_heads, None, self.head_dim))
        freeze_parts(self)
        self.built = True

    def _create_dense(self, units, name, place):
        layer = dense_with(
            self.adapter,
            place,
            units,
            use_bias=self.use_bias,
            kernel_initializer=keras.initializers.TruncatedNormal(stddev=self.initializer_range),
            dtype=self.dtype_policy,
            name=name,
        )
        layer.build((None, None, units))
        return layer

    def call(
        self,
        inputs: Tensor,
        bias: Tensor,
        position_ids: Tensor = None,
        return_attention_scores: bool | str = False,
        training: bool = False,
        cache: KeyValueCache | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        # b: batch, n: heads, q and k: length (k includes the prefix), d: hidden / heads. With a
        # window, a blocks axis follows n; q and k are the lengths of one and of three blocks.
        query = self._split_heads(self.query(inputs))  # [b, n, q, d]
        key = self._split_heads(self.key(inputs))
        value = self._split_heads(self.value(inputs))
        if self.rotary is not None:
            query, key = (self.rotary(part, position_ids) for part in (query, key))
        if cache is not None:
            key, value = cache.extend(key, value)
        query = query * self.head_dim**-0.5
        settings = return_attention_scores, training, cache is not None
        outputs, weights = self._compute_heads(query, key, value, bias, *settings)
        outputs = self.output_dense(self._join_heads(outputs))
        return (outputs, weights) if return_attention_scores else outputs

    def _compute_heads(self, query, key, value, bias, return_attention_scores, training, cached):
        """Returns (outputs of all heads `[b, n, length, d]`, scores or None)."""
        window, length = None if cached else self.window, ops.shape(query)[2]
        drops = training and self.dropout.rate > 0
        if not (drops or return_attention_scores or self.prefix is not None or cached):
            outputs = fused_attention(query, key, value, bias, window)
            if outputs is not None:
                return outputs, None
        if len(bias.shape) == 2:  # The bias contains example ids.
            bias = AttentionBias(window).additive(bias, example_ids=bias)
        if window is not None:
            query, key, value = (in_blocks(part, window) for part in (query, key, value))
            key, value = with_neighbors(key), with_neighbors(value)
        if self.prefix is not None:
            key, value, bias = self.prefix(key, value, bias)
        outputs, weights, logits = self._apply_attention(query, key, value, bias, training)
        if window is not None:
            outputs = from_blocks(outputs, length)
        if not return_attention_scores:
            return outputs, None
        if return_attention_scores == "logits":
            weights = logits
        if self.prefix is not None:
            weights = weights[..., self.prefix.num_tokens :]
        return outputs, weights if window is None else weights_of_row(weights, length)

    def _apply_attention(self, query, key, value, bias, training):
        """Returns (outputs, weights, logits) for queries multiplied by `d ** -0.5`."""
        logits = ops.cast(ops.matmul(query, ops.swapaxes(key, -1, -2)), "float32")  # [..., q, k]
        weights = ops.softmax(logits + ops.cast(bias, "float32"), axis=-1)
        dropped = self.dropout(ops.cast(weights, self.compute_dtype), training=training)
        return ops.matmul(dropped, value), weights, logits

    def _split_heads(self, tensor):
        batch, length = ops.shape(tensor)[0], ops.shape(tensor)[1]
        tensor = ops.reshape(tensor, (batch, length, self.num_heads, self.head_dim))
        return ops.transpose(tensor, (0, 2, 1, 3))

    def _join_heads(self, tensor):
        tensor = ops.transpose(tensor, (0, 2, 1, 3))
        batch, length = ops.shape(tensor)[0], ops.shape(tensor)[1]
        return ops.reshape(tensor, (batch, length, self.output_dense.units))

    def compute_output_spec(
        self,
        inputs: Tensor,
        bias: Tensor,
        position_ids: Tensor = None,
        return_attention_scores: bool | str = False,
        training: bool = False,
    ) -> keras.KerasTensor | tuple[keras.KerasTensor, keras.KerasTensor]:
        outputs = keras.KerasTensor(inputs.shape, dtype=self.compute_dtype)
        if not return_attention_scores:
            return outputs
        batch, length, _ = inputs.shape
        return outputs, keras.KerasTensor((batch, self.num_heads, length, length), dtype="float32")

    def get_config(self) -> dict:
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "dropout": self.dropout.rate,
            "initializer_range": self.initializer_range,
            "use_bias": self.use_bias,
            "rotary_base": self.rotary_base,
            "window": self.window,
            "adapter": self.adapter and dataclasses.asdict(self.adapter),
        }
