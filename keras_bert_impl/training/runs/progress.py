"""What a person sees of a training run: a bar, and a line of at most six numbers per report."""

import sys
from collections.abc import Callable
from typing import Any

import keras

from keras_bert_impl.io.progress import Progress, clock
from keras_bert_impl.training.runs.best_epoch import KEY

# What `MetricsLog` and the step watch add to the metrics of the model.
_RATES = {"tokens_per_second": "tokens/s", "examples_per_second": "examples/s"}
_NO_SCORES = {
    "gradient_norm",
    "learning_rate",
    "model_flops_utilization",
    "input_wait",
    "seconds_left",
    *_RATES,
}


class TrainingProgress(keras.callbacks.Callback):
    """Prints a line for each report of a run on stderr, below them a bar if it is a terminal."""

    def __init__(
        self,
        total: int,
        step_of: Callable[[int], int],
        done: int = 0,
        unit: str = "report",
        verbose: int | str = "auto",
    ) -> None:
        super().__init__()
        self._total, self._unit = total, unit
        self._is_shown = verbose != 0
        self._step_of = step_of
        self._progress = Progress(unit, step_of(total), "steps", done=step_of(done))
        self._has_bar = verbose in (1, "auto") and sys.stderr.isatty()

    def __enter__(self) -> "TrainingProgress":
        if self._has_bar:
            self._progress.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        if self._has_bar:
            self._progress.__exit__(*error)

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._step = self._step_of(epoch)
        self._progress.label = self._name(epoch)

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        if self._has_bar:
            self._progress.update(self._step + batch + 1)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if self._is_shown:
            self._progress.say(f"{self._name(epoch)}: {', '.join(numbers(logs or {}))}")

    def _name(self, epoch):
        return f"{self._unit} {epoch + 1} of {self._total}"


def numbers(logs: dict[str, Any]) -> list[str]:
    """Returns at most six numbers of a report, each with its name."""
    shown = [f"{name} {logs[name]:.4f}" for name in ("loss", "val_loss") if name in logs]
    score = _score_of(logs)
    if score is not None:
        shown.append(f"{score} {logs[score]:.4f}")
    if "learning_rate" in logs:
        shown.append(f"learning rate {logs['learning_rate']:.2g}")
    shown += [f"{logs[name]:,.0f} {unit}" for name, unit in _RATES.items() if name in logs][:1]
    if logs.get("seconds_left"):
        shown.append(f"{clock(logs['seconds_left'])} left")
    return shown


def _score_of(logs):
    """Returns the name of the score: of the development set, held-out data or the batches."""
    names = [name for name in logs if name not in _NO_SCORES and not name.endswith("loss")]
    held_out = [name for name in names if name.startswith("val_")]
    return KEY if KEY in logs else next(iter([*held_out, *names]), None)
