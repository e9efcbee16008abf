"""Converts models between file formats without changing their weights."""

import dataclasses
import logging
import re
from pathlib import Path
from typing import Any

import numpy as np

from keras_bert_impl.config import EncoderConfig
from keras_bert_impl.interop import (
    GENERATOR,
    ModelSource,
    Tensors,
    all_tensors,
    huggingface_config,
    open_model,
    read_encoder_config,
    tied_tensors,
    write_google_checkpoint,
    write_keras_hub_preset,
    write_model_directory,
)
from keras_bert_impl.interop.sentence_transformers import (
    is_cross_encoder,
    read_sentence_settings,
)
from keras_bert_impl.interop.sentence_transformers_writing import copy_sentence_settings
from keras_bert_impl.interop.tuned import TUNED_FILES
from keras_bert_impl.io.errors import InputError, listed
from keras_bert_impl.io.files import replace_directory
from keras_bert_impl.io.paths import local_path
from keras_bert_impl.models.weights import check_tied
from keras_bert_impl.tokenizers import Tokenizer
from keras_bert_impl.tokenizers.files import has_tokenizer
from keras_bert_impl.tokenizers.keras_hub_saving import to_keras_hub, write_notes

# Files of a model that are not written with every model.
_KEPT = ("model.safetensors.index.json", *TUNED_FILES)
FORMS = ("huggingface", "google", "keras_hub")
_log = logging.getLogger(__name__)


def convert(
    source: str | Path,
    target: str | Path,
    form: str = "huggingface",
    activation: str | None = None,
    generator: bool = False,
) -> dict[str, tuple[int, ...]]:
    """Converts a model, with its heads and tokenizer, to another file format."""
    if form not in FORMS:
        raise InputError(f"form must be one of {', '.join(FORMS)}. Received: form={form!r}")
    model = open_model(source, generator)
    config = read_encoder_config(model)
    described = huggingface_config(config) | model.config
    if activation is not None:
        config = dataclasses.replace(config, activation=activation)
        described |= {k: v for k, v in huggingface_config(config).items() if k != "architectures"}
    tensors = read_tensors(model, config)
    tokenizer = read_tokenizer(model)
    warn_of_generator(model)
    if tokenizer is None:
        _log.warning("%s: there is no tokenizer to convert", model.path)
    check_target(target, model)
    if is_cross_encoder(model.task_path):
        _log.warning("%s: not converted: the activation of CrossEncoder", model.path)
    elif form != "huggingface" and read_sentence_settings(model.task_path):
        _log.warning("%s: not converted: pooling and normalization of texts", model.path)
    with replace_directory(target) as temporary:
        if form == "keras_hub":
            theirs = tokenizer and to_keras_hub(tokenizer, config.architecture)
            tensors = write_keras_hub_preset(temporary, described, tensors, theirs)
            if tokenizer is not None:
                write_notes(temporary, tokenizer)
        elif form == "google":
            write_google_checkpoint(temporary, described, tensors)
            if tokenizer is not None:
                tokenizer.save_pretrained(temporary, config)
        else:
            write_model(temporary, described, tensors, tokenizer, config)
            copy_sentence_settings(model, temporary, config)
        _compare(tensors, config, open_model(temporary))
    return {name: tensor.shape for name, tensor in tensors.items()}


def check_target(target: str | Path, model: ModelSource) -> None:
    """Raises an `InputError` if a directory keeps files that do not describe this model."""
    kept = _KEPT if read_sentence_settings(model.task_path) else ("modules.json", *_KEPT)
    found = [name for name in kept if (local_path(target) / name).exists()]
    if found:
        raise InputError(
            f"{target} already has {listed(found)}, which would describe another model than the "
            "new files; give a new folder."
        )


def warn_of_generator(model: ModelSource) -> None:
    """Warns that the generator of an ELECTRA, which has its own directory, is left out."""
    if (model.path / GENERATOR).is_dir():
        _log.warning("%s: not converted: the generator, see --generator", model.path)


def read_tokenizer(model: ModelSource) -> Tokenizer | None:
    """Reads a model's tokenizer; None if it has none."""
    return Tokenizer.from_pretrained(model.path) if has_tokenizer(model.path) else None


def write_model(
    directory: Path,
    described: dict[str, Any],
    tensors: Tensors,
    tokenizer: Tokenizer | None,
    config: EncoderConfig,
) -> None:
    """Writes a model directory: `config.json`, the tensors and any tokenizer."""
    if "tie_word_embeddings" in described:  # no output matrix is written beside the embeddings
        described = described | {"tie_word_embeddings": True}
    write_model_directory(directory, described, tensors)
    if tokenizer is not None:
        tokenizer.save_pretrained(directory, config)


def read_tensors(
    model: ModelSource, config: EncoderConfig, layers: list[int] | None = None
) -> Tensors:
    """Reads all tensors of a model that have a known meaning, under their names in new files."""
    whole, heads = all_tensors(config)
    arrays = {name.variable: model.read(name.tensor) for name in whole}
    for name in whole:
        if arrays[name.variable] is None and not name.optional:
            raise InputError(f"{model.path}: tensor {name.tensor} is missing.")
    encoder = whole
    if layers is not None:
        encoder, _ = all_tensors(dataclasses.replace(config, num_layers=len(layers)))
    heads = [name for name in heads if model.shape(name.tensor) is not None]
    prefix = f"{model.prefix}." if heads else ""
    kept = {prefix + name.tensor: arrays[_in_whole(name.variable, layers)] for name in encoder}
    tensors = {name: array for name, array in kept.items() if array is not None}
    tensors |= {name.tensor: model.read(name.tensor) for name in heads}
    copies = tied_tensors(config)
    check_tied(model, copies)
    left = [n for n in model.unread() if n not in copies and not n.endswith("position_ids")]
    if left:
        _log.warning("%s: not converted: %s", model.path, ", ".join(left))
    return tensors


def _in_whole(variable, layers):
    """Returns the path of a variable in the encoder from which `layers` were taken."""
    found = re.match(r"layer_(\d+)/", variable)
    if layers is None or not found:
        return variable
    return f"layer_{layers[int(found[1])]}/{variable[found.end() :]}"


def _compare(tensors, config, written):
    """Raises an `InputError` if a written tensor or setting differs from the source."""
    again = read_encoder_config(written).to_dict()
    for name, value in config.to_dict().items():
        if again[name] != value:
            raise InputError(f"this format cannot express {name}={value}; nothing was written.")
    for name, array in tensors.items():
        again = written.read(name)
        if again is None or not np.array_equal(array, again, equal_nan=True):
            raise InputError(f"this format cannot express tensor {name}; nothing was written.")
