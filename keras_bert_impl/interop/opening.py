"""Opens a model, in whatever form it is."""

import hashlib
import json
import os
from pathlib import Path

import numpy as np

from keras_bert_impl.hub import local_directory
from keras_bert_impl.interop.google import is_google_checkpoint, open_google_checkpoint
from keras_bert_impl.interop.keras_hub.models import open_keras_hub
from keras_bert_impl.interop.keras_hub.preset import is_preset, open_preset
from keras_bert_impl.interop.sentence_transformers import transformer_directory
from keras_bert_impl.interop.source import ModelSource
from keras_bert_impl.interop.tensor_files import open_tensors
from keras_bert_impl.interop.tuned import base_of, is_tuned, open_tuned
from keras_bert_impl.io.errors import InputError
from keras_bert_impl.io.reading import file_within, read_json


def open_model(name_or_path, generator=False, base=None):
    """Opens a model for reading; no code in its files is run.

    Args:
        name_or_path: str or `Path`. A name, as `hub.local_directory` takes it, or a directory:
            in the Hugging Face layout, of `sentence-transformers`, with a checkpoint of Google's, a SavedModel of TF Hub, a
            preset of KerasHub, or with what was tuned of a model, by `save_tuned` or `peft`. Of a
            checkpoint also its prefix (`.../bert_model.ckpt`).
        generator: bool, default False. Of Google's ELECTRA, whose checkpoints hold two models,
            the generator and not the discriminator.
        base: as `name_or_path`: what a model was tuned from. Default: what its directory names.

    Returns:
        `ModelSource`.

    Raises:
        InputError: no such model, a missing or damaged file.
    """
    if _is_prefix(name_or_path):
        path = Path(name_or_path)
        return ModelSource(path.parent, *open_google_checkpoint(path, generator))
    path = local_directory(name_or_path)
    if is_tuned(path):
        return _open_tuned(path, base)
    if base is not None:
        raise InputError(f"{path} holds a whole model; a base is for what was tuned of one.")
    encoder = transformer_directory(path)
    config = file_within(encoder, "config.json")
    if not config.exists():
        if is_google_checkpoint(path):
            return ModelSource(path, *open_google_checkpoint(path, generator))
        raise InputError(f"{encoder} has no config.json.")
    config = read_json(config)
    if is_preset(config):
        return ModelSource(path, *open_preset(path))
    source = ModelSource(encoder, config, open_tensors(encoder))
    source.task_path = path
    return source


def fingerprint(name_or_path, base=None):
    """sha256, in hex, of the configuration and all tensors of a model; reads all of them.

    Args:
        name_or_path, base: see `open_model`.

    Raises:
        InputError: see `open_model`.
    """
    source = open_model(name_or_path, base=base)
    digest = hashlib.sha256(json.dumps(source.config, sort_keys=True).encode())
    for name in source.unread():
        array = np.ascontiguousarray(source.read(name))
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(array.view("uint8") if array.ndim else array.tobytes())
    return digest.hexdigest()


def _open_tuned(path, base):
    name = base_of(path) if base is None else base
    try:
        if not _is_prefix(name) and is_tuned(local_directory(name)):
            raise InputError(f"{name} is no whole model, but what was tuned of one.")
        opened = open_model(name)
    except InputError as error:
        raise InputError(f"the base model of {path} cannot be opened: {error}") from error
    return open_tuned(path, opened)


def _is_prefix(name):
    """Whether a path is one of a checkpoint and not of a directory."""
    path = os.fspath(name) if isinstance(name, (str, os.PathLike)) else ""
    is_name = isinstance(name, str) and "://" in name
    return bool(path) and not is_name and not os.path.isdir(path) and is_google_checkpoint(path)


def open_keras_hub_model(model):
    """The same for a backbone or task of KerasHub; see `interop.keras_hub.open_keras_hub`."""
    config, tensors = open_keras_hub(model)
    return ModelSource(tensors.path, config, tensors)
