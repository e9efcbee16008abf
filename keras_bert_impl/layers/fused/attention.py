"""Fused attention kernels of accelerators, on the JAX backend.

`SelfAttention` asks `fused_attention` first, and computes the plain formula where it declines.
docs/decisions/attention.md says which kernel is used where, and why.

Shape legend: b = batch; n = heads; l = length; d = hidden / heads.
"""

from typing import Any

import keras

from keras_bert_impl.layers.windows import in_blocks, with_neighbors

Tensor = Any  # of any Keras backend
_LANES = 128  # of a TPU: blocks of the splash kernel are multiples
_BLOCKS = (512, 256, _LANES)
_SHORTEST_FOR_OFFSETS = 2048  # tokens


def fused_kernel() -> str | None:
    """Returns the fused attention kernel of the default device: `"cudnn"`, `"splash"` or None."""
    if keras.backend.backend() != "jax" or keras.config.is_flash_attention_enabled() is False:
        return None
    platform = jax_platform()
    # Versions without `shard_map` also have a splash kernel that needs heads of 128.
    if platform == "tpu" and hasattr(_jax(), "shard_map"):
        return "splash"
    if platform in ("gpu", "cuda") and _compute_capability() >= 8:
        return "cudnn"
    return None


def reads_example_ids(length: int | None, window: int | None, packed: bool) -> bool:
    """Returns whether the fused kernel of the device reads example ids instead of a bias."""
    if fused_kernel() == "splash":
        return True
    # In shorter rows, cuDNN is as fast with a mask.
    is_long = packed and window is None and (length or 0) >= _SHORTEST_FOR_OFFSETS
    return is_long and fused_kernel() == "cudnn" and _compute_capability() >= 9


def fused_attention(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor, window: int | None = None
) -> Tensor | None:
    """Computes attention with the fused kernel of the device.

    Args:
        query: `[b, n, l, d]`, multiplied by `d ** -0.5`; bfloat16 or float16, as the kernels take no
            float32.
        key, value: `[b, n, l, d]`.

    Returns:
        `[b, n, l, d]`, or None if the device has no kernel for this case.
    """
    kernel = fused_kernel()
    if kernel is None or keras.backend.standardize_dtype(query.dtype) == "float32":
        return None
    if kernel == "splash":
        return _by_splash(query, key, value, bias, window)
    return _by_cudnn(query, key, value, bias, window, kernel)


def _jax():
    import jax

    return jax


def jax_platform() -> str:
    """Returns the platform on which JAX computes by default, such as `"cpu"`."""
    default = _jax().config.jax_default_device  # a device, the name of a platform, or None
    return getattr(default or _jax().devices()[0], "platform", default)


def _compute_capability():
    """Returns the version of an NVIDIA GPU's instructions, such as 9.0; 0 for other devices."""
    try:
        return float(getattr(_jax().devices()[0], "compute_capability", 0))
    except ValueError:  # AMD's are names
        return 0.0


def _by_cudnn(query, key, value, bias, window, kernel):
    batch, _, length, width = query.shape
    if window is not None:
        query, key, value = (in_blocks(part, window) for part in (query, key, value))
        key, value = with_neighbors(key), with_neighbors(value)  # [b, n, blocks, 3 * window, d]
    widest = 256 if _compute_capability() >= 9 else 128
    # cuDNN has no gradient for odd lengths with a mask.
    if width % 8 or width > widest or query.shape[-2] % 2 or key.shape[-2] % 2:
        return None
    if bias.ndim == 2:
        return _in_packed_rows(query, key, value, bias, kernel)
    # With a window, a block is an example of its own, whose keys are three blocks.
    query, key, value = (_to_rows(part) for part in (query, key, value))
    mask = _to_rows(bias == 0).swapaxes(1, 2)  # [rows, 1, 1 or queries, keys]
    mask = _jax().numpy.broadcast_to(mask, (len(query), 1, query.shape[1], key.shape[1]))
    outputs = _jax().nn.dot_product_attention(
        query, key, value, mask=mask, scale=1.0, implementation=kernel
    )
    outputs = outputs.reshape(batch, -1, *outputs.shape[2:])[:, :length]
    return outputs.swapaxes(1, 2)


def _in_packed_rows(query, key, value, example_ids, kernel):
    from keras_bert_impl.layers.fused.packed_rows import attention_by_offsets, fits

    def by_mask(query, key, value, example_ids):
        same = (example_ids[:, :, None] == example_ids[:, None, :])[:, None]  # [b, 1, l, l]
        return _jax().nn.dot_product_attention(
            query, key, value, mask=same, scale=1.0, implementation=kernel
        )

    parts = [part.swapaxes(1, 2) for part in (query, key, value)]  # each [b, l, n, d]
    outputs = _jax().lax.cond(fits(example_ids), attention_by_offsets, by_mask, *parts, example_ids)
    return outputs.swapaxes(1, 2)


def _to_rows(tensor):
    """Reshapes `[b, n, ..., l, d]` to `[b * ..., l, n, d]`."""
    tensor = tensor.reshape(*tensor.shape[:2], -1, *tensor.shape[-2:])  # [b, n, blocks, l, d]
    tensor = tensor.transpose(0, 2, 3, 1, 4)
    return tensor.reshape(-1, *tensor.shape[2:])


def _by_splash(query, key, value, example_ids, window):
    if example_ids.ndim != 2 or query.shape[2] % _LANES:  # a causal encoder has no ids
        return None
    from jax.experimental.pallas.ops.tpu.splash_attention import SegmentIds

    kernel = _splash_kernel(query.shape[1], query.shape[2], window)

    def attend(query, key, value, ids):
        return _jax().vmap(kernel)(query, key, value, SegmentIds(ids, ids))

    distribution = keras.distribution.distribution()
    if distribution is None:
        return attend(query, key, value, example_ids)
    # XLA does not know how to split a kernel over devices.
    mesh = distribution.device_mesh.backend_mesh
    if query.shape[0] % mesh.shape[distribution.batch_dim_name]:
        return None
    rows = _jax().sharding.PartitionSpec(distribution.batch_dim_name)
    attend = _jax().shard_map(attend, mesh=mesh, in_specs=rows, out_specs=rows, check_vma=False)
    return attend(query, key, value, example_ids)


def _splash_kernel(num_heads, length, window):
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
        interpret=jax_platform() != "tpu",  # in tests
    )
