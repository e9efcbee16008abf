"""Google's published BERT, ALBERT and ELECTRA: TensorFlow checkpoints and SavedModels."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from keras_bert_impl.checkpoints.interop.google.checkpoint import Checkpoint, find_checkpoint
from keras_bert_impl.checkpoints.interop.google.named import (
    ALBERT,
    BERT,
    GoogleTensors,
    named_locations,
)
from keras_bert_impl.checkpoints.interop.google.objects import OBJECT_GRAPH, object_locations
from keras_bert_impl.checkpoints.interop.google.settings import (
    huggingface_settings,
    read_program,
    read_settings,
)
from keras_bert_impl.checkpoints.interop.source import Tensors
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.io.paths import local_path
from keras_bert_impl.utils.io.reading import file_within

# Meaning of "gelu" in these files. BERT: exact GELU (erf), as in the first models and in
# transformers. Google's BERT code changed to the tanh approximation in commit bee6030. ELECTRA:
# erf. ALBERT: tanh (`modeling.py` of each). Model Garden: tanh (`official/modeling/activations`).
_GELU = {"bert": "gelu", "albert": "gelu_new", "electra": "gelu"}


def is_google_checkpoint(path: str | os.PathLike) -> bool:
    path = local_path(path)
    if path.is_dir():
        return (path / "saved_model.pb").is_file() or any(path.glob("*.index"))
    return find_checkpoint(path) is not None


def open_google_checkpoint(
    path: str | os.PathLike, generator: bool = False
) -> tuple[dict[str, Any], GoogleTensors]:
    """Opens a BERT, ALBERT or ELECTRA model in one of Google's published formats.

    Returns:
        (content of a Hugging Face `config.json`, tensors under their Hugging Face names).
    """
    prefix, directory = _locate_checkpoint(path)
    checkpoint = Checkpoint(prefix)
    by_objects = OBJECT_GRAPH in checkpoint.variables
    file, stated = read_settings(directory)
    num_heads, program = None, None
    if not by_objects:
        model_type, locations = named_locations(checkpoint, generator)
    elif generator:
        raise InputError(f"{checkpoint.path} has no ELECTRA generator.")
    else:
        model_type, locations, num_heads = object_locations(checkpoint)
    if directory != prefix.parent:
        program = read_program(file_within(directory, "saved_model.pb"))
        stated["hidden_act"] = program.hidden_act
    elif stated.get("hidden_act", "gelu") == "gelu":
        stated["hidden_act"] = "gelu_new" if by_objects else _GELU[model_type]
    tensors = GoogleTensors(checkpoint, locations)
    settings = huggingface_settings(model_type, tensors, file, stated, num_heads, program)
    return settings, tensors


def _locate_checkpoint(path):
    """Returns (prefix of a checkpoint, directory with the configuration and the vocabulary)."""
    prefix = find_checkpoint(path)
    if prefix is None:
        raise InputError(f"{path} is neither a TensorFlow checkpoint nor a directory with one.")
    above = prefix.parent.parent  # In a SavedModel, this is the parent of the folder `variables`.
    return prefix, above if (above / "saved_model.pb").is_file() else prefix.parent


_KINDS = {"bert": BERT, "albert": ALBERT}
_KEYS = """
    attention_probs_dropout_prob hidden_act hidden_dropout_prob hidden_size initializer_range
    intermediate_size max_position_embeddings num_attention_heads num_hidden_layers type_vocab_size
    vocab_size
""".split()
# Keys that models with labels have. Google's code ignores these keys, but this package reads them.
_LABEL_KEYS = """
    architectures classifier_dropout id2label keras_bert_impl label2id num_labels problem_type
""".split()
_ALBERT_KEYS = ["embedding_size", "inner_group_num", "num_hidden_groups"]
_PREFIX = "bert_model.ckpt"


def write_google_checkpoint(
    directory: str | Path, config: dict[str, Any], tensors: Tensors, vocabulary: Path | None = None
) -> None:
    """Writes `bert_model.ckpt` with its configuration file and optionally `vocab.txt`.

    Args:
        config: Content of the Hugging Face `config.json` of a BERT or ALBERT model.
        vocabulary: A `vocab.txt` to copy.

    Raises:
        InputError: the model is not a BERT or ALBERT model, is causal, is an ALBERT model with
            exact GELU, or has unknown tensors.

    Example:
        from keras_bert_impl.checkpoints.interop import open_model, write_google_checkpoint
        source = open_model("path/to/model")
        tensors = {name: source.read(name) for name in source.unread()}
        write_google_checkpoint(directory, source.config, tensors)
    """
    import tensorflow as tf

    directory = local_path(directory)
    model_type = config.get("model_type", "bert")
    if model_type not in list(_KINDS):
        raise InputError(
            f"a model of type {model_type!r} cannot be written as a Google checkpoint; only "
            f"{' and '.join(_KINDS)} can."
        )
    settings = _select_settings(config, model_type)
    named = {}
    for name, tensor in tensors.items():
        variable = _find_google_name(name, model_type)
        if variable is None:
            raise InputError(f"tensor {name} of {model_type} has no name in Google's checkpoints.")
        google, transpose = variable
        named[google] = np.ascontiguousarray(tensor.T if transpose else tensor)
    text = json.dumps(settings, indent=2, sort_keys=True) + "\n"
    (directory / f"{model_type}_config.json").write_text(text, encoding="utf-8")
    if vocabulary is not None:
        shutil.copyfile(vocabulary, directory / "vocab.txt")
    names = sorted(named)
    tf.raw_ops.SaveV2(
        prefix=str(directory / _PREFIX),
        tensor_names=names,
        shape_and_slices=[""] * len(names),  # An empty slice means the whole tensor.
        tensors=[named[name] for name in names],
    )


def _find_google_name(name, model_type):
    """Returns (variable name, whether to transpose it), or None if there is no variable."""
    for spelling in (name, f"{model_type}.{name}"):  # Tensor names of a base model have no prefix.
        for pattern in _KINDS[model_type]:
            google = pattern.to_google(spelling)
            if google:
                return google, pattern.transpose
    return None


def _select_settings(config, model_type):
    if config.get("is_decoder"):
        raise InputError(f"{model_type}_config.json cannot express causal attention.")
    keys = [*_KEYS]
    if "id2label" in config:
        keys += _LABEL_KEYS
    if model_type == "albert":
        keys += _ALBERT_KEYS
    settings = {key: config[key] for key in keys if key in config}
    if model_type == "bert":
        return settings
    if config.get("hidden_act", "gelu_new") == "gelu":
        raise InputError(
            'albert_config.json cannot express exact GELU, because its "gelu" is the tanh '
            'approximation ("gelu_new").'
        )
    if settings.get("hidden_act") == "gelu_new":
        settings["hidden_act"] = "gelu"
    return settings
