"""Files in file systems that TensorFlow supports, such as `gs://bucket/records`."""

import contextlib
import errno
import io
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

import tensorflow as tf

from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.io import files


def exists(name: str) -> bool:
    try:
        return tf.io.gfile.exists(name)
    except tf.errors.OpError as error:
        raise InputError(f"cannot read {name}: {error.message}") from error


def read_from(name: str) -> BinaryIO:
    return io.BufferedReader(_Raw(name), 1 << 20)


class _Raw(io.RawIOBase):
    def __init__(self, name: str) -> None:
        self._file = tf.io.gfile.GFile(name, "rb")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with os_errors():
            read = self._file.read(len(buffer))
        buffer[: len(read)] = read
        return len(read)

    def close(self) -> None:
        self._file.close()
        super().close()


def files_in(folder: str) -> list[PurePosixPath] | None:
    if not tf.io.gfile.isdir(folder):
        return None
    root = PurePosixPath(folder)
    return [
        (PurePosixPath(path) / name).relative_to(root)
        for path, _, names in tf.io.gfile.walk(folder)
        for name in names
    ]


@contextlib.contextmanager
def replace_file(path: str | Path) -> Iterator[Path]:
    """See `files.replace_file`."""
    if not files.is_remote(path):
        with files.replace_file(path) as temporary:
            yield temporary
        return
    with tempfile.TemporaryDirectory() as folder:
        temporary = Path(folder) / os.path.basename(path)
        yield temporary
        _copy(temporary, path)


def upload(directory: Path, name: str, last: str | None = None) -> None:
    """Copies the files of a directory to a folder in a bucket. `last` is copied last."""
    for path in sorted(directory.iterdir(), key=lambda path: (path.name == last, path.name)):
        _copy(path, os.path.join(name, path.name))


def _copy(path, name):
    try:
        tf.io.gfile.copy(str(path), name, overwrite=True)
    except tf.errors.OpError as error:
        raise InputError(f"cannot write {name}: {error.message}") from error


@contextlib.contextmanager
def os_errors() -> Iterator[None]:
    """Converts TensorFlow's file errors inside the block to `OSError`."""
    try:
        yield
    except tf.errors.ResourceExhaustedError as error:
        # TensorFlow's code for several errors: full disk, quota, too many open files.
        codes = (errno.EMFILE, errno.ENFILE, errno.EDQUOT)
        code = next((c for c in codes if os.strerror(c) in error.message), errno.ENOSPC)
        raise OSError(code, os.strerror(code)) from error
    except tf.errors.OutOfRangeError as error:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG)) from error
    except tf.errors.OpError as error:
        raise OSError(errno.EIO, error.message) from error
