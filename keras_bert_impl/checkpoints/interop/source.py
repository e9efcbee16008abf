"""`ModelSource`, an opened model of any format. Reads and writes Hugging Face files."""

import json
import logging
import shutil
import struct
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import ml_dtypes  # noqa: F401 - registers bfloat16 with NumPy
import numpy as np
import safetensors
import safetensors.numpy

from keras_bert_impl.checkpoints.config import Adapter
from keras_bert_impl.checkpoints.hub.contents import INDEX, WEIGHTS
from keras_bert_impl.checkpoints.interop.flax_file import FlaxFile
from keras_bert_impl.checkpoints.interop.hdf5 import Hdf5File
from keras_bert_impl.checkpoints.interop.torch_file import TorchFile
from keras_bert_impl.utils.errors import InputError, listed
from keras_bert_impl.utils.io.mapping import DTYPES, mapped
from keras_bert_impl.utils.io.reading import Document, file_within, parse_json, read_json

_log = logging.getLogger(__name__)
Tensors: TypeAlias = dict[str, np.ndarray]  # tensor name -> value
# LayerNorm parameters have these names in checkpoints converted from the original BERT code.
_OLD_NAMES = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}


class TensorFile(Protocol):
    """File of any format, from which tensors are read one at a time."""

    path: Path
    header: dict[str, tuple[str, tuple[int, ...]]]

    def read(self, name: str) -> np.ndarray:
        """Returns a tensor, which may be memory-mapped; see `io.mapping`."""


class ModelSource:
    """A model opened by `open_model`, with Hugging Face configuration keys and tensor names.

    Args:
        path: Directory of the model, with the tokenizer files. Error messages contain this path.
        config: Content of a `config.json`.
        tensors: `TensorFile` with Hugging Face names.

    Attributes:
        name: Name or path that the user passed. Warnings contain this name.
        adapter: `Adapter` of fine-tuned weights, if any.
        prefix: Prefix of encoder tensor names in models with a head.
        task_path: Directory with the files of the task.
    """

    def __init__(self, path: Path, config: dict, tensors: TensorFile) -> None:
        self.path = self.task_path = path
        self.name = str(path)
        self.config = Document(config, f"{path}/config.json")
        self.adapter: Adapter | None = None
        self.prefix = "bert"
        self._tensors = tensors
        self._read: set[str] = set()

    def __len__(self) -> int:
        return len(self._tensors.header)

    def shape(self, name: str) -> tuple[int, ...] | None:
        """Returns the shape of a tensor, or None if it is missing; the prefix may be omitted.

        Raises `InputError` for unsupported dtypes.
        """
        spelling = self._find_spelling(name)
        if spelling is None:
            return None
        dtype, shape = self._tensors.header[spelling]
        if dtype not in DTYPES.values():
            raise InputError(
                f"{self._tensors.path}: tensor {spelling} has dtype {dtype}; "
                f"supported are {', '.join(DTYPES.values())}."
            )
        return shape

    def read(self, name: str) -> np.ndarray | None:
        """Returns a tensor, or None if it is missing; the prefix may be omitted.

        The array may be a read-only view of the file. Copy the array before you delete the file.
        """
        spelling = self._find_spelling(name)
        if spelling is None:
            return None
        self._read.add(spelling)
        return self._tensors.read(spelling)

    def unread(self) -> list[str]:
        """Returns the sorted names of the tensors that have not been read."""
        return sorted(set(self._tensors.header) - self._read)

    def _find_spelling(self, name: str) -> str | None:
        names = [name, f"{self.prefix}.{name}"]
        for new, old in _OLD_NAMES.items():
            if name.endswith(new):
                names += [spelling.replace(new, old) for spelling in tuple(names)]
        return next((candidate for candidate in names if candidate in self._tensors.header), None)


_TYPES = {name: np.dtype(dtype) for dtype, name in DTYPES.items()}
_MAX_HEADER = 16 << 20  # bytes; a header with 1,000 tensors takes 100 kB


class SafetensorsFile:
    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            # If two tensors have the same name, the library uses the last one without an error.
            with open(path, "rb") as raw:
                (size,) = struct.unpack("<Q", raw.read(8))
                if size > _MAX_HEADER:
                    raise InputError(
                        f"{path} is damaged: its header has {size} bytes, more than the limit."
                    )
                header = raw.read(size)
            with safetensors.safe_open(path, framework="np") as file:
                places = parse_json(header, path)
                slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
                self.header = {
                    name: (tensor.get_dtype(), tuple(tensor.get_shape()))
                    for name, tensor in slices.items()
                }
            begin = size + 8
            self._offsets = {n: begin + places[n]["data_offsets"][0] for n in self.header}
        except (safetensors.SafetensorError, OSError, struct.error) as error:
            raise InputError(f"{path} is damaged: {error}.") from error

    def read(self, name: str) -> np.ndarray:
        dtype, shape = self.header[name]
        if dtype in _TYPES:
            return mapped(self.path, _TYPES[dtype], shape, self._offsets[name])
        with safetensors.safe_open(self.path, framework="np") as file:
            return file.get_tensor(name)


_Kind: TypeAlias = type[SafetensorsFile] | type[TorchFile] | type[Hdf5File] | type[FlaxFile]
_KINDS: dict[str, _Kind] = {
    ".safetensors": SafetensorsFile,
    ".bin": TorchFile,
    ".h5": Hdf5File,
    ".msgpack": FlaxFile,
}


class Shards:
    """Several tensor files, listed in an index such as `model.safetensors.index.json`."""

    def __init__(self, index: Path, kind: _Kind) -> None:
        self.path = index
        files = read_json(index).get("weight_map")
        if not isinstance(files, dict) or not all(isinstance(p, str) for p in files.values()):
            raise InputError(f"{index} has no weight_map from tensors to files.")
        self._shards = {}
        for name in sorted(set(files.values())):
            path = file_within(index.parent, name)
            if not path.exists():
                raise InputError(f"{index} lists {name}, which is missing.")
            self._shards[name] = kind(path)
        self._files = {self._find_spelling(tensor, name): name for tensor, name in files.items()}
        self.header = {t: self._shards[name].header[t] for t, name in self._files.items()}
        for name, shard in self._shards.items():
            for tensor in shard.header:
                if self._files.get(tensor) != name:
                    raise InputError(f"{index} does not list the tensor {tensor:.200} in {name}.")

    def read(self, name: str) -> np.ndarray:
        return self._shards[self._files[name]].read(name)

    def _find_spelling(self, tensor, name):
        """Returns a tensor's name in its file. TensorFlow's index adds the model name as prefix."""
        for spelling in (tensor, tensor.partition("/")[2]):
            if spelling in self._shards[name].header:
                return spelling
        raise InputError(f"{self.path}: tensor {tensor:.200} is not in {name}.")


def has_tensors(directory: Path) -> bool:
    return any((directory / (name + end)).exists() for name in WEIGHTS for end in ("", INDEX))


def open_tensors(directory: Path) -> TensorFile:
    """Opens the weights in a model directory, such as `model.safetensors` or its shards."""
    for name in WEIGHTS:
        path, index = (file_within(directory, n) for n in (name, name + INDEX))
        kind = _KINDS[path.suffix]
        if path.exists():
            return kind(path)
        if index.exists():
            return Shards(index, kind)
    raise InputError(f"{directory} has no weights: neither {' nor '.join(WEIGHTS)}.")


def write_model_directory(directory: Path, config: dict[str, Any], tensors: Tensors) -> None:
    """Writes `config.json` and `model.safetensors` into an existing directory."""
    write_json(directory / "config.json", config)
    write_tensors(directory / "model.safetensors", tensors)


def write_json(path: Path, value: Any) -> None:
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    path.write_text(text, encoding="utf-8")


def write_tensors(path: Path, tensors: Tensors, like: str = "config.json") -> None:
    """Writes a safetensors file, with the permissions of the file `like` in the same folder."""
    tensors = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
    with np.errstate(all="ignore"):
        wrong = [n for n, x in tensors.items() if not np.isfinite(np.sum(x, dtype="float64"))]
    if wrong:
        _log.warning("%s: NaN or infinite values in %s", path, listed(wrong))
    # `transformers` rejects files without a framework in their metadata.
    safetensors.numpy.save_file(tensors, path, metadata={"format": "pt"})
    # safetensors writes files that only their owner can read.
    shutil.copymode(path.with_name(like), path)
