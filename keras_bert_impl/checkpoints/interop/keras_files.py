"""Reads the weights of Keras 2 models that contain an encoder.

The file may be an HDF5 file, a `.keras` file, a SavedModel or a checkpoint. Only the variables are
read, and no code in the file runs.
"""

import itertools
import re
from pathlib import Path
from typing import Any

import numpy as np

from keras_bert_impl.checkpoints.interop.google.checkpoint import Checkpoint, find_checkpoint
from keras_bert_impl.checkpoints.interop.google.objects import OBJECT_GRAPH, variable_names
from keras_bert_impl.checkpoints.interop.google.settings import read_settings
from keras_bert_impl.checkpoints.interop.hdf5 import Hdf5File, model_config
from keras_bert_impl.checkpoints.interop.keras_names import (
    MODEL_GARDEN,
    Library,
    library_of,
    with_ranks,
)
from keras_bert_impl.checkpoints.interop.source import TensorFile
from keras_bert_impl.utils.errors import InputError, listed, shown
from keras_bert_impl.utils.io.paths import version_of
from keras_bert_impl.utils.io.reading import Document, file_within, parse_config, path_within

_ENDINGS = (".h5", ".hdf5", ".keras")
# Class of a layer in keras-bert, bert4keras or bert-for-tf2 -> {setting: key of `config.json`, or
# a tuple with the only supported value}. Other settings determine which tensors exist.
_LAYERS: dict[str, dict[str, str | tuple]] = {
    "FeedForward": {"activation": "hidden_act"},
    "LayerNormalization": {
        "epsilon": "layer_norm_eps",
        **dict.fromkeys(("zero_mean", "unit_variance"), (True,)),
        "conditional": (False,),
    },
    "MultiHeadAttention": {
        **dict.fromkeys(("head_num", "heads"), "num_attention_heads"),
        "attention_dropout": "attention_probs_dropout_prob",
        "activation": ("linear",),
        "history_only": (False,),
        "normalization": ("softmax",),
        "attention_scale": (True,),
    },
    "PositionEmbedding": dict.fromkeys(("mode", "merge_mode"), ("add",)),
    "Dropout": {"rate": "hidden_dropout_prob"},
    "BertModelLayer": {
        "num_heads": "num_attention_heads",
        "intermediate_activation": "hidden_act",
        "hidden_dropout": "hidden_dropout_prob",
        "attention_dropout": "attention_probs_dropout_prob",
        **dict.fromkeys(("query_activation", "key_activation", "value_activation"), (None,)),
        "adapter_size": (None,),
    },
}
_OF_LIBRARY = re.compile(r"(Embedding|Encoder-\d+|Transformer-\d+|MLM)-.*")
_GELUS = {"gelu_erf": "gelu", "gelu_tanh": "gelu_new"}  # names in bert4keras
_KEYS = {  # variable -> keys of `config.json` that determine its shape
    "embeddings/token_embeddings": ("vocab_size", "hidden_size"),
    "embeddings/position_embeddings": ("max_position_embeddings",),
    "embeddings/segment_embeddings": ("type_vocab_size",),
    "layer_0/intermediate/kernel": ("hidden_size", "intermediate_size"),
}
_WHERE = "Add the model's config.json or bert_config.json to the directory."


def find_keras_file(directory: Path) -> Path | None:
    """Returns the weights file, SavedModel or checkpoint prefix in a directory, or None.

    Raises:
        InputError: the directory contains several such files.
    """
    candidates = [
        path
        for path in sorted(directory.glob("*"))
        if path.name.endswith(_ENDINGS) and path.is_file()
    ]
    models = (directory, *_list_saved_models(directory))
    candidates += [path for path in models if (path / "saved_model.pb").is_file()][:1]
    if any(directory.glob("*.index")):
        candidates.append(find_checkpoint(directory) or directory)
    if len(candidates) > 1:
        several = listed(path.name for path in candidates)
        raise InputError(
            f"{directory} contains several weights files: {several}; keep one of them."
        )
    return candidates[0] if candidates else None


def _list_saved_models(directory):
    """Returns the versions in the folder `saved_model` of `transformers`, newest first."""
    folder = path_within(directory, "saved_model")
    versions = [path_within(folder, path.name) for path in folder.glob("[0-9]*")]
    return sorted(versions, key=lambda path: version_of(path.name) or 0, reverse=True)


def open_keras_file(path: Path) -> TensorFile:
    if path.name.endswith(_ENDINGS):
        return Hdf5File(file_within(path.parent, path.name))
    return ObjectFile(Checkpoint(find_checkpoint(path) or path))


def is_of_library(path: Path) -> bool:
    """Returns whether weights were saved by `transformers` or a BERT library for Keras."""
    if path.name.endswith(_ENDINGS):
        return True
    checkpoint = Checkpoint(find_checkpoint(path) or path)
    if OBJECT_GRAPH not in checkpoint.variables:
        return False
    names = variable_names(checkpoint).values()
    library = library_of(names)
    return any("/layer_._0/" in name for name in names) or (
        library is not None and library.name != MODEL_GARDEN
    )


def keras_config(path: Path) -> Document:
    """Reads the encoder's configuration from `bert_config.json`, or else from the Keras model."""
    file, settings = read_settings(path if path.is_dir() else path.parent)
    if file is not None:
        family = file.name.removesuffix("_config.json")
        return Document({"model_type": family, **settings}, file)
    text = model_config(path) if path.name.endswith(_ENDINGS) else None
    parts = _walk_dicts(parse_config(text, path)) if text else []
    configs = [part for part in parts if isinstance(part.get("model_type"), str)]
    library = library_of(Hdf5File(path).header) if text and not configs else None
    if library is not None and "num_attention_heads" in stated_settings(path, library):
        configs = [_infer_sizes(path, library)]  # `renamed` adds the stated settings.
    if not configs:
        raise InputError(f"{path} does not contain the configuration of the encoder. {_WHERE}")
    return Document(configs[0], path)


def stated_settings(path: Path, library: Library) -> dict[str, Any]:
    """Reads the settings in the layers of a whole Keras model, under the keys of `config.json`.

    Returns an empty dict for a file that contains only weights.

    Raises:
        InputError: A layer has a setting that this package does not support, or layers differ.
    """
    text = model_config(path) if path.name.endswith(_ENDINGS) else None
    settings: dict[str, Any] = {}
    for layer in _walk_dicts(parse_config(text, path)) if text else ():
        config, kind = layer.get("config"), str(layer.get("class_name")).rpartition(">")[2]
        if not isinstance(config, dict) or kind not in _LAYERS:
            continue
        name = str(config.get("name"))
        if kind != "BertModelLayer" and not _OF_LIBRARY.fullmatch(name):
            continue  # a layer of the user
        for setting, key in _LAYERS[kind].items():
            value = config.get(setting)
            if setting not in config or (value,) == key:
                continue
            if isinstance(key, str):
                if key == "hidden_act":
                    value = _convert_activation(value, library)
                elif key == "layer_norm_eps" and type(value) is float:
                    # keras-bert has 1e-14. In float32, this equals 1e-12, the value in BERT's code.
                    value = max(value, 1e-12)
                if settings.setdefault(key, value) == value or key.endswith("dropout_prob"):
                    continue
            raise InputError(
                f"{path}: layer {shown(name)} has {setting}={shown(value)}, which is not supported"
                f"{'' if isinstance(key, tuple) else ' because other layers differ'}."
            )
    return settings


def _convert_activation(value, library):
    """Converts an activation in a Keras model to its name in `config.json`."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, dict):
        value = value.get("config")
    # The function that a library calls gelu may be an approximation.
    names = {"gelu": library.settings.get("hidden_act", "gelu")} | _GELUS
    return names.get(value, value) if isinstance(value, str) else value


def _walk_dicts(value):
    """Yields every dict in a JSON value, at any depth."""
    level = [value]
    while level:
        yield from (element for element in level if isinstance(element, dict))
        inner = [element.values() if isinstance(element, dict) else element for element in level]
        level = [part for children in inner for part in children if isinstance(part, (dict, list))]


def _infer_sizes(path, library):
    """Infers the settings of a BERT model from the shapes of its variables."""
    shapes: dict[str, tuple[int, ...]] = {}
    header = Hdf5File(path).header
    for stored, name in with_ranks(header).items():
        shapes[name.removesuffix(":0")] = header[stored][1]

    def find(variable):
        end = library.spelling(variable)
        return next((shape for name, shape in shapes.items() if name.endswith(f"/{end}")), None)

    sizes = {}
    for variable, keys in _KEYS.items():
        shape = find(variable)
        if shape is not None and len(shape) == 2:
            sizes |= dict(zip(keys, shape))
    layers = itertools.count()
    sizes["num_hidden_layers"] = next(
        n for n in layers if find(f"layer_{n}/intermediate/kernel") is None
    )
    return {"model_type": "bert", **sizes}


class ObjectFile:
    """The variables of a SavedModel or object-based checkpoint, keyed by original name."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.path = checkpoint.path
        self._checkpoint = checkpoint
        if OBJECT_GRAPH not in checkpoint.variables:
            raise InputError(
                f"{self.path} is a TensorFlow 1 checkpoint. Rename its config.json to "
                "bert_config.json."
            )
        self._keys: dict[str, str] = {}
        for key, name in variable_names(checkpoint).items():
            self._keys[key if name in self._keys else name] = key
        variables = checkpoint.variables
        self.header = {n: (variables[k].dtype, variables[k].shape) for n, k in self._keys.items()}

    def read(self, name: str) -> np.ndarray:
        array: np.ndarray = self._checkpoint.read(self._keys[name])
        return array
