"""Overlapping windows over long texts, for training and exported graphs."""

from typing import Any, NamedTuple

import tensorflow as tf

from keras_bert_impl.tokenizers.graphs import numbers_of
from keras_bert_impl.tokenizers.inputs import pack_segments
from keras_bert_impl.tokenizers.tokenizer import Tokenizer
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.one_graph import in_one_graph


class Windows(NamedTuple):
    """The windows of a batch of texts, in the order of the texts. Every text has a window.

    Attributes:
        features: int32 [windows, length], in the format of a `Tokenizer`.
        texts: int64 [windows], the index of each window's text in the batch.
        starts: int32 [windows], the index in the text of the window's first token.
        columns: int32 [windows], the position in the window of the first token of the text.
        counts: int32 [windows], the number of tokens of the text in the window.
        token_starts, token_ends: int32 ragged [texts, (tokens)], the character offsets of each
            token in its text.
    """

    features: dict[str, tf.Tensor]
    texts: tf.Tensor
    starts: tf.Tensor
    columns: tf.Tensor
    counts: tf.Tensor
    token_starts: tf.RaggedTensor
    token_ends: tf.RaggedTensor

    def tokens(self) -> tf.Tensor:
        """Returns each token's index in its text, int32 [windows, length].

        The index is -1 for special tokens, for padding, and for the text of a pair that is not
        split into windows.
        """
        places = tf.range(tf.shape(self.features["token_ids"])[1])[tf.newaxis, :]
        within = places - self.columns[:, tf.newaxis]
        is_token = (within >= 0) & (within < self.counts[:, tf.newaxis])
        return tf.where(is_token, self.starts[:, tf.newaxis] + within, -1)

    def has_most_context(self) -> tf.Tensor:
        """Returns bool [windows, length]: whether a token has its most context in this window.

        If a token is in several windows, exactly one of its entries is True. Source: the published
        code of BERT, `run_squad.py`.
        """
        tokens = self.tokens()
        is_token = tokens >= 0
        before = tokens - self.starts[:, tf.newaxis]
        after = self.counts[:, tf.newaxis] - 1 - before
        score = 100 * tf.minimum(before, after) + self.counts[:, tf.newaxis]
        # On a tie, the first window in order is chosen.
        num_windows = tf.size(self.texts, tf.int64)
        score = tf.cast(score, tf.int64) * num_windows
        score += num_windows - 1 - tf.range(num_windows)[:, tf.newaxis]
        first_tokens = tf.gather(self.token_starts.row_splits, self.texts)[:, tf.newaxis]
        numbers = tf.cast(tokens, tf.int64) + first_tokens  # [windows, length], index in the batch
        # The additional segment is needed if a batch has no tokens.
        best = tf.math.unsorted_segment_max(
            tf.where(is_token, score, -1),
            tf.where(is_token, numbers, -1),
            tf.size(self.token_starts.flat_values, tf.int64) + 1,
        )
        return is_token & (score == tf.gather(best, tf.where(is_token, numbers, 0)))


def window_spans(
    lengths: tf.Tensor, room: tf.Tensor, stride: int
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Computes overlapping spans that cover each text.

    Args:
        lengths: int64 [texts], the number of tokens in each text.
        room: int64 [texts], the maximum span length in tokens, at least 1.

    Returns:
        (texts, starts, ends), int64 [spans].
    """
    step = tf.minimum(tf.cast(stride, tf.int64), room)
    excess = tf.maximum(lengths - room, 0)
    counts = 1 + (excess + step - 1) // step
    texts = numbers_of(counts)
    first = tf.gather(tf.cumsum(counts, exclusive=True), texts)  # index of each text's first span
    starts = (tf.range(tf.size(texts, tf.int64)) - first) * tf.gather(step, texts)
    ends = tf.minimum(starts + tf.gather(room, texts), tf.gather(lengths, texts))
    return texts, starts, ends


def pack_windows(
    tokenizer: Tokenizer,
    texts: tf.Tensor | tuple[tf.Tensor, tf.Tensor],
    length: int,
    stride: int,
    other_length: int = 64,
    long_part: str = "second",
) -> Windows:
    """Splits texts, or the long texts of pairs, into windows. Can be called in any graph.

    Args:
        texts: string tensor [batch], or a tuple of two, such as questions and passages.
    """
    other_texts, long_texts = as_other_and_long(texts, long_part)
    specials = 2 if other_texts is None else 2 + tokenizer.num_separators
    least = length - specials - (0 if other_texts is None else other_length)
    if least < 1 or stride < 1:
        raise InputError(
            f"windows of {length} tokens with a stride of {stride} have no room for the text. Use "
            "a larger max_length, a smaller question_length, or a doc_stride of at least 1."
        )
    return _pack_tokens(
        *tokenizer.tokenize_with_offsets(long_texts),
        None if other_texts is None else tokenizer.tokenize(other_texts),
        room=length - specials,
        other_length=other_length,
        stride=stride,
        long_part=long_part,
        **tokenizer.packing,
    )


@in_one_graph
def _pack_tokens(
    ids, token_starts, token_ends, other_ids, *, room, other_length, stride, long_part, **packing
):
    """Returns the `Windows` of tokenized texts, with at most `room` tokens of the text or pair."""
    rooms = tf.fill([ids.nrows()], tf.constant(room, tf.int64))
    if other_ids is not None:
        other_ids = other_ids[:, :other_length]
        rooms -= other_ids.row_lengths()
    texts, starts, ends = window_spans(ids.row_lengths(), rooms, stride)
    begins = tf.gather(ids.row_starts(), texts)
    numbers = tf.ragged.range(begins + starts, begins + ends, row_splits_dtype=tf.int64)
    window_ids = tf.gather(ids.flat_values, numbers.flat_values)
    windows = tf.RaggedTensor.from_row_splits(window_ids, numbers.row_splits, validate=False)
    columns = tf.fill([tf.size(texts)], 1)
    segments: tuple[tf.RaggedTensor, ...] = (windows,)
    if other_ids is not None:
        segments = in_order(tf.gather(other_ids, texts), windows, long_part)
    if other_ids is not None and long_part == "second":
        columns = tf.cast(segments[0].row_lengths(), tf.int32) + 1 + packing["num_separators"]
    return Windows(
        pack_segments(*segments, **packing),
        texts,
        tf.cast(starts, tf.int32),
        columns,
        tf.cast(ends - starts, tf.int32),
        token_starts,
        token_ends,
    )


def as_other_and_long(texts: Any, long_part: str) -> tuple[Any, Any]:
    """Returns (texts that stay whole, or None; texts that are split into windows)."""
    if not isinstance(texts, tuple):
        return None, texts
    return texts if long_part == "second" else texts[::-1]


def in_order(other: Any, long: Any, long_part: str) -> tuple[Any, Any]:
    """Reverses `as_other_and_long` for pairs. Returns (first texts, second texts)."""
    return (other, long) if long_part == "second" else (long, other)
