"""The directory of a run: settings, reports, checkpoints and, at the end, the model and scores."""

import contextlib
import dataclasses
import importlib
import json
import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import keras
import yaml

from keras_bert_impl.training.strategy import is_chief
from keras_bert_impl.utils.errors import InputError, listed, shown
from keras_bert_impl.utils.io.files import claim, replace_file, write_json
from keras_bert_impl.utils.io.paths import local_path
from keras_bert_impl.utils.io.run_files import read_run_file
from keras_bert_impl.utils.version import DISTRIBUTION, __version__

# Files of a checkpoint, the folder of a save in progress, and TensorFlow's list of checkpoints.
_CHECKPOINT = re.compile(r"ckpt-\d+(-\d+)?(\.index|\.data-\d+-of-\d+|_temp)|checkpoint(\.tmp\w*)?")
ENVIRONMENT = "environment"  # entry of data.json: the backend and the versions at the start
INTERMEDIATE = "intermediate"  # folder for the checkpoints of the first phase of a distillation
_NAMES = {"train": "train texts", "dev": "dev texts"}


class RunDirectory:
    """The output directory of a run.

    If there are several workers, only the chief checks and writes the directory.
    """

    def __init__(
        self,
        path: str | Path,
        settings: Any,
        resume: bool = True,
        may_change: Iterable[str] = (),
        made_of: dict[str, dict[str, Any]] | None = None,
    ) -> None:
        self.path = local_path(path)
        self.model = self.path / "model"
        self.checkpoints = self.path / "checkpoints"
        self.metrics = self.path / "metrics.jsonl"
        self.tensorboard = self.path / "tensorboard"
        self.scores = self.path / "scores.json"
        self._recipe = self.path / "recipe.yaml"
        self.data = self.path / "data.json"
        if is_chief():
            # The lock is held as long as this object exists. Its file is in the checkpoints folder.
            self._lock = claim(self.checkpoints / ".lock")
            if self._lock is None:
                raise InputError(
                    f"another process is training in {self.path}; wait for it to finish."
                )
            self._changed = changed_settings(settings)
            self._start_run(to_yaml(settings), resume, may_change, made_of)

    @property
    def is_finished(self) -> bool:
        """Whether the run has written `scores.json`, the last output of a run."""
        return self.scores.exists() and self.model.is_dir()

    def note(self, notes: dict[str, Any]) -> None:
        """Adds entries to `data.json`. A resumed run does not compare these entries."""
        write_json(self.data, read_run_file(self.data) | notes)

    def _start_run(self, text, resume, may_change, sources):
        notes = {ENVIRONMENT: environment()}
        if self._has_begun():
            if not resume:
                raise InputError(
                    f"{self.path} contains a run. Resume this run, or choose another directory "
                    "for a new run."
                )
            self._check_same_settings(yaml.safe_load(text), may_change)
            if sources is not None:
                self._check_same_data(sources)
                notes = dict(read_run_file(self.data))
        files = {self._recipe: text}
        if sources is not None:
            notes |= {"changed_settings": self._changed} | sources
            files[self.data] = json.dumps(notes, indent=2, ensure_ascii=False) + "\n"
        for path, content in files.items():  # The next start writes both files again.
            with replace_file(path) as temporary:
                temporary.write_text(content, encoding="utf-8")

    def _has_begun(self):
        """Returns whether the directory contains a checkpoint, metrics, scores or a model."""
        for path in (self.model, self.metrics, self.scores):
            files = [path] if path.is_file() else path.rglob("*")
            for file in files:
                is_hidden = any(p.startswith(".") for p in file.relative_to(self.path).parts)
                if file.is_file() and file.stat().st_size and not is_hidden:
                    return True
        return _has_checkpoint(self.path)

    def _check_same_settings(self, now, may_change):
        before = read_run_file(self._recipe)
        _check_complete(self._recipe, before, now)
        changed = [key for key in now if before[key] != now[key] and key not in may_change]
        if changed:
            differences = ", ".join(f"{key} was {shown(before[key])}" for key in changed)
            if self.is_finished:
                raise InputError(
                    f"{self.path} contains a finished run with other settings ({differences}). "
                    f"To train further, start a new run in another directory from {self.model}."
                )
            raise InputError(
                f"{self.path} contains a run with other settings ({differences}). Resume the run "
                "with its settings, or choose another directory for a new run."
            )

    def _check_same_data(self, now):
        before = read_run_file(self.data)
        for name, content in now.items():
            was = before.get(name, {})
            if name in before:
                was = was if isinstance(was, dict) else {}
                _check_complete(self.data, was, content, f" of {name}")
            keys = [key for key in content if key != "source" and was.get(key) != content[key]]
            if keys:
                differences = ", ".join(
                    f"{key} was {was.get(key)!r:.80} and is {content[key]!r:.80}" for key in keys
                )
                raise InputError(
                    f"{self.path} contains a run on other {_NAMES.get(name, name)} than "
                    f"{content.get('source')} ({differences}). Use the same data, or choose "
                    "another directory for a new run."
                )
        self._check_same_backend(before)

    def _check_same_backend(self, before):
        """Checkpoints contain the variables of the optimizer, which differ between backends."""
        begun = before.get(ENVIRONMENT)
        begun = begun.get("backend") if isinstance(begun, dict) else None
        backend = keras.backend.backend()
        if begun not in (None, backend) and _has_checkpoint(self.path) and not self.is_finished:
            raise InputError(
                f"the run in {self.path} was begun with the backend {begun}, but the backend is "
                f"{backend}. To resume the run, set KERAS_BACKEND={begun}."
            )

    def write_scores(self, scores: dict[str, Any]) -> None:
        write_json(self.scores, scores)


def _check_complete(path, before, now, suffix=""):
    missing = [key for key in now if key not in before]
    if missing:
        raise InputError(
            f"{path} is damaged or from another version: it has no {listed(missing)}{suffix}. "
            f"Restore {path.name}, or choose another directory for a new run."
        )


def remove_checkpoints(path: str | Path) -> None:
    """Removes the checkpoints of a finished run; continues an interrupted removal."""
    for file in _list_checkpoint_files(path):
        if file.is_dir() and not file.is_symlink():
            shutil.rmtree(file, ignore_errors=True)  # An interrupted save left this folder.
        else:
            file.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # the folder is missing or contains other files
        (local_path(path) / "checkpoints" / INTERMEDIATE).rmdir()


def _has_checkpoint(path):
    return any(file.suffix == ".index" for file in _list_checkpoint_files(path))


def _list_checkpoint_files(path):
    """Returns the checkpoint files of a run. The folder may contain other files."""
    parent = local_path(path) / "checkpoints"
    folders = [folder for folder in (parent, parent / INTERMEDIATE) if folder.is_dir()]
    files = (
        folder / name for folder in folders for name in sorted(os.listdir(folder), reverse=True)
    )
    return [file for file in files if _CHECKPOINT.fullmatch(file.name)]


def environment() -> dict[str, str]:
    """Returns the Keras backend, and the versions of this package and of the libraries."""
    backend = keras.backend.backend()
    libraries = dict.fromkeys(("keras", "tensorflow", backend))
    versions = {name: importlib.import_module(name).__version__ for name in libraries}
    return {"backend": backend, DISTRIBUTION: __version__, **versions}


def changed_settings(settings: Any) -> dict[str, Any]:
    """Returns the fields of a dataclass instance that differ from their defaults."""
    return {
        field.name: getattr(settings, field.name)
        for field in dataclasses.fields(settings)
        if getattr(settings, field.name) != field.default
    }


def to_yaml(settings: Any) -> str:
    """Converts the fields of a dataclass instance to YAML. Tuples become lists."""
    values = {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in dataclasses.asdict(settings).items()
    }
    return yaml.safe_dump(values, sort_keys=False, allow_unicode=True)
