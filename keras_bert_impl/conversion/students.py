"""Creates a smaller student model from a teacher's layers."""

import dataclasses

import numpy as np

from keras_bert_impl.conversion.formats import read_tensors
from keras_bert_impl.interop import (
    huggingface_config,
    open_model,
    read_encoder_config,
    write_model_directory,
)
from keras_bert_impl.io.errors import InputError
from keras_bert_impl.io.files import replace_directory
from keras_bert_impl.settings import check
from keras_bert_impl.tokenizers import Tokenizer
from keras_bert_impl.tokenizers.files import has_tokenizer


def student_of(teacher, directory, layers):
    """Creates a student model from a teacher's layers, embeddings, heads and tokenizer.

    The student is a starting point for training; see `tasks.runs.distillation` for learning from
    the teacher.

    Args:
        teacher: str or `Path`. Anything that `Encoder.from_pretrained` accepts.
        directory: str or `Path` of the model directory to write; files of the same names are
            replaced.
        layers: list of int, or int. Layer numbers from 0 in ascending order, or the number of
            layers, spread evenly from the first to the last: 6 of 12 are 0, 2, 4, 7, 9, 11.

    Returns:
        list of int. The layers taken.

    Raises:
        InputError: a layer does not exist, or the layers share weights or differ in kind.

    Source: Sanh et al. 2019 (arXiv:1910.01108), section 3, which takes every other layer.

    Example:
        student_of("bert-base-uncased", "student", layers=6)
    """
    model = open_model(teacher)
    config = read_encoder_config(model)
    layers = _chosen(layers, config)
    smaller = dataclasses.replace(config, num_layers=len(layers))
    ours, theirs = huggingface_config(smaller), huggingface_config(config)
    described = theirs | model.config | {k: v for k, v in ours.items() if theirs[k] != v}
    tensors = read_tensors(model, config, layers)
    tokenizer = Tokenizer.from_pretrained(model.path) if has_tokenizer(model.path) else None
    with replace_directory(directory) as temporary:
        write_model_directory(temporary, described, tensors)
        if tokenizer is not None:
            tokenizer.save_pretrained(temporary)
    return layers


def _chosen(layers, config):
    """Resolves the `layers` argument of `student_of` to a list of int."""
    if config.num_layer_groups is not None or config.global_every > 1:
        raise InputError(
            f"the layers of a {config.architecture} encoder share weights or are of several kinds; "
            "a student is made of layers of one kind."
        )
    if not isinstance(layers, (list, tuple, np.ndarray, range)):
        layers = check("layers", layers, int)
        if not 1 <= layers <= config.num_layers:
            raise InputError(f"layers must be from 1 to {config.num_layers}. Received: {layers}")
        return [round(place) for place in np.linspace(0, config.num_layers - 1, layers)]
    layers = [check("layers", layer, int) for layer in layers]
    if not layers or sorted(set(layers) & set(range(config.num_layers))) != layers:
        raise InputError(
            f"layers must be numbers from 0 to {config.num_layers - 1}, upwards. Received: {layers}"
        )
    return layers
