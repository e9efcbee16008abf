"""Opens models in all supported file formats; reads and writes fine-tuned weights.

Fine-tuned weights are a directory with `adapter_model.safetensors` and `config.json`. `config.json`
contains the name of the base model and the checksum of the base model's weights. For LoRA, the
directory also contains `adapter_config.json` in the format of `peft`. Directories written by `peft`
have no `config.json`. Older versions of `peft` write `adapter_model.bin`.
"""

import contextlib
import dataclasses
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from keras_bert_impl.checkpoints.config import Adapter, EncoderConfig
from keras_bert_impl.checkpoints.hub import local_directory
from keras_bert_impl.checkpoints.interop import adapterhub, peft
from keras_bert_impl.checkpoints.interop.google import is_google_checkpoint, open_google_checkpoint
from keras_bert_impl.checkpoints.interop.huggingface import (
    class_of,
    encoder_config,
    encoder_tensors,
    tensor_prefix,
)
from keras_bert_impl.checkpoints.interop.keras_files import (
    find_keras_file,
    is_of_library,
    keras_config,
    open_keras_file,
)
from keras_bert_impl.checkpoints.interop.keras_hub.models import open_keras_hub
from keras_bert_impl.checkpoints.interop.keras_hub.preset import open_preset
from keras_bert_impl.checkpoints.interop.sentence_transformers import transformer_directory
from keras_bert_impl.checkpoints.interop.source import (
    ModelSource,
    SafetensorsFile,
    Tensors,
    has_tensors,
    open_tensors,
    write_json,
    write_tensors,
)
from keras_bert_impl.checkpoints.interop.tensorflow_names import renamed
from keras_bert_impl.checkpoints.interop.torch_file import TorchFile
from keras_bert_impl.checkpoints.published import check_family, is_preset
from keras_bert_impl.utils.errors import InputError, listed, shown
from keras_bert_impl.utils.io.files import replace_directory
from keras_bert_impl.utils.io.paths import expanded, local_path
from keras_bert_impl.utils.io.reading import Document, file_within, path_within, read_json

GENERATOR = "generator"  # folder of an ELECTRA generator in the discriminator's directory


def open_model(
    name_or_path: str | os.PathLike, generator: bool = False, base: str | os.PathLike | None = None
) -> ModelSource:
    """Opens a model for reading without running any code from its files.

    Args:
        name_or_path: A name accepted by `hub.local_directory`, or a directory with files of Hugging
            Face or `sentence-transformers`, a Google checkpoint, a TF Hub SavedModel, a KerasHub
            preset, or fine-tuned weights from `save_tuned` or `peft`. The prefix of a checkpoint
            (`.../bert_model.ckpt`) is also accepted.
        generator: Whether to open the generator of an ELECTRA model instead of the discriminator.
            Supported for Google checkpoints and for models pre-trained with this package.
        base: Base model of fine-tuned weights. None means the base model named in the directory.

    Raises:
        InputError: The model does not exist, or a file is missing or damaged.
    """
    source = _open_source(expanded(name_or_path), generator, base)
    source.name = str(name_or_path)
    return source


def _open_source(name_or_path, generator, base):
    if _is_prefix(name_or_path):
        path = Path(name_or_path)
        return ModelSource(path.parent, *open_google_checkpoint(path, generator))
    path = local_directory(name_or_path)
    if generator and not is_google_checkpoint(path):
        folder = path_within(path, GENERATOR)
        if not folder.is_dir():
            raise InputError(f"{path} has no generator.")
        return open_model(folder)
    if is_tuned(path):
        return _open_tuned(path, base)
    if base is not None:
        raise InputError(
            f"{path} contains a whole model. Omit base, which is only for fine-tuned weights."
        )
    encoder = transformer_directory(path)
    file = file_within(encoder, "config.json")
    config = read_json(file) if file.exists() else None
    if config is not None and is_preset(config):
        return ModelSource(path, *open_preset(path))
    keras_file = None if config and has_tensors(encoder) else find_keras_file(encoder)
    if config is None:
        if is_google_checkpoint(path) and not (keras_file and is_of_library(keras_file)):
            return ModelSource(path, *open_google_checkpoint(path, generator))
        if keras_file is None:
            raise InputError(f"{encoder} has no config.json.{_make_hint(encoder)}")
        config = keras_config(keras_file)
    check_family(config)
    tensors = open_keras_file(keras_file) if keras_file else open_tensors(encoder)
    source = ModelSource(encoder, *renamed(config, tensors))
    source.task_path = path
    return source


def fingerprint(name_or_path: str | os.PathLike, base: str | os.PathLike | None = None) -> str:
    """Returns the SHA-256 (hex) of a model's configuration and tensors; reads all tensors."""
    source = open_model(name_or_path, base=base)
    digest = hashlib.sha256(json.dumps(source.config, sort_keys=True).encode())
    for name in source.unread():
        array = np.ascontiguousarray(source.read(name))
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(array.view("uint8").data if array.ndim else array.tobytes())
    return digest.hexdigest()


def _make_hint(path: Path) -> str:
    if (path / "recipe.yaml").exists():
        return " The run has no model yet; repeat its command to finish the run."
    if any(path.glob("saved_model.pb")) or any(path.glob("*/saved_model.pb")):
        return " The directory is an export. Pass the run or model that was exported."
    return ""


def _open_tuned(path: Path, base: str | os.PathLike | None) -> ModelSource:
    name = base_of(path) if base is None else base
    try:
        if not _is_prefix(name) and is_tuned(local_directory(name)):
            raise InputError(f"{name} contains only fine-tuned weights. Pass a whole model.")
        opened = open_model(name)
    except InputError as error:
        raise InputError(f"the base model of {path} cannot be opened: {error}") from error
    return open_tuned(path, opened)


def _is_prefix(name):
    path = os.fspath(name) if isinstance(name, (str, os.PathLike)) else ""
    is_name = isinstance(name, str) and "://" in name
    is_file = os.path.isfile(path) or os.path.isfile(f"{path}.index")
    return is_file and not is_name and not os.path.isdir(path) and is_google_checkpoint(path)


def open_keras_hub_model(model: Any) -> ModelSource:
    """Opens a KerasHub backbone or task; see `interop.keras_hub.models.open_keras_hub`."""
    config, tensors = open_keras_hub(model)
    return ModelSource(tensors.path, config, tensors)


OWN_SETTINGS = "keras_bert_impl"  # key of config.json for the settings of this package
_TENSORS, _PEFT = "adapter_model.safetensors", "adapter_config.json"
_KINDS: dict[str, type[SafetensorsFile] | type[TorchFile]] = {
    _TENSORS: SafetensorsFile,
    "adapter_model.bin": TorchFile,  # written by older versions of peft
}
_NAME = re.compile(r"(hf://)?\w[\w.-]{0,200}(/\w[\w.-]{0,200})?")
TUNED_FILES = (*_KINDS, *adapterhub.WEIGHT_FILES, _PEFT)


class TunedSource(ModelSource):
    """A base model with fine-tuned weights, which replace or extend the base weights."""

    def __init__(
        self,
        base: ModelSource,
        config: dict,
        adapter: Adapter | None,
        tensors: Tensors,
        directory: Path,
    ) -> None:
        super().__init__(base.path, config, base._tensors)
        self.config = Document(config, f"{directory}/config.json")
        self.task_path = directory
        self.adapter = adapter
        self._base = base
        self._tuned = tensors
        self._unread_tuned = set(tensors)

    def __len__(self) -> int:
        return len(self._base)

    def shape(self, name: str) -> tuple[int, ...] | None:
        self._base.prefix = self.prefix
        return self._tuned[name].shape if name in self._tuned else self._base.shape(name)

    def read(self, name: str) -> np.ndarray | None:
        self._base.prefix = self.prefix
        if name in self._tuned:
            self._unread_tuned.discard(name)
            self._base.read(name)  # This marks the replaced tensor as read.
            return self._tuned[name]
        return self._base.read(name)

    def unread(self) -> list[str]:
        return sorted({*self._unread_tuned, *self._base.unread()})


def is_tuned(directory: Path) -> bool:
    """Returns whether a directory contains fine-tuned weights instead of a whole model."""
    names = (*_KINDS, *adapterhub.WEIGHT_FILES)
    return any(file_within(directory, name).exists() for name in names)


@contextlib.contextmanager
def replace_model_directory(directory: str | Path, replaced: Iterable[str] = ()) -> Iterator[Path]:
    """Like `replace_directory`, for a directory that contains a whole model.

    Args:
        replaced: Names of files with fine-tuned weights that the caller writes.

    Raises:
        InputError: the directory contains other files with fine-tuned weights, which would be
            loaded on top of the new model.
    """
    names = [name for name in TUNED_FILES if name not in replaced]
    files = [name for name in names if (local_path(directory) / name).exists()]
    if files:
        raise InputError(
            f"{directory} contains fine-tuned weights ({listed(files)}), which would be loaded on "
            "top of the new model. Choose another directory."
        )
    with replace_directory(directory) as temporary:
        yield temporary


def base_of(directory: Path) -> str:
    config, settings = _read_settings(directory)
    name = _split_settings(config)[0].text("name", None)
    name = name or settings.text("base_model_name_or_path", None)
    name = name or settings.text("model_name", None)  # AdapterHub has another key.
    if not name:
        raise InputError(f"{directory} does not name its base model. Pass base=NAME.")
    # `save_tuned` writes paths too, with the checksum of the model.
    if name.startswith(("~", "$")) if config else not _NAME.fullmatch(name):
        raise InputError(
            f"{(config or settings).source}: the base model {shown(name)} is not the name of a "
            "model. Pass the base model as base (on the command line: --base)."
        )
    # peft writes hub names without a scheme.
    return f"hf://{name}" if not config and "/" in name and "://" not in name else name


def open_tuned(directory: Path, base: ModelSource) -> TunedSource:
    config, settings = _read_settings(directory)
    stated, stated_adapter, package_settings = _split_settings(config)
    owner = directory if config else base.path
    plain = encoder_config(config or base.config, owner / "config.json")
    prefix = tensor_prefix(plain)
    base.prefix = prefix.removesuffix(".")
    if not config and adapterhub.is_adapterhub(settings):
        adapter, added, tensors, config_keys = adapterhub.from_adapterhub(
            directory, plain, settings, base
        )
        tensors = {name.removeprefix(prefix): array for name, array in tensors.items()}
        return TunedSource(base, base.config | config_keys, adapter, tensors | added, directory)
    if config and not stated:
        raise InputError(f"{directory}/config.json does not name the base model.")
    paths = {file_within(directory, name): kind for name, kind in _KINDS.items()}
    file = next((kind(path) for path, kind in paths.items() if path.exists()), None)
    if file is None:
        raise InputError(f"{settings.source} is not of AdapterHub, or its weights are missing.")
    arrays = {name: file.read(name) for name in file.header}
    where = f"{directory}/config.json: adapter"
    if settings:
        adapter, added, tensors = peft.from_peft(plain, settings, arrays, base)
        if stated_adapter:
            adapter = Adapter.of(stated_adapter, where)
            added = _split_blocks(plain, adapter, added)
    else:
        adapter = Adapter.of(stated_adapter, where)
        tensors = {name.removeprefix(prefix): array for name, array in arrays.items()}
        added = {}
    if stated and stated.text("sha256") != _compute_base_checksum(base, plain, tensors):
        raise InputError(
            f"{directory} was fine-tuned from {stated.text('name', None)}, but the weights of "
            f"{base.path} differ. Pass the original base model as base."
        )
    if config:
        config = config | {OWN_SETTINGS: package_settings}
    else:
        head = next((h for h, t in peft.TASK_TYPES.items() if t == settings.get("task_type")), None)
        config = base.config | ({"architectures": [class_of(plain, head)]} if head else {})
    return TunedSource(base, config, adapter, tensors | added, directory)


class Tuned(NamedTuple):
    """Fine-tuned weights and their configuration, without the base model.

    Attributes:
        config: The content of `config.json`.
        encoder: Configuration of the encoder, including the adapter.
        head: See `interop.head_tensors`.
        added: The adapter's variables, keyed by path.
        changed: Trained tensors outside the adapter, keyed by name with the encoder's prefix.
    """

    config: dict[str, Any]
    encoder: EncoderConfig
    head: str | None
    added: Tensors
    changed: Tensors


def write_tuned(directory: Path, tuned: Tuned, base_name: str, base: ModelSource) -> None:
    """Writes fine-tuned weights for `open_tuned` into an existing directory."""
    config, encoder, head, added, changed = tuned
    plain = dataclasses.replace(encoder, adapter=None)
    prefix = tensor_prefix(encoder)
    names = {name.removeprefix(prefix) for name in changed}
    package_settings = dict(config[OWN_SETTINGS])
    package_settings["adapter"] = encoder.adapter and dataclasses.asdict(encoder.adapter)
    package_settings["base"] = {
        "name": base_name,
        "sha256": _compute_base_checksum(base, plain, names),
    }
    tensors = changed | added
    if encoder.adapter is not None and encoder.adapter.kind == "lora":
        settings, tensors = peft.to_peft(encoder, added, changed, head, base_name)
        write_json(directory / _PEFT, settings)
    write_json(directory / "config.json", config | {OWN_SETTINGS: package_settings})
    write_tensors(directory / _TENSORS, tensors)


def write_adapterhub(directory: Path, tuned: Tuned, base_name: str) -> None:
    config, encoder, head, added, changed = tuned
    files = adapterhub.to_adapterhub(encoder, added, changed, head, config, base_name)
    settings, tensors, head_settings, head_tensors = files
    write_json(directory / adapterhub.CONFIG, settings)
    write_json(directory / adapterhub.HEAD_CONFIG, head_settings)
    write_tensors(directory / adapterhub.WEIGHTS, tensors, like=adapterhub.CONFIG)
    write_tensors(directory / adapterhub.HEAD_WEIGHTS, head_tensors, like=adapterhub.CONFIG)


def _compute_base_checksum(base: ModelSource, config: EncoderConfig, changed: Iterable[str]) -> str:
    """Returns the SHA-256 (hex) of the base encoder's weights, without the tensors in `changed`."""
    base.prefix = tensor_prefix(config).removesuffix(".")
    digest = hashlib.sha256()
    # The pooler is excluded, because not every task has one.
    config = dataclasses.replace(config, use_pooler=False)
    for name in sorted({name.tensor for name in encoder_tensors(config)} - set(changed)):
        array = base.read(name)
        if array is not None:
            digest.update(f"{name} {array.shape} ".encode())
            digest.update(np.ascontiguousarray(array, "<f4").data)
    return digest.hexdigest()


def _read_settings(directory):
    """Reads `config.json` and `adapter_config.json`. A missing file is an empty `Document`."""
    paths = [file_within(directory, name) for name in ("config.json", _PEFT)]
    return [read_json(path) if path.exists() else Document({}, path) for path in paths]


def _split_settings(config):
    """Returns the settings of this package: (base model, adapter, all others)."""
    settings = config.mapping(OWN_SETTINGS)
    other_settings = {
        key: value for key, value in settings.items() if key not in ("base", "adapter")
    }
    return settings.mapping("base"), settings.mapping("adapter", None), other_settings


def _split_blocks(config, adapter, added):
    """Splits the LoRA products written by `to_peft` into the original LoRA variables."""
    blocks = {}
    for all_parts in peft.matrices(config).values():
        parts = [part for part in all_parts if peft.projection_of(part) in adapter.projections]
        if any(part + "a" not in added for part in parts):
            raise InputError(f"LoRA on {parts[0].removesuffix('/lora/')} is missing.")
        for number, part in enumerate(parts):
            rank_slice = slice(number * adapter.size, (number + 1) * adapter.size)
            blocks[part + "a"] = added[part + "a"][:, rank_slice]
            blocks[part + "b"] = added[part + "b"][rank_slice]
    return blocks
