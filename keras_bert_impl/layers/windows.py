"""Blocked computation of local (windowed) attention, linear instead of quadratic in the length.

A row is split into blocks of `window` tokens. A token then attends only to tokens in its own block
and the two neighboring ones.
"""

from typing import Any

from keras import ops

Tensor = Any  # of any Keras backend


def in_blocks(tensor: Tensor, size: int) -> Tensor:
    """Splits `[batch, heads, length, width]` into `[batch, heads, blocks, size, width]`."""
    batch, heads, length, width = ops.shape(tensor)
    filling = ops.zeros((batch, heads, -length % size, width), tensor.dtype)
    tensor = ops.concatenate([tensor, filling], axis=2)
    return ops.reshape(tensor, (batch, heads, -1, size, width))


def with_neighbors(blocks: Tensor) -> Tensor:
    """Concatenates each block with its neighbors: `[batch, heads, blocks, 3 * size, width]`."""
    nothing = ops.zeros_like(blocks[:, :, :1])
    before = ops.concatenate([nothing, blocks[:, :, :-1]], axis=2)
    after = ops.concatenate([blocks[:, :, 1:], nothing], axis=2)
    return ops.concatenate([before, blocks, after], axis=3)


def from_blocks(blocks: Tensor, length: Tensor) -> Tensor:
    """Inverts `in_blocks`: returns `[batch, heads, length, width]`."""
    batch, heads, _, _, width = ops.shape(blocks)
    return ops.reshape(blocks, (batch, heads, -1, width))[:, :, :length]


def weights_of_row(weights: Tensor, length: Tensor) -> Tensor:
    """Converts blocked attention weights to full rows."""
    batch, heads, number, size, _ = ops.shape(weights)
    indices = ops.arange(number)
    distance = indices[None, :] - indices[:, None]  # [blocks, blocks]
    rows = 0.0
    for offset, part in zip((-1, 0, 1), ops.split(weights, 3, axis=-1)):
        is_neighbor = ops.cast(ops.equal(distance, offset), part.dtype)
        rows += ops.einsum("bniqk,ij->bniqjk", part, is_neighbor)
    rows = ops.reshape(rows, (batch, heads, number * size, number * size))
    return rows[:, :, :length, :length]
