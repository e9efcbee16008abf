"""Reads the tensors in a `pytorch_model.bin` written by `torch.save`, without executing the file.

The file contains a pickle, a program that can call any function. This module parses the
instructions of the pickle with `pickletools`, and never imports a function or class that the file
names. Only strings and numbers are hashed, compared or formatted, because lists and dicts in the
pickle may contain themselves.
"""

import contextlib
import dataclasses
import io
import math
import os
import pickletools
import struct
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from keras_bert_impl.utils.errors import InputError, shown

# For a 24-layer BERT model, the pickle has 79 kB and 15,500 instructions.
_MAX_PROGRAM = 16 << 20  # bytes
_MAX_INSTRUCTIONS = 1 << 20
_MAX_MARKS = 100  # number of nested values
_MAX_TUPLE = 64  # values in a tuple
_MAX_NAME = 1_000  # characters
_MAX_IMPORT = 100  # maximum characters of a module name or of a name in a module
_MAX_SHARING = 8  # maximum tensor elements per stored element; models may tie weights
_MAX_BITS = 128  # bits of an integer
_MAGIC = 0x1950A86A20F9469CFC6C  # start of a file written by PyTorch before 1.6
_TYPES = {
    "torch.DoubleStorage": ("F64", np.dtype("<f8")),
    "torch.FloatStorage": ("F32", np.dtype("<f4")),
    "torch.HalfStorage": ("F16", np.dtype("<f2")),
    "torch.BFloat16Storage": ("BF16", np.dtype(ml_dtypes.bfloat16)),
    "torch.LongStorage": ("I64", np.dtype("<i8")),
    "torch.IntStorage": ("I32", np.dtype("<i4")),
    "torch.ShortStorage": ("I16", np.dtype("<i2")),
    "torch.CharStorage": ("I8", np.dtype("i1")),
    "torch.ByteStorage": ("U8", np.dtype("u1")),
    "torch.BoolStorage": ("BOOL", np.dtype("?")),
}


@dataclasses.dataclass(frozen=True)
class _Name:
    """Name of a function or class in the pickle. Nothing is imported."""

    name: str


@dataclasses.dataclass(frozen=True)
class _Storage:
    kind: str
    key: str
    size: int


@dataclasses.dataclass(frozen=True)
class _Tensor:
    """A view of a storage. Offset and strides count elements."""

    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def dtype(self) -> np.dtype:
        return _TYPES[self.storage.kind][1]

    @property
    def end(self) -> int:
        """Index of the last element in the storage, plus 1."""
        if 0 in self.shape:
            return self.offset
        last = sum((size - 1) * stride for size, stride in zip(self.shape, self.strides))
        return self.offset + last + 1


class TorchFile:
    """A `TensorFile` for a file of `torch.save`, from any PyTorch version."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with self._convert_errors():
            # storage -> byte offset, only for old files
            self._offsets: dict[str, int] | None = None
            self._sizes: dict[str, int] = {}  # storage -> bytes available in the file
            if tarfile.is_tarfile(path):
                raise InputError(
                    f"{path} is a tar archive. If it is from PyTorch 0.1, load it with torch.load and "
                    "save it again with torch.save. Otherwise, unpack it and pass the folder."
                )
            is_zip = zipfile.is_zipfile(path)
            value = self._read_zip_program() if is_zip else self._read_old_program()
            if not isinstance(value, dict):
                raise ValueError("no dict of tensors")
            inner = [name for name, inside in value.items() if isinstance(inside, dict)]
            self._tensors = {k: v for k, v in value.items() if isinstance(v, _Tensor)}
            if inner and not self._tensors:
                raise InputError(
                    f"{path} is a training checkpoint with weights in {shown(inner[0])}. Save "
                    f"only torch.load(path)[{shown(inner[0])}]."
                )
            for name, tensor in self._tensors.items():
                _check_extent(name, tensor)
                self._check_stored(name, tensor)
            # The size of all tensors is limited to a multiple of the file size.
            sizes = (math.prod(t.shape) * t.dtype.itemsize for t in self._tensors.values())
            if sum(sizes) > _MAX_SHARING * sum(self._sizes.values()):
                raise ValueError("too many tensors share the same storage")
            self.header = {
                name: (_TYPES[tensor.storage.kind][0], tensor.shape)
                for name, tensor in self._tensors.items()
            }

    def read(self, name: str) -> np.ndarray:
        tensor = self._tensors[name]
        itemsize = tensor.dtype.itemsize
        with self._convert_errors():
            data = self._read_storage(tensor.storage.key, tensor.offset, tensor.end, itemsize)
            strides = [stride * itemsize for stride in tensor.strides]
            return np.ndarray(tensor.shape, tensor.dtype, data, strides=strides)

    def _check_stored(self, name, tensor):
        """Checks that the file contains the data of a tensor, before memory is allocated."""
        key = tensor.storage.key
        if key not in self._sizes:
            raise ValueError(f"no storage {self._folder}data/{key}")
        if tensor.end * tensor.dtype.itemsize > self._sizes[key]:
            raise ValueError(f"tensor {name} is cut off")

    @contextlib.contextmanager
    def _convert_errors(self):
        """Converts the exceptions raised by damaged files to an `InputError`."""
        try:
            yield
        except InputError:
            raise
        except OSError as error:
            raise InputError(f"{self.path} cannot be read: {error.strerror or error}.") from error
        except (
            *(ValueError, TypeError, LookupError, AttributeError, ArithmeticError, EOFError),
            # `zipfile` raises RuntimeError for encrypted files.
            *(struct.error, zipfile.BadZipFile, RuntimeError),
        ) as error:
            reason = str(error) or type(error).__name__
            raise InputError(f"{self.path} is damaged: {reason:.300}.") from error

    # === PyTorch 1.6 and newer: a zip archive of the program and the storages ===

    def _read_zip_program(self):
        with zipfile.ZipFile(self.path) as archive:
            names = [n for n in archive.namelist() if n.split("/")[-1] == "data.pkl"]
            if len(names) != 1:
                raise ValueError("no data.pkl in the archive")
            self._folder = names[0].removesuffix("data.pkl")
            order = self._folder + "byteorder"
            if order in archive.namelist() and _open_entry(archive, order).read(9) != b"little":
                raise ValueError("big-endian numbers are not supported")
            if archive.getinfo(names[0]).file_size > _MAX_PROGRAM:
                raise ValueError(f"data.pkl has more than {_MAX_PROGRAM >> 20} MiB")
            end = os.path.getsize(self.path)
            self._sizes = {
                entry.filename.removeprefix(f"{self._folder}data/"): entry.file_size
                for entry in archive.infolist()
                if entry.header_offset + entry.file_size <= end
            }
            return _evaluate(io.BytesIO(_open_entry(archive, names[0]).read()), self.path)

    def _read_storage(self, key, begin, end, itemsize):
        size = (end - begin) * itemsize
        if self._offsets is not None:
            with open(self.path, "rb") as file:
                file.seek(self._offsets[key] + begin * itemsize)
                return file.read(size)
        with zipfile.ZipFile(self.path) as archive:
            file = _open_entry(archive, f"{self._folder}data/{key}")
            file.seek(begin * itemsize)
            return file.read(size)

    # === Older versions: magic number, version, system, program; then all storages in a row ===

    def _read_old_program(self):
        with open(self.path, "rb") as file:
            start = io.BytesIO(file.read(_MAX_PROGRAM))
            if _evaluate(start, self.path) != _MAGIC:
                raise ValueError("not a PyTorch file")
            _version, system = _evaluate(start, self.path), _evaluate(start, self.path)
            if not isinstance(system, dict) or system.get("little_endian") is not True:
                raise ValueError("big-endian numbers are not supported")
            storages = {}
            value = _evaluate(start, self.path, storages)
            keys = _evaluate(start, self.path)
            if not isinstance(keys, list):
                raise ValueError("no list of storages")
            self._offsets, self._folder = {}, ""
            end = os.path.getsize(self.path)
            file.seek(start.tell())
            for key in map(_check_name, keys):
                (size,) = struct.unpack("<q", file.read(8))
                if size != storages[key].size:
                    raise ValueError(f"storage {key} has {size} numbers")
                self._offsets[key] = file.tell()
                self._sizes[key] = end - self._offsets[key]
                file.seek(size * _TYPES[storages[key].kind][1].itemsize, io.SEEK_CUR)
            return value


def _open_entry(archive, name):
    """Opens an archive entry; raises if it is compressed, because it could be a zip bomb."""
    entry = archive.getinfo(name)
    if entry.compress_type != zipfile.ZIP_STORED or entry.file_size != entry.compress_size:
        raise ValueError(f"{name} is compressed")
    return archive.open(entry)


def _check_extent(name, tensor):
    if len(tensor.shape) != len(tensor.strides):
        raise ValueError(f"tensor {name} has {len(tensor.strides)} strides")
    # Strides of 0 would allow tensors of any size.
    if math.prod(tensor.shape) > tensor.storage.size:
        raise ValueError(f"tensor {name} has more numbers than its storage")
    if tensor.end > tensor.storage.size:
        raise ValueError(f"tensor {name} reaches beyond its storage")


# === The program ===

_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_EMPTY = {"EMPTY_DICT": dict, "EMPTY_LIST": list, "EMPTY_TUPLE": tuple}
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_VALUES = {"BININT", "BININT1", "BININT2", "LONG1", "LONG4", "BINFLOAT", "BINUNICODE"}
_VALUES |= {"SHORT_BINUNICODE", "BINUNICODE8", "SHORT_BINSTRING", "BINSTRING", "INT", "LONG"}


def _evaluate(file, path, storages=None):
    """Evaluates the instructions of a pickle up to STOP, without executing anything."""
    stack: list[Any] = []
    memo: dict[int, Any] = {}
    marked: list[list[Any]] = []  # the stack before each mark
    for number, (opcode, argument, _) in enumerate(pickletools.genops(file)):
        if number == _MAX_INSTRUCTIONS:
            raise ValueError(f"more than {_MAX_INSTRUCTIONS} instructions")
        name = opcode.name
        if name in _VALUES:
            stack.append(_check_argument(argument))
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name in _EMPTY:
            stack.append(_EMPTY[name]())
        elif name == "MARK":
            if len(marked) == _MAX_MARKS:
                raise ValueError("values are nested too deeply")
            marked.append(stack)
            stack = []
        elif name == "TUPLE":
            items, stack = stack, marked.pop()
            stack.append(_build_tuple(items))
        elif name in _TUPLES:
            count = _TUPLES[name]
            stack[-count:] = [_build_tuple(stack[-count:])]
        elif name in ("BINPUT", "LONG_BINPUT"):
            memo[argument] = stack[-1]
        elif name == "MEMOIZE":
            memo[len(memo)] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET"):
            stack.append(memo[argument])
        elif name == "GLOBAL":
            stack.append(_Name(argument.replace(" ", ".")))
        elif name == "STACK_GLOBAL":
            stack[-2:] = [_Name(".".join(_check_name(part, _MAX_IMPORT) for part in stack[-2:]))]
        elif name == "BINPERSID":
            stack.append(_parse_storage(stack.pop(), storages))
        elif name == "REDUCE":
            arguments = stack.pop()
            stack.append(_evaluate_call(stack.pop(), arguments, path))
        elif name == "BUILD":
            stack.pop()  # Attributes, such as module versions, are ignored.
        elif name == "SETITEM":
            key, value = stack.pop(-2), stack.pop()
            stack[-1].update({_check_name(key): value})
        elif name == "SETITEMS":
            items, stack = stack, marked.pop()
            stack[-1].update(zip(map(_check_name, items[::2]), items[1::2], strict=True))
        elif name == "APPEND":
            value = stack.pop()
            stack[-1].append(value)
        elif name == "APPENDS":
            items, stack = stack, marked.pop()
            stack[-1].extend(items)
        elif name == "STOP":
            return stack.pop()
        elif name not in ("PROTO", "FRAME"):
            raise _make_refusal(path, f"the instruction {name}")
    raise ValueError("unexpected end of the pickle")


def _check_argument(value):
    """Returns the argument of an instruction; raises for an integer with too many bits."""
    if type(value) is int and value.bit_length() > _MAX_BITS:
        raise ValueError(f"a number has more than {_MAX_BITS} bits")
    return value


def _check_name(value, most=_MAX_NAME):
    """Returns a key or name; raises if it is not a str or has too many characters."""
    if type(value) is not str or len(value) > most:
        raise ValueError(f"a key is not a string of at most {most} characters")
    return value


def _build_tuple(items):
    inner = [item for item in items if type(item) is tuple]
    if len(items) > _MAX_TUPLE or any(type(item) is tuple for items in inner for item in items):
        raise ValueError("tuples are too long or nested too deeply")
    return tuple(items)


def _check_whole_numbers(values):
    if type(values) is not tuple or not all(type(n) is int and n >= 0 for n in values):
        raise ValueError("a tensor has an invalid shape")
    return values


def _parse_storage(identity, storages):
    if type(identity) is not tuple or len(identity) < 5 or identity[0] != "storage":
        raise ValueError("a storage is not in PyTorch's format")
    kind, key, _location, size = identity[1:5]
    if type(kind) is not _Name or kind.name not in _TYPES:
        raise ValueError("a storage has an unknown type")
    if len(identity) > 5 and identity[5] is not None:
        raise ValueError(f"storage {_check_name(key)} is a view of another storage")
    _check_whole_numbers((size,))
    storage = _Storage(kind.name, _check_name(key), size)
    if storages is not None:
        storages[key] = storage
    return storage


def _evaluate_call(function, arguments, path):
    """Evaluates a call that builds a dict or a tensor; raises for every other call."""
    if type(function) is not _Name or type(arguments) is not tuple:
        raise ValueError("a call of a value that is not a function")
    name = function.name
    if name == "collections.OrderedDict" and not arguments:
        return {}
    if name in ("torch._utils._rebuild_tensor", "torch._utils._rebuild_tensor_v2"):
        storage, offset, shape, strides = arguments[:4]
        if type(storage) is not _Storage:
            raise ValueError("a tensor has no storage")
        if len(arguments) > 6 and arguments[6]:  # These flags change the values.
            raise ValueError("a tensor is the negative or conjugate of the stored numbers")
        _check_whole_numbers((offset,))
        return _Tensor(storage, offset, _check_whole_numbers(shape), _check_whole_numbers(strides))
    if name == "torch._utils._rebuild_parameter":
        return arguments[0]
    raise _make_refusal(path, f"a call of {name}")


def _make_refusal(path, code):
    return InputError(
        f"{path} contains more than weights: {code:.200}. No code was run. Save a state dict that "
        "contains only tensors, preferably with safetensors."
    )
