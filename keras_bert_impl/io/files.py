"""Files of this machine: what there is to read, and outputs that appear whole or not at all.

An output is written aside, into a hidden scratch folder `.NAME.RANDOM.aside` on the same disk,
while a lock on `.NAME.RANDOM.writing` is held; the next writer in that folder removes those of dead
processes. One new entry appears by one rename. Several entries of a folder are replaced together:
they are gathered in `.replacing` there, which appears by one rename, too, and decides that they
are the content from now on. Then the old ones are moved away, and the new ones in. Where this is
cut short, whoever writes to or reads from the folder next ends it: see `recover`.
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
from pathlib import Path

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
_PATIENCE = 60  # seconds that a few renames of another process may take
_CLAIMS = weakref.WeakValueDictionary()  # by path: locks of this process
_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP}
# From version 4 on a file takes the place of a missing lock, and outlives its process.
_NO_FALLBACK = (
    {"fallback_to_soft": False}
    if "fallback_to_soft" in inspect.signature(filelock.FileLock.__init__).parameters
    else {}
)

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
    with clear_errors(path), _scratch(path.parent, path.name) as scratch:
        yield scratch / path.name
        os.replace(scratch / path.name, path)


def write_json(path, value):
    """Writes a value as an indented JSON file, whole or not at all; raises as `replace_file`."""
    with replace_file(path) as temporary:
        temporary.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


@contextlib.contextmanager
def replace_directory(path):
    """Yields an empty directory to write to; it becomes `path` when the block succeeds.

    Where `path` exists already, the new entries replace those of the same name, all together, and
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
    folder = path if path.exists() else path.parent
    if path == folder:
        _remove_dead(path.parent)  # of a process that was killed after the renaming
    with clear_errors(path), _scratch(folder, path.name) as scratch:
        new = scratch / path.name
        new.mkdir()
        yield new
        if path == folder:
            _replace_entries(new, path, scratch)
        elif not _becomes(new, path):  # another process made it meanwhile
            with _scratch(path, path.name) as inside:
                _replace_entries(new, path, inside)


@contextlib.contextmanager
def replace_files(*paths):
    """Yields a path to write to for each of `paths`; all files appear together, or none.

    Args:
        *paths: str or `Path` of files in one folder, which is made if needed.

    Raises:
        InputError: as `replace_file`.
    """
    paths = [absolute(path) for path in paths]
    for path in paths:
        if path.is_dir():
            raise InputError(f"{path} is a directory; give the name of a file to write.")
    folder = paths[0].parent
    with clear_errors(paths[0]), _scratch(folder, paths[0].name) as scratch:
        new = scratch / paths[0].name
        new.mkdir()
        yield [new / path.name for path in paths]
        _replace_entries(new, folder, scratch)


@contextlib.contextmanager
def temporary_directory():
    """Yields an empty directory among the temporary files, and removes it in the end.

    Of a killed process the next one removes it, unlike those of `tempfile`.
    """
    with _scratch(Path(tempfile.gettempdir()), "keras-bert") as scratch:
        (scratch / "keras-bert").mkdir()
        yield scratch / "keras-bert"


def recover(folder):
    """Ends a replacement of a folder's entries that the end of its process has cut short.

    To be called before a folder is read that `replace_directory` or `replace_files` may have
    written. Waits for a living process that is about it.

    Args:
        folder: str or `Path`; there may be none.

    Raises:
        InputError: it has to be ended, and the folder cannot be written.
    """
    folder = Path(folder)
    while (owner := _owner(folder)) is not None:
        with clear_errors(folder), _held(_pair(folder, owner)[1], _PATIENCE) as is_held:
            if not is_held:
                raise InputError(f"another process replaces the content of {folder}; let it end.")
            _clear(folder, owner)


def claim(path):
    """Locks a file, in one step, for as long as somebody refers to what is returned.

    One lock for all of this process: whoever interrupts a run in a notebook, where the traceback
    keeps it alive, may start it again. On a file system without locks nobody is refused.

    Args:
        path: `Path`; the folder is made if needed.

    Returns:
        An object with a method `release`; None where another process has the lock.

    Raises:
        InputError: the path is on a bucket, or the folder cannot be written.
    """
    path = absolute(path)
    with clear_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path = str(path.resolve())
        lock = _CLAIMS.get(path) or filelock.FileLock(path, timeout=0, thread_local=False)
        _CLAIMS[path] = lock
        try:
            lock.acquire()
        except filelock.Timeout:
            return None
        except (NotImplementedError, OSError) as error:
            if getattr(error, "errno", errno.ENOSYS) not in _NO_LOCKS:
                raise
        return lock


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


@contextlib.contextmanager
def _scratch(folder, name):
    """Yields a new, locked scratch folder in `folder`, and removes it in the end."""
    missing = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    recover(folder)
    _remove_dead(folder)
    while True:
        scratch, lock = _pair(folder, f".{name[:100]}.{secrets.token_hex(4)}")
        scratch.mkdir()
        with _held(lock, _PATIENCE):
            # Whoever takes us for dead removes the folder first, then the lock: as long as there is
            # the folder, the lock that we hold is the one that others find.
            if scratch.is_dir():
                try:
                    yield scratch
                finally:
                    shutil.rmtree(scratch, ignore_errors=True)
                    lock.unlink(missing_ok=True)
                    with contextlib.suppress(OSError):  # where they hold what was written
                        for parent in missing:
                            parent.rmdir()
                return
            lock.unlink(missing_ok=True)


def _pair(folder, stem):
    """`Path`s of a scratch folder and of its lock."""
    return folder / f"{stem}.aside", folder / f"{stem}.writing"


@contextlib.contextmanager
def _held(path, seconds):
    """Locks a file inside the block; yields whether it does.

    Where the file system has no locks nobody is taken for dead, and nothing is ever removed.
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
    """Removes the scratch folders of processes that are no more."""
    entries = []
    with contextlib.suppress(OSError):  # it may be written, but not listed
        entries = [entry.name for entry in os.scandir(folder) if entry.name.startswith(".")]
    for stem in {found[1] for found in map(_OURS.fullmatch, entries) if found}:
        # Some may be of other users, which cannot be opened.
        with contextlib.suppress(OSError), _held(_pair(folder, stem)[1], 0) as is_dead:
            if is_dead:
                _clear(folder, stem)


def _clear(folder, stem):
    """Ends what a dead process did and removes its scratch folder, the lock of which is held."""
    scratch, lock = _pair(folder, stem)
    if _owner(folder) == stem:
        _finish(folder, scratch)
    shutil.rmtree(scratch, ignore_errors=True)
    lock.unlink(missing_ok=True)


def _becomes(new, path):
    """Renames a directory; returns False where another one has the name."""
    try:
        os.rename(new, path)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST) or path.is_dir():
            return False
        raise
    return True


def _replace_entries(new, folder, scratch):
    """Replaces entries of `folder` by those of `new`, all together."""
    (new / _OWNER).write_text(scratch.name.removesuffix(".aside"), encoding="utf-8")
    for _ in range(100):  # others may come between
        recover(folder)
        if _becomes(new, folder / _REPLACING):
            _finish(folder, scratch)
            return
    raise InputError(f"{folder / _REPLACING} is in the way; remove it.")


def _owner(folder):
    """The stem of the scratch folder of who replaces entries of `folder`; None without one."""
    with contextlib.suppress(OSError, ValueError):
        stem = (folder / _REPLACING / _OWNER).read_text(encoding="utf-8")
        return stem if _OURS.fullmatch(f"{stem}.aside") and Path(stem).name == stem else None


def _finish(folder, scratch):
    """Moves entries out of `folder`, and those of `.replacing` in. The lock of their owner is held.

    Old and new entries are never there together: who does not know of `recover` finds some missing.
    """
    replacing, old = folder / _REPLACING, scratch / "old"
    old.mkdir(parents=True, exist_ok=True)
    names = sorted(entry.name for entry in replacing.iterdir() if entry.name != _OWNER)
    try:
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                os.replace(folder / name, old / name)
    except OSError:  # an entry that must not be moved: all stay as they were
        for entry in old.iterdir():
            os.replace(entry, folder / entry.name)
        os.rename(replacing, scratch / "refused")
        raise
    for name in names:
        os.replace(replacing / name, folder / name)
    (replacing / _OWNER).unlink()
    with contextlib.suppress(OSError):  # the next one may be there already
        replacing.rmdir()


@contextlib.contextmanager
def clear_errors(path, hint="Nothing was left behind; free some space or choose another place."):
    """Turns errors of the disk inside the block into an `InputError` that names `path`.

    Libraries that are not Python's say in words alone that a disk is full.
    """
    try:
        yield
    except InputError as error:
        inner = Path(error.path).parts if isinstance(error, _CannotWriteError) else ()
        if not any(map(_OURS.fullmatch, inner)):
            raise
        raise _CannotWriteError(path, error.code, hint) from error  # in the scratch folder
    except Exception as error:
        code = getattr(error, "errno", None)
        if code is None:
            text = str(error).lower()
            code = next((code for words, code in _FULL.items() if words in text), None)
        if code not in _CANNOT_WRITE:
            raise
        raise _CannotWriteError(path, code, hint) from error


class _CannotWriteError(InputError):
    """The disk does not take a file.

    Args:
        path: what was to be written.
        code: int, of `errno`.
        hint: str, what to do.
    """

    def __init__(self, path, code, hint):
        super().__init__(f"cannot write {path}: {os.strerror(code)}. {hint}")
        self.path, self.code = path, code
