"""Fine-tuned weights in a separate directory, to be loaded onto their base model.

The directory contains `adapter_model.safetensors` and a `config.json` like that of a whole model,
which also names the base model and states the checksum of its weights. For LoRA, the directory
follows the layout of `peft`, with `adapter_config.json`. Directories written by `peft` itself have
no `config.json` and, from older versions, an `adapter_model.bin`.
"""

import dataclasses
import hashlib
import json
import re
import shutil

import numpy as np
import safetensors
import safetensors.numpy

from keras_bert_impl.adapter import Adapter
from keras_bert_impl.interop import peft
from keras_bert_impl.interop.huggingface import (
    class_of,
    encoder_config,
    encoder_tensors,
    tensor_prefix,
)
from keras_bert_impl.interop.source import ModelSource
from keras_bert_impl.interop.tensor_files import SafetensorsFile
from keras_bert_impl.interop.torch_file import TorchFile
from keras_bert_impl.io.document import Document
from keras_bert_impl.io.errors import InputError
from keras_bert_impl.io.reading import file_within, read_json

OWN_SETTINGS = "keras_bert_impl"  # config.json key that other libraries ignore
_TENSORS, _PEFT = "adapter_model.safetensors", "adapter_config.json"
_KINDS = {_TENSORS: SafetensorsFile, "adapter_model.bin": TorchFile}  # the latter of older peft


class TunedSource(ModelSource):
    """A base model with fine-tuned weights that replace or extend its own.

    Args:
        base: `ModelSource`.
        config: dict with the content of a `config.json`.
        adapter: `Adapter` or None.
        tensors: dict of tensor names, without the prefix for the encoder's, and paths of the
            adapter's variables, to arrays.
        directory: `Path` of the fine-tuned weights.
    """

    def __init__(self, base, config, adapter, tensors, directory):
        super().__init__(base.path, config, base._tensors)
        self.config = Document(config, f"{directory}/config.json")
        self.task_path = directory
        self.adapter = adapter
        self._base = base
        self._own = tensors
        self._unread_own = set(tensors)

    def __len__(self):
        return len(self._base)

    def shape(self, name):
        self._base.prefix = self.prefix
        return self._own[name].shape if name in self._own else self._base.shape(name)

    def read(self, name):
        self._base.prefix = self.prefix
        if name in self._own:
            self._unread_own.discard(name)
            self._base.read(name)  # marks the replaced tensor as read
            return self._own[name]
        return self._base.read(name)

    def unread(self):
        return sorted({*self._unread_own, *self._base.unread()})


def is_tuned(directory):
    """Returns whether a directory holds fine-tuned weights rather than a whole model."""
    return any(file_within(directory, name).exists() for name in _KINDS)


def base_of(directory):
    """Returns the name of the base model stated in a directory.

    Raises:
        InputError: the directory names no base model.
    """
    config, settings = _read_settings(directory)
    name = _own_settings(config)[0].text("name", None)
    name = name or settings.text("base_model_name_or_path", None)
    if not name:
        raise InputError(f"{directory} does not name the model that it was tuned from; give base.")
    # peft writes hub names without a scheme.
    is_on_hub = not config and re.fullmatch(r"[\w.-]+/[\w.-]+", name)
    return f"hf://{name}" if is_on_hub else name


def open_tuned(directory, base):
    """Opens a base model with fine-tuned weights.

    Args:
        directory: `Path` of the fine-tuned weights.
        base: `ModelSource`.

    Returns:
        `TunedSource`.

    Raises:
        InputError: a file is missing or damaged, or the weights belong to another base model.
    """
    config, settings = _read_settings(directory)
    stated, stated_adapter, own = _own_settings(config)
    if config and not stated:
        raise InputError(f"{directory}/config.json does not say what the model was tuned from.")
    paths = {file_within(directory, name): kind for name, kind in _KINDS.items()}
    file = next(kind(path) for path, kind in paths.items() if path.exists())
    arrays = {name: file.read(name) for name in file.header}
    plain = encoder_config(config or base.config, directory)
    prefix = tensor_prefix(plain)
    if settings:
        base.prefix = prefix.removesuffix(".")
        adapter, added, tensors = peft.from_peft(plain, settings, arrays, base)
        if stated_adapter:
            adapter = Adapter.of(stated_adapter, f"{stated_adapter.source}: adapter")
            added = _own_blocks(plain, adapter, added)
    else:
        adapter = Adapter.of(stated_adapter, f"{directory}/config.json: adapter")
        tensors = {name.removeprefix(prefix): array for name, array in arrays.items()}
        added = {}
    if stated and stated.text("sha256") != fingerprint(base, plain, tensors):
        raise InputError(
            f"{directory} was tuned from {stated.text('name', None)}, and the weights of "
            f"{base.path} are "
            "others; give the model that it was tuned from as base."
        )
    if config:
        config = config | {OWN_SETTINGS: own}
    else:
        head = next((h for h, t in peft.TASK_TYPES.items() if t == settings.get("task_type")), None)
        config = base.config | ({"architectures": [class_of(plain, head)]} if head else {})
    return TunedSource(base, config, adapter, tensors | added, directory)


def write_tuned(directory, config, encoder, head, added, changed, base_name, base):
    """Writes fine-tuned weights for `open_tuned`.

    Args:
        directory: `Path` of an existing directory.
        config: dict for `config.json`.
        encoder: `EncoderConfig`.
        head: str or None. See `interop.head_tensors`.
        added: dict of the adapter's variable paths to arrays.
        changed: dict of other tensor names, with the encoder's prefix, to arrays.
        base_name: str. Name of the base model.
        base: `ModelSource`.
    """
    plain = dataclasses.replace(encoder, adapter=None)
    prefix = tensor_prefix(encoder)
    names = {name.removeprefix(prefix) for name in changed}
    own = dict(config[OWN_SETTINGS])
    own["adapter"] = encoder.adapter and dataclasses.asdict(encoder.adapter)
    own["base"] = {"name": base_name, "sha256": fingerprint(base, plain, names)}
    tensors = changed | added
    if encoder.adapter is not None and encoder.adapter.kind == "lora":
        settings, tensors = peft.to_peft(encoder, added, changed, head, base_name)
        _write_json(directory / _PEFT, settings)
    _write_json(directory / "config.json", config | {OWN_SETTINGS: own})
    tensors = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
    safetensors.numpy.save_file(tensors, directory / _TENSORS, metadata={"format": "pt"})
    # safetensors creates a file that only its owner can read.
    shutil.copymode(directory / "config.json", directory / _TENSORS)


def fingerprint(base, config, changed):
    """Computes the checksum of a base model's encoder weights that were not fine-tuned.

    The pooler is not included.

    Args:
        base: `ModelSource`.
        config: `EncoderConfig`.
        changed: iterable of str. Names of tensors to exclude.

    Returns:
        str. SHA-256 over the name, shape and float32 values of each tensor, sorted by name.
    """
    base.prefix = tensor_prefix(config).removesuffix(".")
    digest = hashlib.sha256()
    # Not every task has the pooler.
    config = dataclasses.replace(config, use_pooler=False)
    for name in sorted({name.tensor for name in encoder_tensors(config)} - set(changed)):
        array = base.read(name)
        if array is not None:
            digest.update(f"{name} {array.shape} ".encode())
            digest.update(np.ascontiguousarray(array, "<f4"))
    return digest.hexdigest()


def _read_settings(directory):
    """Reads `config.json` and `adapter_config.json` as `Document`s, empty if missing."""
    paths = [file_within(directory, name) for name in ("config.json", _PEFT)]
    return [read_json(path) if path.exists() else Document({}, path) for path in paths]


def _own_settings(config):
    """Returns (dict stating the base model, adapter, dict of our other settings)."""
    own = config.mapping(OWN_SETTINGS)
    others = {key: value for key, value in own.items() if key not in ("base", "adapter")}
    return own.mapping("base"), own.mapping("adapter", None), others


def _own_blocks(config, adapter, added):
    """Splits the block products written by `to_peft` into the original LoRA variables."""
    blocks = {}
    for parts in peft.matrices(config).values():
        parts = [part for part in parts if peft.place(part) in adapter.projections]
        if any(part + "a" not in added for part in parts):
            raise InputError(f"LoRA on {parts[0].removesuffix('/lora/')} is missing.")
        for number, part in enumerate(parts):
            own = slice(number * adapter.size, (number + 1) * adapter.size)
            blocks[part + "a"] = added[part + "a"][:, own]
            blocks[part + "b"] = added[part + "b"][own]
    return blocks


def _write_json(path, value):
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    path.write_text(text, encoding="utf-8")
