"""Opens Google checkpoints and SavedModels like model directories."""

import os
from typing import Any

from keras_bert_impl.interop.google.checkpoint import Checkpoint, find_checkpoint
from keras_bert_impl.interop.google.named import named_locations
from keras_bert_impl.interop.google.objects import OBJECT_GRAPH, object_locations
from keras_bert_impl.interop.google.saved_model import read_program
from keras_bert_impl.interop.google.settings import huggingface_settings, read_settings
from keras_bert_impl.interop.google.tensors import GoogleTensors
from keras_bert_impl.io.errors import InputError
from keras_bert_impl.io.paths import local_path
from keras_bert_impl.io.reading import file_within

# What "gelu" computes. BERT was published with erf, which transformers uses; Google's BERT code has
# used the tanh approximation since commit bee6030, after the first models. ELECTRA uses erf, ALBERT
# tanh (`modeling.py` of each), and the Model Garden tanh (`official/modeling/activations`).
_GELU = {"bert": "gelu", "albert": "gelu_new", "electra": "gelu"}


def is_google_checkpoint(path: str | os.PathLike) -> bool:
    """Returns whether a path is a TensorFlow checkpoint, a directory with one, or a SavedModel."""
    path = local_path(path)
    if path.is_dir():
        return (path / "saved_model.pb").is_file() or any(path.glob("*.index"))
    return find_checkpoint(path) is not None


def open_google_checkpoint(
    path: str | os.PathLike, generator: bool = False
) -> tuple[dict[str, Any], GoogleTensors]:
    """Opens a BERT, ALBERT or ELECTRA in one of Google's published formats.

    Returns:
        (content of a Hugging Face `config.json`, tensors under their Hugging Face names).
    """
    prefix, directory = _found(path)
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


def _found(path):
    """Returns the prefix of a checkpoint, and the directory with the model's other files."""
    prefix = find_checkpoint(path)
    if prefix is None:
        raise InputError(f"{path} is neither a TensorFlow checkpoint nor a directory with one.")
    above = prefix.parent.parent  # above the folder `variables` of a SavedModel
    return prefix, above if (above / "saved_model.pb").is_file() else prefix.parent
