"""Batches of texts sorted by length, for prediction and evaluation.

Shape legend: texts = examples of the whole set.
"""

from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert_impl.tasks.inputs.batching import batch_of, with_features

# Tokens that a CPU computes in the time that one more batch takes, about; see
# docs/decisions/mixed-lengths.md.
_TOKENS_OF_A_BATCH = 128


def sorted_batches(
    tokenized: Any, targets: tuple, batch_size: int, any_shape: bool = False
) -> tuple[tf.data.Dataset, np.ndarray]:
    """Creates batches of all texts, shortest first, which need hardly any padding.

    Args:
        targets: tuple of arrays [texts, ...], may be empty.

    Returns:
        (dataset, order): batches of `(features, *targets)`; int64 array [texts], the original index
        of row i of all batches.
    """
    batches, order = _row_numbers(tokenized, batch_size, any_shape)
    sizes = np.array([len(batch) for batch in batches], "int64")
    ragged = tf.RaggedTensor.from_row_lengths(order, sizes)
    rows = tf.data.Dataset.from_tensor_slices(ragged)
    return with_features(rows, tokenized, targets), order


def list_of_batches(
    tokenized: Any, batch_size: int, any_shape: bool = False
) -> tuple[list[tuple], np.ndarray]:
    """Same as `sorted_batches` without targets, as a list."""
    batches, order = _row_numbers(tokenized, batch_size, any_shape)
    return [batch_of(tokenized, (), tf.constant(batch)) for batch in batches], order


def _row_numbers(tokenized, batch_size, any_shape):
    """Returns the texts of each batch, a list of int64 arrays, and all of them in one array."""
    lengths = tokenized.lengths.numpy()
    order = np.argsort(lengths, kind="stable")
    ends = np.arange(batch_size, len(order), batch_size)
    if any_shape:
        ends = _ends_by_padding(lengths[order], batch_size)
    return np.split(order, ends) if len(order) else [], order


def _ends_by_padding(lengths, batch_size):
    """Returns where batches of ascending lengths end, but the last: where they are full, or padding
    them to the next length would take longer than another batch."""
    ends, start, total = [], 0, 0
    for end, length in enumerate(lengths.tolist()):
        size = end - start
        if size and (size == batch_size or size * length - total > _TOKENS_OF_A_BATCH):
            ends.append(end)
            start, total = end, 0
        total += length
    return ends
