"""Converts KerasHub backbones and tasks in memory, and writes presets."""

import json
import logging
from pathlib import Path
from typing import Any

import numpy as np

from keras_bert_impl.checkpoints.config import EncoderConfig
from keras_bert_impl.checkpoints.interop.huggingface import (
    all_tensors,
    encoder_config,
    tensor_prefix,
)
from keras_bert_impl.checkpoints.interop.keras_hub.names import (
    KINDS,
    NOTES,
    Head,
    Location,
    arguments_of,
    config_of,
    encoder_locations,
    head_of,
)
from keras_bert_impl.checkpoints.interop.source import Tensors
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.io.files import replace_directory
from keras_bert_impl.utils.io.mapping import DTYPES
from keras_bert_impl.utils.optional_libraries import import_keras_hub

_log = logging.getLogger(__name__)


class KerasHubTensors:
    """A `TensorFile` for a KerasHub model, with Hugging Face names."""

    def __init__(self, model: Any, locations: dict[str, Location]) -> None:
        self.path = Path(type(model).__name__)
        variables = {variable.path: variable for variable in model.weights}
        paths = sorted(set(variables) ^ {p.path for p in locations.values() if p.path})
        if paths:
            raise InputError(
                f"{self.path}: the model has unexpected variables: {', '.join(paths):.200}."
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
        location = self._locations[name]
        if not location.path:
            return np.zeros(location.original_shape, "float32")
        return location.to_original(self._variables[location.path].numpy())


def open_keras_hub(model: Any) -> tuple[dict[str, Any], KerasHubTensors]:
    """Opens a KerasHub backbone or task.

    Returns:
        (content of a `config.json`, tensors).
    """
    backbone = getattr(model, "backbone", model)
    kind = _find_kind(backbone)
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


def _find_kind(backbone):
    keras_hub = import_keras_hub()
    for name, kind in KINDS.items():
        if type(backbone) is getattr(keras_hub.models, name):
            return kind
    raise InputError(
        f"expected a KerasHub backbone, one of {', '.join(KINDS)}, or a task with one. "
        f"Received: {type(backbone).__name__}"
    )


def to_keras_hub(config: EncoderConfig, tensors: Tensors, dtype: Any = None) -> Any:
    """Creates a KerasHub backbone with the weights of an encoder.

    The backbone has the same outputs as the encoder if KerasHub has variables for all tensors.

    Args:
        tensors: The encoder's tensors, keyed by Hugging Face name without a prefix.
        dtype: Keras dtype policy of the backbone.

    Returns:
        A backbone of `keras_hub.models`. If the encoder has no pooler, the backbone's pooler is
        newly initialized.
    """
    kind, arguments = arguments_of(config)
    tensors = fit_encoder(config, tensors)
    keras_hub = import_keras_hub()
    backbone = getattr(keras_hub.models, kind.backbone)(**arguments, dtype=dtype)
    locations = encoder_locations(kind, config)
    new = [location.path for location in locations if location.name.tensor not in tensors]
    if new:
        _log.warning("%s: newly initialized: %s", kind.backbone, ", ".join(new))
    assign(backbone, locations, tensors)
    return backbone


def assign(model: Any, locations: list[Location], tensors: Tensors) -> None:
    variables = {variable.path: variable for variable in model.weights}
    for location in locations:
        if location.path and location.name.tensor in tensors:
            array = np.asarray(tensors[location.name.tensor])
            variables[location.path].assign(location.from_original(array))


def fit_encoder(config: EncoderConfig, tensors: Tensors) -> Tensors:
    """Returns the encoder tensors as a KerasHub model stores them.

    Tensors without a variable in KerasHub are dropped with a warning.
    """
    kind, _ = arguments_of(config)
    locations = encoder_locations(kind, config)
    left_out = sorted(set(tensors) - {location.name.tensor for location in locations})
    if left_out:
        _log.warning("%s has no variables for: %s", kind.backbone, ", ".join(left_out))
    segment = _find_only_segment(locations, tensors)
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


def _find_only_segment(locations, tensors):
    # If the class has no segment embeddings, the embedding of the only segment is added to each
    # position embedding. Without this embedding, -0.0 is added, which changes no number (0.0
    # would change -0.0 to 0.0).
    rows = [tensors[location.name.tensor] for location in locations if not location.path]
    segment = np.asarray(rows[0][0]) if rows else np.zeros(())
    return segment if segment.any() else np.float32(-0.0)


def write_keras_hub_preset(
    directory: str | Path, described: dict[str, Any], tensors: Tensors, tokenizer: Any = None
) -> Tensors:
    """Writes a KerasHub preset, which `from_preset` loads.

    The head is included if KerasHub has a task with the same outputs. All other heads are omitted
    with a warning. With a tokenizer, the preset includes a preprocessor, so that
    `TextClassifier.from_preset` and `MaskedLM.from_preset` accept strings. The preprocessor
    truncates the strings to the encoder's maximum length.

    Args:
        described: Content of a `config.json`.
        tensors: Tensors, keyed by Hugging Face name. The names of encoder tensors may omit the
            prefix, such as `bert.`.
        tokenizer: KerasHub tokenizer, as created by `tokenizers.keras_hub_saving.to_keras_hub`.

    Returns:
        {name: tensor as written}.

    Raises:
        InputError: no backbone supports the configuration, or the directory is not writable.

    Example:
        import keras_hub
        from keras_bert_impl.checkpoints.interop import write_keras_hub_preset
        write_keras_hub_preset("preset", described, tensors)
        keras_hub.models.TextClassifier.from_preset("preset")
    """
    config = encoder_config(described)
    kind, _ = arguments_of(config)
    encoder, head_tensors = _split_tensors(config, tensors)
    encoder = fit_encoder(config, encoder)
    head = _find_head(kind, config, described, head_tensors)
    dtypes = {np.asarray(array).dtype.name for array in encoder.values()}
    model = to_keras_hub(config, encoder, dtypes.pop() if len(dtypes) == 1 else None)
    written = encoder
    if head:
        model = _create_task(model, head, head_tensors, tokenizer, config.max_length)
        names = [location.name.tensor for location in head.locations]
        written = {tensor_prefix(config) + name: array for name, array in encoder.items()}
        written |= {name: head_tensors.pop(name) for name in names}
    if head_tensors:
        _log.warning(
            "%s has no variables for: %s", type(model).__name__, ", ".join(sorted(head_tensors))
        )
    with replace_directory(directory) as temporary:
        try:
            model.save_to_preset(str(temporary))
            if tokenizer is not None:
                tokenizer.save_to_preset(str(temporary))
        except OSError as error:  # The exceptions of h5py do not always have an error code.
            raise InputError(f"cannot write {directory}: {error}.".replace("\n", " ")) from error
        if head:
            _write_notes(temporary / "task.json", described)
    return written


def _split_tensors(config, tensors):
    """Splits tensors into (encoder tensors without their prefix, head tensors)."""
    heads = {name.tensor for name in all_tensors(config)[1]} & set(tensors)
    prefix = tensor_prefix(config)
    encoder = {name.removeprefix(prefix): tensors[name] for name in tensors if name not in heads}
    return encoder, {name: tensors[name] for name in heads}


def _find_head(kind, config, described, tensors):
    """Returns the `Head`, or None if KerasHub has no equivalent head."""
    head = head_of(kind, config, described, tensors)
    if head and not head.name:
        _log.warning("only the encoder is written: %s", head.reason)
        return None
    return head


def _create_task(backbone, head, tensors, tokenizer, max_length):
    """Creates the KerasHub task for a head. With a tokenizer, the task accepts strings."""
    keras_hub = import_keras_hub()
    preprocessor = None
    if tokenizer is not None:
        kind = getattr(keras_hub.models, f"{head.task}Preprocessor")
        preprocessor = kind(tokenizer, sequence_length=max_length)
    kind = getattr(keras_hub.models, head.task)
    task = kind(backbone=backbone, preprocessor=preprocessor, **head.arguments)
    assign(task, head.locations, tensors)
    return task


def _write_notes(path, described):
    """Adds settings of this package, such as the class names, to task.json."""
    notes = {name: described[name] for name in NOTES if name in described}
    settings = json.loads(path.read_text(encoding="utf-8"))
    text = json.dumps(settings | {"keras_bert_impl": notes}, indent=4)
    path.write_text(text, encoding="utf-8")
