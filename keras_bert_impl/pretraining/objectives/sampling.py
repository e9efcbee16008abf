"""Words sampled from what a language model says, in the places of masked ones."""

import keras
from keras import ops

DRAW_LIMIT = 1 << 24  # of random numbers: a float32 holds every integer below


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
        logits = ops.cast(ops.stop_gradient(logits), "float32")
        sums = ops.cumsum(ops.softmax(logits, axis=-1), axis=-1)
        limit = ops.cast(draws, "float32") / DRAW_LIMIT * sums[..., -1]  # 1, but for rounding
        below = ops.cast(sums <= limit[..., None], token_ids.dtype)
        samples = ops.minimum(ops.sum(below, axis=-1), logits.shape[-1] - 1)
        first = ops.broadcast_to(token_ids[:, :1], ops.shape(positions))
        return write(token_ids, positions, ops.where(positions > 0, samples, first)), samples

    def compute_output_spec(self, token_ids, positions, logits, draws):
        return (
            keras.KerasTensor(token_ids.shape, dtype=token_ids.dtype),
            keras.KerasTensor(positions.shape, dtype=token_ids.dtype),
        )


def write(ids, positions, values):
    """`ids` `[batch, length]` with `values` at `positions`, both `[batch, predictions]`.

    At a position that is named twice, both values must be the same.
    """
    batch, predictions = ops.shape(positions)[0], ops.shape(positions)[1]
    rows = ops.broadcast_to(ops.arange(batch, dtype="int32")[:, None], (batch, predictions))
    places = ops.reshape(ops.stack([rows, positions], axis=-1), (-1, 2))
    return ops.scatter_update(ids, places, ops.reshape(values, (-1,)))
