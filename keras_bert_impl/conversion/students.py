"""Creates a smaller student model from a teacher's layers."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from keras_bert_impl.config import EncoderConfig
from keras_bert_impl.conversion.formats import (
    check_target,
    read_tensors,
    read_tokenizer,
    warn_of_generator,
    write_model,
)
from keras_bert_impl.interop import huggingface_config, open_model, read_encoder_config
from keras_bert_impl.interop.sentence_transformers_writing import copy_sentence_settings
from keras_bert_impl.io.errors import InputError
from keras_bert_impl.io.files import replace_directory
from keras_bert_impl.io.settings import check


def student_of(
    teacher: str | Path, directory: str | Path, layers: int | Sequence[int]
) -> list[int]:
    """Creates a student model from a teacher's layers, embeddings, heads and tokenizer.

    The student is a starting point for training; see `tasks.runs.distillation` for learning from
    the teacher.

    Args:
        teacher: Anything that `Encoder.from_pretrained` accepts.
        directory: The model directory to write; files of the same names are replaced.
        layers: Layer numbers from 0 in ascending order, or the number of layers, spread evenly from
            the first to the last: 6 of 12 are 0, 2, 4, 7, 9, 11.

    Returns:
        The layers taken.

    Raises:
        InputError: a layer does not exist, or the layers share weights or differ in kind.

    Source: Sanh et al. 2019 (arXiv:1910.01108), section 3, which takes every other layer.

    Example:
        student_of("bert-base-uncased", "student", layers=6)
    """
    model = open_model(teacher)
    config = read_encoder_config(model)
    chosen = _chosen(layers, config)
    smaller = dataclasses.replace(config, num_layers=len(chosen))
    ours, theirs = huggingface_config(smaller), huggingface_config(config)
    described = theirs | model.config | {k: v for k, v in ours.items() if theirs[k] != v}
    if "layer_types" in described:
        described["layer_types"] = [described["layer_types"][layer] for layer in chosen]
    tensors, tokenizer = read_tensors(model, config, chosen), read_tokenizer(model)
    check_target(directory, model)
    warn_of_generator(model)
    with replace_directory(directory) as temporary:
        write_model(temporary, described, tensors, tokenizer, smaller)
        copy_sentence_settings(model, temporary, smaller)
        read_encoder_config(open_model(temporary))
    return chosen


def _chosen(layers: int | Sequence[int], config: EncoderConfig) -> list[int]:
    """Resolves the `layers` argument of `student_of` to a list of int."""
    if config.num_layer_groups is not None or config.global_every > 1:
        raise InputError(
            f"the layers of this {config.architecture} encoder share weights or differ in kind; a "
            "student needs separate layers of one kind."
        )
    if not isinstance(layers, (list, tuple, np.ndarray, range)):
        count = check("layers", layers, int)
        if not 1 <= count <= config.num_layers:
            raise InputError(f"layers must be from 1 to {config.num_layers}. Received: {count}")
        return [round(layer) for layer in np.linspace(0, config.num_layers - 1, count)]
    chosen = [check("layers", layer, int) for layer in layers]
    if not chosen or sorted(set(chosen) & set(range(config.num_layers))) != chosen:
        raise InputError(
            f"layers must be numbers from 0 to {config.num_layers - 1}, in ascending order. "
            f"Received: {chosen}"
        )
    return chosen
