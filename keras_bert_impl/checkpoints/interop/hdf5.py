"""Reads arrays from HDF5 files that may be damaged or malicious.

The HDF5 library follows links to other files, and allocates as much memory as a file declares. This
module uses the HDF5 library only to locate arrays, and reads the bytes itself. Arrays that are
compressed, in another file or longer than the file are rejected.
"""

import contextlib
import dataclasses
import math
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import ml_dtypes
import numpy as np

from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.io.mapping import DTYPES, mapped

_MAX_DEPTH = 32  # maximum depth of groups; a group may contain itself
_MAX_MEMBERS = 100_000
_WEIGHTS = "model.weights.h5"  # name of the weights in a `.keras` file
_MAX_CONFIG = 4 << 20  # bytes


@dataclasses.dataclass(frozen=True)
class StoredArray:
    file: Path
    name: str
    dtype: np.dtype
    shape: tuple[int, ...]
    offset: int  # in bytes

    def read(self) -> np.ndarray:
        return mapped(self.file, self.dtype, self.shape, self.offset)


@contextlib.contextmanager
def opened(path: Path) -> Iterator[h5py.File]:
    """Opens an HDF5 file, or the weights in a `.keras` file, for reading."""
    try:
        with contextlib.ExitStack() as stack:
            content: Any = path
            if path.suffix == ".keras":
                archive = stack.enter_context(zipfile.ZipFile(path))
                content = stack.enter_context(archive.open(_locate_weights(archive, path)))
            yield stack.enter_context(h5py.File(content, "r"))
    except InputError:
        raise
    # All exceptions that h5py raises for damaged files.
    except (
        *(OSError, KeyError, RuntimeError, ValueError, TypeError, MemoryError),
        *(zipfile.BadZipFile, NotImplementedError, EOFError, struct.error),
    ) as error:
        reason = str(error).replace("\n", " ")
        raise InputError(f"{path} is damaged: {reason:.300}.") from error


def _locate_weights(archive, path):
    """Returns the `ZipInfo` of the weights in a `.keras` file."""
    entry = archive.getinfo(_WEIGHTS)
    if entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1:
        raise InputError(
            f"{path}: {_WEIGHTS} is compressed or encrypted. Save the model again with Keras."
        )
    return entry


def _find_start(path):
    if path.suffix != ".keras":
        return 0
    with zipfile.ZipFile(path) as archive, open(path, "rb") as file:
        file.seek(_locate_weights(archive, path).header_offset + 26)
        name, extra = struct.unpack("<HH", file.read(4))
        return file.tell() + name + extra


def model_config(path: Path) -> str | None:
    """Returns the model configuration in a `.keras` or HDF5 file, or None."""
    with opened(path) as file:
        if path.suffix != ".keras":
            text = file.attrs.get("model_config")
            text = text.decode() if isinstance(text, bytes) else text
            return text if isinstance(text, str) else None
        with zipfile.ZipFile(path) as archive:
            entry = archive.getinfo("config.json")
            if entry.file_size > _MAX_CONFIG:
                raise InputError(f"{path}: config.json is larger than {_MAX_CONFIG >> 20} MiB.")
            return archive.read(entry).decode()


def member(group: h5py.Group, name: str, path: Path) -> h5py.Group | h5py.Dataset | None:
    """Returns a member of a group, or None if it is missing. Raises `InputError` for a link."""
    link = group.get(name, getlink=True)
    if link is None:
        return None
    if not isinstance(link, h5py.HardLink):
        raise InputError(
            f"{path}: {group.name.rstrip('/')}/{name} is a link. Save the file without links."
        )
    return group[name]


def find_array(file: h5py.File, name: str, path: Path) -> StoredArray | None:
    """Locates an array by its path, with `/` between groups; returns None if it is missing."""
    *groups, last = name.split("/")
    group = file
    for part in groups:
        group = member(group, part, path)
        if group is None:
            return None
        if not isinstance(group, h5py.Group):
            raise InputError(f"{path}: {group.name} is not a group.")
    dataset = member(group, last, path)
    if dataset is None:
        return None
    if not isinstance(dataset, h5py.Dataset) or dataset.shape is None:
        raise InputError(f"{path}: {name} is not an array.")
    dtype = _read_dtype(dataset, path)
    if dataset.is_virtual or dataset.external:
        raise InputError(f"{path}: {name} is stored in another file.")
    offset = dataset.id.get_offset()
    if dataset.chunks is not None or offset is None or file.userblock_size:
        raise InputError(
            f"{path}: {name} must be stored contiguously. Save the model again with Keras."
        )
    offset += _find_start(path)
    if offset + math.prod(map(int, dataset.shape)) * dtype.itemsize > path.stat().st_size:
        raise InputError(f"{path}: {name} is longer than the file.")
    return StoredArray(path, name, dtype, dataset.shape, offset)


def _read_dtype(dataset, path):
    dtype = dataset.dtype
    # Keras marks bfloat16 arrays, because HDF5 has no such type.
    if dtype.kind == "V" and dtype.itemsize == 2 and dataset.attrs.get("dtype") == "bfloat16":
        return np.dtype(ml_dtypes.bfloat16)
    if dtype.kind != "f" or dataset.id.get_type() != h5py.h5t.py_create(dtype):
        raise InputError(
            f"{path}: {dataset.name} has dtype {str(dtype):.100}; supported are "
            "float64, float32, float16 and bfloat16."
        )
    return dtype


class Hdf5File:
    """A `TensorFile` for an HDF5 file; `/` separates the names of groups."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with opened(path) as file:
            arrays = _list_arrays(file, path)
            self.header = {name: _describe_array(dataset) for name, dataset in arrays.items()}

    def read(self, name: str) -> np.ndarray:
        with opened(self.path) as file:
            array = find_array(file, name, self.path)
        assert array is not None
        return array.read()


def _list_arrays(file, path):
    arrays, level, members = {}, [("", file)], 0
    for _ in range(_MAX_DEPTH):
        inner = []
        for prefix, group in level:
            members += len(group)
            if members > _MAX_MEMBERS:
                raise InputError(f"{path} has more than {_MAX_MEMBERS} arrays and groups.")
            for name in group:
                child = member(group, name, path)
                if isinstance(child, h5py.Group):
                    inner.append((f"{prefix}{name}/", child))
                elif isinstance(child, h5py.Dataset) and child.shape is not None:
                    arrays[prefix + name] = child
        level = inner
    if level:
        raise InputError(f"{path}: groups are nested more than {_MAX_DEPTH} levels deep.")
    return arrays


def _describe_array(dataset):
    name = dataset.dtype.newbyteorder("=").name
    if dataset.dtype.kind == "V" and dataset.attrs.get("dtype") == "bfloat16":
        name = "bfloat16"
    return DTYPES.get(name, name), dataset.shape
