"""Files of this machine: what there is to read, and outputs that appear whole or not at all."""

import contextlib
import errno
import json
import os
import re
import shutil
import tempfile
from pathlib import Path

from keras_bert_impl.errors import InputError

_CANNOT_WRITE = {
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EROFS,
    errno.EACCES,
    errno.EPERM,
    errno.ENOTDIR,
    errno.EEXIST,
    errno.ENAMETOOLONG,
}


_BUCKET = re.compile(r"[a-z0-9]{2,}:/")  # `Path` leaves one slash of gs://bucket


def is_remote(path):
    """bool: whether a str or `Path` names a file on a bucket, which `remote_files` is for."""
    return "://" in os.fspath(path)


def exists(name):
    """bool: whether there is a file or a folder of this name."""
    return os.path.exists(name)


def files_in(folder):
    """Paths of all files below a folder, from there; None for a file."""
    if not os.path.isdir(folder):
        return None
    return [path.relative_to(folder) for path in Path(folder).rglob("*") if path.is_file()]


def read_from(name):
    """A file that is open for reading: binary, buffered."""
    return open(name, "rb")


@contextlib.contextmanager
def replace_file(path):
    """Yields a path to write to; it becomes `path` when the block succeeds.

    Args:
        path: str or `Path` of the file to make; an existing file is replaced in one step.

    Raises:
        InputError: the disk is full or the folder cannot be written.

    Example:
        with replace_file("scores.json") as temporary:
            temporary.write_text("{}")
    """
    path = absolute(path)
    if path.is_dir():
        raise InputError(f"{path} is a directory; give the name of a file to write.")
    with _written_aside(path, path.parent) as temporary:
        yield temporary
        os.replace(temporary, path)


def write_json(path, value):
    """Writes a value as an indented JSON file, whole or not at all; errors as of `replace_file`."""
    with replace_file(path) as temporary:
        temporary.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


@contextlib.contextmanager
def replace_directory(path):
    """Yields an empty directory to write to; it becomes `path` when the block succeeds.

    Where `path` exists already, the new entries replace those of the same name one by one, and
    other entries stay: a directory named by mistake loses nothing.

    Args:
        path: str or `Path` of the directory to make or fill.

    Raises:
        InputError: the disk is full, `path` is a file, or its parent cannot be written.
    """
    path = absolute(path)
    if path.exists() and not path.is_dir():
        raise InputError(f"{path} is a file; give the name of a directory to write.")
    # Inside an existing directory: its parent may be another disk, or closed to us.
    with _written_aside(path, path if path.exists() else path.parent) as temporary:
        temporary.mkdir()
        yield temporary
        if path.exists():
            for entry in sorted(temporary.iterdir()):
                _replace_entry(entry, path / entry.name)
        else:
            os.replace(temporary, path)


def absolute(path):
    """Absolute `Path`, with a name of its own, which `.` and `..` do not have.

    Raises:
        InputError: it is on a bucket.
    """
    if _BUCKET.match(os.fspath(path)):
        raise InputError(
            f"{path} is no folder of this machine: write to one, and copy it there, or mount it."
        )
    return Path(os.path.abspath(path))


def _replace_entry(new, old):
    if old.is_dir() and not old.is_symlink():
        shutil.rmtree(old)
    os.replace(new, old)


@contextlib.contextmanager
def _written_aside(path, folder):
    """Yields a name in a scratch folder made in `folder`, and removes that in the end."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{path.name[:100]}.", dir=folder))
        try:
            yield scratch / path.name
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    except OSError as error:
        if error.errno not in _CANNOT_WRITE:
            raise
        raise InputError(
            f"cannot write {path}: {error.strerror}. Nothing was left behind; free some space "
            "or choose another place."
        ) from error
