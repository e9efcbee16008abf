"""Sampling of replacement tokens from the predictions of a language model."""

from typing import Any

import keras
from keras import ops

Tensor = Any
DRAW_LIMIT = 1 << 24  # exclusive limit of random numbers: float32 represents all integers below
_BLOCK = 256  # tokens of a block of the two-level cumulative sum


@keras.saving.register_keras_serializable("keras_bert_impl.objectives")
class SampleTokens(keras.layers.Layer):
    """Replaces masked tokens by tokens sampled from logits, without gradient.

    Returns:
        (token_ids, samples): int32 `[batch, length]` and `[batch, predictions]`.
    """

    def call(
        self, token_ids: Tensor, positions: Tensor, logits: Tensor, draws: Tensor
    ) -> tuple[Tensor, Tensor]:
        probabilities = ops.softmax(ops.cast(ops.stop_gradient(logits), "float32"), axis=-1)
        samples = _inverse_transform(probabilities, ops.cast(draws, "float32") / DRAW_LIMIT)
        first = ops.broadcast_to(token_ids[:, :1], ops.shape(positions))
        return write(token_ids, positions, ops.where(positions > 0, samples, first)), samples

    def compute_output_spec(
        self, token_ids: Tensor, positions: Tensor, logits: Tensor, draws: Tensor
    ) -> tuple[keras.KerasTensor, keras.KerasTensor]:
        return (
            keras.KerasTensor(token_ids.shape, dtype=token_ids.dtype),
            keras.KerasTensor(positions.shape, dtype=token_ids.dtype),
        )


def _inverse_transform(probabilities, parts):
    """Returns the first index at which the cumulative probability exceeds a fraction of the total."""
    vocabulary_size = probabilities.shape[-1]
    num_blocks = -(-vocabulary_size // _BLOCK)
    padding = num_blocks * _BLOCK - vocabulary_size
    blocks = ops.pad(probabilities, [(0, 0), (0, 0), (0, padding)])
    blocks = ops.reshape(blocks, (-1, num_blocks, _BLOCK))  # [places, blocks, words]

    sums = ops.cumsum(ops.sum(blocks, axis=-1), axis=-1)  # [places, blocks]
    limits = ops.reshape(parts, (-1, 1)) * sums[:, -1:]  # the total is 1 up to rounding
    block = _count_up_to(limits, sums)
    before = ops.take_along_axis(sums, ops.maximum(block - 1, 0), axis=-1)
    before = ops.where(block > 0, before, 0.0)
    first_block = num_blocks * ops.arange(ops.shape(blocks)[0], dtype="int32")
    words = ops.take(ops.reshape(blocks, (-1, _BLOCK)), first_block + block[:, 0], axis=0)
    word = _count_up_to(limits, before + ops.cumsum(words, axis=-1))
    samples = ops.minimum(block * _BLOCK + word, vocabulary_size - 1)
    return ops.reshape(samples, ops.shape(parts))


def _count_up_to(limits, sums):
    """Counts the cumulative sums `[places, sums]` that are at most the limit: int32 `[places, 1]`."""
    count = ops.sum(ops.cast(sums <= limits, "int32"), axis=-1, keepdims=True)
    return ops.minimum(count, sums.shape[-1] - 1)


def write(ids: Tensor, positions: Tensor, values: Tensor) -> Tensor:
    """Returns `ids` `[batch, length]` with `values` at `positions`, both `[batch, predictions]`."""
    batch, predictions = ops.shape(positions)[0], ops.shape(positions)[1]
    rows = ops.broadcast_to(ops.arange(batch, dtype="int32")[:, None], (batch, predictions))
    places = ops.reshape(ops.stack([rows, positions], axis=-1), (-1, 2))
    return ops.scatter_update(ids, places, ops.reshape(values, (-1,)))
