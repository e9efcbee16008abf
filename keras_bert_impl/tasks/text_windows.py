"""Texts that are longer than a row: their head and tail, or all of them in windows.

Shape legend: texts = examples; windows = rows of one text; length = tokens of a row.
"""

import dataclasses

import numpy as np
import tensorflow as tf

from keras_bert_impl.errors import InputError
from keras_bert_impl.tasks.batching import (
    CHUNK,
    TokenizedTexts,
    as_list,
    flat_rows,
    in_one,
    padding,
    splits_of,
)
from keras_bert_impl.tokenizers.tokenizer import as_strings
from keras_bert_impl.tokenizers.windows import pack_windows

POOLINGS = ("mean", "max", "attention")
LONG_TEXTS = ("truncate", "head_tail", *POOLINGS)


def one_kind(texts):
    """A string tensor [texts], or a tuple of two, of texts that are all single or all pairs.

    Args:
        texts: list of str and (first, second) tuples; or what is to be returned.

    Raises:
        InputError: single texts and pairs in one batch.
    """
    if isinstance(texts, tuple) or tf.is_tensor(texts):
        return texts
    is_pair = {isinstance(text, tuple) for text in texts}
    if len(is_pair) > 1:
        raise InputError("long texts must be all single, or all pairs.")
    if True not in is_pair:
        return as_strings(texts)
    first, second = zip(*texts)
    return as_strings(list(first)), as_strings(list(second))


def pack_head_and_tail(tokenizer, texts, length, head_tokens=None):
    """Rows of texts of which, where they are too long, the middle is left out.

    Of a pair the first is cut to half of the row, and the second has the rest.

    Args:
        tokenizer: `Tokenizer`.
        texts: as of `one_kind`.
        length: int, the tokens of a row.
        head_tokens: int. So many tokens are from the beginning, the others from the end. Default:
            128 of 510, or as large a share.

    Returns:
        dict of int32 [texts, length], as a `Tokenizer` returns it; eagerly and in any graph.

    Source: Sun et al. 2019, "How to Fine-Tune BERT for Text Classification?", section 5.3.
    """
    texts = one_kind(texts)
    first, long = texts if isinstance(texts, tuple) else (None, texts)
    ids = tokenizer.tokenize(long)
    room = tf.fill([ids.nrows()], tf.constant(length - 2, tf.int64))
    if first is not None:
        first = tokenizer.tokenize(first)[:, : first_length(tokenizer, length)]
        room -= first.row_lengths() + tokenizer.num_separators
    head = room * 128 // 510 if head_tokens is None else tf.minimum(room, head_tokens)
    is_long = ids.row_lengths() > room
    num_first = tf.where(is_long, head, ids.row_lengths())
    num_last = tf.where(is_long, room - head, 0)
    begins, ends = ids.row_starts(), ids.row_limits()
    heads = tf.ragged.range(begins, begins + num_first, row_splits_dtype=tf.int64)
    tails = tf.ragged.range(ends - num_last, ends, row_splits_dtype=tf.int64)
    kept = tf.gather(ids.flat_values, tf.concat([heads, tails], axis=1))
    return tokenizer.pack(*((kept,) if first is None else (first, kept)), length=length)


def first_length(tokenizer, length):
    """int. Tokens that the first text of a pair may have, of a row of so many: half of its room."""
    return (length - 2 - tokenizer.num_separators) // 2


def document_windows(tokenizer, texts, length, stride, max_windows):
    """The windows of texts; eagerly and in any graph.

    Of a pair, windows slide over the second, beside the first, which is cut to half of the row.

    Args:
        tokenizer: `Tokenizer`.
        texts: as of `one_kind`.
        length: int, the most tokens of a window.
        stride: int, tokens from the start of one window to that of the next.
        max_windows: int. What is behind the first so many windows of a text is left out.

    Returns:
        (features, counts): dict of int32 [windows of all texts, length]; int64 [texts], how many
        are of each.
    """
    short = first_length(tokenizer, length)
    made = pack_windows(tokenizer, one_kind(texts), length, stride, short)
    ones = tf.ones_like(made.texts)
    counts = tf.math.unsorted_segment_sum(ones, made.texts, made.token_starts.nrows())
    begins = tf.cumsum(counts, exclusive=True)
    counts = tf.minimum(counts, max_windows)
    kept = tf.ragged.range(begins, begins + counts, row_splits_dtype=tf.int64).flat_values
    return {name: tf.gather(rows, kept) for name, rows in made.features.items()}, counts


def stack_windows(features, counts, num_windows, pad_id):
    """Windows [windows of all texts, length] as [texts, num_windows, length], padded.

    Args:
        features, counts: as of `document_windows`.
        num_windows: int or int scalar, no less than the largest of `counts`.
        pad_id: int.
    """
    place = tf.range(tf.cast(num_windows, tf.int64))[tf.newaxis]  # [1, num_windows]
    is_real = place < counts[:, tf.newaxis]
    begins = tf.cumsum(counts, exclusive=True)[:, tf.newaxis]
    rows = tf.where(is_real, begins + place, 0)  # [texts, num_windows]
    return {
        name: tf.where(
            is_real[:, :, tf.newaxis],
            tf.gather(feature, rows),
            _padding_of(name, pad_id),
        )
        for name, feature in features.items()
    }


def least_of(allowed, needed):
    """The least of some numbers, a list in ascending order, that is not below another one."""
    allowed = tf.constant(allowed)
    needed = tf.cast(needed, allowed.dtype)
    return allowed[tf.searchsorted(allowed, needed[tf.newaxis])[0]]


def window_features(
    texts, tokenizer, max_length, stride, max_windows, widths, window_counts
):
    """dict of int32 [texts, windows, length] of a batch; eagerly and in any graph.

    Args:
        texts: string tensor [texts], or a tuple of two for pairs.
        The others are those of `tokenize_documents`.
    """
    features, counts = document_windows(tokenizer, texts, max_length, stride, max_windows)
    length = tf.shape(features["token_ids"])[1]
    more = least_of(widths, length) - length
    features = {
        name: tf.pad(rows, [[0, 0], [0, more]], constant_values=_padding_of(name, tokenizer.pad_id))
        for name, rows in features.items()
    }
    most = least_of(window_counts, tf.reduce_max(tf.pad(counts, [[0, 1]])))
    return stack_windows(features, counts, most, tokenizer.pad_id)


def _padding_of(name, pad_id):
    return pad_id if name == "token_ids" else 0


@dataclasses.dataclass(frozen=True)
class TokenizedDocuments(TokenizedTexts):
    """`TokenizedTexts` whose rows are windows and whose texts are several of those.

    Attributes:
        window_splits: int64 [texts + 1]: the windows of text i are the rows from
            `window_splits[i]` to `window_splits[i + 1]`.
        window_counts: tuple of int, ascending: the numbers of windows that a batch may be padded
            to.
    """

    window_splits: tf.Tensor
    window_counts: tuple

    @property
    def num_texts(self):
        return self.window_splits.shape[0] - 1

    @property
    def lengths(self):
        """int32 [texts]: tokens of all windows of each text."""
        ends = tf.gather(self.row_splits, self.window_splits)
        return tf.cast(ends[1:] - ends[:-1], tf.int32)

    def features(self, rows):
        """As of `TokenizedTexts`, int32 [rows, windows, length]."""
        begins = tf.gather(self.window_splits, rows)
        ends = tf.gather(self.window_splits, rows + 1)
        windows = tf.ragged.range(begins, ends, row_splits_dtype=tf.int64).flat_values
        features = super().features(windows)
        counts = ends - begins
        most = least_of(self.window_counts, tf.reduce_max(counts))
        stacked = stack_windows(features, counts, most, self.pad_id)
        static = self.window_counts[0] if len(self.window_counts) == 1 else None
        length = features["token_ids"].shape[1]
        return {n: tf.ensure_shape(f, [None, static, length]) for n, f in stacked.items()}


def tokenize_documents(
    texts, tokenizer, max_length, stride, max_windows, widths=None, window_counts=None
):
    """Tokenizes texts once, in graph, a chunk at a time.

    Args:
        texts: as `as_list` takes them.
        tokenizer, stride, max_windows: as of `document_windows`.
        max_length: int, the most tokens of a window.
        widths: list of int, as of `tokenize_texts`.
        window_counts: list of int, ascending: numbers of windows to pad batches to; default any up
            to `max_windows`.

    Returns:
        `TokenizedDocuments`.
    """
    texts = as_list(texts)
    rows, counts = [], []
    for start in range(0, max(len(texts), 1), CHUNK):
        chunk = texts[start : start + CHUNK]
        features, of_chunk = document_windows(tokenizer, chunk, max_length, stride, max_windows)
        rows.append(flat_rows(features))
        counts.append(of_chunk.numpy())
    with tf.device("CPU:0"):
        window_splits = tf.constant(splits_of(np.concatenate(counts)))
    return TokenizedDocuments(
        **in_one(rows),
        **padding(tokenizer, max_length, widths),
        window_splits=window_splits,
        window_counts=tuple(window_counts or range(1, max_windows + 1)),
    )
