"""Local files, and outputs that appear complete or not at all.

An output is first written to a hidden scratch folder `.NAME.RANDOM.aside` on the same disk, under a
lock on `.NAME.RANDOM.writing`. The next writer in that folder removes the scratch folders of dead
processes. A single new entry appears by one rename. Several entries of a folder are replaced
together: they are gathered in `.replacing` in that folder, which also appears by one rename and
commits the new contents. The old entries are then moved out, and the new ones in. If this is
interrupted, the next process that writes to or reads from the folder completes it: see `recover`.
"""

import contextlib
import errno
import inspect
import json
import os
import re
import secrets
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import filelock

from keras_bert_impl.io.errors import InputError

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
_OURS = re.compile(r"(\..*\.[0-9a-f]{8})\.(aside|writing)", re.DOTALL)
_REPLACING = ".replacing"
_OWNER = ".owner"
_PATIENCE = 60  # maximum seconds for another process's few renames
# Path -> lock held by this process.
_CLAIMS: weakref.WeakValueDictionary[str, filelock.BaseFileLock] = weakref.WeakValueDictionary()
_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP}
# From version 4 on, filelock replaces a missing lock with a file that outlives its process.
_NO_FALLBACK = (
    {"fallback_to_soft": False}
    if "fallback_to_soft" in inspect.signature(filelock.FileLock.__init__).parameters
    else {}
)

_BUCKET = re.compile(r"[a-z0-9]{2,}:/")  # `Path` reduces gs://bucket to one slash


def is_remote(path: str | os.PathLike) -> bool:
    """Returns whether a str or `Path` names a file on a bucket; see `remote_files`."""
    return "://" in os.fspath(path)


def exists(name: str | os.PathLike) -> bool:
    """Returns whether a file or folder of this name exists."""
    return os.path.exists(name)


def files_in(folder: str | os.PathLike) -> list[Path] | None:
    """Returns the relative paths of all files below a folder; None if it is not a folder."""
    if not os.path.isdir(folder):
        return None
    return [path.relative_to(folder) for path in Path(folder).rglob("*") if path.is_file()]


def read_from(name: str | os.PathLike) -> BinaryIO:
    """Opens a file for reading: binary, buffered."""
    return open(name, "rb")


@contextlib.contextmanager
def replace_file(path: str | os.PathLike) -> Iterator[Path]:
    """Yields a path to write to, which atomically becomes the file `path` if the block succeeds.

    Raises:
        InputError: the disk is full or the folder is not writable.

    Example:
        from keras_bert_impl.io.files import replace_file
        with replace_file("scores.json") as temporary:
            temporary.write_text("{}")
    """
    path = _absolute_file(path)
    with clear_errors(path), _scratch(path.parent, path.name) as scratch:
        yield scratch / path.name
        os.replace(scratch / path.name, path)


def write_json(path: str | os.PathLike, value: Any) -> None:
    """Writes a value as an indented JSON file atomically; raises as `replace_file` does."""
    with replace_file(path) as temporary:
        temporary.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


@contextlib.contextmanager
def replace_directory(path: str | os.PathLike) -> Iterator[Path]:
    """Yields an empty directory to write to, which becomes `path` if the block succeeds.

    If `path` already exists, the new entries together replace those of the same names, and all
    other entries are kept: naming the wrong directory by mistake loses nothing else.

    Raises:
        InputError: the disk is full, `path` is a file, or its parent is not writable.
    """
    path = absolute(path)
    if path.exists() and not path.is_dir():
        raise InputError(f"{path} is a file; give the name of a directory to write.")
    # Inside an existing directory: its parent may be on another disk, or not writable.
    folder = path if path.exists() else path.parent
    if path == folder:
        _remove_dead(path.parent)  # left by a process that was killed after the rename
    with clear_errors(path), _scratch(folder, path.name) as scratch:
        new = scratch / path.name
        new.mkdir()
        yield new
        if path == folder:
            _replace_entries(new, path, scratch)
        elif not _becomes(new, path):  # another process created it in the meantime
            with _scratch(path, path.name) as inside:
                _replace_entries(new, path, inside)


@contextlib.contextmanager
def replace_files(*paths: str | os.PathLike) -> Iterator[list[Path]]:
    """Yields a path to write to for each of `paths`; all files appear together, or none.

    The files are in one folder, which is created if needed. Raises as `replace_file` does.
    """
    files = [_absolute_file(path) for path in paths]
    folder, name = files[0].parent, files[0].name
    with clear_errors(files[0]), _scratch(folder, name) as scratch:
        new = scratch / name
        new.mkdir()
        yield [new / file.name for file in files]
        _replace_entries(new, folder, scratch)


@contextlib.contextmanager
def temporary_directory() -> Iterator[Path]:
    """Yields an empty temporary directory, and removes it at the end.

    If the process is killed, the next call removes it, unlike the directories of `tempfile`.
    """
    with _scratch(Path(tempfile.gettempdir()), "keras-bert") as scratch:
        (scratch / "keras-bert").mkdir()
        yield scratch / "keras-bert"


def recover(folder: str | os.PathLike) -> None:
    """Completes a replacement of a folder's entries that was interrupted by the process's end.

    Call this before reading a folder that `replace_directory` or `replace_files` may have written.
    Waits for a running process that is replacing the entries.

    Raises:
        InputError: the replacement has to be completed, and the folder is not writable or another
            process does not finish.
    """
    folder = Path(folder)
    while (owner := _owner(folder)) is not None:
        with clear_errors(folder), _held(_pair(folder, owner)[1], _PATIENCE) as is_held:
            if not is_held:
                raise InputError(f"another process is replacing files in {folder}; try again.")
            _clear(folder, owner)


def claim(path: str | os.PathLike) -> filelock.BaseFileLock | None:
    """Locks a file without waiting, for as long as the returned object is referenced.

    The lock belongs to the whole process: after interrupting a run in a notebook, where the
    traceback keeps the lock alive, the user can start the run again. On a file system without
    locks, every claim succeeds.

    Args:
        path: Its folder is created if needed.

    Returns:
        An object with a `release` method, or None if another process holds the lock.

    Raises:
        InputError: the path is on a bucket, or the folder is not writable.
    """
    path = absolute(path)
    with clear_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
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


def absolute(path: str | os.PathLike) -> Path:
    """Returns an absolute `Path` that ends in a name instead of `.` or `..`.

    Raises:
        InputError: the path is on a bucket.
    """
    if _BUCKET.match(os.fspath(path)):
        raise InputError(
            f"{path} is not on this machine: write to a local folder and copy it, or mount the "
            "bucket."
        )
    return Path(os.path.abspath(path))


def _absolute_file(path: str | os.PathLike) -> Path:
    path = absolute(path)
    if path.is_dir():
        raise InputError(f"{path} is a directory; give the name of a file to write.")
    return path


@contextlib.contextmanager
def _scratch(folder, name):
    """Yields a new, locked scratch folder in `folder`, and removes it at the end."""
    missing = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    recover(folder)
    _remove_dead(folder)
    while True:
        scratch, lock = _pair(folder, f".{name[:100]}.{secrets.token_hex(4)}")
        scratch.mkdir()
        with _held(lock, _PATIENCE):
            # A process that takes this one for dead removes the folder first, then the lock. While
            # the folder exists, the lock held here is the one that other processes find.
            if scratch.is_dir():
                try:
                    yield scratch
                finally:
                    shutil.rmtree(scratch, ignore_errors=True)
                    lock.unlink(missing_ok=True)
                    with contextlib.suppress(OSError):  # not empty: they hold the output
                        for parent in missing:
                            parent.rmdir()
                return
            lock.unlink(missing_ok=True)


def _pair(folder, stem):
    """Returns the `Path`s of a scratch folder and its lock."""
    return folder / f"{stem}.aside", folder / f"{stem}.writing"


@contextlib.contextmanager
def _held(path, seconds):
    """Locks a file inside the block; yields whether the lock is held.

    On a file system without locks, no process is considered dead, and nothing is ever removed.
    """
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
    """Removes the scratch folders of processes that have ended."""
    entries = []
    with contextlib.suppress(OSError):  # the folder may be writable but not listable
        entries = [entry.name for entry in os.scandir(folder) if entry.name.startswith(".")]
    for stem in {found[1] for found in map(_OURS.fullmatch, entries) if found}:
        # Some may belong to other users and cannot be opened.
        with contextlib.suppress(OSError), _held(_pair(folder, stem)[1], 0) as is_dead:
            if is_dead:
                _clear(folder, stem)


def _clear(folder, stem):
    """Completes a dead process's work and removes its scratch folder, whose lock is held."""
    scratch, lock = _pair(folder, stem)
    if _owner(folder) == stem:
        _finish(folder, scratch)
    shutil.rmtree(scratch, ignore_errors=True)
    lock.unlink(missing_ok=True)


def _becomes(new, path):
    """Renames a directory; returns False if another one has the name."""
    try:
        os.rename(new, path)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST) or path.is_dir():
            return False
        raise
    return True


def _replace_entries(new, folder, scratch):
    """Replaces entries of `folder` with those of `new`, all together."""
    (new / _OWNER).write_text(scratch.name.removesuffix(".aside"), encoding="utf-8")
    for _ in range(100):  # other processes may get in between
        recover(folder)
        if _becomes(new, folder / _REPLACING):
            _finish(folder, scratch)
            return
    raise InputError(f"cannot write {folder}: {folder / _REPLACING} already exists; remove it.")


def _owner(folder):
    """Returns the scratch folder's stem of the process replacing entries of `folder`, or None."""
    with contextlib.suppress(OSError, ValueError):
        stem = (folder / _REPLACING / _OWNER).read_text(encoding="utf-8")
        return stem if _OURS.fullmatch(f"{stem}.aside") and Path(stem).name == stem else None


def _finish(folder, scratch):
    """Moves the old entries out of `folder`, and those in `.replacing` in. The lock must be held.

    Old and new entries never coexist: a reader that does not call `recover` finds some missing.
    """
    replacing, old = folder / _REPLACING, scratch / "old"
    old.mkdir(parents=True, exist_ok=True)
    names = sorted(entry.name for entry in replacing.iterdir() if entry.name != _OWNER)
    try:
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                os.replace(folder / name, old / name)
    except OSError:  # an entry cannot be moved: restore all of them
        for entry in old.iterdir():
            os.replace(entry, folder / entry.name)
        os.rename(replacing, scratch / "refused")
        raise
    for name in names:
        os.replace(replacing / name, folder / name)
    (replacing / _OWNER).unlink()
    with contextlib.suppress(OSError):  # the next replacement may have begun
        replacing.rmdir()


@contextlib.contextmanager
def clear_errors(
    path: str | os.PathLike,
    hint: str = "Nothing was written; free some space or choose another folder.",
) -> Iterator[None]:
    """Converts disk errors inside the block to an `InputError` that names `path`.

    Non-Python libraries report a full disk only in the text of their errors.
    """
    try:
        yield
    except InputError as error:
        if isinstance(error, _CannotWriteError):
            if any(map(_OURS.fullmatch, Path(error.path).parts)):
                raise _CannotWriteError(path, error.code, hint) from error  # hides the scratch path
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
    """A file cannot be written: `code` is the `errno` code, `hint` says what to do."""

    def __init__(self, path: str | os.PathLike, code: int, hint: str) -> None:
        super().__init__(f"cannot write {path}: {os.strerror(code)}. {hint}")
        self.path, self.code = path, code
