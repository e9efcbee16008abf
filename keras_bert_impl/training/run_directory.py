"""The directory of a run: settings, reports, checkpoints and, in the end, model and scores."""

import dataclasses
from pathlib import Path

import yaml

from keras_bert_impl.errors import InputError
from keras_bert_impl.files import claim, recover, replace_file, write_json
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
            self._lock = claim(self.checkpoints / ".lock")
            if self._lock is None:
                raise InputError(f"another process trains in {self.path}; let it end.")
            recover(self.path)
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
            before = yaml.safe_load(self._recipe.read_text(encoding="utf-8"))
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise InputError(f"{self._recipe} is damaged; remove {self.path} to start again.") from error
        now = yaml.safe_load(text)
        before = before if isinstance(before, dict) else {}
        changed = [key for key in now if before.get(key) != now[key] and key not in may_change]
        if changed:
            differences = ", ".join(f"{key} was {before.get(key)!r}" for key in changed)
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


def to_yaml(settings):
    """The fields of a dataclass instance as YAML text; tuples become lists."""
    values = {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in dataclasses.asdict(settings).items()
    }
    return yaml.safe_dump(values, sort_keys=False, allow_unicode=True)
