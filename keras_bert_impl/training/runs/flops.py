"""Floating-point operations of a model, and the peak rate of a device."""

import functools
import time

import keras

from keras_bert_impl.config import EncoderConfig

_SECONDS = 0.4  # duration of the measurement
_LARGEST = 8192  # 3 matrices of float32 are 805 MB


def encoder_flops(config: EncoderConfig, length: int) -> int:
    """Counts the floating-point operations of an encoder's forward pass per token.

    Source: Chowdhery et al. 2022, "PaLM", appendix B.
    """
    hidden, inner = config.hidden_dim, config.intermediate_dim
    projections = 4 if config.max_global_tokens is None else 6
    maps = projections * hidden * hidden + (3 if config.gated else 2) * hidden * inner
    total = 0
    for index in range(config.num_layers):
        is_local = config.is_local(index)
        keys = min(length, 2 * config.window + 1) if is_local else length
        total += 2 * maps + 2 * 2 * keys * hidden
    if config.embedding_dim is not None:
        total += 2 * config.embedding_dim * hidden
    return total


def vocabulary_flops(config: EncoderConfig) -> int:
    """Counts the operations (int) of the masked LM head's two matrix products, per prediction."""
    width = config.embedding_dim or config.hidden_dim
    return 2 * width * (config.hidden_dim + config.vocabulary_size)


@functools.lru_cache
def matmul_peak(dtype: str = "float32") -> float:
    """Measures the peak rate of large square matrix products on the first device."""
    ones, multiply = _of_backend(dtype)
    size, best, spent = 512, 0.0, 0.0
    matrix = ones(size)
    multiply(matrix)  # compiles, and initializes libraries
    while spent < _SECONDS:
        begin = time.perf_counter()
        multiply(matrix)
        seconds = time.perf_counter() - begin
        spent += seconds
        best = max(best, 2 * size**3 / seconds)
        if seconds < 0.02 and size < _LARGEST:
            size *= 2
            matrix = ones(size)
            multiply(matrix)
    return best


def _of_backend(dtype):
    """Returns (function from size to a square matrix, function that squares a matrix and waits)."""
    if keras.backend.backend() == "jax":
        import jax

        product = jax.jit(lambda matrix: matrix @ matrix)
        return (
            lambda size: jax.numpy.ones([size, size], dtype),
            lambda matrix: product(matrix).block_until_ready(),
        )
    import tensorflow as tf

    product = tf.function(
        lambda matrix: tf.reduce_sum(tf.matmul(matrix, matrix)[:1]),
        input_signature=[tf.TensorSpec([None, None], dtype)],
        autograph=False,
    )
    return lambda size: tf.ones([size, size], dtype), lambda matrix: product(matrix).numpy()
