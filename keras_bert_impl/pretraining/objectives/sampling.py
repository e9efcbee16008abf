"""Words sampled from what a language model says, in the places of masked ones."""

import keras
from keras import ops

DRAW_LIMIT = 1 << 24  # of random numbers: a float32 holds every integer below
_BLOCK = 256  # words whose probabilities are added up before it is known which of them is meant


@keras.saving.register_keras_serializable("keras_bert_impl.objectives")
class SampleTokens(keras.layers.Layer):
    """Puts words sampled from logits in the places of masked ones; no gradient passes.

    The word is the first one with which the probabilities of it and those before it exceed the
    random number, as a part of 2²⁴: a number a word, and no noise for each word of the vocabulary.

    Call arguments:
        token_ids: int32 `[batch, length]`.
        positions: int32 `[batch, predictions]`; nothing is put at position 0.
        logits: float32 `[batch, predictions, vocabulary]`.
        draws: int32 `[batch, predictions]`, below 2²⁴.

    Returns:
        (token_ids, samples): int32 `[batch, length]` and `[batch, predictions]`.
    """

    def call(self, token_ids, positions, logits, draws):
        probabilities = ops.softmax(ops.cast(ops.stop_gradient(logits), "float32"), axis=-1)
        samples = _inverse_transform(probabilities, ops.cast(draws, "float32") / DRAW_LIMIT)
        first = ops.broadcast_to(token_ids[:, :1], ops.shape(positions))
        return write(token_ids, positions, ops.where(positions > 0, samples, first)), samples

    def compute_output_spec(self, token_ids, positions, logits, draws):
        return (
            keras.KerasTensor(token_ids.shape, dtype=token_ids.dtype),
            keras.KerasTensor(positions.shape, dtype=token_ids.dtype),
        )


def _inverse_transform(probabilities, parts):
    """The first place up to which more than a part of the whole lies.

    Running sums of a vocabulary take a CPU longer than the softmax: here there is one of blocks, and
    one of the words of the block that is meant.

    Args:
        probabilities: float32 `[batch, predictions, vocabulary]`.
        parts: float32 `[batch, predictions]`, from 0 to 1, without 1.

    Returns:
        int32 `[batch, predictions]`.
    """
    vocabulary_size = probabilities.shape[-1]
    num_blocks = -(-vocabulary_size // _BLOCK)
    padding = num_blocks * _BLOCK - vocabulary_size
    blocks = ops.pad(probabilities, [(0, 0), (0, 0), (0, padding)])
    blocks = ops.reshape(blocks, (-1, num_blocks, _BLOCK))  # [places, blocks, words]

    sums = ops.cumsum(ops.sum(blocks, axis=-1), axis=-1)  # [places, blocks]
    limits = ops.reshape(parts, (-1, 1)) * sums[:, -1:]  # of sums that are 1, but for rounding
    block = _count_up_to(limits, sums)
    before = ops.take_along_axis(sums, ops.maximum(block - 1, 0), axis=-1)
    before = ops.where(block > 0, before, 0.0)
    first_block = num_blocks * ops.arange(ops.shape(blocks)[0], dtype="int32")
    words = ops.take(ops.reshape(blocks, (-1, _BLOCK)), first_block + block[:, 0], axis=0)
    word = _count_up_to(limits, before + ops.cumsum(words, axis=-1))
    samples = ops.minimum(block * _BLOCK + word, vocabulary_size - 1)
    return ops.reshape(samples, ops.shape(parts))


def _count_up_to(limits, sums):
    """int32 `[places, 1]`: how many of the running sums `[places, sums]` are at most the limit; all
    of them by rounding alone, and then one less."""
    count = ops.sum(ops.cast(sums <= limits, "int32"), axis=-1, keepdims=True)
    return ops.minimum(count, sums.shape[-1] - 1)


def write(ids, positions, values):
    """`ids` `[batch, length]` with `values` at `positions`, both `[batch, predictions]`.

    At a position that is named twice, both values must be the same.
    """
    batch, predictions = ops.shape(positions)[0], ops.shape(positions)[1]
    rows = ops.broadcast_to(ops.arange(batch, dtype="int32")[:, None], (batch, predictions))
    places = ops.reshape(ops.stack([rows, positions], axis=-1), (-1, 2))
    return ops.scatter_update(ids, places, ops.reshape(values, (-1,)))
