"""Micro-batches of a step on JAX.

Micro-batch i of n has every n-th row, starting from row i. A device that holds some of the rows
therefore holds some of every micro-batch.
"""

from collections.abc import Callable
from typing import Any

import jax


def over_micro_batches(add: Callable, sums: Any, batch: Any, count: int) -> Any:
    """Calls `sums = add(sums, rows, index)` for each micro-batch, and returns the last sums.

    Args:
        batch: nest of arrays `[batch, ...]`.
    """
    num_rows = jax.tree.leaves(batch)[0].shape[0]
    if count > 1 and num_rows % count == 0:
        split = jax.tree.map(lambda leaf: _split(leaf, count), batch)
        parts = split, jax.numpy.arange(count)
        return jax.lax.scan(lambda sums, part: (add(sums, *part), None), sums, parts)[0]
    for index in range(min(count, num_rows)):
        sums = add(sums, _every(batch, index, count), index)
    return sums


def of_micro_batches(function: Callable, batch: Any, count: int) -> Any:
    """Returns the outputs `[batch, ...]` of `function(rows, index)` for the rows of a batch."""
    num_rows = jax.tree.leaves(batch)[0].shape[0]
    if num_rows % count == 0:
        split = jax.tree.map(lambda leaf: _split(leaf, count), batch)
        found = jax.lax.map(lambda part: function(*part), (split, jax.numpy.arange(count)))
        return found.swapaxes(0, 1).reshape(num_rows, *found.shape[2:])
    outputs = None
    for index in range(min(count, num_rows)):
        found = function(_every(batch, index, count), index)
        if outputs is None:
            outputs = jax.numpy.zeros((num_rows, *found.shape[1:]), found.dtype)
        outputs = outputs.at[index::count].set(found)
    return outputs


def _split(rows, count):
    return rows.reshape(-1, count, *rows.shape[1:]).swapaxes(0, 1)


def _every(batch, first, count):
    return jax.tree.map(lambda leaf: leaf[first::count], batch)
