"""The directory of a run: settings, reports, checkpoints and, in the end, model and scores."""

import dataclasses
import fcntl
from pathlib import Path

import yaml

from keras_bert_impl.errors import InputError, shown
from keras_bert_impl.files import replace_file, write_json
from keras_bert_impl.reading import read_yaml
from keras_bert_impl.training.strategy import is_chief


class RunDirectory:
    """Where a run keeps what it writes; with several workers the chief checks and writes it.

    Args:
        path: str or `Path`; made if needed.
        settings: dataclass instance, all settings of the run, resolved.
        resume: bool. Whether to go on from the checkpoints that the directory may hold; without
            it a directory with checkpoints is refused.
        may_change: names of settings that a run may go on with others of.

    Attributes:
        model, checkpoints, metrics, tensorboard, scores: `Path`s inside the directory.

    Raises:
        InputError: the directory holds a run with other settings, or a run and `resume` is off, or
            another process is at it.
    """

    def __init__(self, path, settings, resume=True, may_change=()):
        self.path = Path(path)
        self.model = self.path / "model"
        self.checkpoints = self.path / "checkpoints"
        self.metrics = self.path / "metrics.jsonl"
        self.tensorboard = self.path / "tensorboard"
        self.scores = self.path / "scores.json"
        self._recipe = self.path / "recipe.yaml"
        if is_chief():
            # Held while this object lives; among what is the run's own, not its results.
            self._lock = _lock(self.checkpoints, self.path)
            self._begin(to_yaml(settings), resume, may_change)

    def _begin(self, text, resume, may_change):
        if self._recipe.exists():
            self._check_same_run(text, resume, may_change)
        with replace_file(self._recipe) as temporary:
            temporary.write_text(text, encoding="utf-8")

    def _check_same_run(self, text, resume, may_change):
        if not resume:
            raise InputError(
                f"{self.path} holds a run; let it resume, or give another directory for a new one."
            )
        try:
            before = read_yaml(self._recipe)
        except InputError as error:
            raise InputError(f"{error} Remove {self.path} to start again.") from error
        now = yaml.safe_load(text)
        changed = [key for key in now if before.get(key) != now[key] and key not in may_change]
        if changed:
            differences = ", ".join(f"{key} was {shown(before.get(key))}" for key in changed)
            raise InputError(
                f"{self.path} holds a run with other settings ({differences}); resume it with "
                "those, or give another directory for a new one."
            )

    def write_scores(self, scores):
        """Writes `scores.json`: final numbers by metric.

        Args:
            scores: dict of str to number.
        """
        write_json(self.scores, scores)


def _lock(folder, run):
    """An open file that no other process locks; None where the file system has no locks.

    Args:
        folder: `Path` that has the file.
        run: `Path` to name in the error.

    A lock of `lockf` is the process's: whoever interrupts a run in a notebook, where the traceback
    keeps it alive, may call it again.
    """
    path = folder / ".lock"
    if not path.exists():
        with replace_file(path) as temporary:
            temporary.touch()
    try:
        file = path.open("w")
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise InputError(f"another process trains in {run}; let it end.") from None
    except OSError:
        return None
    return file


def to_yaml(settings):
    """The fields of a dataclass instance as YAML text; tuples become lists."""
    values = {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in dataclasses.asdict(settings).items()
    }
    return yaml.safe_dump(values, sort_keys=False, allow_unicode=True)
