"""Text generation with a cache of the keys and values of earlier tokens."""

from typing import Any

import keras
from keras import ops

from keras_bert_impl.layers.key_value_cache import KeyValueCache
from keras_bert_impl.models.encoder import Encoder

Tensor = Any  # a tensor of any Keras backend
Cache = list[tuple[Tensor, Tensor]]  # keys and values of each layer


def empty_cache(encoder: Encoder, batch: int) -> Cache:
    """Returns an empty cache: arrays of shape `[batch, heads, 0, width]` for each layer."""
    config = encoder.config
    shape = (batch, config.num_heads, 0, config.hidden_dim // config.num_heads)
    nothing = ops.zeros(shape, encoder.compute_dtype)
    return [(nothing, nothing)] * config.num_layers


def next_states(
    encoder: Encoder, token_ids: Tensor, positions: Tensor, padding_mask: Tensor, cache: Cache
) -> tuple[Tensor, Cache]:
    """Computes the last hidden states of new tokens of a causal encoder.

    Args:
        token_ids: int32 `[batch, new]`.
        positions, padding_mask: int32 `[batch, cached + new]`, for cached and new tokens.

    Returns:
        (hidden states of the new tokens `[batch, new, hidden]`, cache with the new tokens).
    """
    new = positions[:, ops.shape(positions)[1] - ops.shape(token_ids)[1] :]
    biases = {
        layer: layer.of_positions(new, positions, padding_mask)
        for layer in dict.fromkeys(encoder.attention_biases)
    }
    state = encoder.embeddings(token_ids, None, new)
    extended = []
    for block, layer, pair in zip(encoder.blocks, encoder.attention_biases, cache, strict=True):
        layer_cache = KeyValueCache(*pair)
        state = block(state, biases[layer], new, cache=layer_cache)
        extended.append((layer_cache.key, layer_cache.value))
    if encoder.final_layer_norm is not None:
        state = encoder.final_layer_norm(state)
    return state, extended


def cache_signature(encoder: Encoder) -> Any:
    """Returns the `tf.TensorSpec`s of a cache with any batch size and length."""
    import tensorflow as tf

    heads = encoder.config.num_heads
    shape = [None, heads, None, encoder.config.hidden_dim // heads]
    dtype = keras.backend.standardize_dtype(encoder.compute_dtype)
    spec = tf.TensorSpec(shape, dtype)
    return [(spec, spec)] * encoder.config.num_layers
