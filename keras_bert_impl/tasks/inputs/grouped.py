"""Examples of several rows each: choices, texts to compare, windows of a long text.

Shape legend: group = rows of an example, including padding rows; length = tokens of a row.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert_impl.layers import MergeGroups
from keras_bert_impl.one_graph import in_one_graph
from keras_bert_impl.tasks.inputs.batching import TokenizedTexts, least_of, splits_of, static_size


@dataclasses.dataclass(frozen=True)
class GroupedTexts:
    """Examples of one or more rows that stay together in a batch; for `batching`.

    Attributes:
        rows: `TokenizedTexts`, the concatenated rows of all examples; or `GroupedTexts` if each
            row has windows.
        splits: int64 tensor [examples + 1]. Example i has the rows from `splits[i]` to
            `splits[i + 1]`, at least one.
        sizes: the group sizes that a batch may be padded to, ascending.
    """

    rows: "TokenizedTexts | GroupedTexts"
    splits: tf.Tensor
    sizes: tuple

    @property
    def num_texts(self) -> int:
        """Number of examples."""
        return self.splits.shape[0] - 1

    @property
    def widths(self) -> tuple[int, ...]:
        """Widths of the rows."""
        return self.rows.widths

    @property
    def pad_id(self) -> int:
        """Pad id of the rows."""
        return self.rows.pad_id

    @property
    def longest(self) -> int:
        """Upper limit of `lengths`."""
        return (self.sizes[-1] + 1) * self.rows.longest

    @property
    def lengths(self) -> tf.Tensor:
        """int32 [examples]. Sort key for batches with the least padding: first the number of rows,
        then the length of the longest one."""
        return _lengths_of_groups(self.rows.lengths, self.splits, longest=self.rows.longest)

    def features(self, numbers: tf.Tensor) -> dict[str, tf.Tensor]:
        """Computes the features of a batch, in eager mode and in any graph.

        Args:
            numbers: int64 [batch]. Indices of examples.

        Returns:
            dict of int32 [batch, group, ..., length]; see `stack_groups`.
        """
        rows, counts = _rows_of_groups(self.splits, numbers)
        features = self.rows.features(rows)
        return stack_groups(features, counts, sizes=self.sizes, pad_id=self.pad_id)


@in_one_graph
def _lengths_of_groups(lengths, splits, *, longest):
    """Returns the sort key of groups; see `GroupedTexts.lengths`."""
    of_rows = tf.RaggedTensor.from_row_splits(lengths, splits, validate=False)
    counts = tf.cast(of_rows.row_lengths(), tf.int32)
    return counts * longest + tf.reduce_max(of_rows, axis=1)


@in_one_graph
def _rows_of_groups(splits, numbers):
    """Returns the rows of the groups with these numbers, and how many each has."""
    begins, ends = tf.gather(splits, numbers), tf.gather(splits, numbers + 1)
    rows = tf.ragged.range(begins, ends, row_splits_dtype=tf.int64).flat_values
    return rows, ends - begins


def grouped(
    rows: TokenizedTexts | GroupedTexts, counts: Any, sizes: Sequence[int] | None = None
) -> GroupedTexts:
    """Groups rows to `GroupedTexts`.

    Args:
        counts: list or array of int [examples]. Number of rows of each example, at least one.
    """
    if sizes is None:
        sizes = np.unique(counts).tolist()
        sizes = sizes[-1:] if len(rows.widths) == 1 else sizes
    # On the CPU, because the input pipeline reads them, regardless of the model's device.
    with tf.device("CPU:0"):
        return GroupedTexts(rows, tf.constant(splits_of(counts)), tuple(sizes))


def tokenize_groups(
    examples: Sequence[Sequence], tokenize: Callable[[list], TokenizedTexts | GroupedTexts]
) -> GroupedTexts:
    """Tokenizes examples of several texts each, once."""
    texts = [text for example in examples for text in example]
    return grouped(tokenize(texts), [len(example) for example in examples])


@in_one_graph
def stack_groups(
    features: dict[str, tf.Tensor], counts: tf.Tensor, *, sizes: Sequence[int], pad_id: int
) -> dict[str, tf.Tensor]:
    """Stacks the features of rows by example, in eager mode and in any graph.

    Args:
        features: dict of int32 [rows of all examples, ..., length].
        counts: int64 [batch]. Number of rows of each example.

    Returns:
        dict of int32 [batch, group, ..., length]. Missing rows of an example are all padding:
        `padding_mask` is 0, ids are `pad_id`.
    """
    size = least_of(sizes, tf.reduce_max(tf.pad(counts, [[0, 1]])))  # 0 without examples
    place = tf.range(tf.cast(size, tf.int64))[tf.newaxis]  # [1, group]
    is_row = place < counts[:, tf.newaxis]
    begins = tf.cumsum(counts, exclusive=True)[:, tf.newaxis]
    rows = tf.where(is_row, begins + place, 0)  # [batch, group]

    def stacked(name, feature):
        place_of = is_row[(..., *[tf.newaxis] * (feature.shape.rank - 1))]
        stack = tf.where(place_of, tf.gather(feature, rows), padding_of(name, pad_id))
        return tf.ensure_shape(stack, [None, static_size(sizes), *feature.shape[1:]])

    return {name: stacked(name, feature) for name, feature in features.items()}


def padding_of(name: str, pad_id: int) -> int:
    """Padding value of a feature, one of `FEATURES`."""
    return pad_id if name == "token_ids" else 0


def merged(groups: dict[str, Any]) -> dict[str, Any]:
    """Merges groups to their rows: dict by name, `[batch * group, ..., length]`."""
    merge = MergeGroups()
    return {name: merge(symbol) for name, symbol in groups.items()}
