"""Converts KerasHub backbones and tasks in memory."""

import logging
from pathlib import Path
from typing import Any

import numpy as np

from keras_bert_impl.config import EncoderConfig
from keras_bert_impl.interop.huggingface import tensor_prefix
from keras_bert_impl.interop.keras_hub.heads import Head
from keras_bert_impl.interop.keras_hub.names import KINDS, arguments_of, config_of
from keras_bert_impl.interop.keras_hub.places import Place, encoder_places
from keras_bert_impl.interop.source import DTYPES, Tensors
from keras_bert_impl.io.errors import InputError

_log = logging.getLogger(__name__)


class KerasHubTensors:
    """The variables of a KerasHub model under Hugging Face names, as a `TensorFile`.

    Raises:
        InputError: the variables differ from those of the class, as with LoRA or quantization.
    """

    def __init__(self, model: Any, places: dict[str, Place]) -> None:
        self.path = Path(type(model).__name__)
        variables = {variable.path: variable for variable in model.weights}
        others = sorted(set(variables) ^ {p.path for p in places.values() if p.path})
        if others:
            raise InputError(
                f"{self.path}: its variables differ from its class's: {', '.join(others):.200}."
            )
        self._places, self._variables = places, variables
        self.header = {}
        for name, place in places.items():
            dtype = "float32"
            if place.path:
                shape, dtype = tuple(variables[place.path].shape), variables[place.path].dtype
                if shape != place.shape:
                    raise InputError(
                        f"{self.path}: {place.path} must have shape {place.shape}. "
                        f"Received: {shape}"
                    )
            self.header[name] = DTYPES.get(dtype, dtype), place.original_shape

    def read(self, name: str) -> np.ndarray:
        """Returns a tensor as an array."""
        place = self._places[name]
        if not place.path:
            return np.zeros(place.original_shape, "float32")
        return place.to_original(self._variables[place.path].numpy())


def open_keras_hub(model: Any) -> tuple[dict[str, Any], KerasHubTensors]:
    """Presents a KerasHub backbone or task as a Hugging Face model directory.

    Heads that are computed the same way as ours are included: the text classifiers of BERT,
    RoBERTa, XLM-RoBERTa, ALBERT and DistilBERT without an activation on the logits and with the
    default `hidden_dim`; the masked LMs of RoBERTa and XLM-RoBERTa. The masked LMs of BERT, ALBERT
    and DistilBERT normalize with an epsilon of 1e-5, and BERT's uses the exact GELU on an encoder
    with the approximate one. The publications and our models use one epsilon and one GELU
    throughout.

    RoBERTa backbones have no segments and no positions for padding; the tensors have rows of zeros
    there.

    Args:
        model: `BertBackbone`, `RobertaBackbone`, `XLMRobertaBackbone`, `AlbertBackbone`,
            `DistilBertBackbone` or `ElectraBackbone` of `keras_hub.models`, or a task with one.

    Returns:
        (content of a `config.json`, tensors).

    Raises:
        InputError: another class, an argument that our encoder does not support, or a head that is
            computed differently.
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
    places = {prefix + place.name.tensor: place for place in encoder_places(kind, config)}
    places |= {place.name.tensor: place for place in head.places}
    return head.config, KerasHubTensors(model, places)


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
    places = encoder_places(kind, config)
    new = [place.path for place in places if place.name.tensor not in tensors]
    if new:
        _log.warning("%s: newly initialized: %s", kind.backbone, ", ".join(new))
    assign(backbone, places, tensors)
    return backbone


def assign(model: Any, places: list[Place], tensors: Tensors) -> None:
    """Sets the variables of a KerasHub backbone or task for which there are tensors."""
    variables = {variable.path: variable for variable in model.weights}
    for place in places:
        if place.path and place.name.tensor in tensors:
            array = np.asarray(tensors[place.name.tensor])
            variables[place.path].assign(place.from_original(array))


def fit_encoder(config: EncoderConfig, tensors: Tensors) -> Tensors:
    """Returns an encoder's tensors as they would be read back from a KerasHub backbone.

    The pooler of RoBERTa, XLM-RoBERTa and DistilBERT is left out with a warning. A segment
    embedding of RoBERTa is added to the positions. Padding has no separate position, which changes
    outputs only at padding. Arguments and errors are those of `to_keras_hub`.
    """
    kind, _ = arguments_of(config)
    places = encoder_places(kind, config)
    left_out = sorted(set(tensors) - {place.name.tensor for place in places})
    if left_out:
        _log.warning("%s: has no variables for: %s", kind.backbone, ", ".join(left_out))
    segment = _only_segment(places, tensors)
    fitted = {}
    for place in places:
        array = tensors.get(place.name.tensor)
        if array is not None and not place.path:
            array = np.zeros_like(array)
        elif array is not None and place.offset:
            array = place.to_original(place.from_original(np.asarray(array)) + segment)
        if array is not None:
            fitted[place.name.tensor] = array
    return fitted


def _only_segment(places, tensors):
    """Returns the only segment embedding if KerasHub has none, or -0.0, which adds nothing."""
    rows = [tensors[place.name.tensor] for place in places if not place.path]
    segment = np.asarray(rows[0][0]) if rows else np.zeros(())
    return segment if segment.any() else np.float32(-0.0)
