"""The directory of a run: settings, reports, checkpoints and, in the end, model and scores."""

import dataclasses
import json
import logging
import time
from pathlib import Path

import keras
import yaml

from keras_bert_impl.errors import InputError
from keras_bert_impl.files import replace_file, write_json
from keras_bert_impl.training.strategy import is_chief

_LOG = logging.getLogger(__name__)


class RunDirectory:
    """Where a run keeps what it writes; with several workers the chief checks and writes it.

    Args:
        path: str or `Path`; made if needed.
        settings: dataclass instance, all settings of the run, resolved.
        resume: bool. Whether to go on from the checkpoints that the directory may hold; without
            it a directory with checkpoints is refused.

    Attributes:
        model, checkpoints, metrics, scores: `Path`s inside the directory.

    Raises:
        InputError: the directory holds a run with other settings, or a run and `resume` is off.
    """

    def __init__(self, path, settings, resume=True):
        self.path = Path(path)
        self.model = self.path / "model"
        self.checkpoints = self.path / "checkpoints"
        self.metrics = self.path / "metrics.jsonl"
        self.scores = self.path / "scores.json"
        self._recipe = self.path / "recipe.yaml"
        if is_chief():
            self._begin(to_yaml(settings), resume)

    def _begin(self, text, resume):
        if self._recipe.exists():
            self._check_same_run(text, resume)
        with replace_file(self._recipe) as temporary:
            temporary.write_text(text, encoding="utf-8")

    def _check_same_run(self, text, resume):
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
        changed = [key for key in now if before.get(key) != now[key]]
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


class MetricsLog(keras.callbacks.Callback):
    """Writes a JSON line for every Keras epoch, which in a run is an interval between reports.

    A line holds `step` (optimizer steps done), `seconds` (of this process), every metric by name
    (`val_` before those of held-out data), `learning_rate`, and `tokens_per_second` where
    `tokens_per_step` is known.

    Args:
        path: `Path` of `metrics.jsonl`; lines after `initial_step` are dropped, those before it
            stay.
        steps_per_epoch: int.
        initial_step: int, steps done before.
        tokens_per_step: float or None. Real tokens, not padding, in a global batch.
    """

    def __init__(self, path, steps_per_epoch, initial_step=0, tokens_per_step=None):
        super().__init__()
        self._path = Path(path)
        self._steps_per_epoch = steps_per_epoch
        self._tokens_per_step = tokens_per_step
        self._start = self._epoch_start = time.monotonic()
        self._keep_lines(initial_step)

    def _keep_lines(self, initial_step):
        kept = read_metrics(self._path, initial_step)
        with replace_file(self._path) as temporary:
            text = "".join(f"{json.dumps(line)}\n" for line in kept)
            temporary.write_text(text, encoding="utf-8")

    def on_epoch_begin(self, epoch, logs=None):
        self._epoch_start = time.monotonic()

    def on_test_begin(self, logs=None):
        # Held-out evaluation is not training time.
        self._test_start = time.monotonic()

    def on_test_end(self, logs=None):
        self._epoch_start += time.monotonic() - self._test_start

    def on_epoch_end(self, epoch, logs=None):
        now = time.monotonic()
        line = {
            "step": (epoch + 1) * self._steps_per_epoch,
            "seconds": round(now - self._start, 3),
            **{name: float(value) for name, value in (logs or {}).items()},
            "learning_rate": float(keras.ops.convert_to_numpy(self.model.optimizer.learning_rate)),
        }
        if self._tokens_per_step is not None:
            tokens = self._tokens_per_step * self._steps_per_epoch
            line["tokens_per_second"] = round(tokens / (now - self._epoch_start), 1)
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def read_metrics(path, last_step):
    """The lines of `metrics.jsonl` up to a step.

    Args:
        path: `Path`; there may be no such file.
        last_step: int.

    Returns:
        list of dict.
    """
    kept = []
    if path.exists():
        for text in path.read_text(encoding="utf-8").splitlines():
            try:
                line = json.loads(text)
                if line["step"] <= last_step:
                    kept.append(line)
            except (json.JSONDecodeError, KeyError, TypeError):
                _LOG.warning("%s: dropped a line that is cut short", path)
    return kept


def to_yaml(settings):
    """The fields of a dataclass instance as YAML text; tuples become lists."""
    values = {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in dataclasses.asdict(settings).items()
    }
    return yaml.safe_dump(values, sort_keys=False, allow_unicode=True)
