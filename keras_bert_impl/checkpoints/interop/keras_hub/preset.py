"""Reads KerasHub presets: directories with a configuration and weights in HDF5 files.

KerasHub's `from_preset` is not used, because it instantiates any class named in the files, and
needs memory for a second copy of the weights.
"""

import contextlib
import logging
import re
from pathlib import Path
from typing import Any

import numpy as np

from keras_bert_impl.checkpoints.interop.hdf5 import StoredArray, find_array, member, opened
from keras_bert_impl.checkpoints.interop.huggingface import huggingface_config, tensor_prefix
from keras_bert_impl.checkpoints.interop.keras_hub.names import (
    KINDS,
    NOTES,
    Head,
    Location,
    config_of,
    encoder_locations,
)
from keras_bert_impl.utils.errors import InputError, shown
from keras_bert_impl.utils.io.mapping import DTYPES
from keras_bert_impl.utils.io.paths import local_path
from keras_bert_impl.utils.io.reading import file_within, read_json

_log = logging.getLogger(__name__)
_PACKAGES = ("keras_hub", "keras_nlp")  # `keras_nlp` is the package name in old presets.
_WEIGHTS, _INDEX, _TASK_WEIGHTS = "model.weights.h5", "model.weights.json", "task.weights.h5"
_SHARD = re.compile(r"model_\d{5}\.weights\.h5")
_INDICES = {"kernel": "0", "gamma": "0", "embeddings": "0", "output_bias": "0"}
_INDICES |= {"bias": "1", "beta": "1"}
# The folder of a layer in the file is named after its class; repeated names get a number.
_CLASSES = {
    "token_embedding": "reversible_embedding",
    "position_embedding": "position_embedding",
    "segment_embedding": "embedding",
    "embeddings_layer_norm": "layer_normalization",
    "embeddings": "token_and_position_embedding",
    "token_and_position_embedding": "token_and_position_embedding",
    "embedding_projection": "dense",
    "embeddings_projection": "dense",
    "pooled_dense": "dense",
    "logits": "dense",
    "mlm_head": "masked_lm_head",
}
_ATTRIBUTES = {
    "query": "query_dense",
    "key": "key_dense",
    "value": "value_dense",
    "attention_output": "output_dense",
    "token_embedding": "token_embedding",
    "position_embedding": "position_embedding",
}


def open_preset(directory: str | Path) -> "tuple[dict[str, Any], PresetTensors]":
    """Opens a preset, with the head of its task.

    Returns:
        (content of a `config.json`, tensors).
    """
    directory = local_path(directory)
    path = file_within(directory, "config.json")
    name, arguments = _read_class(path)
    if name not in KINDS:
        raise InputError(
            f"{path}: registered_name {name!r:.80} is not supported; supported are "
            f"{', '.join(KINDS)}."
        )
    kind = KINDS[name]
    config = config_of(kind, arguments, path)
    files = _resolve_weights(directory)
    _check_number_of_layers(path, config, files)
    head = _read_head(directory, kind, config)
    prefix = tensor_prefix(config) if head else ""
    parts = [(prefix, encoder_locations(kind, config), files)]
    if head:
        parts.append(("", head.locations, [file_within(directory, _TASK_WEIGHTS)]))
    described = head.config if head else huggingface_config(config)
    return described, PresetTensors(directory, parts)


def _read_class(path):
    """Returns (class name without the package, arguments) from a KerasHub JSON file."""
    value = read_json(path)
    package, _, name = value.text("registered_name").partition(">")
    if package not in _PACKAGES or value.get("config") is None:
        raise InputError(
            f"{path}: registered_name {shown(value['registered_name'])} is not a class of "
            "KerasHub, or config is missing."
        )
    return name, value.mapping("config")


def _resolve_weights(directory):
    whole, index = file_within(directory, _WEIGHTS), file_within(directory, _INDEX)
    if whole.exists():
        return [whole]
    if not index.exists():
        raise InputError(f"{directory} has no weights: neither {_WEIGHTS} nor {_INDEX}.")
    locations = read_json(index).mapping("weight_map", None)
    if locations is None:
        raise InputError(f"{index} has no weight_map.")
    names: set[str] = set()
    for tensor, entry in locations.items():
        names.update([entry] if isinstance(entry, str) else locations.list_of(tensor, str))
    bad = sorted(name for name in names if not _SHARD.fullmatch(name))
    if bad or not names:
        raise InputError(
            f"{index}: {bad[0]!r:.80} is not the name of a shard." if bad else f"{index} is empty."
        )
    files = [file_within(directory, name) for name in sorted(names)]
    for file in files:
        if not file.exists():
            raise InputError(f"{index} lists {file.name}, which is missing.")
    return files


def _check_number_of_layers(path, config, files):
    """Raises `InputError` if the configuration has more blocks than the weights."""
    num_stored = 0
    for file in files:
        with opened(file) as content:
            for name in ("layers", "_layer_checkpoint_dependencies"):
                group = member(content, name, file)
                num_stored += len(group) if hasattr(group, "keys") else 0
    blocks = config.num_layer_groups or config.num_layers
    if blocks > num_stored:
        raise InputError(f"{path} has {blocks} blocks, but the weights have {num_stored} blocks.")


def _read_head(directory, kind, config):
    """Returns the `Head` of the preset's task, or None."""
    path = file_within(directory, "task.json")
    if not path.exists():
        return None
    head = Head(kind, config, *_read_class(path))
    if head.name and not file_within(directory, _TASK_WEIGHTS).exists():
        raise InputError(f"{directory} has a task.json, but no {_TASK_WEIGHTS}.")
    if not head.name:
        _log.warning("%s: only the encoder is read: %s", directory, head.reason)
        return None
    notes = read_json(path).mapping("keras_bert_impl")
    head.config |= {name: notes[name] for name in NOTES if name in notes}
    return head


class PresetTensors:
    """`TensorFile` for the HDF5 files of a preset, with Hugging Face tensor names."""

    def __init__(self, path: Path, parts: list[tuple[str, list[Location], list[Path]]]) -> None:
        self.path = path
        self.header: dict[str, tuple[str, tuple[int, ...]]] = {}
        self._tensors: dict[str, tuple[Location, StoredArray | None]] = {}
        for prefix, locations, files in parts:
            stored = [location for location in locations if location.path]
            arrays = dict(zip(stored, _find_arrays(_list_names(stored), files)))
            for location in locations:
                name = prefix + location.name.tensor
                self._tensors[name] = location, arrays.get(location)
                self.header[name] = (
                    _read_dtype(location, arrays.get(location)),
                    location.original_shape,
                )

    def read(self, name: str) -> np.ndarray:
        location, array = self._tensors[name]
        if array is None:
            return np.zeros(location.original_shape, "float32")
        return location.to_original(array.read())


def _read_dtype(location, array):
    """Returns a tensor's dtype after checking its shape."""
    if array is None:
        return "F32"
    if array.shape != location.shape:
        raise InputError(
            f"{array.file}: {array.name} must have shape {location.shape}, according to the "
            f"configuration. Received: {array.shape}"
        )
    return DTYPES[array.dtype.newbyteorder("=").name]


def _find_arrays(names, files):
    """Searches all files for the names; returns {name: `StoredArray`}."""
    with contextlib.ExitStack() as stack:
        contents = [(stack.enter_context(opened(file)), file) for file in files]
        arrays = []
        for name in names:
            matches = (
                find_array(content, spelling, file)
                for spelling in _list_spellings(name)
                for content, file in contents
            )
            array = next(filter(None, matches), None)
            if array is None:
                raise InputError(f"{files[0]}: {name} is missing.")
            arrays.append(array)
        return arrays


def _list_spellings(name):
    old = re.sub(r"/(query|key|value|output)_dense/", r"/_\1_dense/", name)
    spellings = dict.fromkeys((name, old))
    older = [s.replace("layers/", "_layer_checkpoint_dependencies/", 1) for s in spellings]
    return [*spellings, *older]


def _list_names(locations):
    """Returns the variable names in a weights file written by Keras."""
    numbers: dict[str, dict[str, int]] = {}  # class -> layer name -> index
    names = []
    for location in locations:
        layer, *inner, variable = location.path.split("/")
        folder = _CLASSES.get(layer, "transformer_encoder")
        number = numbers.setdefault(folder, {}).setdefault(layer, len(numbers[folder]))
        inner = [_ATTRIBUTES.get(part, f"_{part}") for part in inner]
        parts = ["layers", f"{folder}_{number}" if number else folder, *inner]
        names.append("/".join([*parts, "vars", _INDICES[variable]]))
    return names
