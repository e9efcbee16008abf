"""KerasHub's backbones and tasks as they stand in memory."""

import logging
from pathlib import Path

import numpy as np

from keras_bert_impl.interop.huggingface import tensor_prefix
from keras_bert_impl.interop.keras_hub.heads import Head
from keras_bert_impl.interop.keras_hub.names import KINDS, arguments_of, config_of
from keras_bert_impl.interop.keras_hub.places import encoder_places
from keras_bert_impl.io.errors import InputError

_log = logging.getLogger(__name__)
_DTYPES = {"float32": "F32", "float16": "F16", "bfloat16": "BF16", "float64": "F64"}


class KerasHubTensors:
    """The variables of a model of KerasHub under Hugging Face's names.

    Args:
        model: the backbone or task.
        places: dict of the name of each tensor to its `Place`.

    Attributes:
        path: `Path`, for messages: the name of the class.
        header: dict of the name of each tensor to (dtype such as `"F32"`, shape).

    Raises:
        InputError: the model has other variables than its class makes, as with LoRA or quantized.
    """

    def __init__(self, model, places):
        self.path = Path(type(model).__name__)
        variables = {variable.path: variable for variable in model.weights}
        others = sorted(set(variables) ^ {p.path for p in places.values() if p.path})
        if others:
            raise InputError(
                f"{self.path}: its variables are not those of its class: {', '.join(others):.200}."
            )
        self._places, self._variables = places, variables
        self.header = {}
        for name, place in places.items():
            if not place.path:
                self.header[name] = "F32", place.original_shape
                continue
            variable = variables[place.path]
            if tuple(variable.shape) != place.shape:
                raise InputError(
                    f"{self.path}: {place.path} must have shape {place.shape}. "
                    f"Received: {tuple(variable.shape)}"
                )
            dtype = _DTYPES.get(variable.dtype, variable.dtype)
            self.header[name] = dtype, place.original_shape

    def read(self, name):
        """The array of a tensor."""
        place = self._places[name]
        if not place.path:
            return np.zeros(place.original_shape, "float32")
        return place.to_original(self._variables[place.path].numpy())


def open_keras_hub(model):
    """A backbone or task of KerasHub as a model directory of Hugging Face's.

    Heads that are computed as ours, and come along: the text classifiers of BERT, RoBERTa,
    XLM-RoBERTa, ALBERT and DistilBERT without an activation on the logits and with the default
    `hidden_dim`; the masked language models of RoBERTa and XLM-RoBERTa. Those of BERT, ALBERT
    and DistilBERT normalize with an epsilon of 1e-5, and BERT's has the exact GELU on an encoder
    with the approximate one; the publications and ours have one epsilon and one GELU throughout.

    RoBERTa's backbones have no segments and no positions for padding: the tensors have rows of
    zeros there.

    Args:
        model: one of `keras_hub.models`: a `BertBackbone`, `RobertaBackbone`,
            `XLMRobertaBackbone`, `AlbertBackbone`, `DistilBertBackbone` or `ElectraBackbone`, or
            a task with one.

    Returns:
        (config, tensors): dict as in a `config.json`, and `KerasHubTensors`.

    Raises:
        InputError: another class, an argument that our encoder does not compute, or a head that
            is not computed as ours.
    """
    backbone = getattr(model, "backbone", model)
    kind = _kind_of(backbone)
    source = type(backbone).__name__
    config = config_of(kind, backbone.get_config(), source)
    task = "" if backbone is model else type(model).__name__
    head = Head(kind, config, task, model.get_config())
    if task and head.name is None:
        raise InputError(f"{head.reason}; give its backbone for the encoder alone.")
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
        f"expected a backbone of KerasHub, one of {', '.join(KINDS)}, or a task with one. "
        f"Received: {type(backbone).__name__}"
    )


def to_keras_hub(config, tensors, dtype=None):
    """A backbone of KerasHub with the weights of an encoder.

    It computes the same, but for what it has no place for: see `fit_encoder`.

    Args:
        config: `EncoderConfig`.
        tensors: dict of Hugging Face's names, without a prefix, to arrays.
        dtype: Keras dtype policy of the backbone.

    Returns:
        A backbone of `keras_hub.models`. A pooler that it has and the encoder has not is new.

    Raises:
        InputError: no backbone has this configuration; names what it cannot have.
    """
    kind, arguments = arguments_of(config)
    tensors = fit_encoder(config, tensors)
    import keras_hub

    backbone = getattr(keras_hub.models, kind.backbone)(**arguments, dtype=dtype)
    places = encoder_places(kind, config)
    new = [place.path for place in places if place.name.tensor not in tensors]
    if new:
        _log.warning("%s: newly made: %s", kind.backbone, ", ".join(new))
    assign(backbone, places, tensors)
    return backbone


def assign(model, places, tensors):
    """Sets those variables of a model of KerasHub of which there are tensors.

    Args:
        model: backbone or task.
        places: list of `Place`.
        tensors: dict of Hugging Face's names to arrays.
    """
    variables = {variable.path: variable for variable in model.weights}
    for place in places:
        if place.path and place.name.tensor in tensors:
            array = np.asarray(tensors[place.name.tensor])
            variables[place.path].assign(place.from_original(array))


def fit_encoder(config, tensors):
    """The tensors of an encoder as they come back from a backbone of KerasHub.

    The pooler of RoBERTa, XLM-RoBERTa and DistilBERT is left out, with a warning; a segment
    embedding of RoBERTa is added to the positions; padding has no position of its own, which
    changes outputs at padding only.

    Args:
        config, tensors: as of `to_keras_hub`.

    Returns:
        dict of names to arrays.

    Raises:
        InputError: as of `to_keras_hub`.
    """
    kind, _ = arguments_of(config)
    places = encoder_places(kind, config)
    left_out = sorted(set(tensors) - {place.name.tensor for place in places})
    if left_out:
        _log.warning("%s: has no place for: %s", kind.backbone, ", ".join(left_out))
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
    """The row that every token gets and KerasHub has no place for; -0.0, which adds nothing."""
    rows = [tensors[place.name.tensor] for place in places if not place.path]
    segment = np.asarray(rows[0][0]) if rows else np.zeros(())
    return segment if segment.any() else np.float32(-0.0)
