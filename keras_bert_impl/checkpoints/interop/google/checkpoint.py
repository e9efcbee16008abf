"""Finds TensorFlow checkpoints and reads their variables one at a time.

TensorFlow crashes if the index of a checkpoint contains an invalid shape. This module therefore
checks the index before TensorFlow opens it. An index is a sorted table in blocks, with one
`BundleEntryProto` per tensor. Source: TensorFlow, `tensorflow/core/lib/io/format.h` and
`tensorflow/core/protobuf/tensor_bundle.proto`.
"""

import dataclasses
import math
import os
import re
import struct
from pathlib import Path
from typing import Any

from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.io.paths import local_path
from keras_bert_impl.utils.io.reading import file_within, path_within, read_text

_FOOTER = 48
_MAGIC = 0xDB4775248B80FB57
_MAX_BYTES = 64 << 20  # The index of a BERT model is a few KiB large.
_MAX_NAME = 1_000
# The limit is needed because three bytes can encode a long name that repeats the previous one.
_MAX_ROWS = 100_000
_MAX_RANK = 8
_SHORT = {"DT_FLOAT": "F32", "DT_HALF": "F16", "DT_BFLOAT16": "BF16", "DT_DOUBLE": "F64"}
_ITEMSIZE = {"DT_FLOAT": 4, "DT_HALF": 2, "DT_BFLOAT16": 2, "DT_DOUBLE": 8}
_ITEMSIZE |= {"DT_INT32": 4, "DT_INT64": 8, "DT_BOOL": 1}


class _Damaged(Exception):
    """The index of a checkpoint is damaged."""


@dataclasses.dataclass(frozen=True)
class Variable:
    """Dtype (such as `"F32"` or `"int64"`) and shape of a variable."""

    dtype: str
    shape: tuple[int, ...]


def read_index(prefix: Path) -> dict[str, Variable]:
    """Reads the index of a checkpoint. The data files must contain all variables."""
    from google.protobuf.message import DecodeError
    from tensorflow.core.protobuf.tensor_bundle_pb2 import BundleEntryProto, BundleHeaderProto

    path = file_within(prefix.parent, f"{prefix.name}.index")
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise InputError(
                f"{path} is larger than {_MAX_BYTES >> 20} MiB, the limit for an index."
            )
        rows = _parse_table(path.read_bytes())
        header = BundleHeaderProto.FromString(rows.pop(b"", b""))
        entries = {
            name.decode("utf-8", "backslashreplace"): BundleEntryProto.FromString(row)
            for name, row in rows.items()
        }
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from error
    except (_Damaged, DecodeError, struct.error) as error:
        raise InputError(f"{path} is damaged: {error}.") from error
    files = {
        shard: _locate_data_file(prefix, shard, header.num_shards)
        for shard in sorted({0} | {entry.shard_id for entry in entries.values()})
    }
    sizes = {shard: file.stat().st_size for shard, file in files.items()}
    variables = {name: _parse_variable(path, name, entry, sizes) for name, entry in entries.items()}
    for name, variable in variables.items():
        if variable == Variable("string", ()):
            _check_string(path, name, entries[name], files[entries[name].shard_id])
    return variables


def _locate_data_file(prefix, shard, num_shards):
    name = f"{prefix.name}.data-{shard:05d}-of-{num_shards:05d}"
    path = file_within(prefix.parent, name)
    if not path.exists():
        raise InputError(f"{path} is missing; {prefix.name}.index needs it.")
    return path


def _check_string(path, name, entry, data):
    """Checks the length of a string, because TensorFlow allocates that many bytes."""
    with open(data, "rb") as file:
        file.seek(entry.offset)
        start = _Bytes(file.read(min(entry.size, 10)))
    try:
        length = start.number()
    except _Damaged:
        length = -1
    if start.position + 4 + length != entry.size:
        raise InputError(f"{path}: tensor {name:.200} is not a string of {entry.size} bytes.")


def _parse_variable(path, name, entry, sizes):
    from tensorflow.core.framework.types_pb2 import DataType

    where = f"{path}: tensor {name:.200}"
    shape = tuple(dimension.size for dimension in entry.shape.dim)
    if entry.shape.unknown_rank or len(shape) > _MAX_RANK or any(size < 0 for size in shape):
        raise InputError(f"{where} has an invalid shape: {shape!s:.100}.")
    if entry.slices:
        raise InputError(f"{where} is a partitioned variable; save it as a single variable.")
    dtype = DataType.Name(entry.dtype) if entry.dtype in DataType.values() else str(entry.dtype)
    expected = math.prod(shape) * _ITEMSIZE.get(dtype, 0)
    if dtype in _ITEMSIZE and entry.size != expected:
        raise InputError(
            f"{where} of shape {shape} must have {expected} bytes, but has {entry.size}."
        )
    if entry.offset < 0 or entry.size < 0 or entry.offset + entry.size > sizes[entry.shard_id]:
        raise InputError(
            f"{where} ends at byte {entry.offset + entry.size}, but its file has only "
            f"{sizes[entry.shard_id]} bytes. Copy or download the file again."
        )
    return Variable(_SHORT.get(dtype, dtype.removeprefix("DT_").lower()), shape)


def _parse_table(data):
    """Parses an index; returns the serialized entries, keyed by tensor name."""
    if len(data) < _FOOTER or struct.unpack("<Q", data[-8:])[0] != _MAGIC:
        raise _Damaged("it has no valid footer")
    footer = _Bytes(data[-_FOOTER:])
    footer.handle()  # skips the metaindex
    rows: dict[bytes, bytes] = {}
    end = 0
    for _, handle in _parse_rows(data, *footer.handle()):
        offset, size = _Bytes(handle).handle()
        if offset < end:
            raise _Damaged("overlapping blocks")
        end = offset + size
        for name, row in _parse_rows(data, offset, size):
            rows[name] = row
            if len(rows) > _MAX_ROWS:
                raise _Damaged(f"more than {_MAX_ROWS} tensors")
    return rows


def _parse_rows(data, offset, size):
    if offset + size + 1 > len(data) or size < 4:
        raise _Damaged("a block extends beyond the file")
    if data[offset + size]:
        raise _Damaged("a block is compressed")
    (num_restarts,) = struct.unpack_from("<I", data, offset + size - 4)
    end = size - 4 * (num_restarts + 1)
    if end < 0:
        raise _Damaged("a block is too short")
    block, key = _Bytes(data[offset : offset + end]), b""
    while block.left():
        shared, unshared, length = block.number(), block.number(), block.number()
        if shared > len(key) or shared + unshared > _MAX_NAME:
            raise _Damaged("a name is too long")
        key = key[:shared] + block.take(unshared)
        yield key, block.take(length)


class _Bytes:
    def __init__(self, data: bytes) -> None:
        self._data, self.position = data, 0

    def left(self) -> int:
        return len(self._data) - self.position

    def take(self, count: int) -> bytes:
        if count > self.left():
            raise _Damaged("it ends early")
        self.position += count
        return self._data[self.position - count : self.position]

    def number(self) -> int:
        """Reads an unsigned variable-length integer (LEB128)."""
        number = 0
        for shift in range(0, 64, 7):
            (byte,) = self.take(1)
            number |= (byte & 127) << shift
            if byte < 128:
                return number
        raise _Damaged("a number is too long")

    def handle(self) -> tuple[int, int]:
        """Reads the location of a block: byte offset and size."""
        return self.number(), self.number()


# TensorFlow names of the supported dtypes. TensorFlow ends the process for some other dtypes.
_TYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
_TYPES |= {name: name for name in ("int32", "int64", "bool", "string")}

_FILE = re.compile(r"(.+)\.(index|meta|data-\d{5}-of-\d{5})")


def find_checkpoint(path: str | os.PathLike) -> Path | None:
    """Returns the prefix of the checkpoint at a path, or None."""
    path = local_path(path)
    file = _FILE.fullmatch(path.name)
    if file and path.is_file() and _locate_index(path.with_name(file[1])).is_file():
        return path.with_name(file[1])
    if _locate_index(path).is_file():
        return path
    if not path.is_dir():
        return None
    if (path / "saved_model.pb").is_file():
        return path_within(path, "variables") / "variables"
    prefixes = sorted(index.with_suffix("") for index in path.glob("*.index"))
    if len(prefixes) < 2:
        return prefixes[0] if prefixes else None
    latest = _find_latest(path)
    if latest in prefixes:
        return latest
    steps = {p: re.search(r"-(\d+)$", p.name) for p in prefixes}
    if all(steps.values()):
        return max(prefixes, key=lambda prefix: int(steps[prefix][1]))
    raise InputError(
        f"{path} has several checkpoints: {', '.join(p.name for p in prefixes)}; pass the path of "
        "one of them."
    )


def _locate_index(prefix):
    return prefix.parent / f"{prefix.name}.index"


def _find_latest(directory):
    """Returns the latest checkpoint according to the file `checkpoint`, or None."""
    if not (directory / "checkpoint").is_file():
        return None
    text = read_text(file_within(directory, "checkpoint"))
    named = re.search(r'^model_checkpoint_path: "(?:[^"\n]*/)?([^"/\n]+)"', text, re.MULTILINE)
    return directory / named[1] if named else None


class Checkpoint:
    def __init__(self, prefix: Path) -> None:
        self.path = file_within(prefix.parent, f"{prefix.name}.index")
        if not self.path.exists():
            raise InputError(f"{self.path} is missing.")
        self.variables = read_index(prefix)
        self._prefix = str(prefix)

    def read(self, name: str) -> Any:
        """Reads a variable. TensorFlow verifies its checksum."""
        import tensorflow as tf

        dtype, shape = self.variables[name].dtype, self.variables[name].shape
        if dtype not in _TYPES or (dtype == "string" and shape):
            raise InputError(
                f"{self.path}: tensor {name:.200} has dtype {dtype}, which is not supported."
            )
        try:
            # A `CheckpointReader` would copy the data, and its allocations would waste a quarter of
            # the model size.
            (tensor,) = tf.raw_ops.RestoreV2(
                prefix=self._prefix,
                tensor_names=[name],
                shape_and_slices=[""],
                dtypes=[_TYPES[dtype]],
            )
        except (tf.errors.OpError, RuntimeError, ValueError, IndexError) as error:
            reason = str(error).strip().split("\n")[0][:300]
            raise InputError(
                f"{self.path}: tensor {name:.200} cannot be read: {reason}."
            ) from error
        return tensor.numpy()
