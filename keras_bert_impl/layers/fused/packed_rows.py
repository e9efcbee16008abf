"""Attention in packed rows by the offsets of their examples, with cuDNN on Hopper and later GPUs.

cuDNN then computes no scores between examples, and reads no mask. docs/decisions/attention.md has
the measurements.

Shape legend: b = batch; l = length; n = heads; d = hidden / heads; s = segments.
"""

from typing import Any

import jax.numpy as jnp

Tensor = Any  # of JAX
# cuDNN computes as many examples in every row, most of them empty. One more than `prepare` packs by
# default, for the padding at the end.
MOST_SEGMENTS = 9


def attention_by_offsets(query: Tensor, key: Tensor, value: Tensor, example_ids: Tensor) -> Tensor:
    """Computes attention within each example of packed rows.

    Args:
        query: `[b, l, n, d]`, bfloat16 or float16, multiplied by `d ** -0.5`.
        key, value: `[b, l, n, d]`.
        example_ids: int32 `[b, l]`, for which `fits` is true.

    Returns:
        `[b, l, n, d]`. Padding attends to padding, so that all values are finite.
    """
    # `jax.nn.dot_product_attention` does not pass on offsets.
    from jax._src.cudnn.fused_attention_stablehlo import MaskType, dot_product_attention

    lengths, starts = segments(example_ids)
    return dot_product_attention(
        *(query, key, value),
        q_seqlen=lengths,
        kv_seqlen=lengths,
        q_offsets=starts,
        kv_offsets=starts,
        scale=1.0,
        mask_type=MaskType.PADDING,
    )


def fits(example_ids: Tensor) -> Tensor:
    """Returns a bool scalar: whether no row has too many segments, or an example in two pieces.

    Args:
        example_ids: int32 `[b, l]`, for each token the number of its example, 0 for padding.
    """
    numbers = jnp.where(example_ids == 0, jnp.iinfo("int32").max, example_ids)
    in_order = jnp.all(numbers[:, 1:] >= numbers[:, :-1])
    return in_order & (_segment_numbers(example_ids).max() < MOST_SEGMENTS)


def segments(example_ids: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the (lengths, starts) of the runs of equal numbers, as cuDNN reads them.

    Args:
        example_ids: int32 `[b, l]`.

    Returns:
        int32 `[b, s]` and `[b, s + 1]`; -1 after the last run.
    """
    numbers = _segment_numbers(example_ids)
    lengths = (numbers[:, :, None] == jnp.arange(MOST_SEGMENTS)).sum(1, dtype="int32")  # [b, s]
    starts = jnp.cumsum(lengths, axis=1) - lengths
    starts = jnp.pad(jnp.where(lengths > 0, starts, -1), [(0, 0), (0, 1)], constant_values=-1)
    return jnp.where(lengths > 0, lengths, -1), starts


def _segment_numbers(example_ids):
    changes = example_ids[:, 1:] != example_ids[:, :-1]
    return jnp.pad(jnp.cumsum(changes, axis=1, dtype="int32"), [(0, 0), (1, 0)])  # [b, l], from 0
