"""Blocks of a row, for attention within a window: work that grows with the length, not its square.

A row is cut into blocks as long as the window reaches to each side. All that the tokens of a block
may see is then in the block, in the one before it and in the one after it.
"""

from keras import ops


def in_blocks(tensor, size):
    """`[batch, heads, length, width]` to `[batch, heads, blocks, size, width]`, filled with 0."""
    batch, heads, length, width = ops.shape(tensor)
    filling = ops.zeros((batch, heads, -length % size, width), tensor.dtype)
    tensor = ops.concatenate([tensor, filling], axis=2)
    return ops.reshape(tensor, (batch, heads, -1, size, width))


def with_neighbours(blocks):
    """Each block between its neighbours: `[batch, heads, blocks, 3 * size, width]`."""
    nothing = ops.zeros_like(blocks[:, :, :1])
    before = ops.concatenate([nothing, blocks[:, :, :-1]], axis=2)
    after = ops.concatenate([blocks[:, :, 1:], nothing], axis=2)
    return ops.concatenate([before, blocks, after], axis=3)


def from_blocks(blocks, length):
    """What `in_blocks` made, back to `[batch, heads, length, width]`."""
    batch, heads, _, _, width = ops.shape(blocks)
    return ops.reshape(blocks, (batch, heads, -1, width))[:, :, :length]


def weights_of_row(weights, length):
    """Weights `[batch, heads, blocks, size, 3 * size]` as `[batch, heads, length, length]`."""
    batch, heads, number, size, _ = ops.shape(weights)
    place = ops.arange(number)
    distance = place[None, :] - place[:, None]  # [blocks, blocks]
    whole = 0.0
    for neighbour, part in zip((-1, 0, 1), ops.split(weights, 3, axis=-1)):
        there = ops.cast(ops.equal(distance, neighbour), part.dtype)
        whole += ops.einsum("bniqk,ij->bniqjk", part, there)
    whole = ops.reshape(whole, (batch, heads, number * size, number * size))
    return whole[:, :, :length, :length]
