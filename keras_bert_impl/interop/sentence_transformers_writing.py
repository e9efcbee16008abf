"""Writes `sentence-transformers` files into a model directory."""

from pathlib import Path
from typing import Any

import numpy as np

from keras_bert_impl.config import EncoderConfig
from keras_bert_impl.hub.contents import SENTENCE_ENCODER, SENTENCE_SETTINGS
from keras_bert_impl.interop.directory import write_json, write_tensors
from keras_bert_impl.interop.sentence_transformers import (
    ACTIVATIONS,
    CONCATENATION,
    pooling_modes,
    read_projections,
    read_sentence_settings,
)
from keras_bert_impl.interop.source import ModelSource

_LIBRARY = "sentence_transformers.models."


def copy_sentence_settings(source: ModelSource, directory: Path, config: EncoderConfig) -> None:
    """Copies the pooling, normalization and prompts of a text embedder, if the source is one."""
    settings = read_sentence_settings(source.task_path)
    if settings:
        settings.setdefault("max_length", config.max_length)
        projections = read_projections(source.task_path)
        write_sentence_settings(
            directory, settings, projections, config.num_layers, config.hidden_dim
        )


def write_sentence_settings(
    directory: Path,
    settings: dict[str, Any],
    projections: list[dict[str, np.ndarray]],
    depth: int,
    hidden_dim: int,
) -> None:
    """Writes the files that `read_sentence_settings` and the library read."""
    modules = [("", f"{_LIBRARY}Transformer")]
    lower = {"do_lower_case": True} if settings["do_lower_case"] else {}
    transformer = {"max_seq_length": settings["max_length"], **lower}
    write_json(directory / SENTENCE_ENCODER[0], transformer)

    def add(kind, content, tensors=None):
        folder = directory / f"{len(modules)}_{kind.rpartition('.')[2]}"
        modules.append((folder.name, kind))
        folder.mkdir(exist_ok=True)
        write_json(folder / "config.json", content)
        if tensors is not None:
            tensors = {name: np.asarray(array, "float32") for name, array in tensors.items()}
            write_tensors(folder / "model.safetensors", tensors)

    dim, num_layers = hidden_dim, settings["num_layers"]
    width = {"word_embedding_dimension": dim}
    if settings["layer_weights"] is not None:
        start = {"layer_start": depth + 1 - num_layers, "num_hidden_layers": depth}
        weights = {"layer_weights": settings["layer_weights"]}
        add(f"{_LIBRARY}WeightedLayerPooling", width | start, weights)
    elif num_layers > 1:
        add(CONCATENATION, {"num_layers": num_layers})
        dim = hidden_dim * num_layers
        width = {"word_embedding_dimension": dim}
    add(f"{_LIBRARY}Pooling", width | pooling_modes(settings["pooling"]))
    dim *= len(settings["pooling"].split("+"))
    for projection, tensors in zip(settings["projections"], projections, strict=True):
        if projection["kind"] == "layer_norm":
            named = {"norm.weight": tensors["gamma"], "norm.bias": tensors["beta"]}
            add(f"{_LIBRARY}LayerNorm", {"dimension": dim}, named)
            continue
        content = {
            "in_features": dim,
            "out_features": projection["dim"],
            "bias": projection["use_bias"],
            "activation_function": ACTIVATIONS[projection["activation"]],
        }
        named = {"linear.weight": tensors["kernel"].T}
        if projection["use_bias"]:
            named["linear.bias"] = tensors["bias"]
        add(f"{_LIBRARY}Dense", content, named)
        dim = projection["dim"]
    if settings["normalize"]:
        add(f"{_LIBRARY}Normalize", {})
    described = [
        {"idx": number, "name": str(number), "path": folder, "type": kind}
        for number, (folder, kind) in enumerate(modules)
    ]
    write_json(directory / "modules.json", described)
    more = {name: settings[name] for name in ("prompts", "default_prompt_name", "truncate_dim")}
    more["similarity_fn_name"] = settings["similarity_fn_name"]
    write_json(directory / SENTENCE_SETTINGS, more)
