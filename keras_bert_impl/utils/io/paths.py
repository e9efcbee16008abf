"""Expands `~` in paths, and replaces directories."""

import contextlib
import ctypes
import itertools
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

from keras_bert_impl.utils.errors import InputError

_MAX_VERSION = 2**63 - 1  # in TensorFlow Serving


def expanded(path: Any) -> Any:
    """Expands a leading `~` in a str or `Path`; returns any other value unchanged.

    Raises:
        InputError: The path starts with an unknown user such as `~nobody`, or with a variable, as in
            `$HOME/x`, and does not exist. Otherwise, folders with these names would be written.

    Example:
        >>> from keras_bert_impl.utils.io.paths import expanded
        >>> expanded("hf://owner/name")
        'hf://owner/name'
    """
    if not isinstance(path, (str, os.PathLike)) or not str(os.fspath(path)).startswith(("~", "$")):
        return path
    whole = os.path.expanduser(path)
    if whole == os.fspath(path) and not os.path.lexists(path):
        if re.match(r"~\w|\$\{?[A-Za-z_]\w*\}?/", os.fspath(path)):
            is_user = os.fspath(path).startswith("~")
            reason = "the user does not exist" if is_user else "variables are not expanded"
            raise InputError(f"{path}: {reason}. Write the whole path.")
    return whole if isinstance(path, str) else Path(whole)


def local_path(path: str | os.PathLike) -> Path:
    """Returns the `Path` of a local file or directory, with `~` expanded."""
    return Path(expanded(path))


def version_of(name: str) -> int | None:
    """Returns the version of a model from the name of its folder, or None.

    As in TensorFlow Serving, a version is a 64-bit integer.
    """
    is_number = re.fullmatch("[0-9]{1,19}", name)
    return int(name) if is_number and int(name) <= _MAX_VERSION else None


def check_versions(directory: Path) -> None:
    """Raises `InputError` for a version that TensorFlow Serving ignores because it is too large."""
    for entry in directory.iterdir():
        is_model = entry.name.isdecimal() and (entry / "saved_model.pb").is_file()
        if is_model and version_of(entry.name) is None:
            raise InputError(
                f"{entry}: a version must be at most {_MAX_VERSION}. Rename the folder."
            )


def next_version(directory: Path) -> int:
    """Returns the number after the newest version in a folder, or 1."""
    check_versions(directory)
    newest = max((version_of(entry.name) or 0 for entry in directory.iterdir()), default=0)
    if newest == _MAX_VERSION:
        raise InputError(f"{directory / str(newest)} has the largest version. Rename the folder.")
    return newest + 1


def without_folders(text: str) -> str:
    """Removes the folders from a text that starts with an absolute path.

    Example:
        >>> from keras_bert_impl.utils.io.paths import without_folders
        >>> without_folders("/home/user/data/train.csv, line 3")
        'train.csv, line 3'
    """
    return text.rstrip("/").rsplit("/", 1)[-1] if Path(text).is_absolute() else text


_AT_FDCWD, _RENAME_EXCHANGE = -100, 2  # values from the headers <fcntl.h> and <linux/fs.h> of Linux
_MOST_ENTRIES = 10_000  # maximum entries of a directory that this package may replace


def is_replaceable(path: Path) -> bool:
    """Returns whether a directory can be replaced by a rename."""
    # The working directory of this process and its shell must not be removed.
    is_current = Path(os.path.realpath(os.curdir)).is_relative_to(path)
    has_mount = any(mount.is_relative_to(path) for mount in _list_mounts(path))
    if is_current or has_mount or not is_own(path.stat()):
        return False
    is_small = len(list(itertools.islice(path.rglob("*"), _MOST_ENTRIES))) < _MOST_ENTRIES
    return is_small and os.access(path.parent, os.W_OK | os.X_OK)


def is_own(status: os.stat_result) -> bool:
    """Returns whether the user of this process owns a file or folder."""
    return status.st_uid == getattr(os, "geteuid", int)()  # Windows has no user ids.


def _list_mounts(path):
    """Returns the mount points; without /proc, only `path` if it is a mount point."""
    try:
        lines = Path("/proc/self/mountinfo").read_bytes().splitlines()
    except OSError:
        return [path] if os.path.ismount(path) else []
    escaped = (line.split()[4] for line in lines)
    names = (re.sub(rb"\\(\d{3})", lambda octal: bytes([int(octal[1], 8)]), n) for n in escaped)
    return [Path(os.fsdecode(name)) for name in names]


def put_directory(new: Path, path: Path, old: Path) -> bool:
    """Moves the directory `new` to `path`.

    If the directory `path` exists, `new` replaces it, and entries that exist only in `path` are
    kept. Returns False if the system does not support this. Then use `put_entries`.
    """
    if not path.is_dir():
        try:
            os.rename(new, path)
            return True
        except OSError:
            if not path.is_dir():  # Another process may have created the directory.
                raise
    try:
        _copy_missing(path, new)
        _copy_owner(path, new)
        if _swap_names(new, path):
            with contextlib.suppress(OSError):
                _copy_missing(new, path)  # Another process may have added entries.
            return True
        old.mkdir()
        os.rename(path, old / path.name)
    except OSError:
        return False
    try:
        os.rename(new, path)
    except OSError:
        os.rename(old / path.name, path)
        raise
    return True


def _copy_missing(source, target):
    """Links or copies the entries of a directory to another one, without replacing any entry."""
    for entry in os.scandir(source):
        place = target / entry.name
        if os.path.lexists(place):
            continue
        if entry.is_dir(follow_symlinks=False):
            place.mkdir()
            _copy_missing(entry.path, place)
            _copy_owner(entry.path, place)
            continue
        try:
            os.link(entry.path, place, follow_symlinks=False)
        # Hard links are not supported, or another user owns the file.
        except (OSError, NotImplementedError):
            shutil.copy2(entry.path, place, follow_symlinks=False)


def _copy_owner(source, target):
    status = os.stat(source)
    if hasattr(os, "chown"):
        os.chown(target, status.st_uid, status.st_gid)
    shutil.copystat(source, target)


def _swap_names(first, second):
    """Atomically exchanges the names of two directories; returns False if this is unsupported."""
    if sys.platform != "linux":
        return False
    # Some C libraries do not have this function.
    rename = getattr(ctypes.CDLL(None), "renameat2", None)
    names = os.fsencode(first), os.fsencode(second)
    return rename is not None and not rename(
        _AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE
    )


def put_entries(names: list[str], new: Path, path: Path, old: Path, ready: Path) -> None:
    """Moves the entries `names` from `new` to `path`; existing entries are first moved to `old`.

    When all existing entries have been moved, `new` is renamed to `ready`; see `put_interrupted`.
    """
    old.mkdir(exist_ok=True)
    try:
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                os.replace(path / name, old / name)
    except OSError:  # restores all entries if one of them cannot be moved
        put_interrupted(ready, old, path)
        raise
    os.rename(new, ready)
    for name in names:
        os.replace(ready / name, path / name)


def put_interrupted(ready: Path, old: Path, path: Path) -> None:
    """Completes interrupted moves of `put_directory` or `put_entries`; undoes them without `ready`."""
    for folder in (ready, old):
        if folder.is_dir() and not folder.is_symlink():
            for name in os.listdir(folder):
                if not os.path.lexists(path / name):
                    os.rename(folder / name, path / name)
