"""Local files, and atomic output.

Output is first written to a scratch folder `.NAME.RANDOM.aside` next to the output path, and then
renamed to the output path. To replace an existing directory as a whole, all entries to keep are
linked into the new directory, and then the two directories exchange their names. A running process
locks its scratch folder. The next process that writes into the same parent folder completes or
undoes interrupted renames of a killed process, and removes its scratch folder.
"""

import contextlib
import errno
import inspect
import json
import os
import re
import secrets
import shutil
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import filelock

from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.io.paths import (
    expanded,
    is_own,
    is_replaceable,
    local_path,
    put_directory,
    put_entries,
    put_interrupted,
)

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
_FULL = {os.strerror(code).lower(): code for code in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)}
_OURS = re.compile(r"\.(.*)\.[0-9a-f]{8}\.aside", re.DOTALL)
_LOCK = "lock"  # name of the lock file in a scratch folder
_PATIENCE = 60  # maximum seconds to wait for the renames of another process
# Path -> lock that this process holds.
_CLAIMS: weakref.WeakValueDictionary[str, filelock.BaseFileLock] = weakref.WeakValueDictionary()
_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP}
# Where locks are not supported, filelock 4 creates a lock file, which remains if the process is
# killed.
_NO_FALLBACK = (
    {"fallback_to_soft": False}
    if "fallback_to_soft" in inspect.signature(filelock.FileLock.__init__).parameters
    else {}
)

_BUCKET = re.compile(r"[a-z0-9]{2,}:/")  # also matches gs:/bucket, because `Path` removes a slash


def is_remote(path: str | os.PathLike) -> bool:
    """Returns whether a path is in a bucket, such as `gs://bucket/records`; see `remote_files`."""
    return "://" in os.fspath(path)


def exists(name: str | os.PathLike) -> bool:
    return os.path.exists(expanded(name))


def files_in(folder: str | os.PathLike) -> list[Path] | None:
    folder = local_path(folder)
    if not folder.is_dir():
        return None
    return [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]


def read_from(name: str | os.PathLike) -> BinaryIO:
    return open(expanded(name), "rb")


@contextlib.contextmanager
def replace_file(path: str | os.PathLike) -> Iterator[Path]:
    """Yields a temporary path; if the block succeeds, the file there atomically replaces `path`.

    Raises:
        InputError: the disk is full or the folder is not writable.

    Example:
        from keras_bert_impl.utils.io.files import replace_file
        with replace_file("scores.json") as temporary:
            temporary.write_text("{}")
    """
    path = _resolve_file(path)
    with clear_errors(path), _make_scratch(path.parent, path.name) as scratch:
        yield scratch / "new" / path.name
        os.replace(scratch / "new" / path.name, path)


def write_json(path: str | os.PathLike, value: Any) -> None:
    """Writes an indented JSON file atomically; see `replace_file`."""
    with replace_file(path) as temporary:
        temporary.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


@contextlib.contextmanager
def replace_directory(path: str | os.PathLike) -> Iterator[Path]:
    """Yields an empty directory, which is renamed to `path` if the block succeeds.

    If `path` exists, new entries replace existing entries with the same names. All other entries
    are kept. If `path` is a symbolic link, its target is replaced.

    Raises:
        InputError: the disk is full, `path` is a file, or its parent is not writable.
    """
    path = absolute(path)
    place = Path(os.path.realpath(path))
    if place.exists() and not place.is_dir():
        raise InputError(f"{path} is a file. Pass the name of a directory.")
    folder = place if place.is_dir() and not is_replaceable(place) else place.parent
    if place != folder:
        _remove_dead(place)
    with clear_errors(path), _make_scratch(folder, place.name) as scratch:
        new, old = scratch / "new" / place.name, scratch / "old"
        new.mkdir()
        yield new
        names = sorted(os.listdir(new))
        if place == folder or not put_directory(new, place, old):
            put_entries(names, new, place, old, scratch / "ready")


@contextlib.contextmanager
def replace_files(*paths: str | os.PathLike) -> Iterator[list[Path]]:
    """Yields temporary paths; if the block succeeds, the files there replace `paths`.

    All `paths` must have the same parent folder, which is created if needed. The last of
    `paths` is deleted first, and then the files are moved one after the other. If the process is
    killed in between, the last of `paths` is missing. See `replace_file` for errors.
    """
    files = [_resolve_file(path) for path in paths]
    with clear_errors(files[0]), _make_scratch(files[0].parent, files[0].name) as scratch:
        new = [scratch / "new" / file.name for file in files]
        yield new
        files[-1].unlink(missing_ok=True)
        for source, file in zip(new, files):
            os.replace(source, file)


def claim(path: str | os.PathLike) -> filelock.BaseFileLock | None:
    """Locks a file without waiting; returns None if another process has the lock.

    The file stays locked while the returned object is referenced. A process can lock a file several
    times, because in a notebook, the traceback of an interrupted run may still reference the lock.
    On a file system without locks, the function always succeeds.
    """
    path = absolute(path)
    with clear_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        check_is_no_link(path)
        name = str(path.resolve())
        lock = _CLAIMS.get(name) or filelock.FileLock(name, timeout=0, thread_local=False)
        _CLAIMS[name] = lock
        try:
            lock.acquire()
        except filelock.Timeout:
            return None
        except (NotImplementedError, OSError) as error:
            if getattr(error, "errno", errno.ENOSYS) not in _NO_LOCKS:
                raise
        return lock


def check_is_no_link(path: Path) -> None:
    if path.is_symlink():
        raise InputError(f"{path} is a link to {os.readlink(path)}. Choose another name.")


def absolute(path: str | os.PathLike) -> Path:
    """Returns the absolute `Path`, without `.` and `..`."""
    if _BUCKET.match(os.fspath(path)):
        raise InputError(
            f"{path} is not on this machine. Write to a local folder and copy it, or mount the "
            "bucket."
        )
    return Path(os.path.abspath(expanded(path)))


def _resolve_file(path: str | os.PathLike) -> Path:
    path = absolute(path)
    if path.is_dir():
        raise InputError(f"{path} is a directory. Pass the name of a file.")
    return path


# === Scratch folders ===


@contextlib.contextmanager
def _make_scratch(folder, name):
    """Creates and locks a scratch folder, which is removed at the end of the `with` block."""
    missing = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    _remove_dead(folder)
    try:
        while True:
            scratch = _name_aside(folder, name)
            scratch.mkdir()
            with _try_lock(scratch / _LOCK, _PATIENCE):
                # Another process may have removed the folder before it was locked.
                if scratch.is_dir():
                    try:
                        (scratch / "new").mkdir()
                        yield scratch
                    finally:
                        shutil.rmtree(scratch, ignore_errors=True)
                    return
    finally:
        with contextlib.suppress(OSError):  # A parent with an output is not empty and is kept.
            for parent in missing:
                parent.rmdir()


def _name_aside(folder, name):
    return folder / f".{name[:100]}.{secrets.token_hex(4)}.aside"


@contextlib.contextmanager
def _try_lock(path, seconds):
    """Locks a file during the `with` block; yields whether the file could be locked."""
    lock = filelock.FileLock(path, timeout=seconds, **_NO_FALLBACK)
    is_held = True
    try:
        lock.acquire()
    except filelock.Timeout:
        is_held = False
    except (NotImplementedError, OSError) as error:
        if getattr(error, "errno", errno.ENOSYS) not in _NO_LOCKS:
            raise
        is_held = seconds > 0
    try:
        yield is_held
    finally:
        lock.release()


def _remove_dead(folder):
    """Removes the scratch folders of ended processes; does not follow links."""
    entries = []
    with contextlib.suppress(OSError):  # The folder may be writable but not readable.
        entries = [entry for entry in os.scandir(folder) if _OURS.fullmatch(entry.name)]
    for entry in entries:
        scratch = Path(entry.path)
        with contextlib.suppress(OSError):
            is_link = scratch.is_symlink() or (scratch / _LOCK).is_symlink()
            if is_link or not scratch.is_dir() or not is_own(scratch.stat()):
                continue
            with _try_lock(scratch / _LOCK, 0) as is_dead:
                if is_dead:
                    _remove(scratch, _OURS.fullmatch(entry.name)[1])


def _remove(scratch, name):
    """Removes the scratch folder of a killed process. The caller must have locked the folder."""
    # A process that is still creating the folder then fails.
    scratch = scratch.rename(_name_aside(scratch.parent, name))
    put_interrupted(scratch / "ready", scratch / "old", scratch.parent)
    shutil.rmtree(scratch, ignore_errors=True)


@contextlib.contextmanager
def clear_errors(
    path: str | os.PathLike,
    hint: str = "Nothing was written. Free some space or choose another folder.",
) -> Iterator[None]:
    """Converts disk errors inside the block to an `InputError` that names `path`."""
    try:
        yield
    except InputError as error:
        if isinstance(error, _CannotWriteError):
            if any(map(_OURS.fullmatch, Path(error.path).parts)):
                # The message must name `path` instead of the scratch path.
                raise _CannotWriteError(path, error.code, hint) from error
        raise
    except Exception as error:
        code = getattr(error, "errno", None)
        if code is None:
            text = str(error).lower()
            code = next((code for words, code in _FULL.items() if words in text), None)
        if code not in _CANNOT_WRITE:
            raise
        raise _CannotWriteError(path, code, hint) from error


class _CannotWriteError(InputError):
    def __init__(self, path: str | os.PathLike, code: int, hint: str) -> None:
        super().__init__(f"cannot write {path}: {os.strerror(code)}. {hint}")
        self.path, self.code = path, code
