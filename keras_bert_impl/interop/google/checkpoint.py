"""Finds TensorFlow checkpoints, and reads their variables one at a time."""

import os
import re
from pathlib import Path
from typing import Any

from keras_bert_impl.interop.google.index import read_index
from keras_bert_impl.io.errors import InputError
from keras_bert_impl.io.paths import local_path
from keras_bert_impl.io.reading import file_within, read_text

# TensorFlow names of the supported dtypes; some others make it end the process.
_TYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
_TYPES |= {name: name for name in ("int32", "int64", "bool", "string")}

_FILE = re.compile(r"(.+)\.(index|meta|data-\d{5}-of-\d{5})")


def find_checkpoint(path: str | os.PathLike) -> Path | None:
    """Finds the checkpoint that a path refers to."""
    path = local_path(path)
    file = _FILE.fullmatch(path.name)
    if file and path.is_file() and _index(path.with_name(file[1])).is_file():
        return path.with_name(file[1])
    if _index(path).is_file():
        return path
    if not path.is_dir():
        return None
    if (path / "saved_model.pb").is_file():
        return path / "variables" / "variables"
    prefixes = sorted(index.with_suffix("") for index in path.glob("*.index"))
    if len(prefixes) < 2:
        return prefixes[0] if prefixes else None
    latest = _latest(path)
    if latest in prefixes:
        return latest
    steps = {p: re.search(r"-(\d+)$", p.name) for p in prefixes}
    if all(steps.values()):
        return max(prefixes, key=lambda prefix: int(steps[prefix][1]))
    raise InputError(
        f"{path} has several checkpoints: {', '.join(p.name for p in prefixes)}; pass the path of "
        "one of them."
    )


def _index(prefix):
    return prefix.parent / f"{prefix.name}.index"


def _latest(directory):
    """Returns the checkpoint named in the file `checkpoint`, or None."""
    if not (directory / "checkpoint").is_file():
        return None
    text = read_text(file_within(directory, "checkpoint"))
    named = re.search(r'^model_checkpoint_path: "(?:[^"\n]*/)?([^"/\n]+)"', text, re.MULTILINE)
    return directory / named[1] if named else None


class Checkpoint:
    """The variables of a checkpoint, under their names in it."""

    def __init__(self, prefix: Path) -> None:
        self.path = file_within(prefix.parent, f"{prefix.name}.index")
        if not self.path.exists():
            raise InputError(f"{self.path} is missing.")
        self.variables = read_index(prefix)
        self._prefix = str(prefix)

    def read(self, name: str) -> Any:
        """Returns a variable as an array; TensorFlow verifies its checksum."""
        import tensorflow as tf

        dtype, shape = self.variables[name].dtype, self.variables[name].shape
        if dtype not in _TYPES or (dtype == "string" and shape):
            raise InputError(
                f"{self.path}: tensor {name:.200} has dtype {dtype}, which is not supported."
            )
        try:
            # A CheckpointReader makes copies, and fragments memory by a quarter of the model size.
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
