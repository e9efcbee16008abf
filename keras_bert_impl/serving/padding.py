"""Padding of per-example outputs of varying number, so that the first dimension is the batch."""

import tensorflow as tf

from keras_bert_impl.tokenizers.windows import Windows


def padded(
    flat: dict[str, tf.Tensor], counts: tf.Tensor, **fillings: int | float
) -> dict[str, tf.Tensor]:
    """Groups flat tensors by example and pads them to the largest count; in any graph.

    Args:
        flat: tensors `[all, ...]`, ordered by example.
        counts: int `[batch]`, number of entries of each example.

    Returns:
        Tensors `[batch, most, ...]`.
    """
    return {
        name: tf.RaggedTensor.from_row_lengths(
            values, tf.cast(counts, tf.int64), validate=False
        ).to_tensor(fillings.get(name))
        for name, values in flat.items()
    }


def counts_of(texts: tf.Tensor, num_texts: tf.Tensor) -> tf.Tensor:
    """Counts the entries of each text, int32 [num_texts], from the text number of each entry."""
    return tf.math.unsorted_segment_sum(tf.ones_like(texts, tf.int32), texts, num_texts)


def window_features(
    windows: Windows, pad_id: int, word_firsts: tf.Tensor | None = None
) -> dict[str, tf.Tensor]:
    """Returns the windows of texts in a form for clients.

    Args:
        word_firsts: int32 [words], first tokens of words.

    Returns:
        dict: `num_windows`, int32 `[batch]`; and, int32 `[batch, windows, length]`, the features;
        `token_starts` and `token_ends`, each token's character offsets in the text, -1 for special
        tokens and the first text of a pair; and, with `word_firsts`, `word_mask`, 1 where a word is
        predicted.
    """
    numbers = tf.gather(windows.token_starts.row_splits, windows.texts)[:, tf.newaxis]
    numbers += tf.cast(windows.tokens(), tf.int64)
    is_token = windows.tokens() >= 0
    numbers = tf.where(is_token, numbers, tf.size(windows.token_starts.values, tf.int64))

    def at_tokens(values, otherwise):
        return tf.gather(tf.concat([values, [otherwise]], axis=0), numbers)  # [windows, length]

    flat = {
        **windows.features,
        "token_starts": at_tokens(windows.token_starts.values, -1),
        "token_ends": at_tokens(windows.token_ends.values, -1),
    }
    if word_firsts is not None:
        is_first = first_tokens(word_firsts, tf.size(windows.token_starts.values))
        mask = windows.has_most_context() & at_tokens(is_first, False)
        flat["word_mask"] = tf.cast(mask, tf.int32)
    counts = counts_of(windows.texts, windows.token_starts.nrows())
    fillings = {"token_ids": pad_id, "token_starts": -1, "token_ends": -1}
    return {"num_windows": counts, **padded(flat, counts, **fillings)}


def first_tokens(word_firsts: tf.Tensor, num_tokens: tf.Tensor) -> tf.Tensor:
    """Returns whether each token is in `word_firsts`, int32 [words], -1 for none."""
    indices = tf.where(word_firsts >= 0, word_firsts, num_tokens)
    marked = tf.zeros([num_tokens + 1], tf.bool)
    return tf.tensor_scatter_nd_update(
        marked, indices[:, tf.newaxis], tf.ones_like(indices, tf.bool)
    )[:-1]
