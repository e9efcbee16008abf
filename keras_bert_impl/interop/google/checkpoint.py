"""Checkpoints of TensorFlow: finding them, and reading their variables one at a time."""

import re
from pathlib import Path

from keras_bert_impl.errors import InputError
from keras_bert_impl.interop.google.index import read_index
from keras_bert_impl.reading import file_within, read_text

_READABLE = ("F64", "F32", "F16", "BF16", "int32", "int64", "bool", "string")


def find_checkpoint(path):
    """The checkpoint that a path means.

    Args:
        path: str or `Path`: the prefix of a checkpoint, its `.index` file, a directory with one,
            or a SavedModel. Of several checkpoints in a directory it is the one that the file
            `checkpoint` names, else the one of the highest step.

    Returns:
        `Path` of the prefix, or None where there is no checkpoint.

    Raises:
        InputError: several checkpoints, and nothing that says which one.
    """
    path = Path(path)
    if path.suffix == ".index" and path.is_file():
        return path.with_suffix("")
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
        f"{path} has several checkpoints: {', '.join(p.name for p in prefixes)}; give the path of "
        "one of them."
    )


def _index(prefix):
    return prefix.parent / f"{prefix.name}.index"


def _latest(directory):
    """What the file `checkpoint` names; of a path only its end: directories are moved."""
    if not (directory / "checkpoint").is_file():
        return None
    text = read_text(file_within(directory, "checkpoint"))
    named = re.search(r'^model_checkpoint_path: "(?:[^"\n]*/)?([^"/\n]+)"', text, re.MULTILINE)
    return directory / named[1] if named else None


class Checkpoint:
    """The variables of a checkpoint, under the names that they have there.

    Args:
        prefix: `Path`, what the names of its files begin with.

    Attributes:
        path: `Path` of the index.
        variables: dict of the name of each to `Variable`.

    Raises:
        InputError: a file is missing or damaged, or shorter than its tensors.
    """

    def __init__(self, prefix):
        import tensorflow as tf

        self.path = file_within(prefix.parent, f"{prefix.name}.index")
        if not self.path.exists():
            raise InputError(f"{self.path} is missing.")
        self.variables = read_index(prefix)
        self._errors = (tf.errors.OpError, RuntimeError, ValueError, IndexError)
        try:
            self._reader = tf.train.load_checkpoint(str(prefix))
        except self._errors as error:
            raise InputError(f"{self.path} is damaged: {_first_line(error)}.") from error

    def read(self, name):
        """The array of a variable; TensorFlow compares its checksum."""
        dtype = self.variables[name].dtype
        if dtype not in _READABLE:  # TensorFlow ends the process at some
            raise InputError(f"{self.path}: tensor {name:.200} has dtype {dtype}: no number.")
        try:
            return self._reader.get_tensor(name)
        except self._errors as error:
            raise InputError(
                f"{self.path}: tensor {name:.200} cannot be read: {_first_line(error)}."
            ) from error


def _first_line(error):
    return str(error).strip().split("\n")[0][:300]
