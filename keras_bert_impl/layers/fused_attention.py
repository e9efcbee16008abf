"""Local attention in blocks, and fused attention kernels on the JAX backend.

Local attention splits a sequence into blocks of `window` tokens. A token attends only to its block
and the two neighboring blocks. The cost is therefore linear in the length.

`fused_attention` returns None if the device has no kernel for a case. `SelfAttention` then computes
the plain formula. For packed examples on Hopper GPUs or newer, cuDNN gets the offsets of the
examples instead of a mask, and skips pairs of tokens from different examples.
docs/decisions/attention.md explains the choice of kernels, with measurements.

Shape legend: b = batch; n = heads; l = length; d = hidden / heads; s = segments.
"""

from typing import Any

import keras
from keras import ops

Tensor = Any  # a tensor of any Keras backend


def in_blocks(tensor: Tensor, size: int) -> Tensor:
    """Splits `[batch, heads, length, width]` into `[batch, heads, blocks, size, width]`."""
    batch, heads, length, width = ops.shape(tensor)
    filling = ops.zeros((batch, heads, -length % size, width), tensor.dtype)
    tensor = ops.concatenate([tensor, filling], axis=2)
    return ops.reshape(tensor, (batch, heads, -1, size, width))


def with_neighbors(blocks: Tensor) -> Tensor:
    """Concatenates each block and its neighbors to `[batch, heads, blocks, 3 * size, width]`."""
    nothing = ops.zeros_like(blocks[:, :, :1])
    before = ops.concatenate([nothing, blocks[:, :, :-1]], axis=2)
    after = ops.concatenate([blocks[:, :, 1:], nothing], axis=2)
    return ops.concatenate([before, blocks, after], axis=3)


def from_blocks(blocks: Tensor, length: Tensor) -> Tensor:
    """Concatenates the blocks from `in_blocks` to `[batch, heads, length, width]`."""
    batch, heads, _, _, width = ops.shape(blocks)
    return ops.reshape(blocks, (batch, heads, -1, width))[:, :, :length]


def weights_of_row(weights: Tensor, length: Tensor) -> Tensor:
    """Expands the weights of local attention to all pairs of tokens, `[b, n, length, length]`."""
    batch, heads, number, size, _ = ops.shape(weights)
    indices = ops.arange(number)
    distance = indices[None, :] - indices[:, None]  # [blocks, blocks]
    rows = 0.0
    for offset, part in zip((-1, 0, 1), ops.split(weights, 3, axis=-1)):
        is_neighbor = ops.cast(ops.equal(distance, offset), part.dtype)
        rows += ops.einsum("bniqk,ij->bniqjk", part, is_neighbor)
    rows = ops.reshape(rows, (batch, heads, number * size, number * size))
    return rows[:, :, :length, :length]


_LANES = 128  # width of a TPU; the splash kernel's block sizes are multiples of it
_BLOCKS = (512, 256, _LANES)
_SHORTEST_FOR_OFFSETS = 2048  # tokens


def fused_kernel() -> str | None:
    """Returns the fused kernel of the default device: `"cudnn"`, `"splash"` or None."""
    if keras.backend.backend() != "jax" or keras.config.is_flash_attention_enabled() is False:
        return None
    platform = jax_platform()
    # In versions of JAX without `shard_map`, the splash kernel requires heads of width 128.
    if platform == "tpu" and hasattr(_import_jax(), "shard_map"):
        return "splash"
    if platform in ("gpu", "cuda") and _compute_capability() >= 8:
        return "cudnn"
    return None


def reads_example_ids(length: int | None, window: int | None, packed: bool) -> bool:
    """Returns whether the fused kernel needs example ids instead of a bias."""
    if fused_kernel() == "splash":
        return True
    # For shorter rows, a mask is equally fast.
    is_long = packed and window is None and (length or 0) >= _SHORTEST_FOR_OFFSETS
    return is_long and fused_kernel() == "cudnn" and _compute_capability() >= 9


def fused_attention(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor, window: int | None = None
) -> Tensor | None:
    """Computes attention with the fused kernel of the device.

    Args:
        query: `[b, n, l, d]`, multiplied by `d ** -0.5`. The kernels support bfloat16 and float16.
        key, value: `[b, n, l, d]`.

    Returns:
        `[b, n, l, d]`, or None if the device has no kernel for this case.
    """
    kernel = fused_kernel()
    if kernel is None or keras.backend.standardize_dtype(query.dtype) == "float32":
        return None
    if kernel == "splash":
        return _run_splash(query, key, value, bias, window)
    return _run_cudnn(query, key, value, bias, window, kernel)


def _import_jax():
    import jax

    return jax


def jax_platform() -> str:
    # The option is a device, a platform name or None.
    default = _import_jax().config.jax_default_device
    return getattr(default or _import_jax().devices()[0], "platform", default)


def _compute_capability():
    """Returns the compute capability of an NVIDIA GPU, such as 9.0; 0 for other devices."""
    try:
        return float(getattr(_import_jax().devices()[0], "compute_capability", 0))
    except ValueError:  # AMD GPUs have a name instead of a number.
        return 0.0


def _run_cudnn(query, key, value, bias, window, kernel):
    batch, _, length, width = query.shape
    if window is not None:
        query, key, value = (in_blocks(part, window) for part in (query, key, value))
        key, value = with_neighbors(key), with_neighbors(value)  # [b, n, blocks, 3 * window, d]
    widest = 256 if _compute_capability() >= 9 else 128
    # With a mask, cuDNN does not support gradients for odd lengths.
    if width % 8 or width > widest or query.shape[-2] % 2 or key.shape[-2] % 2:
        return None
    if bias.ndim == 2:
        return _run_packed_rows(query, key, value, bias, kernel)
    # With a window, each block becomes a separate example with the keys of three blocks.
    query, key, value = (_convert_to_rows(part) for part in (query, key, value))
    mask = _convert_to_rows(bias == 0).swapaxes(1, 2)  # [rows, 1, 1 or queries, keys]
    mask = _import_jax().numpy.broadcast_to(mask, (len(query), 1, query.shape[1], key.shape[1]))
    outputs = _import_jax().nn.dot_product_attention(
        query, key, value, mask=mask, scale=1.0, implementation=kernel
    )
    outputs = outputs.reshape(batch, -1, *outputs.shape[2:])[:, :length]
    return outputs.swapaxes(1, 2)


def _run_packed_rows(query, key, value, example_ids, kernel):

    def by_mask(query, key, value, example_ids):
        same = (example_ids[:, :, None] == example_ids[:, None, :])[:, None]  # [b, 1, l, l]
        return _import_jax().nn.dot_product_attention(
            query, key, value, mask=same, scale=1.0, implementation=kernel
        )

    parts = [part.swapaxes(1, 2) for part in (query, key, value)]  # each [b, l, n, d]
    outputs = _import_jax().lax.cond(
        fits(example_ids), attention_by_offsets, by_mask, *parts, example_ids
    )
    return outputs.swapaxes(1, 2)


def _convert_to_rows(tensor):
    """Reshapes `[b, n, ..., l, d]` to `[b * ..., l, n, d]`."""
    tensor = tensor.reshape(*tensor.shape[:2], -1, *tensor.shape[-2:])  # [b, n, blocks, l, d]
    tensor = tensor.transpose(0, 2, 3, 1, 4)
    return tensor.reshape(-1, *tensor.shape[2:])


def _run_splash(query, key, value, example_ids, window):
    # A causal encoder passes a bias instead of example ids.
    if example_ids.ndim != 2 or query.shape[2] % _LANES:
        return None
    from jax.experimental.pallas.ops.tpu.splash_attention import SegmentIds

    kernel = _make_splash_kernel(query.shape[1], query.shape[2], window)

    def attend(query, key, value, ids):
        return _import_jax().vmap(kernel)(query, key, value, SegmentIds(ids, ids))

    distribution = keras.distribution.distribution()
    if distribution is None:
        return attend(query, key, value, example_ids)
    # XLA cannot distribute a custom kernel over devices.
    mesh = distribution.device_mesh.backend_mesh
    if query.shape[0] % mesh.shape[distribution.batch_dim_name]:
        return None
    rows = _import_jax().sharding.PartitionSpec(distribution.batch_dim_name)
    attend = _import_jax().shard_map(
        attend, mesh=mesh, in_specs=rows, out_specs=rows, check_vma=False
    )
    return attend(query, key, value, example_ids)


def _make_splash_kernel(num_heads, length, window):
    from jax.experimental.pallas.ops.tpu import splash_attention as splash

    shape = (length, length)
    mask = splash.FullMask(shape)
    if window is not None:
        mask = splash.LocalMask(shape, (window, window), offset=0)
    block = next(size for size in _BLOCKS if length % size == 0)
    names = ("block_q", "block_kv", "block_q_dkv", "block_kv_dkv", "block_q_dq", "block_kv_dq")
    return splash.make_splash_mha(
        splash.MultiHeadMask([mask] * num_heads),
        block_sizes=splash.BlockSizes(**dict.fromkeys(names, block)),
        head_shards=1,
        q_seq_shards=1,
        interpret=jax_platform() != "tpu",  # Tests run the kernel on a CPU.
    )


# cuDNN always computes this number of segments per row. It is the number of examples that `prepare`
# packs by default, plus one for the padding at the end.
MOST_SEGMENTS = 9


def attention_by_offsets(query: Tensor, key: Tensor, value: Tensor, example_ids: Tensor) -> Tensor:
    """Computes attention within each example of packed rows.

    Args:
        query: `[b, l, n, d]`, bfloat16 or float16, multiplied by `d ** -0.5`.
        key, value: `[b, l, n, d]`.
        example_ids: int32 `[b, l]`; `fits(example_ids)` must be true.

    Returns:
        `[b, l, n, d]`. Padding tokens attend to each other, so all values are finite.
    """
    # `jax.nn.dot_product_attention` does not support offsets.
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
    """Returns whether `attention_by_offsets` supports these example ids `[b, l]`: bool scalar."""
    numbers = _import_jax().numpy.where(
        example_ids == 0, _import_jax().numpy.iinfo("int32").max, example_ids
    )
    in_order = _import_jax().numpy.all(numbers[:, 1:] >= numbers[:, :-1])
    return in_order & (_compute_segment_numbers(example_ids).max() < MOST_SEGMENTS)


def segments(example_ids: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the lengths `[b, s]` and starts `[b, s + 1]` of the examples in each row, int32.

    `s` is `MOST_SEGMENTS`. The starts of unused entries are -1, as cuDNN requires.
    """
    numbers = _compute_segment_numbers(example_ids)
    lengths = (numbers[:, :, None] == _import_jax().numpy.arange(MOST_SEGMENTS)).sum(
        1, dtype="int32"
    )  # [b, s]
    starts = _import_jax().numpy.cumsum(lengths, axis=1) - lengths
    starts = _import_jax().numpy.pad(
        _import_jax().numpy.where(lengths > 0, starts, -1), [(0, 0), (0, 1)], constant_values=-1
    )
    return _import_jax().numpy.where(lengths > 0, lengths, -1), starts


def _compute_segment_numbers(example_ids):
    changes = example_ids[:, 1:] != example_ids[:, :-1]
    return _import_jax().numpy.pad(
        _import_jax().numpy.cumsum(changes, axis=1, dtype="int32"), [(0, 0), (1, 0)]
    )  # [b, l], the run of each token
