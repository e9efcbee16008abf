"""Converts KerasHub backbones and tasks in memory."""

import logging
from pathlib import Path
from typing import Any

import numpy as np

from keras_bert_impl.config import EncoderConfig
from keras_bert_impl.interop.huggingface import tensor_prefix
from keras_bert_impl.interop.keras_hub.heads import Head
from keras_bert_impl.interop.keras_hub.locations import Location, encoder_locations
from keras_bert_impl.interop.keras_hub.names import KINDS, arguments_of, config_of
from keras_bert_impl.interop.source import DTYPES, Tensors
from keras_bert_impl.io.errors import InputError

_log = logging.getLogger(__name__)


class KerasHubTensors:
    """The variables of a KerasHub model under Hugging Face names, as a `TensorFile`."""

    def __init__(self, model: Any, locations: dict[str, Location]) -> None:
        self.path = Path(type(model).__name__)
        variables = {variable.path: variable for variable in model.weights}
        others = sorted(set(variables) ^ {p.path for p in locations.values() if p.path})
        if others:
            raise InputError(
                f"{self.path}: its variables differ from its class's: {', '.join(others):.200}."
            )
        self._locations, self._variables = locations, variables
        self.header = {}
        for name, location in locations.items():
            dtype = "float32"
            if location.path:
                shape, dtype = tuple(variables[location.path].shape), variables[location.path].dtype
                if shape != location.shape:
                    raise InputError(
                        f"{self.path}: {location.path} must have shape {location.shape}. "
                        f"Received: {shape}"
                    )
            self.header[name] = DTYPES.get(dtype, dtype), location.original_shape

    def read(self, name: str) -> np.ndarray:
        """Returns a tensor as an array."""
        location = self._locations[name]
        if not location.path:
            return np.zeros(location.original_shape, "float32")
        return location.to_original(self._variables[location.path].numpy())


def open_keras_hub(model: Any) -> tuple[dict[str, Any], KerasHubTensors]:
    """Presents a KerasHub backbone or task as a Hugging Face model directory.

    Returns:
        (content of a `config.json`, tensors).
    """
    backbone = getattr(model, "backbone", model)
    kind = _kind_of(backbone)
    source = type(backbone).__name__
    config = config_of(kind, backbone.get_config(), source)
    task = "" if backbone is model else type(model).__name__
    head = Head(kind, config, task, model.get_config())
    if task and head.name is None:
        raise InputError(f"{head.reason}; pass its backbone to convert only the encoder.")
    prefix = tensor_prefix(config) if task else ""
    locations = {
        prefix + location.name.tensor: location for location in encoder_locations(kind, config)
    }
    locations |= {location.name.tensor: location for location in head.locations}
    return head.config, KerasHubTensors(model, locations)


def _kind_of(backbone):
    import keras_hub

    for name, kind in KINDS.items():
        if type(backbone) is getattr(keras_hub.models, name):
            return kind
    raise InputError(
        f"expected a KerasHub backbone, one of {', '.join(KINDS)}, or a task with one. "
        f"Received: {type(backbone).__name__}"
    )


def to_keras_hub(config: EncoderConfig, tensors: Tensors, dtype: Any = None) -> Any:
    """Creates a KerasHub backbone with the weights of an encoder.

    It computes the same outputs, except for what it has no variables for: see `fit_encoder`.

    Args:
        tensors: The encoder's tensors by Hugging Face name, without a prefix.
        dtype: Keras dtype policy of the backbone.

    Returns:
        A backbone of `keras_hub.models`. A pooler that the encoder lacks is newly initialized.
    """
    kind, arguments = arguments_of(config)
    tensors = fit_encoder(config, tensors)
    import keras_hub

    backbone = getattr(keras_hub.models, kind.backbone)(**arguments, dtype=dtype)
    locations = encoder_locations(kind, config)
    new = [location.path for location in locations if location.name.tensor not in tensors]
    if new:
        _log.warning("%s: newly initialized: %s", kind.backbone, ", ".join(new))
    assign(backbone, locations, tensors)
    return backbone


def assign(model: Any, locations: list[Location], tensors: Tensors) -> None:
    """Sets the variables of a KerasHub backbone or task for which there are tensors."""
    variables = {variable.path: variable for variable in model.weights}
    for location in locations:
        if location.path and location.name.tensor in tensors:
            array = np.asarray(tensors[location.name.tensor])
            variables[location.path].assign(location.from_original(array))


def fit_encoder(config: EncoderConfig, tensors: Tensors) -> Tensors:
    """Returns an encoder's tensors as they would be read back from a KerasHub backbone."""
    kind, _ = arguments_of(config)
    locations = encoder_locations(kind, config)
    left_out = sorted(set(tensors) - {location.name.tensor for location in locations})
    if left_out:
        _log.warning("%s: has no variables for: %s", kind.backbone, ", ".join(left_out))
    segment = _only_segment(locations, tensors)
    fitted = {}
    for location in locations:
        array = tensors.get(location.name.tensor)
        if array is not None and not location.path:
            array = np.zeros_like(array)
        elif array is not None and location.offset:
            array = location.to_original(location.from_original(np.asarray(array)) + segment)
        if array is not None:
            fitted[location.name.tensor] = array
    return fitted


def _only_segment(locations, tensors):
    """Returns the only segment embedding if KerasHub has none, or -0.0, which adds nothing."""
    rows = [tensors[location.name.tensor] for location in locations if not location.path]
    segment = np.asarray(rows[0][0]) if rows else np.zeros(())
    return segment if segment.any() else np.float32(-0.0)
