"""The network of `TextEmbedder`: pools groups of texts to vectors, and projects them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import keras
import numpy as np

from keras_bert_impl.checkpoints.interop.sentence_transformers import ACTIVATIONS
from keras_bert_impl.data.batches.windows import merged
from keras_bert_impl.layers import LayerMix, SplitGroups
from keras_bert_impl.layers.basic import HEAD_ACTIVATIONS, LayerNormalization
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.models.heads import with_global_mask
from keras_bert_impl.models.weights import assign
from keras_bert_impl.tasks.base.long_texts import LongTexts
from keras_bert_impl.tasks.embedding.poolings import POOLINGS, poolings_of
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.settings import OneOf, PositiveInt, Range, check

_DENSE = {"kind": "dense", "dim": None, "activation": "tanh", "use_bias": True}
_LAYER_NORM_EPSILON = 1e-5  # as in PyTorch and `sentence-transformers`


def checked_projections(projections: Sequence[dict[str, Any]] | None) -> list[dict[str, Any]]:
    return [_check_projection(projection) for projection in projections or []]


def _check_projection(projection):
    if isinstance(projection, dict) and projection == {"kind": "layer_norm"}:
        return dict(projection)
    if not isinstance(projection, dict) or projection.get("kind") != "dense":
        raise InputError(
            'a projection must be {"kind": "dense", "dim": ..., "activation": ..., "use_bias": ...}'
            f' or {{"kind": "layer_norm"}}. Received: {projection!r:.80}'
        )
    unknown = sorted(set(projection) - set(_DENSE))
    if unknown:
        raise InputError(f"a dense projection has no setting {unknown[0]!r}.")
    projection = _DENSE | projection
    projection["dim"] = check("dim of a projection", projection["dim"], PositiveInt)
    activation_type = Annotated[str, OneOf(*ACTIVATIONS)]
    check("activation of a projection", projection["activation"], activation_type)
    return projection


def projection_layers(projections: list[dict[str, Any]]) -> list[keras.layers.Layer]:
    layers = []
    for number, projection in enumerate(projections):
        name = f"projection_{number}"
        if projection["kind"] == "layer_norm":
            layer = LayerNormalization(epsilon=_LAYER_NORM_EPSILON, dtype="float32", name=name)
        else:
            layer = keras.layers.Dense(
                projection["dim"],
                activation=HEAD_ACTIVATIONS[projection["activation"]],
                use_bias=projection["use_bias"],
                dtype="float32",
                name=name,
            )
        layers.append(layer)
    return layers


def set_tensors(
    layers: list[keras.layers.Layer], tensors: list[dict[str, np.ndarray]], where: Path
) -> None:
    if len(layers) != len(tensors):
        raise InputError(
            f"{where} has {len(tensors)} projections, but the model has {len(layers)}."
        )
    for layer, arrays in zip(layers, tensors):
        for weight in layer.weights:
            array = arrays.get(weight.name)
            received = None if array is None else array.shape
            if received != tuple(weight.shape):
                raise InputError(
                    f"{where}: the {weight.name} of {layer.name} must have shape "
                    f"{tuple(weight.shape)}. Received: {received}"
                )
            assign(weight, array)


def tensors_of_layers(layers: list[keras.layers.Layer]) -> list[dict[str, np.ndarray]]:
    return [{weight.name: np.asarray(weight) for weight in layer.weights} for layer in layers]


def embedding_network(
    encoder: Encoder,
    pooling: str,
    num_layers: int,
    layer_weights: Sequence[float] | None,
    learn_layer_weights: bool,
    normalize: bool,
    long_texts: LongTexts,
    projections: Sequence[keras.layers.Layer] = (),
    truncate_dim: int | None = None,
) -> tuple[dict[str, Any], Any, LayerMix | None]:
    """Builds the network of a `TextEmbedder`.

    Returns:
        `inputs`, dict of int32 `[batch, group, length]`, or `[batch, group, windows, length]` if
        texts are split into windows; `outputs`, float32 `[batch, group, dim]`; and the `LayerMix`,
        None without layer weights.
    """
    poolings = poolings_of(pooling)
    if POOLINGS["cls"] in poolings and encoder.config.causal:
        raise InputError(
            "pooling='cls' takes the first token, which attends to no other token in a causal "
            "encoder. Use pooling='mean'."
        )
    weights = _check_weights(
        layer_weights, learn_layer_weights, num_layers, encoder.config.num_layers + 1
    )
    mix = None
    if weights is not None:
        mix = LayerMix(weights, trainable=learn_layer_weights, dtype="float32", name="layer_mix")

    def pool_rows(rows):
        states = _compute_states(encoder, rows, num_layers, mix)  # [rows, length, dim]
        return _pool_states(states, rows["padding_mask"], poolings)

    inputs = long_texts.inputs(groups=1)
    vectors = long_texts.vectors(pool_rows, merged(inputs), encoder, "float32")
    for layer in projections:
        vectors = layer(vectors)
    if normalize:
        vectors = keras.layers.UnitNormalization(dtype="float32", name="normalize")(vectors)
    if truncate_dim is not None:
        vectors = vectors[:, : _check_dim(truncate_dim, vectors.shape[-1])]
    outputs = SplitGroups(dtype="float32", name="split")(vectors, inputs["padding_mask"])
    return inputs, outputs, mix


def _check_dim(dim, limit):
    if type(dim) is not int or not 1 <= dim <= limit:
        raise InputError(
            f"truncate_dim must be from 1 to {limit}, the size of a vector. "
            f"Received: truncate_dim={dim!r}"
        )
    return dim


def _check_weights(weights, learned, num_layers, limit):
    check("num_layers", num_layers, Annotated[int, Range(least=1, most=limit)])
    if num_layers == 1 and (learned or weights is not None):
        raise InputError("layer weights require num_layers of 2 or more.")
    if weights is None:
        return [1.0] * num_layers if learned else None
    array = np.asarray(weights)
    is_usable = array.dtype.kind in "iuf" and array.shape == (num_layers,)
    if not is_usable or not np.isfinite(array).all() or not array.sum():
        raise InputError(
            f"layer_weights must be num_layers={num_layers} finite numbers whose sum is not 0. "
            f"Received: {weights!r:.80}"
        )
    return array.astype(float).tolist()


def _compute_states(encoder, features, num_layers, mix):
    features = with_global_mask(encoder, features, None)
    if num_layers == 1:
        return encoder(features)["sequence_output"]
    states = encoder.with_outputs("hidden_states")(features)["hidden_states"][-num_layers:]
    if mix is not None:
        return mix(list(states))
    return keras.layers.Concatenate(dtype="float32", name="layers")(list(states))


def _pool_states(states, padding_mask, poolings):
    names = ["pooling"] if len(poolings) == 1 else [f"{each.name}_pooling" for each in poolings]
    vectors = [each(states, padding_mask, name) for each, name in zip(poolings, names)]
    if len(vectors) == 1:
        return vectors[0]
    return keras.layers.Concatenate(dtype="float32", name="poolings")(vectors)
