"""What the `sentence-transformers` library writes beside a model: which vector is a sentence's."""

import json
import logging

import numpy as np
import safetensors.numpy

from keras_bert_impl.errors import InputError
from keras_bert_impl.interop.tensor_files import open_tensors
from keras_bert_impl.reading import file_within, parse_json, read_json, read_text

_log = logging.getLogger(__name__)

POOLINGS = {
    "cls": "pooling_mode_cls_token",
    "mean": "pooling_mode_mean_tokens",
    "max": "pooling_mode_max_tokens",
}
_LIBRARY = "sentence_transformers.models."
# A module that the library lacks: it refuses the model, where it would take the last layer.
_CONCATENATION = "keras_bert_impl.ConcatenatedLayers"


def read_sentence_settings(directory):
    """How the files of `sentence-transformers` make one vector of a text.

    Args:
        directory: `Path` of a model directory.

    Returns:
        dict with `pooling`, `normalize`, `num_layers`, `layer_weights` (list of float, or None for
        layers concatenated) and, where it is said, `max_length`; empty where there is no
        `modules.json`.

    Raises:
        InputError: a damaged file, or a module or pooling that is not known here.
    """
    path = file_within(directory, "modules.json")
    if not path.exists():
        return {}
    modules = parse_json(read_text(path), path)
    if not isinstance(modules, list) or not all(isinstance(one, dict) for one in modules):
        raise InputError(f"{path} must hold a list of modules.")
    settings = {"normalize": False, "num_layers": 1, "layer_weights": None}
    for module in modules:
        kind = str(module.get("type")).rpartition(".")[2]
        if kind not in _READERS:
            raise InputError(f"{path}: a module {kind!r:.80} is not supported.")
        settings |= _READERS[kind](directory, str(module.get("path") or ""))
    if "pooling" not in settings:
        raise InputError(f"{path} names no module Pooling.")
    prompt = _config(directory, "", "config_sentence_transformers.json").get("default_prompt_name")
    if prompt:
        _log.warning("%s: texts do not get the prompt %r; put it there yourself", directory, prompt)
    return settings


def _transformer(directory, folder):
    settings = _config(directory, folder, "sentence_bert_config.json")
    if settings.get("do_lower_case"):
        raise InputError(
            f"{directory}: do_lower_case in sentence_bert_config.json is not supported; have the "
            "tokenizer do it (do_lower_case in tokenizer_config.json)."
        )
    length = settings.get("max_seq_length")
    if length is None:  # since version 6 it is the tokenizer's
        length = _config(directory, folder, "tokenizer_config.json").get("model_max_length")
    # Where there is no limit a number with 30 digits stands there.
    return {"max_length": length} if isinstance(length, int) and 0 < length < 2**20 else {}


def _weighted_layers(directory, folder):
    settings = _config(directory, folder)
    count = _whole(settings, "num_hidden_layers") + 1 - _whole(settings, "layer_start")
    tensors = open_tensors(directory / folder)
    found = tensors.header.get("layer_weights", (None, None))[1]
    if found != (count,):
        raise InputError(f"{tensors.path}: layer_weights must have shape {(count,)}, not {found}.")
    weights = tensors.read("layer_weights").astype("float32")
    return {"num_layers": count, "layer_weights": weights.tolist()}


def _concatenated_layers(directory, folder):
    return {"num_layers": _whole(_config(directory, folder), "num_layers")}


def _pooling(directory, folder):
    settings = _config(directory, folder)
    modes = settings.get("pooling_mode")
    if modes is None:
        modes = [key for key, value in settings.items() if key.startswith("pooling_") and value]
        names = {key: name for name, key in POOLINGS.items()}
        modes = [names.get(key, key) for key in modes]
    modes = modes if isinstance(modes, list) else [modes]
    if len(modes) != 1 or modes[0] not in list(POOLINGS):
        raise InputError(
            f"{directory / folder}: the pooling is {', '.join(map(str, modes))}; supported is one "
            f"of {', '.join(POOLINGS)}."
        )
    return {"pooling": modes[0]}


_READERS = {
    "Transformer": _transformer,
    "WeightedLayerPooling": _weighted_layers,
    "ConcatenatedLayers": _concatenated_layers,
    "Pooling": _pooling,
    "Normalize": lambda directory, folder: {"normalize": True},
}


def _config(directory, folder, name="config.json"):
    path = file_within(directory, f"{folder}/{name}" if folder else name)
    return read_json(path) if path.exists() else {}


def _whole(settings, key):
    value = settings.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1000:
        raise InputError(f"a module's {key} must be a whole number. Received: {value!r:.40}")
    return value


def write_sentence_settings(
    directory, pooling, normalize, num_layers, layer_weights, max_length, depth, hidden_dim
):
    """Writes the files that `read_sentence_settings` and the library read.

    The library refuses a model of concatenated layers, which it does not know.

    Args:
        directory: `Path`.
        pooling, normalize, num_layers, layer_weights, max_length: as from
            `read_sentence_settings`.
        depth: int, all layers of the encoder.
        hidden_dim: int, of the encoder.
    """
    modules = [("", f"{_LIBRARY}Transformer")]
    _write(directory, "sentence_bert_config.json", {"max_seq_length": max_length})

    def add(kind, settings):
        folder = f"{len(modules)}_{kind.rpartition('.')[2]}"
        modules.append((folder, kind))
        _write(directory / folder, "config.json", settings)
        return directory / folder

    dim = {"word_embedding_dimension": hidden_dim}
    if layer_weights is not None:
        start = {"layer_start": depth + 1 - num_layers, "num_hidden_layers": depth}
        folder = add(f"{_LIBRARY}WeightedLayerPooling", dim | start)
        tensors = {"layer_weights": np.array(layer_weights, "float32")}
        safetensors.numpy.save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    elif num_layers > 1:
        add(_CONCATENATION, {"num_layers": num_layers})
        dim = {"word_embedding_dimension": hidden_dim * num_layers}
    add(f"{_LIBRARY}Pooling", dim | {key: name == pooling for name, key in POOLINGS.items()})
    if normalize:
        add(f"{_LIBRARY}Normalize", {})
    _write(
        directory,
        "modules.json",
        [
            {"idx": number, "name": str(number), "path": folder, "type": kind}
            for number, (folder, kind) in enumerate(modules)
        ],
    )


def _write(directory, name, content):
    directory.mkdir(exist_ok=True)
    text = json.dumps(content, indent=2) + "\n"
    (directory / name).write_text(text, encoding="utf-8")
