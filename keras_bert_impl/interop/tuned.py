"""What was tuned of a model, in a directory of its own: to be read onto the base model.

The directory has `config.json`, as that of a whole model, which also names the base and has the
checksum of its weights; and `adapter_model.safetensors`. For LoRA they are with
`adapter_config.json` in the layout of `peft`, whose own directories have no `config.json` and, if they are old,
`adapter_model.bin`.
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

OWN_SETTINGS = "keras_bert_impl"  # a key of config.json that other libraries pass over
_TENSORS, _PEFT = "adapter_model.safetensors", "adapter_config.json"
_KINDS = {_TENSORS: SafetensorsFile, "adapter_model.bin": TorchFile}  # the second of older peft


class TunedSource(ModelSource):
    """A base model under what was tuned of it.

    Args:
        base: `ModelSource`.
        config: dict, as the content of a `config.json`.
        adapter: `Adapter` or None.
        tensors: dict of names, those of the encoder without its prefix, and of paths of the
            adapter's variables, to arrays.
        directory: `Path` of what was tuned.
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
            self._base.read(name)  # what is replaced is no tensor that was forgotten
            return self._own[name]
        return self._base.read(name)

    def unread(self):
        return sorted({*self._unread_own, *self._base.unread()})


def is_tuned(directory):
    """bool. Whether a directory holds what was tuned of a model, and not a whole one."""
    return any(file_within(directory, name).exists() for name in _KINDS)


def base_of(directory):
    """The name of the base model, as the directory has it.

    Raises:
        InputError: it names none.
    """
    config, settings = _read_settings(directory)
    name = _own_settings(config)[0].text("name", None)
    name = name or settings.text("base_model_name_or_path", None)
    if not name:
        raise InputError(f"{directory} does not name the model that it was tuned from; give base.")
    # peft's names of models on the hub
    is_on_hub = not config and re.fullmatch(r"[\w.-]+/[\w.-]+", name)
    return f"hf://{name}" if is_on_hub else name


def open_tuned(directory, base):
    """A base model under what was tuned of it.

    Args:
        directory: `Path`.
        base: `ModelSource`.

    Returns:
        `TunedSource`.

    Raises:
        InputError: a file is missing or damaged, or what was tuned is of another base.
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
            f"{directory} was tuned from {stated.text('name', None)}, and the weights of {base.path} are "
            "others; give the model that it was tuned from as base."
        )
    if config:
        config = config | {OWN_SETTINGS: own}
    else:
        head = next((h for h, t in peft.TASK_TYPES.items() if t == settings.get("task_type")), None)
        config = base.config | ({"architectures": [class_of(plain, head)]} if head else {})
    return TunedSource(base, config, adapter, tensors | added, directory)


def write_tuned(directory, config, encoder, head, added, changed, base_name, base):
    """Writes what `open_tuned` reads.

    Args:
        directory: `Path` of an existing directory.
        config: dict for `config.json`.
        encoder: `EncoderConfig`.
        head: str or None, as of `interop.head_tensors`.
        added: dict of paths of the adapter's variables to arrays.
        changed: dict of names of other tensors, with the prefix of the encoder's, to arrays.
        base_name: str.
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
    # The library makes a file that only its owner can read.
    shutil.copymode(directory / "config.json", directory / _TENSORS)


def fingerprint(base, config, changed):
    """The checksum of those of a base model's weights, without pooler, that were not tuned.

    Args:
        base: `ModelSource`.
        config: `EncoderConfig`.
        changed: names of tensors that do not count.

    Returns:
        str: SHA-256 over name, shape and float32 numbers of each tensor, by name.
    """
    base.prefix = tensor_prefix(config).removesuffix(".")
    digest = hashlib.sha256()
    # A task need not have the pooler.
    config = dataclasses.replace(config, use_pooler=False)
    for name in sorted({name.tensor for name in encoder_tensors(config)} - set(changed)):
        array = base.read(name)
        if array is not None:
            digest.update(f"{name} {array.shape} ".encode())
            digest.update(np.ascontiguousarray(array, "<f4"))
    return digest.hexdigest()


def _read_settings(directory):
    """(`config.json`, `adapter_config.json`) as `Document`s, empty where there is none."""
    paths = [file_within(directory, name) for name in ("config.json", _PEFT)]
    return [read_json(path) if path.exists() else Document({}, path) for path in paths]


def _own_settings(config):
    """(what is said of the base as a dict, the adapter, dict of all other settings of ours)."""
    own = config.mapping(OWN_SETTINGS)
    others = {key: value for key, value in own.items() if key not in ("base", "adapter")}
    return own.mapping("base"), own.mapping("adapter", None), others


def _own_blocks(config, adapter, added):
    """Variables as they were before their products were put into one of blocks."""
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
