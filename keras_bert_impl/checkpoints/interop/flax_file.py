"""Locates the arrays in a `flax_model.msgpack` file without reading them.

The file is a MessagePack map from names to arrays or nested maps. An array is an extension of type
1 with three values: shape, dtype name and the data in C order (Flax, `flax/serialization.py`).
"""

import math
import mmap
import struct
from pathlib import Path

import ml_dtypes  # noqa: F401 - registers bfloat16 with NumPy
import numpy as np

from keras_bert_impl.utils.errors import InputError, shown
from keras_bert_impl.utils.io.mapping import DTYPES, mapped

_MAX_DEPTH = 32
_MAX_MEMBERS = 100_000
_MAX_RANK = 8
_MAX_NAME = 1_000  # bytes
_ARRAY = 1  # MessagePack extension type of an array
# First byte of a value -> its kind, and the format of the length or number after it.
_LONG = {
    **dict(zip((0xC4, 0xC5, 0xC6), (("bin", ">B"), ("bin", ">H"), ("bin", ">I")))),
    **dict(zip((0xC7, 0xC8, 0xC9), (("ext", ">B"), ("ext", ">H"), ("ext", ">I")))),
    **dict(zip((0xCC, 0xCD, 0xCE), (("int", ">B"), ("int", ">H"), ("int", ">I")))),
    **dict(zip((0xD9, 0xDA, 0xDB), (("str", ">B"), ("str", ">H"), ("str", ">I")))),
    **dict(zip((0xDC, 0xDD), (("array", ">H"), ("array", ">I")))),
    **dict(zip((0xDE, 0xDF), (("map", ">H"), ("map", ">I")))),
}
# Kind -> first bytes that contain the length or number.
_SHORT = {
    "int": range(0x00, 0x80),
    "map": range(0x80, 0x90),
    "array": range(0x90, 0xA0),
    "str": range(0xA0, 0xC0),
}
_FIXED = {0xD4: 1, 0xD5: 2, 0xD6: 4, 0xD7: 8, 0xD8: 16}  # first byte -> length of an extension


class FlaxFile:
    """A `TensorFile` for a Flax file; `/` separates the names of nested maps."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with open(path, "rb") as file:
                with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                    self._arrays = _Reader(data).arrays()
        except (OSError, ValueError, struct.error, UnicodeDecodeError) as error:
            raise InputError(f"{path} is damaged: {error}.") from error
        self.header = {
            name: (DTYPES.get(dtype, dtype), shape)
            for name, (dtype, shape, _) in self._arrays.items()
        }

    def read(self, name: str) -> np.ndarray:
        dtype, shape, offset = self._arrays[name]
        if dtype not in DTYPES:
            raise InputError(f"{self.path}: {shown(name)} has dtype {shown(dtype)}.")
        return mapped(self.path, np.dtype(dtype).newbyteorder("<"), shape, offset)


class _Reader:
    def __init__(self, data: mmap.mmap) -> None:
        self._data, self._position, self._members = data, 0, 0
        self._arrays: dict[str, tuple[str, tuple[int, ...], int]] = {}

    def arrays(self) -> dict[str, tuple[str, tuple[int, ...], int]]:
        """Returns {name: (dtype, shape, byte offset)}."""
        self._read_map("", self._take("map"), _MAX_DEPTH)
        if self._position != len(self._data):
            raise ValueError("trailing bytes after the map of arrays")
        return self._arrays

    def _read_map(self, prefix, length, depth):
        self._members += length
        if self._members > _MAX_MEMBERS or not depth:
            raise ValueError("too many or too deeply nested maps")
        for _ in range(length):
            name = prefix + str(self._read_bytes(self._take("str"), _MAX_NAME), "utf-8")
            kind, size = self._read_type()
            if kind == "map":
                self._read_map(f"{name}/", size, depth - 1)
            elif (
                kind == "ext"
                and self._read_bytes(1) == bytes([_ARRAY])
                and name not in self._arrays
            ):
                end = self._position + size
                self._arrays[name] = self._read_array()
                if self._position != end:
                    raise ValueError(f"{shown(name)} has a wrong length")
            else:
                raise ValueError(f"{shown(name)} is not an array, or occurs twice")

    def _read_array(self):
        if self._take("array") != 3:
            raise ValueError("an array must have a shape, a dtype and data")
        rank = self._take("array")
        if rank > _MAX_RANK:
            raise ValueError(f"an array has {rank} dimensions")
        shape = tuple(self._take("int") for _ in range(rank))
        dtype = str(self._read_bytes(self._take("str"), _MAX_NAME), "utf-8")
        size, offset = self._take("bin"), self._position
        if dtype in DTYPES and size != math.prod(shape) * np.dtype(dtype).itemsize:
            raise ValueError(f"{size} bytes are not an array of {dtype} with shape {shape}")
        if size > len(self._data) - offset:
            raise ValueError("it ends early")
        self._position += size
        return dtype, shape, offset

    def _take(self, expected):
        kind, number = self._read_type()
        if kind != expected:
            raise ValueError(f"found a value of type {kind}, expected {expected}")
        return number

    def _read_type(self):
        """Returns (type, length) of the next value, or ("int", value) for an integer."""
        (first,) = self._read_bytes(1)
        if first in _FIXED:
            return "ext", _FIXED[first]
        if first in _LONG:
            kind, form = _LONG[first]
            return kind, struct.unpack(form, self._read_bytes(struct.calcsize(form)))[0]
        for kind, bytes_of_kind in _SHORT.items():
            if first in bytes_of_kind:
                return kind, first - bytes_of_kind.start
        return f"{first:#x}", 0

    def _read_bytes(self, count, most=8):
        if count > most or count > len(self._data) - self._position:
            raise ValueError("it ends early" if count <= most else "a name is too long")
        self._position += count
        return self._data[self._position - count : self._position]
