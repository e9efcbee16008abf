"""Checkpoints of TensorFlow: finding them, and reading their variables one at a time."""

import re
from pathlib import Path

import numpy as np

from keras_bert_impl.errors import InputError
from keras_bert_impl.reading import file_within, read_text

_DTYPES = {"float32": "F32", "float16": "F16", "bfloat16": "BF16", "float64": "F64"}


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
        prefix: `Path`.
        path: `Path` of the index.
        header: dict of the name of each variable to (dtype such as `"F32"`, shape).

    Raises:
        InputError: a file is missing or damaged, or shorter than its tensors.
    """

    def __init__(self, prefix):
        import tensorflow as tf

        self.prefix = prefix
        self.path = file_within(prefix.parent, f"{prefix.name}.index")
        if not self.path.exists():
            raise InputError(f"{self.path} is missing.")
        size = sum(shard.stat().st_size for shard in _shards(prefix))
        self._errors = (tf.errors.OpError, RuntimeError, ValueError)
        try:
            self._reader = tf.train.load_checkpoint(str(prefix))
            shapes = self._reader.get_variable_to_shape_map()
            dtypes = self._reader.get_variable_to_dtype_map()
        except self._errors as error:
            raise InputError(f"{self.path} is damaged: {_first_line(error)}.") from error
        self.header = {
            name: (_DTYPES.get(dtypes[name].name, dtypes[name].name), tuple(shapes[name]))
            for name in shapes
        }
        self._check_sizes(dtypes, size)

    def _check_sizes(self, dtypes, size):
        """Refuses an index that claims more than the files hold, before memory is taken for it."""
        total = 0
        for name, (_, shape) in self.header.items():
            itemsize = 0 if dtypes[name] == "string" else np.dtype(dtypes[name].as_numpy_dtype).itemsize
            total += itemsize * int(np.prod(shape, dtype=object))
            if total > size:
                raise InputError(
                    f"{self.path}: tensor {name:.200} of shape {shape} is not in the files of data, "
                    f"which have {size} bytes; they are incomplete, or the index is damaged."
                )

    def read(self, name):
        """The array of a variable."""
        try:
            return self._reader.get_tensor(name)
        except self._errors as error:
            raise InputError(
                f"{self.path}: tensor {name:.200} cannot be read: {_first_line(error)}."
            ) from error


def _shards(prefix):
    """Paths of the files of data, all of them."""
    names = [path.name for path in prefix.parent.iterdir() if path.name.startswith(prefix.name)]
    pattern = re.compile(re.escape(prefix.name) + r"\.data-\d{5}-of-(\d{5})")
    counts = {int(found[1]) for found in map(pattern.fullmatch, names) if found}
    expected = [
        f"{prefix.name}.data-{number:05d}-of-{count:05d}"
        for count in counts or {1}
        for number in range(count)
    ]
    paths = [file_within(prefix.parent, name) for name in expected]
    missing = [path for path in paths if not path.exists()]
    if missing:
        raise InputError(f"{missing[0]} is missing; {prefix.name}.index needs it.")
    return paths


def _first_line(error):
    return str(error).strip().split("\n")[0][:300]
