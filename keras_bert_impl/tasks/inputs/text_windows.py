"""Texts longer than a row: keeps their head and tail, or splits them into windows.

Shape legend: texts = examples; windows = rows of one text; length = tokens of a row.
"""

import dataclasses
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.tasks.inputs.batching import least_of, static_size, tokenize_texts
from keras_bert_impl.tasks.inputs.grouped import GroupedTexts, grouped, padding_of, stack_groups
from keras_bert_impl.tokenizers import Tokenizer
from keras_bert_impl.tokenizers.texts import as_strings
from keras_bert_impl.tokenizers.windows import as_other_and_long, in_order, pack_windows


def one_kind(texts: list | tuple | tf.Tensor) -> Any:
    """Converts texts that are all single or all pairs to a string tensor [texts] or a tuple of two."""
    if isinstance(texts, tuple) or tf.is_tensor(texts):
        return texts
    is_pair = {isinstance(text, tuple) for text in texts}
    if len(is_pair) > 1:
        raise InputError("long texts must be either all single texts or all pairs.")
    if True not in is_pair:
        return as_strings(texts)
    first, second = zip(*texts)
    return as_strings(list(first)), as_strings(list(second))


def pack_head_and_tail(
    tokenizer: Tokenizer,
    texts: Any,
    length: int,
    head_tokens: int | None = None,
    long_part: str = "second",
) -> dict[str, tf.Tensor]:
    """Packs texts into rows; leaves out the middle of texts that are too long.

    Returns:
        dict of int32 [texts, length], as returned by a `Tokenizer`; in eager mode and in any graph.

    Source: Sun et al. 2019, "How to Fine-Tune BERT for Text Classification?", section 5.3.
    """
    other, long = as_other_and_long(one_kind(texts), long_part)
    ids = tokenizer.tokenize(long)
    room = tf.fill([ids.nrows()], tf.constant(length - 2, tf.int64))
    if other is not None:
        other = tokenizer.tokenize(other)[:, : other_length(tokenizer, length)]
        room -= other.row_lengths() + tokenizer.num_separators
    head = room * 128 // 510 if head_tokens is None else tf.minimum(room, head_tokens)
    is_long = ids.row_lengths() > room
    num_first = tf.where(is_long, head, ids.row_lengths())
    num_last = tf.where(is_long, room - head, 0)
    begins, ends = ids.row_starts(), ids.row_limits()
    heads = tf.ragged.range(begins, begins + num_first, row_splits_dtype=tf.int64)
    tails = tf.ragged.range(ends - num_last, ends, row_splits_dtype=tf.int64)
    kept = tf.gather(ids.flat_values, tf.concat([heads, tails], axis=1))
    segments = (kept,) if other is None else in_order(other, kept, long_part)
    return tokenizer.pack(*segments, length=length)


def other_length(tokenizer: Tokenizer, length: int) -> int:
    """Maximum tokens of the other text of a pair: half of a row of `length` tokens."""
    return (length - 2 - tokenizer.num_separators) // 2


@dataclasses.dataclass(frozen=True)
class DocumentWindows:
    """Splits texts into windows that start `stride` tokens apart.

    Attributes:
        max_length: maximum tokens of a window.
        max_windows: maximum number of windows per text; the rest of the text is left out.
        long_part: see `pack_windows`.
        widths: see `tokenize_texts`.
        counts: the window counts that batches may be padded to, ascending, up to `max_windows`.
    """

    tokenizer: Tokenizer
    max_length: int
    stride: int
    max_windows: int
    long_part: str
    widths: list[int]
    counts: list[int]

    def tokenize(self, texts: list) -> GroupedTexts:
        """Tokenizes texts once, in graph mode, block by block."""
        counts = []

        def windows(block):
            features, of_block = self._windows(block)
            counts.append(of_block.numpy())
            return features

        rows = tokenize_texts(texts, self.tokenizer, self.max_length, self.widths, windows)
        return grouped(rows, np.concatenate(counts), self.counts)

    def features(self, texts: Any) -> dict[str, tf.Tensor]:
        """Computes int32 [texts, windows, length] features of a batch, eagerly and in any graph.

        Args:
            texts: string tensor [texts], or a tuple of two for pairs.
        """
        features, counts = self._windows(texts)
        length = tf.shape(features["token_ids"])[1]
        more = [[0, 0], [0, least_of(self.widths, length) - length]]
        pad_id = self.tokenizer.pad_id

        def padded(name, rows):
            rows = tf.pad(rows, more, constant_values=padding_of(name, pad_id))
            return tf.ensure_shape(rows, [None, static_size(self.widths)])

        features = {name: padded(name, rows) for name, rows in features.items()}
        return stack_groups(features, counts, sizes=tuple(self.counts), pad_id=pad_id)

    def _windows(self, texts):
        """Returns (dict of int32 [windows of all texts, length], window counts int64 [texts])."""
        short = other_length(self.tokenizer, self.max_length)
        made = pack_windows(
            self.tokenizer, one_kind(texts), self.max_length, self.stride, short, self.long_part
        )
        ones = tf.ones_like(made.texts)
        counts = tf.math.unsorted_segment_sum(ones, made.texts, made.token_starts.nrows())
        begins = tf.cumsum(counts, exclusive=True)
        counts = tf.minimum(counts, self.max_windows)
        kept = tf.ragged.range(begins, begins + counts, row_splits_dtype=tf.int64).flat_values
        return {name: tf.gather(rows, kept) for name, rows in made.features.items()}, counts
