"""Writes `sentence-transformers` files into a model directory."""

import json

import numpy as np
import safetensors.numpy

from keras_bert_impl.interop.sentence_transformers import ACTIVATIONS, CONCATENATION, POOLINGS

_LIBRARY = "sentence_transformers.models."


def write_sentence_settings(directory, settings, projections, depth, hidden_dim):
    """Writes the files that `read_sentence_settings` and the library read.

    The library rejects models with concatenated layers, which it does not support.

    Args:
        directory: `Path`.
        settings: dict, as returned by `read_sentence_settings`.
        projections: list of dicts of arrays, as returned by `read_projections`.
        depth: int. Total number of encoder layers.
        hidden_dim: int. Hidden width of the encoder.
    """
    modules = [("", f"{_LIBRARY}Transformer")]
    lower = {"do_lower_case": True} if settings["do_lower_case"] else {}
    transformer = {"max_seq_length": settings["max_length"], **lower}
    _write(directory, "sentence_bert_config.json", transformer)

    def add(kind, content, tensors=None):
        folder = directory / f"{len(modules)}_{kind.rpartition('.')[2]}"
        modules.append((folder.name, kind))
        _write(folder, "config.json", content)
        if tensors is not None:
            tensors = {name: np.ascontiguousarray(t, "float32") for name, t in tensors.items()}
            safetensors.numpy.save_file(tensors, folder / "model.safetensors", {"format": "pt"})

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
    modes = {key: name == settings["pooling"] for name, key in POOLINGS.items()}
    add(f"{_LIBRARY}Pooling", width | modes)
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
    _write(
        directory,
        "modules.json",
        [
            {"idx": number, "name": str(number), "path": folder, "type": kind}
            for number, (folder, kind) in enumerate(modules)
        ],
    )
    more = {name: settings[name] for name in ("prompts", "default_prompt_name", "truncate_dim")}
    more["similarity_fn_name"] = settings["similarity_fn_name"]
    _write(directory, "config_sentence_transformers.json", more)


def _write(directory, name, content):
    directory.mkdir(exist_ok=True)
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    (directory / name).write_text(text, encoding="utf-8")
