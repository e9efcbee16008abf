"""The states in which a killed process leaves a folder."""

import contextlib
import os
import re
import shutil
import sys

_CHANGES = {
    *("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink"),
    *("os.truncate", "os.chmod", "os.chown"),
    "ctypes.dlsym",  # comes right before the exchange of two directories
}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_RECORDERS = []


def _record(event, arguments):
    if _RECORDERS and event in _CHANGES and (event != "open" or arguments[2] & _WRITING):
        _RECORDERS[-1].take()


sys.addaudithook(_record)  # cannot be removed


class _Recorder:
    def __init__(self, folder, copies):
        self._folder, self._copies, self._last, self._is_busy = folder, copies, None, False
        self.states = []

    def take(self):
        """Copies the folder if something has changed, except for files that are being prepared."""
        if self._is_busy:
            return
        self._is_busy = True
        now = {
            path: (status.st_ino, status.st_size, status.st_mtime_ns)
            for path in self._folder.rglob("*")
            if not re.search(r"\.aside(/lock|/new/.*)?$", str(path))
            for status in [path.lstat()]
            if not path.is_dir()
        }
        if now != self._last:
            self._last = now
            self.states.append(self._copies / str(len(self.states)))
            put(self._folder, self.states[-1])
        self._is_busy = False


@contextlib.contextmanager
def states_of(folder, copies):
    """Yields a list of copies of a folder, one for each state in which a kill would leave it.

    A copy is made before each operation that changes the file system, and at the end.
    """
    recorder = _Recorder(folder, copies)
    _RECORDERS.append(recorder)
    try:
        yield recorder.states
    finally:
        recorder.take()
        _RECORDERS.remove(recorder)


def put(state, folder):
    """Replaces a folder by a copy of another one."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(state, folder, symlinks=True)


def assert_old_or_new(folder, copies, write, names):
    """Checks that a kill while `write()` runs leaves the named entries all old or all new."""
    with states_of(folder, copies) as states:
        write()

    def contents(state):
        return {n: content for n, content in visible(state).items() if n.split("/")[0] in names}

    assert {n.split("/")[0] for n in contents(states[-1])} == {*names}
    assert contents(states[0]) != contents(states[-1])
    assert all(contents(state) in (contents(states[0]), contents(states[-1])) for state in states)


def visible(folder):
    """Returns the contents of the files that a reader sees, by name."""
    paths = {str(path.relative_to(folder)): path for path in folder.rglob("*")}
    return {
        name: path.read_bytes()
        for name, path in paths.items()
        if path.is_file() and not any(part.startswith(".") for part in name.split("/"))
    }
