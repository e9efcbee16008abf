"""Converts models between file formats, and creates student models from a teacher's layers."""

import dataclasses
import logging
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import keras
import numpy as np

from keras_bert_impl.checkpoints.config import EncoderConfig
from keras_bert_impl.checkpoints.interop import (
    GENERATOR,
    ModelSource,
    Tensors,
    all_tensors,
    encoder_tensors,
    huggingface_config,
    open_model,
    read_encoder_config,
    tied_tensors,
    write_google_checkpoint,
    write_keras_hub_preset,
    write_model_directory,
)
from keras_bert_impl.checkpoints.interop.opening import TUNED_FILES
from keras_bert_impl.checkpoints.interop.sentence_transformers import (
    copy_sentence_settings,
    is_cross_encoder,
    read_sentence_settings,
)
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.models.weights import check_tied, load_weights, values_deferred
from keras_bert_impl.tokenizers import Tokenizer
from keras_bert_impl.tokenizers.files import has_tokenizer
from keras_bert_impl.tokenizers.keras_hub_saving import to_keras_hub, write_notes
from keras_bert_impl.utils.errors import InputError, listed
from keras_bert_impl.utils.io.files import replace_directory
from keras_bert_impl.utils.io.paths import local_path
from keras_bert_impl.utils.settings import OneOf, Range, check

# These files are never overwritten, because only some models have them.
_KEPT = ("model.safetensors.index.json", *TUNED_FILES)
FORMS = ("huggingface", "google", "keras_hub")
_LENGTH = 8  # number of tokens for which outputs are compared
_log = logging.getLogger(__name__)


def convert(
    source: str | Path,
    target: str | Path,
    form: str = "huggingface",
    activation: str | None = None,
    generator: bool = False,
) -> dict[str, tuple[int, ...]]:
    """Converts a model, with its heads and tokenizer, to another file format."""
    check("form", form, Annotated[str, OneOf(*FORMS)])
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
        _log.warning("%s: not converted: the model has no tokenizer", model.path)
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
        _compare(model, tensors, config, open_model(temporary))
    return {name: tensor.shape for name, tensor in tensors.items()}


def check_target(target: str | Path, model: ModelSource) -> None:
    """Raises `InputError` if the target contains files that would be loaded with the new model."""
    file_names = _KEPT if read_sentence_settings(model.task_path) else ("modules.json", *_KEPT)
    existing_names = [name for name in file_names if (local_path(target) / name).exists()]
    if existing_names:
        raise InputError(
            f"{target} already contains {listed(existing_names)}, which do not belong to the new "
            "model. Choose a new folder."
        )


def warn_of_generator(model: ModelSource) -> None:
    if (model.path / GENERATOR).is_dir():
        _log.warning("%s: not converted: the generator; see --generator", model.path)


def read_tokenizer(model: ModelSource) -> Tokenizer | None:
    return Tokenizer.from_pretrained(model.path) if has_tokenizer(model.path) else None


def write_model(
    directory: Path,
    described: dict[str, Any],
    tensors: Tensors,
    tokenizer: Tokenizer | None,
    config: EncoderConfig,
) -> None:
    # The output matrix is omitted because it equals the embeddings.
    if "tie_word_embeddings" in described:
        described = described | {"tie_word_embeddings": True}
    write_model_directory(directory, described, tensors)
    if tokenizer is not None:
        tokenizer.save_pretrained(directory, config)


def read_tensors(
    model: ModelSource, config: EncoderConfig, layers: list[int] | None = None
) -> Tensors:
    """Returns the tensors of a model: {name in current Hugging Face files: array}.

    If `layers` is given, only these layers are included.
    """
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
    encoder_arrays = {
        prefix + name.tensor: arrays[_translate_path(name.variable, layers)] for name in encoder
    }
    tensors = {name: array for name, array in encoder_arrays.items() if array is not None}
    tensors |= {name.tensor: model.read(name.tensor) for name in heads}
    copies = tied_tensors(config)
    check_tied(model, copies)
    unread_names = [n for n in model.unread() if n not in copies and not n.endswith("position_ids")]
    if unread_names:
        _log.warning("%s: not converted: %s", model.path, ", ".join(unread_names))
    return tensors


def _translate_path(variable, layers):
    """Converts the path of a variable in the student to the path in the teacher."""
    match = re.match(r"layer_(\d+)/", variable)
    if layers is None or not match:
        return variable
    return f"layer_{layers[int(match[1])]}/{variable[match.end() :]}"


def _compare(source, tensors, config, written):
    """Raises `InputError` if a written tensor, setting or output differs from the source."""
    again = read_encoder_config(written).to_dict()
    for name, value in config.to_dict().items():
        # This setting affects only weights that are added later.
        if again[name] != value and name == "initializer_range":
            _log.warning("%s: not converted: %s=%s", source.path, name, value)
        elif again[name] != value:
            raise InputError(f"this format cannot express {name}={value}; nothing was written.")
    _compare_tensors(tensors, written)
    expected, outputs = encoder_outputs(source, config), encoder_outputs(written, config)
    if not np.allclose(outputs, expected, rtol=1e-5, atol=1e-5, equal_nan=True):
        raise InputError(
            "the outputs of the model that would be written differ from the source by "
            f"{np.max(np.abs(outputs - expected)):.1e}; nothing was written."
        )


def _compare_tensors(tensors, written):
    for name, array in tensors.items():
        again = written.read(name)
        if again is None or not np.array_equal(array, again, equal_nan=True):
            raise InputError(f"this format cannot express tensor {name}; nothing was written.")


def encoder_outputs(model: ModelSource, config: EncoderConfig) -> np.ndarray:
    """Computes the hidden states of an encoder for fixed token ids, `[1, length, hidden]`."""
    config = dataclasses.replace(config, use_pooler=False)  # Some files have no pooler.
    with values_deferred():
        encoder = Encoder(config, dtype="float32")
    for name in model.unread():  # so that no warning names these tensors again
        model.read(name)
    load_weights(encoder, model, encoder_tensors(config))
    length = min(_LENGTH, config.max_length)
    token_ids = np.arange(length, dtype="int32")[None] * 7 % config.vocabulary_size
    outputs = encoder({"token_ids": token_ids})["sequence_output"]
    return keras.ops.convert_to_numpy(outputs)


def student_of(
    teacher: str | Path, directory: str | Path, layers: int | Sequence[int]
) -> list[int]:
    """Creates a student model from a teacher's layers, embeddings, heads and tokenizer.

    The student must be trained before use. For knowledge distillation, see `runs.distillation`.

    Args:
        teacher: Anything that `Encoder.from_pretrained` accepts.
        directory: The model directory to write; existing files with the same names are replaced.
        layers: 0-based layer indices in ascending order, or a number of evenly spaced layers, such
            as 6 for the layers 0, 2, 4, 7, 9 and 11 of 12.

    Returns:
        The indices of the copied layers.

    Raises:
        InputError: a layer does not exist, or the teacher has layers that share weights or that
            have different kinds of attention.

    Source: Sanh et al. 2019 (arXiv:1910.01108), section 3, which copies every other layer.

    Example:
        student_of("bert-base-uncased", "student", layers=6)
    """
    model = open_model(teacher)
    config = read_encoder_config(model)
    indices = _select_layers(layers, config)
    smaller = dataclasses.replace(config, num_layers=len(indices))
    ours, theirs = huggingface_config(smaller), huggingface_config(config)
    described = theirs | model.config | {k: v for k, v in ours.items() if theirs[k] != v}
    if "layer_types" in described:
        described["layer_types"] = [described["layer_types"][layer] for layer in indices]
    tensors, tokenizer = read_tensors(model, config, indices), read_tokenizer(model)
    check_target(directory, model)
    warn_of_generator(model)
    with replace_directory(directory) as temporary:
        write_model(temporary, described, tensors, tokenizer, smaller)
        copy_sentence_settings(model, temporary, smaller)
        written = open_model(temporary)
        _compare_tensors(tensors, written)
        encoder_outputs(written, read_encoder_config(written))
    return indices


def _select_layers(layers: int | Sequence[int], config: EncoderConfig) -> list[int]:
    if config.num_layer_groups is not None or config.global_every > 1:
        raise InputError(
            f"the layers of this {config.architecture} encoder share weights or have different "
            "kinds of attention. Choose a teacher whose layers have separate weights and one kind "
            "of attention."
        )
    if not isinstance(layers, (list, tuple, np.ndarray, range)):
        count = check("layers", layers, int)
        check("layers", count, Annotated[int, Range(least=1, most=config.num_layers)])
        return [round(layer) for layer in np.linspace(0, config.num_layers - 1, count)]
    indices = [check("layers", layer, int) for layer in layers]
    if not indices or sorted(set(indices) & set(range(config.num_layers))) != indices:
        raise InputError(
            f"layers must be numbers from 0 to {config.num_layers - 1}, in ascending order. "
            f"Received: {indices}"
        )
    return indices
