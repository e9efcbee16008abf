"""Examples of several input sequences, such as multiple choices or the windows of a long text.

A row is one input sequence of the network. Shape legend: group = number of rows of an example,
including padding rows; windows = number of rows of a text; length = sequence length.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert_impl.data.batches.batching import (
    TokenizedTexts,
    flat_rows,
    in_one,
    least_of,
    padding,
    splits_of,
    static_size,
    tokenize_texts,
)
from keras_bert_impl.data.batches.blocks import blocks
from keras_bert_impl.layers import MergeGroups
from keras_bert_impl.tokenizers import Tokenizer
from keras_bert_impl.tokenizers.inputs import as_strings
from keras_bert_impl.tokenizers.windows import as_other_and_long, in_order, pack_windows
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.one_graph import in_one_graph


@dataclasses.dataclass(frozen=True)
class GroupedTexts:
    """Tokenized examples, each with one or more rows.

    Attributes:
        rows: `TokenizedTexts`, the rows of all examples. If texts are split into windows, each row
            is a text, and `rows` is a `GroupedTexts`.
        splits: int64 tensor [examples + 1]. Example i has rows `splits[i]` to `splits[i + 1]`.
        sizes: possible numbers of rows per example after padding, ascending.
    """

    rows: "TokenizedTexts | GroupedTexts"
    splits: tf.Tensor
    sizes: tuple

    @property
    def num_texts(self) -> int:
        return self.splits.shape[0] - 1

    @property
    def widths(self) -> tuple[int, ...]:
        """Sequence lengths to which rows are padded."""
        return self.rows.widths

    @property
    def pad_id(self) -> int:
        return self.rows.pad_id

    @property
    def longest(self) -> int:
        """Upper limit of `lengths`."""
        return (self.sizes[-1] + 1) * self.rows.longest

    @property
    def lengths(self) -> tf.Tensor:
        """Sort keys, int32 [examples]: first the number of rows, then the longest row."""
        return _compute_lengths(self.rows.lengths, self.splits, longest=self.rows.longest)

    def features(self, numbers: tf.Tensor) -> dict[str, tf.Tensor]:
        """Computes the features of a batch.

        Args:
            numbers: int64 [batch]. Indices of examples.

        Returns:
            dict of int32 [batch, group, ..., length]; see `stack_groups`.
        """
        rows, counts = _find_group_rows(self.splits, numbers)
        features = self.rows.features(rows)
        return stack_groups(features, counts, sizes=self.sizes, pad_id=self.pad_id)


@in_one_graph
def _compute_lengths(lengths, splits, *, longest):
    grouped_lengths = tf.RaggedTensor.from_row_splits(lengths, splits, validate=False)
    counts = tf.cast(grouped_lengths.row_lengths(), tf.int32)
    return counts * longest + tf.reduce_max(grouped_lengths, axis=1)


@in_one_graph
def _find_group_rows(splits, numbers):
    begins, ends = tf.gather(splits, numbers), tf.gather(splits, numbers + 1)
    rows = tf.ragged.range(begins, ends, row_splits_dtype=tf.int64).flat_values
    return rows, ends - begins


def grouped(
    rows: TokenizedTexts | GroupedTexts, counts: Any, sizes: Sequence[int] | None = None
) -> GroupedTexts:
    """Groups rows into examples.

    Args:
        counts: list or array of int [examples]. Number of rows of each example, at least one.
    """
    if sizes is None:
        sizes = np.unique(counts).tolist()
        sizes = sizes[-1:] if len(rows.widths) == 1 else sizes
    # The input pipeline runs on the CPU.
    with tf.device("CPU:0"):
        return GroupedTexts(rows, tf.constant(splits_of(counts)), tuple(sizes))


def tokenize_groups(
    examples: Sequence[Sequence], tokenize: Callable[[list], TokenizedTexts | GroupedTexts]
) -> GroupedTexts:
    texts = [text for example in examples for text in example]
    return grouped(tokenize(texts), [len(example) for example in examples])


@in_one_graph
def stack_groups(
    features: dict[str, tf.Tensor], counts: tf.Tensor, *, sizes: Sequence[int], pad_id: int
) -> dict[str, tf.Tensor]:
    """Stacks the features of the rows of each example.

    Args:
        features: dict of int32 [rows of all examples, ..., length].
        counts: int64 [batch]. Number of rows of each example.

    Returns:
        dict of int32 [batch, group, ..., length]. Examples with fewer rows than `group` get padding
        rows, in which `padding_mask` is 0 and all token ids are `pad_id`.
    """
    size = least_of(sizes, tf.reduce_max(tf.pad(counts, [[0, 1]])))  # there may be 0 examples
    place = tf.range(tf.cast(size, tf.int64))[tf.newaxis]  # [1, group]
    is_row = place < counts[:, tf.newaxis]
    begins = tf.cumsum(counts, exclusive=True)[:, tf.newaxis]
    rows = tf.where(is_row, begins + place, 0)  # [batch, group]

    def stack_feature(name, feature):
        is_value = is_row[(..., *[tf.newaxis] * (feature.shape.rank - 1))]
        stack = tf.where(is_value, tf.gather(feature, rows), padding_of(name, pad_id))
        return tf.ensure_shape(stack, [None, static_size(sizes), *feature.shape[1:]])

    return {name: stack_feature(name, feature) for name, feature in features.items()}


def padding_of(name: str, pad_id: int) -> int:
    return pad_id if name == "token_ids" else 0


def merged(groups: dict[str, Any]) -> dict[str, Any]:
    """Reshapes features `[batch, group, ..., length]` to `[batch * group, ..., length]`."""
    merge = MergeGroups()
    return {name: merge(symbol) for name, symbol in groups.items()}


# === Long texts: head and tail, or windows ===


def one_kind(texts: list | tuple | tf.Tensor) -> Any:
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
    """Packs texts; keeps the start and end of texts that are too long.

    Returns:
        Features, dict of int32 [texts, length]; see `Tokenizer.pack`.

    Source: Sun et al. 2019, "How to Fine-Tune BERT for Text Classification?", section 5.3.
    """
    short, long = as_other_and_long(one_kind(texts), long_part)
    ids = tokenizer.tokenize(long)
    room = tf.fill([ids.nrows()], tf.constant(length - 2, tf.int64))
    if short is not None:
        short = tokenizer.tokenize(short)[:, : other_length(tokenizer, length)]
        room -= short.row_lengths() + tokenizer.num_separators
    head = room * 128 // 510 if head_tokens is None else tf.minimum(room, head_tokens)
    is_long = ids.row_lengths() > room
    num_first = tf.where(is_long, head, ids.row_lengths())
    num_last = tf.where(is_long, room - head, 0)
    begins, ends = ids.row_starts(), ids.row_limits()
    heads = tf.ragged.range(begins, begins + num_first, row_splits_dtype=tf.int64)
    tails = tf.ragged.range(ends - num_last, ends, row_splits_dtype=tf.int64)
    shortened = tf.gather(ids.flat_values, tf.concat([heads, tails], axis=1))
    segments = (shortened,) if short is None else in_order(short, shortened, long_part)
    return tokenizer.pack(*segments, length=length)


def other_length(tokenizer: Tokenizer, length: int) -> int:
    """Returns the maximum number of tokens of the short text in a pair with a long text."""
    return (length - 2 - tokenizer.num_separators) // 2


@dataclasses.dataclass(frozen=True)
class DocumentWindows:
    """Splits texts into windows that start `stride` tokens apart.

    Attributes:
        max_length: maximum number of tokens in a window.
        max_windows: maximum number of windows per text; the rest of the text is ignored.
        long_part: see `pack_windows`.
        widths: see `tokenize_texts`.
        counts: possible numbers of windows per text after padding, ascending.
    """

    tokenizer: Tokenizer
    max_length: int
    stride: int
    max_windows: int
    long_part: str
    widths: list[int]
    counts: list[int]

    def tokenize(self, texts: list) -> GroupedTexts:
        counts = []

        def pack_block(block):
            features, block_counts = self._pack_windows(block)
            counts.append(block_counts.numpy())
            return features

        rows = tokenize_texts(texts, self.tokenizer, self.max_length, self.widths, pack_block)
        return grouped(rows, np.concatenate(counts), self.counts)

    def features(self, texts: Any) -> dict[str, tf.Tensor]:
        """Computes features int32 [texts, windows, length].

        Args:
            texts: string tensor [texts], or a tuple of two for pairs.
        """
        features, counts = self._pack_windows(texts)
        length = tf.shape(features["token_ids"])[1]
        paddings = [[0, 0], [0, least_of(self.widths, length) - length]]
        pad_id = self.tokenizer.pad_id

        def pad_rows(name, rows):
            rows = tf.pad(rows, paddings, constant_values=padding_of(name, pad_id))
            return tf.ensure_shape(rows, [None, static_size(self.widths)])

        features = {name: pad_rows(name, rows) for name, rows in features.items()}
        return stack_groups(features, counts, sizes=tuple(self.counts), pad_id=pad_id)

    def _pack_windows(self, texts):
        """Returns features, int32 [windows, length], and windows of each text, int64 [texts]."""
        short = other_length(self.tokenizer, self.max_length)
        packed = pack_windows(
            self.tokenizer, one_kind(texts), self.max_length, self.stride, short, self.long_part
        )
        ones = tf.ones_like(packed.texts)
        counts = tf.math.unsorted_segment_sum(ones, packed.texts, packed.token_starts.nrows())
        begins = tf.cumsum(counts, exclusive=True)
        counts = tf.minimum(counts, self.max_windows)
        indices = tf.ragged.range(begins, begins + counts, row_splits_dtype=tf.int64).flat_values
        return {name: tf.gather(rows, indices) for name, rows in packed.features.items()}, counts


# === Windows, mapped to the tokens of their texts ===


@dataclasses.dataclass(frozen=True)
class TokenizedWindows(TokenizedTexts):
    """Tokenized texts, split into windows; each row is a window.

    Attributes:
        texts: int64 [rows]. Index of the text of each window, ascending.
        tokens: int32 [positions]. Index of the token in the text; -1 for special tokens and for the
            tokens of the first text of a pair.
        has_most_context: bool [positions]. If a token is in several windows, True in the window
            with the most context. The prediction for the token is read from this window.
        text_splits: int64 [texts + 1]. The tokens of text i are at `text_splits[i]` to
            `text_splits[i + 1]` of `token_starts`.
        token_starts, token_ends: int32 [tokens of all texts]. Character offsets in the text.
    """

    texts: np.ndarray
    tokens: np.ndarray
    has_most_context: np.ndarray
    text_splits: np.ndarray
    token_starts: np.ndarray
    token_ends: np.ndarray

    def columns(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns the row and column of each position in the padded features, int64 [positions]."""
        splits = self.row_splits.numpy()
        rows = np.repeat(np.arange(self.num_texts), np.diff(splits))
        return rows, np.arange(splits[-1]) - splits[rows]

    def token_numbers(self) -> np.ndarray:
        """Returns indices in `token_starts`, int64 [positions]; -1 if `tokens` is -1."""
        rows, _ = self.columns()
        numbers = self.text_splits[self.texts[rows]] + self.tokens
        return np.where(self.tokens >= 0, numbers, -1)


def tokenize_windows(
    texts: list,
    tokenizer: Tokenizer,
    max_length: int,
    stride: int,
    first_length: int = 64,
    widths: list[int] | None = None,
) -> TokenizedWindows:
    rows, windows, start = [], [], 0
    for block in blocks(texts):
        packed = pack_windows(tokenizer, one_kind(block), max_length, stride, first_length)
        rows.append(flat_rows(packed.features))
        windows.append(_convert_windows(packed, start))
        start += len(block)
    parts: dict[str, Any] = {
        name: np.concatenate([chunk[name] for chunk in windows]) for name in windows[0]
    }
    parts["text_splits"] = splits_of(parts.pop("text_lengths"))
    return TokenizedWindows(**in_one(rows), **padding(tokenizer, max_length, widths), **parts)


def _convert_windows(windows, first_text):
    tokens, has_most_context = _select_positions(windows)
    return {
        "texts": windows.texts.numpy() + first_text,
        "tokens": tokens.numpy(),
        "has_most_context": has_most_context.numpy(),
        "text_lengths": windows.token_starts.row_lengths().numpy(),
        "token_starts": windows.token_starts.flat_values.numpy(),
        "token_ends": windows.token_ends.flat_values.numpy(),
    }


@in_one_graph
def _select_positions(windows):
    is_real = windows.features["padding_mask"] == 1
    positions = windows.tokens(), windows.has_most_context()
    return tuple(tf.boolean_mask(values, is_real) for values in positions)
