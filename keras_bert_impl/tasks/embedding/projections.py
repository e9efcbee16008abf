"""Projection layers of a `TextEmbedder`, applied to the pooled vector."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_bert_impl.interop.sentence_transformers import ACTIVATIONS
from keras_bert_impl.io.errors import InputError
from keras_bert_impl.layers.basic import HEAD_ACTIVATIONS, LayerNormalization
from keras_bert_impl.models.weights import assign

_DENSE = {"kind": "dense", "dim": None, "activation": "tanh", "use_bias": True}
_LAYER_NORM_EPSILON = 1e-5  # default of PyTorch, and thus of `sentence-transformers`


def checked_projections(projections: Sequence[dict[str, Any]] | None) -> list[dict[str, Any]]:
    """Checks projections and fills in their defaults."""
    return [_checked(projection) for projection in projections or []]


def _checked(projection):
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
    dim, activation = projection["dim"], projection["activation"]
    if type(dim) is not int or dim < 1:
        raise InputError(f"dim of a projection must be a positive int. Received: dim={dim!r}")
    if activation not in list(ACTIVATIONS):
        raise InputError(
            f"activation of a projection must be one of {', '.join(ACTIVATIONS)}. "
            f"Received: activation={activation!r:.60}"
        )
    return projection


def projection_layers(projections: list[dict[str, Any]]) -> list[keras.layers.Layer]:
    """Returns the Keras layers, in float32, for the result of `checked_projections`."""
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
    """Sets the weights of projections."""
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
    """Returns a list of dicts of NumPy arrays, in the format of `set_tensors`."""
    return [{weight.name: np.asarray(weight) for weight in layer.weights} for layer in layers]
