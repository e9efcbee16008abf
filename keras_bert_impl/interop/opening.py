"""Opens models in all supported file formats."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from keras_bert_impl.families import check_family
from keras_bert_impl.hub import local_directory
from keras_bert_impl.interop.google import is_google_checkpoint, open_google_checkpoint
from keras_bert_impl.interop.keras_hub.models import open_keras_hub
from keras_bert_impl.interop.keras_hub.preset import is_preset, open_preset
from keras_bert_impl.interop.sentence_transformers import transformer_directory
from keras_bert_impl.interop.source import ModelSource
from keras_bert_impl.interop.tensor_files import open_tensors
from keras_bert_impl.interop.tuned import base_of, is_tuned, open_tuned
from keras_bert_impl.io.errors import InputError
from keras_bert_impl.io.paths import expanded
from keras_bert_impl.io.reading import file_within, read_json

GENERATOR = "generator"  # folder beside the discriminator of an ELECTRA


def open_model(
    name_or_path: str | os.PathLike, generator: bool = False, base: str | os.PathLike | None = None
) -> ModelSource:
    """Opens a model for reading, without running any code in its files.

    Args:
        name_or_path: A name accepted by `hub.local_directory`, or a directory: in the Hugging Face
            or `sentence-transformers` layout, with a Google checkpoint, a TF Hub SavedModel, a
            KerasHub preset, or fine-tuned weights written by `save_tuned` or `peft`. For a
            checkpoint also its prefix (`.../bert_model.ckpt`).
        generator: Whether to open the generator instead of the discriminator of an ELECTRA that was
            pre-trained here, or of a Google checkpoint, which holds both.
        base: Base model of fine-tuned weights. Default: the one named in their directory.

    Raises:
        InputError: the model does not exist, or a file is missing or damaged.
    """
    name_or_path = expanded(name_or_path)
    if _is_prefix(name_or_path):
        path = Path(name_or_path)
        return ModelSource(path.parent, *open_google_checkpoint(path, generator))
    path = local_directory(name_or_path)
    if generator and not is_google_checkpoint(path):
        if not (path / GENERATOR).is_dir():
            raise InputError(f"{path} has no generator.")
        return open_model(path / GENERATOR)
    if is_tuned(path):
        return _open_tuned(path, base)
    if base is not None:
        raise InputError(f"{path} holds a whole model; base is only for fine-tuned weights.")
    encoder = transformer_directory(path)
    file = file_within(encoder, "config.json")
    if not file.exists():
        if is_google_checkpoint(path):
            return ModelSource(path, *open_google_checkpoint(path, generator))
        raise InputError(f"{encoder} has no config.json.{_hint(encoder)}")
    config = read_json(file)
    if is_preset(config):
        return ModelSource(path, *open_preset(path))
    check_family(config)
    source = ModelSource(encoder, config, open_tensors(encoder))
    source.task_path = path
    return source


def fingerprint(name_or_path: str | os.PathLike, base: str | os.PathLike | None = None) -> str:
    """Computes the SHA-256, in hex, of a model's configuration and tensors, reading all of them."""
    source = open_model(name_or_path, base=base)
    digest = hashlib.sha256(json.dumps(source.config, sort_keys=True).encode())
    for name in source.unread():
        array = np.ascontiguousarray(source.read(name))
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(array.view("uint8").data if array.ndim else array.tobytes())
    return digest.hexdigest()


def _hint(path: Path) -> str:
    """Returns what to give instead of a directory that is not a model's."""
    if (path / "model" / "config.json").exists():
        return f" It is a run: give {path / 'model'}."
    if any(path.glob("saved_model.pb")) or any(path.glob("*/saved_model.pb")):
        return " It is an export: give the run or the model that it was made from."
    return ""


def _open_tuned(path: Path, base: str | os.PathLike | None) -> ModelSource:
    name = base_of(path) if base is None else base
    try:
        if not _is_prefix(name) and is_tuned(local_directory(name)):
            raise InputError(f"{name} is not a whole model, but fine-tuned weights.")
        opened = open_model(name)
    except InputError as error:
        raise InputError(f"the base model of {path} cannot be opened: {error}") from error
    return open_tuned(path, opened)


def _is_prefix(name):
    """Returns whether a path is the prefix of a checkpoint and not a directory."""
    path = os.fspath(name) if isinstance(name, (str, os.PathLike)) else ""
    is_name = isinstance(name, str) and "://" in name
    return bool(path) and not is_name and not os.path.isdir(path) and is_google_checkpoint(path)


def open_keras_hub_model(model: Any) -> ModelSource:
    """Opens a KerasHub backbone or task; see `interop.keras_hub.models.open_keras_hub`."""
    config, tensors = open_keras_hub(model)
    return ModelSource(tensors.path, config, tensors)
