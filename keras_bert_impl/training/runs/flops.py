"""Arithmetic of a model, and what a device can do of it at most."""

import functools
import time

import keras

_SECONDS = 0.4  # of measuring
_LARGEST = 8192  # 3 matrices of float32 are 805 MB


def encoder_flops(config, length):
    """Floating-point operations of an encoder's forward pass, for each token.

    Of matrix products alone, 2 for a multiplication and the addition that goes with it: the four
    maps of attention, scores and sums over `length` keys (or those of a window), the two or three
    maps of the feed-forward part, and the map from embeddings of another width. Not counted are
    embeddings, normalization, softmax, activations and the pooler.

    Args:
        config: `EncoderConfig`.
        length: int. Tokens of a row.

    Returns:
        int. With 128 tokens of BERT-base 22.4e9 a row, with 512 tokens 96.6e9.

    Source: Chowdhery et al. 2022, "PaLM", appendix B.
    """
    hidden, inner = config.hidden_dim, config.intermediate_dim
    maps = 4 * hidden * hidden + (3 if config.gated else 2) * hidden * inner
    total = 0
    for index in range(config.num_layers):
        is_local = config.is_local(index)
        keys = min(length, 2 * config.window + 1) if is_local else length
        total += 2 * maps + 2 * 2 * keys * hidden
    if config.embedding_dim is not None:
        total += 2 * config.embedding_dim * hidden
    return total


def vocabulary_flops(config):
    """int. The same for the head that predicts a token, for each prediction: its two maps."""
    width = config.embedding_dim or config.hidden_dim
    return 2 * width * (config.hidden_dim + config.vocabulary_size)


@functools.lru_cache
def matmul_peak(dtype="float32"):
    """The rate of products of large square matrices on the first device, measured.

    Products of doubling size, until one takes 20 ms, are timed for 0.4 seconds.

    Args:
        dtype: str, what a model computes in.

    Returns:
        float. Floating-point operations a second, the best that was seen.

    Example:
        matmul_peak("bfloat16") / 1e12  # teraflops
    """
    ones, multiply = _of_backend(dtype)
    size, best, spent = 512, 0.0, 0.0
    matrix = ones(size)
    multiply(matrix)  # compiles, and starts libraries
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
    """(a function of a size that makes a matrix, one that multiplies it by itself, and waits)."""
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
