"""Layout of packed examples in their rows, for all rows of a block at once."""

from collections.abc import Iterable, Sequence

import numpy as np

from keras_bert_impl.pretraining.examples.pairs import Example, TokenBlock
from keras_bert_impl.tokenizers import Tokenizer


def spans_of(examples: Iterable[Example]) -> np.ndarray:
    """Returns the segment bounds: int64 [examples, 4], start and end of the first and second."""
    spans = [(*example.first, *example.second) for example in examples]
    return np.array(spans, np.int64).reshape(-1, 4)


def lengths_of(spans: np.ndarray, num_separators: int) -> np.ndarray:
    """Returns the tokens of each example with special tokens: int64 [examples]."""
    return _parts(spans, num_separators).sum(axis=1)


def lay_out(
    block: TokenBlock,
    spans: np.ndarray,
    labels: Sequence[int],
    packed: Sequence[Sequence[int]],
    length: int,
    max_examples_per_row: int,
    tokenizer: Tokenizer,
) -> dict[str, np.ndarray]:
    """Builds the arrays of records (see `records`) for all rows.

    Returns:
        int32 arrays: `token_ids` [rows, length], and `example_lengths`, `first_lengths` and
        `pair_labels` [rows, max_examples_per_row].
    """
    order = [index for row in packed for index in row]
    row_sizes = np.array([len(row) for row in packed])
    spans = spans[order]
    parts = _parts(spans, tokenizer.num_separators)
    lengths = parts.sum(axis=1)
    first_in_row = np.cumsum(row_sizes) - row_sizes
    row_lengths = np.add.reduceat(lengths, first_in_row)

    token_ids = np.full((len(packed), length), tokenizer.pad_id, np.int32)
    token_ids[np.arange(length) < row_lengths[:, None]] = _tokens(block, spans, parts, tokenizer)
    row_of = np.repeat(np.arange(len(packed)), row_sizes)
    slot = np.arange(len(order)) - np.repeat(first_in_row, row_sizes)

    def by_row(values):
        array = np.zeros((len(packed), max_examples_per_row), np.int32)
        array[row_of, slot] = values
        return array

    return {
        "token_ids": token_ids,
        "example_lengths": by_row(lengths),
        "first_lengths": by_row(np.where(parts[:, 3], parts[:, :3].sum(axis=1), lengths)),
        "pair_labels": by_row(np.array(labels)[order]),
    }


def concatenated_spans(values: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Concatenates the slices of an array that begin at `starts` and have `lengths`."""
    ends = np.cumsum(lengths)
    return values[np.repeat(starts - (ends - lengths), lengths) + np.arange(ends[-1])]


def _parts(spans, num_separators):
    """Returns the tokens of [CLS], first, separators, second, [SEP]: int64 [examples, 5]."""
    first, second = spans[:, 1] - spans[:, 0], spans[:, 3] - spans[:, 2]
    one = np.ones_like(first)
    return np.stack([one, first, num_separators * (second > 0), second, one], axis=1)


def _tokens(block, spans, parts, tokenizer):
    """Returns the concatenated tokens of all examples (int32 array)."""
    special = [tokenizer.cls_id, *[tokenizer.sep_id] * tokenizer.num_separators]
    values = np.concatenate([block.token_ids, special]).astype(np.int32)
    cls, sep = np.full((2, len(spans)), len(block.token_ids)) + [[0], [1]]
    starts = np.stack([cls, spans[:, 0], sep, spans[:, 2], sep], axis=1)
    return concatenated_spans(values, starts.ravel(), parts.ravel())
