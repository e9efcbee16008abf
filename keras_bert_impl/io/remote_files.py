"""Files on a bucket, named as `gs://bucket/records`: on whatever TensorFlow has a file system for."""

import contextlib
import errno
import io
import os
from pathlib import Path, PurePosixPath

import tensorflow as tf

from keras_bert_impl.io import files
from keras_bert_impl.io.errors import InputError


def exists(name):
    """bool: whether a bucket has a file or a folder of this name.

    Raises:
        InputError: it cannot be asked.
    """
    try:
        return tf.io.gfile.exists(name)
    except tf.errors.OpError as error:
        raise InputError(f"cannot read {name}: {error.message}") from error


def read_from(name):
    """A file on a bucket that Python reads as its own: binary, buffered.

    Raises:
        OSError: here or while it is read.
    """
    return io.BufferedReader(_Raw(name), 1 << 20)


class _Raw(io.RawIOBase):
    def __init__(self, name):
        self._file = tf.io.gfile.GFile(name, "rb")

    def readable(self):
        return True

    def readinto(self, buffer):
        with os_errors():
            read = self._file.read(len(buffer))
        buffer[: len(read)] = read
        return len(read)

    def close(self):
        self._file.close()
        super().close()


def files_in(folder):
    """Paths of all files below a folder on a bucket, from there; None for a file."""
    if not tf.io.gfile.isdir(folder):
        return None
    root = PurePosixPath(folder)
    return [
        (PurePosixPath(path) / name).relative_to(root)
        for path, _, names in tf.io.gfile.walk(folder)
        for name in names
    ]


@contextlib.contextmanager
def replace_file(path):
    """`files.replace_file`, for names on a bucket, too.

    Raises:
        InputError: as that one, or the bucket takes no file.
    """
    if not files.is_remote(path):
        with files.replace_file(path) as temporary:
            yield temporary
        return
    with files.temporary_directory() as folder:
        temporary = Path(folder) / os.path.basename(path)
        yield temporary
        _copy(temporary, path)


def upload(directory, name, last=None):
    """Copies the files of a directory to a folder on a bucket.

    Args:
        directory: `Path`, of files alone.
        name: str, of the folder.
        last: str, the file that tells readers that all are there: folders on a bucket have no
            rename, and appear file by file.

    Raises:
        InputError: the bucket takes no file.
    """
    for path in sorted(directory.iterdir(), key=lambda path: (path.name == last, path.name)):
        _copy(path, os.path.join(name, path.name))


def _copy(path, name):
    try:
        tf.io.gfile.copy(str(path), name, overwrite=True)
    except tf.errors.OpError as error:
        raise InputError(f"cannot write {name}: {error.message}") from error


@contextlib.contextmanager
def os_errors():
    """What TensorFlow says of files inside the block as the `OSError` that Python's would be."""
    try:
        yield
    except tf.errors.ResourceExhaustedError as error:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from error
    except tf.errors.OutOfRangeError as error:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG)) from error
    except tf.errors.OpError as error:
        raise OSError(errno.EIO, error.message) from error
