"""The directory of a run: settings, reports, checkpoints and, in the end, model and scores."""

import dataclasses
import json
from pathlib import Path

import yaml

from keras_bert_impl.io.errors import InputError, shown
from keras_bert_impl.io.files import claim, recover, replace_files, write_json
from keras_bert_impl.io.reading import read_json, read_yaml
from keras_bert_impl.training.strategy import is_chief

_NAMES = {"train": "train texts", "dev": "dev texts"}


class RunDirectory:
    """Where a run keeps what it writes; with several workers the chief checks and writes it.

    Args:
        path: str or `Path`; made if needed.
        settings: dataclass instance, all settings of the run, resolved.
        resume: bool. Whether to go on from the checkpoints that the directory may hold; without
            it a directory with checkpoints is refused.
        may_change: names of settings that may change when a run is resumed.
        made_of: dict of str to dict: what the run reads, such as `"train"`, and of each what
            identifies its content; `source`, where it is, may change.

    Attributes:
        model, checkpoints, metrics, tensorboard, scores: `Path`s inside the directory.

    Raises:
        InputError: the directory holds a run that has begun with other settings or of other data,
            or of unknown ones, or a run and `resume` is off, or another process is at it.
    """

    def __init__(self, path, settings, resume=True, may_change=(), made_of=None):
        self.path = Path(path)
        self.model = self.path / "model"
        self.checkpoints = self.path / "checkpoints"
        self.metrics = self.path / "metrics.jsonl"
        self.tensorboard = self.path / "tensorboard"
        self.scores = self.path / "scores.json"
        self._recipe = self.path / "recipe.yaml"
        self._data = self.path / "data.json"
        if is_chief():
            # Held while this object lives; among what is the run's own, not its results.
            self._lock = claim(self.checkpoints / ".lock")
            if self._lock is None:
                raise InputError(f"another process trains in {self.path}; let it end.")
            recover(self.path)
            self._begin(to_yaml(settings), resume, may_change, made_of)

    def _begin(self, text, resume, may_change, made_of):
        if self._has_begun():
            if not resume:
                raise InputError(
                    f"{self.path} holds a run; let it resume, or give another directory for a new "
                    "one."
                )
            self._check_same_settings(yaml.safe_load(text), may_change)
            if made_of is not None:
                self._check_same_data(made_of)
        files = {self._recipe: text}
        if made_of is not None:
            files[self._data] = json.dumps(made_of, indent=2, ensure_ascii=False) + "\n"
        with replace_files(*files) as temporary:
            for path, content in zip(temporary, files.values()):
                path.write_text(content, encoding="utf-8")

    def _has_begun(self):
        """bool. Whether the run has made anything that other settings would not have made.

        One that failed before its first checkpoint, or was refused, binds nobody.
        """
        own = {self._recipe, self._data}
        made = (path for path in self.path.rglob("*") if path not in own)
        made = (path for path in made if self.tensorboard not in path.parents)
        return any(
            path.is_file() and path.stat().st_size
            for path in made
            if not any(part.startswith(".") for part in path.relative_to(self.path).parts)
        )

    def _check_same_settings(self, now, may_change):
        self._check_known(self._recipe, "settings")
        try:
            before = read_yaml(self._recipe)
        except InputError as error:
            raise InputError(
                f"{self._recipe} is damaged; remove {self.path} to start again: {error}"
            ) from error
        changed = [key for key in now if before.get(key) != now[key] and key not in may_change]
        if changed:
            differences = ", ".join(f"{key} was {shown(before.get(key))}" for key in changed)
            raise InputError(
                f"{self.path} holds a run with other settings ({differences}); resume it with "
                "those, or give another directory for a new one."
            )

    def _check_same_data(self, now):
        self._check_known(self._data, "data")
        before = read_json(self._data)
        for name, content in now.items():
            was = before.get(name)
            was = was if isinstance(was, dict) else {}
            keys = [key for key in content if key != "source" and was.get(key) != content[key]]
            if keys:
                differences = ", ".join(
                    f"{key} was {was.get(key)!r:.80} and is {content[key]!r:.80}" for key in keys
                )
                raise InputError(
                    f"{self.path} holds a run on other {_NAMES.get(name, name)} than "
                    f"{content.get('source')} ({differences}); give those, or another directory "
                    "for a new run."
                )

    def _check_known(self, path, what):
        if not path.exists():
            raise InputError(
                f"{self.path} holds a run, but {path.name}, which has its {what}, is gone: put it "
                "back, or give another directory for a new run."
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
