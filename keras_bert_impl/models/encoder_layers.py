"""The layers of an encoder: their creation from a configuration, and their connections."""

from typing import Any, NamedTuple

import keras

from keras_bert_impl.config import EncoderConfig
from keras_bert_impl.layers import (
    AttentionBias,
    Embeddings,
    GlobalAttentionBias,
    LastPooling,
    LayerNormalization,
    MeanPooling,
    Pooler,
    TransformerBlock,
    VirtualTokens,
)


class EncoderLayers(NamedTuple):
    """The layers of an encoder; None for those that its configuration leaves out.

    Attributes:
        attention_biases, blocks: one for each layer of the encoder; a layer may occur several times.
    """

    embeddings: Embeddings
    virtual_tokens: VirtualTokens | None
    attention_biases: list[AttentionBias | GlobalAttentionBias]
    blocks: list[TransformerBlock]
    final_layer_norm: LayerNormalization | None
    pooling: MeanPooling | LastPooling | None
    pooler: Pooler | None


def create_layers(
    config: EncoderConfig, dtype: keras.DTypePolicy, shared_embeddings: Embeddings | None
) -> EncoderLayers:
    """Creates the layers; see `Encoder` for the arguments."""
    embeddings = Embeddings(
        vocabulary_size=config.vocabulary_size,
        hidden_dim=config.hidden_dim,
        max_length=config.max_length if config.rotary_base is None else 0,
        num_segments=config.num_segments,
        embedding_dim=config.embedding_dim,
        position_offset=config.position_offset,
        pad_token_id=config.pad_token_id,
        dropout=config.dropout,
        layer_norm_epsilon=config.layer_norm_epsilon,
        initializer_range=config.initializer_range,
        use_bias=config.use_bias,
        shared=shared_embeddings,
        dtype=dtype,
        name="embeddings",
    )
    virtual_tokens = final_layer_norm = pooling = pooler = None
    if config.adapter is not None and config.adapter.kind == "prompt":
        virtual_tokens = VirtualTokens(
            config.adapter.size,
            config.initializer_range,
            dtype=dtype.variable_dtype,
            name="virtual_tokens",
        )
    attention_biases = _attention_biases(config, dtype)
    blocks = _blocks(config, dtype)
    if config.final_norm:
        final_layer_norm = LayerNormalization(
            epsilon=config.layer_norm_epsilon,
            center=config.use_bias,
            dtype=dtype.variable_dtype,
            name="final_layer_norm",
        )
    if config.pooled_by != "cls":
        pooling_class = {"mean": MeanPooling, "last": LastPooling}[config.pooled_by]
        pooling = pooling_class(dtype=dtype, name=f"{config.pooled_by}_pooling")
    if config.use_pooler:
        pooler = Pooler(config.initializer_range, dtype=dtype, name="pooler")
    return EncoderLayers(
        embeddings, virtual_tokens, attention_biases, blocks, final_layer_norm, pooling, pooler
    )


def _attention_biases(config, dtype):
    if config.max_global_tokens is not None:
        bias_of_all = GlobalAttentionBias(
            config.window, config.max_global_tokens, dtype=dtype, name="global_attention_bias"
        )
        return [bias_of_all] * config.num_layers
    has_prompt = config.adapter is not None and config.adapter.kind == "prompt"
    num_virtual_tokens = config.adapter.size if has_prompt else 0

    def bias(window, name):
        return AttentionBias(window, config.causal, num_virtual_tokens, dtype=dtype, name=name)

    every = bias(None, "attention_bias")
    local = every if config.window is None else bias(config.window, "local_attention_bias")
    return [local if config.is_local(index) else every for index in range(config.num_layers)]


def _blocks(config, dtype):
    blocks = [
        TransformerBlock(
            num_heads=config.num_heads,
            intermediate_dim=config.intermediate_dim,
            activation=config.activation,
            dropout=config.dropout,
            attention_dropout=config.attention_dropout,
            layer_norm_epsilon=config.layer_norm_epsilon,
            initializer_range=config.initializer_range,
            pre_norm=config.pre_norm,
            attention_norm=index > 0 or not config.final_norm,
            use_bias=config.use_bias,
            gated=config.gated,
            rotary_base=config.rotary_base_of(index),
            window=config.window if config.is_local(index) else None,
            has_global_tokens=config.max_global_tokens is not None,
            adapter=config.adapter,
            dtype=dtype,
            name=f"layer_{index}",
        )
        for index in range(config.num_layer_groups or config.num_layers)
    ]
    return [block for block in blocks for _ in range(config.num_layers // len(blocks))]


def apply_layers(
    layers: EncoderLayers | keras.Model, features: dict[str, Any], with_scores: bool | str = False
) -> tuple[dict[str, Any], list, list]:
    """Computes the outputs of an encoder.

    Returns:
        (dict of the encoder's outputs, all hidden states, all attention scores if requested).
    """
    token_ids, position_ids = features["token_ids"], features["position_ids"]
    biases = {layer: _bias(layer, features) for layer in dict.fromkeys(layers.attention_biases)}
    states = [layers.embeddings(token_ids, features["segment_ids"], position_ids)]
    first = 0  # position of the first token, after the virtual ones
    if layers.virtual_tokens is not None:
        states[0] = layers.virtual_tokens(states[0])
        first, position_ids = layers.virtual_tokens.num_tokens, None
    scores = []
    for block, layer in zip(layers.blocks, layers.attention_biases):
        state = block(states[-1], biases[layer], position_ids, return_attention_scores=with_scores)
        if with_scores:
            state, block_scores = state
            scores.append(block_scores[:, :, first:, first:])
        states.append(state)
    if layers.final_layer_norm is not None:
        states[-1] = layers.final_layer_norm(states[-1])
    if layers.virtual_tokens is not None:
        states = [state[:, first:] for state in states]
    sequence = states[-1]
    pooled = (
        layers.pooling(sequence, features["padding_mask"]) if layers.pooling else sequence[:, 0]
    )
    pooled = layers.pooler(pooled) if layers.pooler else pooled
    return {"sequence_output": sequence, "pooled_output": pooled}, states, scores


def _bias(layer, features):
    masks = [features[name] for name in ("token_ids", "padding_mask", "example_ids")]
    if isinstance(layer, GlobalAttentionBias):
        masks.append(features["global_mask"])
    return layer(*masks)
