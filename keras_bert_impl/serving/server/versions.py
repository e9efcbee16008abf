"""Versions of a model in a folder, and the served version."""

import contextlib
import gc
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_bert_impl.serving.graphs.formats import SAVED_MODEL_ENTRIES
from keras_bert_impl.serving.server.wire import ApiError
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.io.paths import check_versions, local_path, version_of

if TYPE_CHECKING:  # imports TensorFlow
    from keras_bert_impl.serving.server.model import Model

_GRAPH = "saved_model.pb"


class Folder:
    """Folder with numbered versions of a model, or with a single SavedModel."""

    def __init__(self, path: str | Path, name: str | None = None) -> None:
        self.path = local_path(path).absolute()
        if not self.path.exists():
            raise InputError(
                f"the folder {path} does not exist. Create it with `keras-bert export --out`."
            )
        if not self.path.is_dir():
            raise InputError(f"{path} is a file. Pass the output folder of `keras-bert export`.")
        self._is_single = (self.path / _GRAPH).is_file()
        check_versions(self.path)
        is_numbered = version_of(self.path.name) is not None and self._is_single
        self.name = name or (self.path.parent if is_numbered else self.path).name
        if set(self.name) & set("/:"):
            raise InputError(
                f"a model name in URLs must not contain / or :. Received: {self.name!r}"
            )
        self._version = int(self.path.name) if is_numbered else 1
        if not self.versions():
            raise InputError(
                f"{path} contains no SavedModel: neither {_GRAPH} nor a numbered folder such as "
                f"{path}/1/{_GRAPH}. {self._format_hint()}"
            )

    def _format_hint(self):
        inside = [path.parent for path in self.path.glob(f"*/[0-9]*/{_GRAPH}")]
        if inside:
            return f"Do you mean {inside[0].parent}?"
        if (self.path / "model").is_dir():
            model, out = self.path, f"models/{self.path.name}"
        else:
            model, out = "RUN", self.path
        return f"`keras-bert export --model {model} --out {out}` writes it."

    def versions(self) -> list[tuple[int, Path]]:
        """Returns (number, SavedModel) of each version, newest first."""
        if self._is_single:
            return [(self._version, self.path)]
        numbered_entries = [
            (version, entry)
            for entry in self.path.iterdir()
            if (version := version_of(entry.name)) is not None and (entry / _GRAPH).is_file()
        ]
        return sorted(numbered_entries, reverse=True)

    def files(self, directory: Path) -> list[tuple[str, int, int]]:
        """Returns (name, size, time) of each file of a SavedModel, to detect changes."""
        entries = [directory / name for name in SAVED_MODEL_ENTRIES]
        paths = [path for entry in entries for path in (entry, *sorted(entry.rglob("*")))]
        paths = [path for path in paths if path.is_file()]
        stats = [(str(path), path.stat()) for path in paths]
        return [(name, stat.st_size, stat.st_mtime_ns) for name, stat in stats]


class Versions:
    """Serves the newest loadable version of a model."""

    def __init__(
        self, folder: Folder, load: Callable[[Path, int], "Model"], report: Callable[[str], None]
    ) -> None:
        self.folder = folder
        self.name = folder.name
        self.current: Model | None = None
        self._states: dict[int, tuple[str, str, str]] = {}  # version: (state, code, message)
        self._files: Any = None  # names, sizes and times of the served version's files
        self.refused: dict[int, Any] = {}  # version that failed to load -> its files at that time
        self._load = load
        self._report = report
        self._stopped = threading.Event()

    def load_newest(self) -> None:
        versions = dict(self.folder.versions())
        for version in self.refused.keys() - versions.keys():
            del self.refused[version]
        for version, directory in versions.items():
            is_served = self.current is not None and version == self.current.version
            files = self.folder.files(directory)
            if is_served and files == self._files:
                return
            if self.refused.get(version) != files and self._try_load(version, directory, files):
                return
            if is_served:  # the new files cannot be loaded, but the old version is in memory
                return

    def _try_load(self, version, directory, files):
        """Loads a version and serves it. Returns False if the version cannot be loaded."""
        is_served = self.current is not None and version == self.current.version
        if not is_served:
            self._set(version, "LOADING")
        try:
            model = self._load(directory, version)
        except ApiError as error:
            self.refused[version] = files
            self._set(version, "AVAILABLE" if is_served else "END", error.code, str(error))
            self._report_line(f"version {version} cannot be loaded: {error}")
            return False
        if self.current is not None:
            self._set(self.current.version, "END")
        self._set(version, "AVAILABLE")
        self.current, self._files = model, files
        self.refused.pop(version, None)
        self._report_line(f"version {version} is loaded")
        gc.collect()  # The functions of the old version have circular references.
        return True

    def watch(self, seconds: float) -> None:
        """Checks for newer versions in a thread, until `stop`."""
        look = threading.Thread(target=self._look, args=[seconds], name="versions", daemon=True)
        look.start()
        self._thread = look

    def stop(self, seconds: float) -> bool:
        """Stops the thread. Returns False if the thread is still running after `seconds`."""
        self._stopped.set()
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def find(self, name: str, version: int | None) -> "Model":
        model = self.current
        if name == self.name and model is not None and version in (None, model.version):
            return model
        servable = f"Latest({name})" if version is None else f"Specific({name}, {version})"
        hint = self._explain_name(name)
        raise ApiError(f"Servable not found for request: {servable}{hint}", "NOT_FOUND")

    def _explain_name(self, name):
        return "" if name == self.name else f"; this server has the model {self.name}"

    def status(self, name: str, version: int | None) -> list[dict[str, Any]]:
        """Returns the states of one or all versions, as in a `GetModelStatusResponse`."""
        states = self._states if name == self.name else {}
        if not states or version not in (None, *states):
            versions = "any versions" if version is None else f"version {version}"
            text = f"Could not find {versions} of model {name}{self._explain_name(name)}"
            raise ApiError(text, "NOT_FOUND")
        return [
            {
                "version": str(number),
                "state": state,
                "status": {"error_code": code, "error_message": message},
            }
            for number, (state, code, message) in sorted(states.items(), reverse=True)
            if version in (None, number)
        ]

    def _set(self, version, state, code="OK", message=""):
        # The dict is replaced, not changed, because other threads read it.
        self._states = {**self._states, version: (state, code, message)}

    def _look(self, seconds):
        while not self._stopped.wait(seconds):
            try:
                self.load_newest()
            except Exception as error:  # such as OSError, if the disk is not available
                self._report_line(
                    f"{self.folder.path} cannot be read: {type(error).__name__}: {error}"
                )

    def _report_line(self, line):
        with contextlib.suppress(OSError, ValueError):  # stderr is closed
            self._report(line)
