"""Block-sparse attention of BigBird: global, neighboring and random blocks."""

import dataclasses
import functools
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert_impl.layers.attention import HIDDEN, AttentionBias, SelfAttention
from keras_bert_impl.layers.fused_attention import (
    from_blocks,
    in_blocks,
    weights_of_row,
    with_neighbors,
)

Tensor = Any  # a tensor of any Keras backend
_PLANNED = (1024, 3072, 4096)  # lengths for which the paper's code draws blocks by another rule
_FIRST_TOKENS = 1024  # At these lengths, random blocks are among the first 1,024 tokens.


@dataclasses.dataclass(frozen=True)
class BlockSparsity:
    """Configuration of block-sparse attention in one layer.

    Args:
        block_size: number of tokens in a block.
        num_random_blocks: number of random blocks that a block attends to in training.
        max_length: maximum length of the encoder, in tokens. For some sequence lengths, the random
            blocks depend on `max_length`.
        seed: seed of the random blocks. `transformers` uses the index of the layer as seed.
    """

    block_size: int
    num_random_blocks: int
    max_length: int
    seed: int = 0

    @classmethod
    def of(cls, value: Any) -> "BlockSparsity | None":
        return cls(**value) if isinstance(value, dict) else value

    @property
    def longest_full(self) -> int:
        """Largest length, in tokens, for which attention is full."""
        return (5 + 2 * self.num_random_blocks) * self.block_size

    def random_blocks(self, num_blocks: Tensor, num_heads: int) -> Tensor:
        """Returns the random blocks of all blocks except the first and the last.

        The random blocks are the same in every training step, as in the code of the paper and in
        `transformers`.

        Returns:
            int32 `[heads, num_blocks - 2, num_random_blocks]`.
        """
        tables = map(ops.convert_to_tensor, _draw_blocks(self, num_heads))
        near, planned = (table[:, 2:num_blocks] for table in tables)
        length = num_blocks * self.block_size
        return ops.where(ops.any(ops.equal(length, np.array(_PLANNED))), planned, near)


@functools.cache
def _draw_blocks(sparsity, num_heads):
    """Draws random blocks; returns (for most lengths, for the lengths in `_PLANNED`).

    Both arrays are int32 `[heads, max_blocks, num_random_blocks]`. Row `i + 1` contains the random
    blocks of block `i`.
    """
    size, count = sparsity.block_size, sparsity.num_random_blocks
    rows = -(-sparsity.max_length // size)
    near, planned = (np.zeros((num_heads, rows, count), "int32") for _ in range(2))

    draw, end = np.random.RandomState(sparsity.seed), 5 + 2 * count
    for row in range(1, rows - 1):
        excluded = {0, end - 1, row - 1, row, row + 1}
        excluded |= {1: {end - 2}, end - 2: {1}}.get(row, set())
        for head in range(num_heads):
            allowed = [block for block in draw.permutation(end) if block not in excluded]
            near[head, row + 1] = allowed[:count]

    if sparsity.max_length >= min(_PLANNED):
        draw = np.random.RandomState(sparsity.seed)
        number = sparsity.max_length // size
        last = number - 1 if 2 * size >= _FIRST_TOKENS else _FIRST_TOKENS // size - 1
        candidates = np.arange(1, min(last, number - 2) + 1)
        for head in range(num_heads):
            for row in range(1, number - 1):
                is_near = (np.abs(candidates - row) <= 1) & (row < number - 3)
                planned[head, row + 1] = draw.permutation(candidates[~is_near])[:count]
    return near, planned


@keras.saving.register_keras_serializable("keras_bert_impl")
class ExampleIds(AttentionBias):
    """Returns the 1-based index of each token's example, int32 `[batch, length]`, 0 for padding."""

    def _should_return_ids(self, token_ids, example_ids):
        return True


@keras.saving.register_keras_serializable("keras_bert_impl")
class BigBirdAttention(SelfAttention):
    """Attention of each block of tokens to the first, last, neighboring and random blocks.

    The first and the last block attend to all tokens. The cost is linear in the length. Sequences
    of up to `BlockSparsity.longest_full` tokens have full attention.

    As in `transformers`, random blocks are used only in training. In inference, the first block is
    used instead of each random block, so it occurs `1 + num_random_blocks` times in the softmax.

    Args:
        sparsity: `BlockSparsity`, or a dict of its fields.
        others: see `SelfAttention`.

    Call arguments:
        bias: the output of `ExampleIds`.
        others: see `SelfAttention`; `"logits"` is not available.

    Source: Zaheer et al. 2020, "Big Bird" (arXiv:2007.14062), section 2 and appendix D.
    """

    def __init__(self, *args, sparsity: BlockSparsity | dict, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self.sparsity = BlockSparsity.of(sparsity)

    def _compute_heads(self, query, *arguments):
        length, longest = ops.shape(query)[2], self.sparsity.longest_full
        full = functools.partial(super()._compute_heads, query, *arguments)
        sparse = functools.partial(self._compute_blocks, query, *arguments)
        if isinstance(length, int):
            return full() if length <= longest else sparse()
        return ops.cond(length <= longest, full, sparse)

    def _compute_blocks(self, query, key, value, ids, return_attention_scores, training, _):
        # m = blocks except the first and the last; s = tokens in a block
        size, length = self.sparsity.block_size, ops.shape(query)[2]
        ids = ids[:, None, :, None]  # [b, 1, length, 1]
        blocks = [in_blocks(part, size) for part in (query, key, value, ids)]
        random = None
        if training:
            random = self.sparsity.random_blocks(ops.shape(blocks[0])[2], self.num_heads)
        keys, values, key_ids = (self._gather_attended(part, random) for part in blocks[1:])
        bias = _compute_bias(blocks[3][:, :, 1:-1], key_ids)  # [b, 1 or n, m, s, k]
        if random is None:
            repeats = np.zeros(bias.shape[-1], "float32")
            repeats[:size] = np.log1p(self.sparsity.num_random_blocks)
            bias += repeats
        inner, weights, _ = self._apply_attention(
            blocks[0][:, :, 1:-1], keys, values, bias, training
        )
        # [b, n, 2 s, d]
        query, query_ids = (_join_ends(blocks[place])[:, :, 0] for place in (0, 3))
        bias = _compute_bias(query_ids, ids)
        outer, outer_weights, _ = self._apply_attention(query, key, value, bias, training)
        first, last = (part[:, :, None] for part in ops.split(outer, 2, axis=2))
        outputs = from_blocks(ops.concatenate([first, inner, last], axis=2), length)
        if not return_attention_scores:
            return outputs, None
        return outputs, self._expand_weights(weights, outer_weights, random)

    def _gather_attended(self, blocks, random):
        """Returns the keys, values or ids that each inner block attends to: `[b, n, m, k, width]`.

        An inner block attends to the first and the last block, to its inner neighbors (0 at the
        edges) and to its random blocks.
        """
        inner, ends = blocks[:, :, 1:-1], _join_ends(blocks)
        batch, heads, number, size, width = ops.shape(inner)
        ends = ops.broadcast_to(ends, (batch, heads, number, 2 * size, width))
        parts = [ends, with_neighbors(inner)]
        if random is not None:
            count = self.num_heads if heads == 1 else heads
            blocks = ops.broadcast_to(blocks, (batch, count, number + 2, size, width))
            rows = ops.reshape(blocks, (batch, -1, size, width))
            places = random + (number + 2) * ops.arange(count)[:, None, None]
            drawn = ops.take(rows, ops.reshape(places, (-1,)), axis=1)
            shape = batch, count, number, self.sparsity.num_random_blocks * size, width
            parts = [ops.broadcast_to(part, (batch, count, *ops.shape(part)[2:])) for part in parts]
            parts.append(ops.reshape(drawn, shape))
        return ops.concatenate(parts, axis=3)

    def _expand_weights(self, weights, outer_weights, random):
        size, length = self.sparsity.block_size, ops.shape(outer_weights)[-1]
        batch, heads, number, _, _ = ops.shape(weights)
        first, last, near = (
            weights[..., :size],
            weights[..., size : 2 * size],
            weights[..., 2 * size : 5 * size],
        )
        near = weights_of_row(near, number * size)
        parts = [ops.reshape(part, (batch, heads, number * size, size)) for part in (first, last)]
        rows = ops.concatenate([parts[0], near, parts[1]], axis=3)
        if random is not None:
            shape = batch, heads, number, size, self.sparsity.num_random_blocks, size
            drawn = ops.reshape(weights[..., 5 * size :], shape)
            place = ops.one_hot(random, number + 2)  # [n, m, random, blocks]
            drawn = ops.einsum("bnmqrk,nmrj->bnmqjk", drawn, place)
            rows += ops.reshape(drawn, ops.shape(rows))
        first, last = ops.split(outer_weights, 2, axis=2)
        rows = ops.concatenate([first, rows[..., :length], last], axis=2)
        return rows[:, :, :length]

    def get_config(self) -> dict:
        return {**super().get_config(), "sparsity": dataclasses.asdict(self.sparsity)}


def _join_ends(blocks):
    """Concatenates the first and the last block to `[b, n, 1, 2 * size, width]`."""
    return ops.concatenate([blocks[:, :, :1], blocks[:, :, -1:]], axis=3)


def _compute_bias(query_ids, key_ids):
    """Returns the bias that limits attention to tokens of the same example."""
    key_ids = ops.swapaxes(key_ids, -1, -2)
    visible = ops.logical_and(ops.equal(query_ids, key_ids), ops.not_equal(key_ids, 0))
    return ops.where(visible, 0.0, HIDDEN)
