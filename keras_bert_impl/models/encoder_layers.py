"""Validation of input features, and the layers of an encoder."""

import warnings
from collections.abc import Iterable
from typing import Any, NamedTuple

import keras
import numpy as np

from keras_bert_impl.checkpoints.config import EncoderConfig
from keras_bert_impl.layers import (
    AttentionBias,
    BlockSparsity,
    Embeddings,
    ExampleIds,
    GlobalAttentionBias,
    LastPooling,
    LayerNormalization,
    MeanPooling,
    Pooler,
    TransformerBlock,
    VirtualTokens,
)
from keras_bert_impl.utils.errors import InputError

FEATURES = (
    "token_ids",
    "segment_ids",
    "padding_mask",
    "position_ids",
    "example_ids",
    "global_mask",
)
_OTHER_NAMES = {  # name in `transformers`, Google's BERT, TF Hub or keras-bert -> name here
    "input_ids": "token_ids",
    "input_word_ids": "token_ids",
    "Input-Token": "token_ids",
    "token_type_ids": "segment_ids",
    "input_type_ids": "segment_ids",
    "Input-Segment": "segment_ids",
    "attention_mask": "padding_mask",
    "input_mask": "padding_mask",
    "global_attention_mask": "global_mask",
}


def symbols() -> dict[str, keras.KerasTensor]:
    """Returns the `keras.Input`s of an encoder: the features that a tokenizer returns."""
    return {
        name: keras.Input((None,), dtype="int32", name=name, optional=name != "token_ids")
        for name in ("token_ids", "segment_ids", "padding_mask")
    }


def with_all_names(features: Any) -> dict[str, Any]:
    """Returns a dict with the keys `FEATURES`. Missing features are None."""
    if not isinstance(features, dict):
        features = {"token_ids": features}
    if features.get("token_ids") is None or not set(features) <= set(FEATURES):
        raise ValueError(
            f"features must have token_ids and may have {', '.join(FEATURES[1:])}. "
            f"Received: {sorted(features)}.{renamed(features)}"
        )
    return {name: features.get(name) for name in FEATURES}


def renamed(names: Iterable[str]) -> str:
    """Returns a hint for names from other libraries, such as `input_ids`, or an empty string."""
    names = list(names)
    feature_names = _OTHER_NAMES | {name: name for name in FEATURES}
    pairs = [f'"{feature_names[name]}": x["{name}"]' for name in names if name in feature_names]
    return f" Write {{{', '.join(pairs)}}}." if _OTHER_NAMES.keys() & set(names) else ""


def check_call(arguments: Iterable[str]) -> None:
    """Raises `InputError` for features that are passed as arguments of a call."""
    feature_names = _OTHER_NAMES | {name: name for name in FEATURES}
    pairs = [f'"{feature_names[name]}": {name}' for name in arguments if name in feature_names]
    if pairs:
        line = ", ".join(['"token_ids": token_ids', *pairs])
        raise InputError(f"the features are one argument, a dict. Write encoder({{{line}}}).")


def checked(features: Any, config: EncoderConfig) -> dict[str, Any]:
    """Validates features. Returns a dict with the keys `FEATURES`."""
    all_features = with_all_names(features)
    for name, value in all_features.items():
        if value is not None:
            all_features[name] = _check_ids(name, value)
    check_values(all_features, config)
    _warn_of_padding(all_features, config)
    _check_global_mask(all_features["global_mask"], config)
    _check_equal_shapes(all_features)
    length = all_features["token_ids"].shape[1]
    if all_features["position_ids"] is None and length and length > config.max_length:
        raise ValueError(
            f"token_ids may be up to max_length={config.max_length} long. Received: length={length}"
        )
    return all_features


def check_values(features: dict[str, Any], config: EncoderConfig) -> None:
    """Raises `InputError` if an id is out of range. Symbolic tensors are not checked."""
    limits = {
        "token_ids": config.vocabulary_size,
        # Without segment embeddings, the limit is 0 and the ids are not used.
        "segment_ids": config.num_segments,
        "position_ids": config.max_length,
    }
    for name, limit in limits.items():
        value = features.get(name)
        ids = None if value is None or not limit else _read_values(value)
        if ids is None or not ids.size or 0 <= ids.min() <= ids.max() < limit:
            continue
        index = np.unravel_index(np.argmax((ids < 0) | (ids >= limit)), ids.shape)
        raise InputError(
            f"{name} must be in [0, {limit}). Received: {ids[index]} at {list(map(int, index))}"
        )


def check_not_ragged(name: str, value: Any) -> None:
    """Raises `InputError` for a ragged tensor, such as the result of `Tokenizer.tokenize`."""
    if hasattr(value, "row_splits"):
        raise InputError(
            f"the rows of {name} have different lengths. Pad them, or use tokenizer(texts)."
        )


def _check_ids(name, value):
    check_not_ragged(name, value)
    if not hasattr(value, "shape"):
        value = np.asarray(value)
    if any(kind in str(value.dtype) for kind in ("str", "<U", "|S", "object")):
        raise InputError(
            f"{name} must be integers, not texts. Write encoder(tokenizer(texts)), or for vectors "
            "TextEmbedder.from_pretrained(name).encode(texts)."
        )
    if len(value.shape) != 2:
        raise ValueError(f"{name} must be [batch, length]. Received: shape={tuple(value.shape)}")
    dtype = keras.backend.standardize_dtype(value.dtype)
    if "int" not in dtype and dtype != "bool":
        raise ValueError(f"{name} must be integers. Received: dtype={dtype}")
    return value


def _warn_of_padding(features, config):
    if features["padding_mask"] is not None or features["example_ids"] is not None:
        return
    ids = _read_values(features["token_ids"])
    if ids is not None and ids.size and (ids[:, -1] == config.pad_token_id).any():
        warnings.warn(
            "token_ids end with padding, but there is no padding_mask, so the padding is treated "
            "as text. Pass the dict that tokenizer(texts) returns.",
            stacklevel=4,
        )


def _check_global_mask(mask, config):
    if mask is None:
        return
    if config.max_global_tokens is None:
        raise InputError(f"a {config.architecture} encoder has no global tokens; omit global_mask.")
    mask_values = _read_values(mask)
    count = 0 if mask_values is None else int((mask_values != 0).sum(axis=1).max(initial=0))
    if count > config.max_global_tokens:
        raise InputError(
            f"global_mask may have up to max_global_tokens={config.max_global_tokens} tokens in a "
            f"row. Received: {count}. Load the encoder with a larger max_global_tokens."
        )


def _check_equal_shapes(features):
    expected = tuple(features["token_ids"].shape)
    for name, value in features.items():
        received = expected if value is None else tuple(value.shape)
        if any(None not in pair and pair[0] != pair[1] for pair in zip(received, expected)):
            raise ValueError(
                f"{name} must have the shape of token_ids, {expected}. Received: shape={received}"
            )


def _read_values(tensor):
    """Returns the values of a tensor, or None if the tensor is symbolic."""
    if isinstance(tensor, keras.KerasTensor):
        return None
    try:
        return np.asarray(tensor)
    except (NotImplementedError, TypeError):  # The tensor is symbolic.
        return None


class EncoderLayers(NamedTuple):
    """The layers of an encoder. Unused layers are None.

    Attributes:
        attention_biases, blocks: lists with one element per layer. If layers share weights, their
            elements are the same object.
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
        has_norm=config.embedding_norm,
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
    attention_biases = _create_attention_biases(config, dtype)
    blocks = _create_blocks(config, dtype)
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


def _create_attention_biases(config, dtype):
    if config.max_global_tokens is not None:
        bias_of_all = GlobalAttentionBias(
            config.window, config.max_global_tokens, dtype=dtype, name="global_attention_bias"
        )
        return [bias_of_all] * config.num_layers
    if config.block_size is not None:
        return [ExampleIds(dtype=dtype, name="example_ids_of_tokens")] * config.num_layers
    has_prompt = config.adapter is not None and config.adapter.kind == "prompt"
    num_virtual_tokens = config.adapter.size if has_prompt else 0

    def create_bias(window, name):
        return AttentionBias(window, config.causal, num_virtual_tokens, dtype=dtype, name=name)

    every = create_bias(None, "attention_bias")
    local = every if config.window is None else create_bias(config.window, "local_attention_bias")
    return [local if config.is_local(index) else every for index in range(config.num_layers)]


def _create_blocks(config, dtype):
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
            attention_norm=config.has_attention_norm(index),
            use_bias=config.use_bias,
            gated=config.gated,
            rotary_base=config.rotary_base_of(index),
            window=config.window if config.is_local(index) else None,
            has_global_tokens=config.max_global_tokens is not None,
            sparsity=_create_sparsity(config, index),
            adapter=config.adapter,
            dtype=dtype,
            name=f"layer_{index}",
        )
        for index in range(config.num_layer_groups or config.num_layers)
    ]
    return [block for block in blocks for _ in range(config.num_layers // len(blocks))]


def _create_sparsity(config, index):
    if config.block_size is None:
        return None
    return BlockSparsity(config.block_size, config.num_random_blocks, config.max_length, index)


def apply_layers(
    layers: EncoderLayers | keras.Model,
    features: dict[str, Any],
    with_scores: bool | str = False,
    training: bool | None = None,
) -> tuple[dict[str, Any], list, list]:
    """Returns (outputs of the encoder, hidden states, attention scores if requested).

    If `training` is None, Keras passes the value of the calling layer.
    """
    mode = {} if training is None else {"training": training}
    token_ids, position_ids = features["token_ids"], features["position_ids"]
    biases = {
        layer: _compute_bias(layer, features) for layer in dict.fromkeys(layers.attention_biases)
    }
    states = [layers.embeddings(token_ids, features["segment_ids"], position_ids, **mode)]
    first = 0  # number of virtual tokens before the first token
    if layers.virtual_tokens is not None:
        states[0] = layers.virtual_tokens(states[0])
        first, position_ids = layers.virtual_tokens.num_tokens, None
    scores = []
    for block, layer in zip(layers.blocks, layers.attention_biases):
        state = block(
            states[-1], biases[layer], position_ids, return_attention_scores=with_scores, **mode
        )
        if with_scores:
            state, block_scores = state
            scores.append(block_scores[:, :, first:, first:])
        states.append(state)
    if layers.final_layer_norm is not None:
        states[-1] = layers.final_layer_norm(states[-1])
    if layers.virtual_tokens is not None:
        states = [state[:, first:] for state in states]
    return outputs_of(layers, states[-1], features["padding_mask"]), states, scores


def outputs_of(
    layers: EncoderLayers | keras.Model, sequence: Any, padding_mask: Any
) -> dict[str, Any]:
    pooled = layers.pooling(sequence, padding_mask) if layers.pooling else sequence[:, 0]
    pooled = layers.pooler(pooled) if layers.pooler else pooled
    return {"sequence_output": sequence, "pooled_output": pooled}


def _compute_bias(layer, features):
    masks = [features[name] for name in ("token_ids", "padding_mask", "example_ids")]
    if isinstance(layer, GlobalAttentionBias):
        masks.append(features["global_mask"])
    return layer(*masks)
