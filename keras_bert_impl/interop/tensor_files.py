"""Tensor files of a model directory: single files or shards."""

import struct
from pathlib import Path
from typing import TypeAlias

import ml_dtypes  # noqa: F401 - registers bfloat16 with NumPy
import numpy as np
import safetensors

from keras_bert_impl.interop.source import DTYPES, TensorFile
from keras_bert_impl.interop.torch_file import TorchFile
from keras_bert_impl.io.errors import InputError
from keras_bert_impl.io.mapping import mapped
from keras_bert_impl.io.reading import file_within, parse_json, read_json

_TYPES = {name: np.dtype(dtype) for dtype, name in DTYPES.items()}
_MAX_HEADER = 16 << 20  # bytes; 1,000 tensors take 100 kB


class SafetensorsFile:
    """A safetensors file, as a `TensorFile`; the header is read before any tensor is allocated."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            # The library silently takes the last of two tensors with the same name.
            with open(path, "rb") as raw:
                (size,) = struct.unpack("<Q", raw.read(8))
                if size > _MAX_HEADER:
                    raise InputError(f"{path} is damaged: header too large, {size} bytes.")
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
        """Returns a tensor as an array, mapped if its dtype is one of weights."""
        dtype, shape = self.header[name]
        if dtype in _TYPES:
            return mapped(self.path, _TYPES[dtype], shape, self._offsets[name])
        with safetensors.safe_open(self.path, framework="np") as file:
            return file.get_tensor(name)


_Kind: TypeAlias = type[SafetensorsFile] | type[TorchFile]
# Weights of a model directory, in order of preference.
_KINDS: dict[str, _Kind] = {"model.safetensors": SafetensorsFile, "pytorch_model.bin": TorchFile}


class Shards:
    """The tensor files listed in an index, such as `model.safetensors.index.json`."""

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
        self._files = files
        for tensor, name in files.items():
            if tensor not in self._shards[name].header:
                raise InputError(f"{index}: tensor {tensor:.200} is not in {name}.")
        self.header = {t: self._shards[name].header[t] for t, name in files.items()}
        for name, shard in self._shards.items():
            for tensor in shard.header:
                if files.get(tensor) != name:
                    raise InputError(f"{index} does not list tensor {tensor:.200} of {name}.")

    def read(self, name: str) -> np.ndarray:
        """Returns a tensor as an array."""
        return self._shards[self._files[name]].read(name)


def open_tensors(directory: Path) -> TensorFile:
    """Opens the tensors of a Hugging Face directory; prefers safetensors to PyTorch files."""
    for name, kind in _KINDS.items():
        path, index = (file_within(directory, n) for n in (name, f"{name}.index.json"))
        if path.exists():
            return kind(path)
        if index.exists():
            return Shards(index, kind)
    raise InputError(f"{directory} has no weights: neither {' nor '.join(_KINDS)}.")
