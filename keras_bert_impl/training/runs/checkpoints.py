"""Checkpoints of a run: after epochs, within epochs, of the best epoch, and on a stop signal."""

import logging
import math
import re
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_bert_impl.training.jax_devices import whole_value
from keras_bert_impl.training.runs.reports import KEY
from keras_bert_impl.training.strategy import (
    is_chief,
    mean_of_workers,
    num_workers,
    number_of_chief,
)
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.io.paths import local_path

_LOG = logging.getLogger(__name__)


class BestEpoch(keras.callbacks.Callback):
    """Callback that scores the model after every epoch and stops training early.

    The best epoch is the epoch with the highest `rank(score)`.
    """

    def __init__(
        self,
        score: Callable[[], float],
        patience: int | None = None,
        scores: Iterable[float] = (),
        start: int = 0,
        metric: str | None = None,
        rank: Callable[[float], float] = float,
    ) -> None:
        super().__init__()
        self._score, self.metric, self._rank = score, metric, rank
        self._patience = patience
        self._start = start
        self.scores = list(scores)

    @property
    def best(self) -> int:
        """1-based number of the best epoch; the earliest of equal scores."""
        ranks = [-math.inf if math.isnan(score) else self._rank(score) for score in self.scores]
        return self._start + ranks.index(max(ranks)) + 1

    @property
    def is_over(self) -> bool:
        if self._patience is None or not self.scores:
            return False
        return self._start + len(self.scores) - self.best >= self._patience

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] = None) -> None:
        self.scores.append(float(self._score()))
        logs[KEY] = self.scores[-1]
        if math.isnan(self.scores[-1]):
            _LOG.warning(
                "epoch %d has no score (NaN): all predictions are equal, or some predictions are "
                "NaN",
                epoch + 1,
            )
        if self.is_over:
            self.model.stop_training = True


class EndsOnSigterm(keras.callbacks.Callback):
    """Ends `fit` after the Keras epoch in which this or another worker received SIGTERM."""

    def __init__(self) -> None:
        super().__init__()
        self.has_ended = False
        self._asked = False
        self._before = None

    def __enter__(self):
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGTERM, self._ask)
        return self

    def __exit__(self, *_):
        if self._before is not None:
            signal.signal(signal.SIGTERM, self._before)

    def _ask(self, *_):
        self._asked = True
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if float(mean_of_workers(self.model.distribute_strategy, float(self._asked))) > 0:
            _LOG.warning("SIGTERM: saved and stopped; run the same command again to resume")
            self.has_ended = self.model.stop_training = True


_ARE_COPIES = keras.backend.backend() != "tensorflow"
_BATCHES = 16  # batches between two comparisons of the workers' clocks


class RunCheckpoint(keras.callbacks.Callback):
    """Saves and restores weights, optimizer, step, seed and data position of a run.

    Saves after each epoch. If `minutes` is given, also saves within an epoch when the last save was
    `minutes` ago.
    """

    def __init__(
        self,
        model: keras.Model,
        directory: str | Path,
        seed: int = 0,
        more: Iterable[keras.Variable] = (),
        max_to_keep: int = 3,
        best: BestEpoch | None = None,
        num_epochs: int | None = None,
        minutes: float | None = None,
    ) -> None:
        super().__init__()
        if not model.built or model.optimizer is None:
            raise InputError("RunCheckpoint needs a model that is built and compiled.")
        if max_to_keep < 2:
            raise InputError(f"max_to_keep must be at least 2. Received: {max_to_keep}")
        self._directory = local_path(directory)
        self._max_to_keep = max_to_keep
        self._best = best
        self._num_epochs = num_epochs
        self._minutes = minutes
        self.batches = 0  # finished batches of the current epoch in the restored checkpoint
        self._saved_at = time.monotonic()
        self._strategy = model.distribute_strategy
        self._variables = [*_list_variables(model), *more]
        self._epochs = tf.Variable(0, dtype=tf.int64)
        self._seed = tf.Variable(seed, dtype=tf.int64)
        self._saved = [_convert_to_tensorflow(variable) for variable in self._variables]
        self._checkpoint = self._build_checkpoint(self._saved)
        # A checkpoint within an epoch also contains the metrics so far, in one array, because
        # Keras creates the metrics in `fit`.
        self._batches = tf.Variable(0, dtype=tf.int64)
        self._metrics = tf.Variable([], dtype=tf.float64, shape=[None])
        self._within = self._build_checkpoint(
            self._saved, batches=self._batches, metrics=self._metrics
        )
        # All workers must save, but only the chief's files are kept.
        self._scratch = None if is_chief() else tempfile.TemporaryDirectory(prefix="keras-bert-")

    def restore(self) -> int:
        """Restores the newest readable checkpoint; returns its number of epochs, or 0."""
        last = None if self._num_epochs is None else (self._num_epochs, 0)
        paths = _list_checkpoints(self._directory, last)
        seed = int(self._seed.numpy())
        for path in paths:
            try:
                self._restore_from(path)
            except _UNREADABLE as error:
                reason = str(error).partition("\n")[0]
                _LOG.warning("cannot read %s (%s); trying the previous checkpoint", path, reason)
                continue
            if int(self._seed.numpy()) != seed:
                raise InputError(
                    f"{path} belongs to a run with seed {self._seed.numpy()}, not {seed}. Use "
                    f"seed {self._seed.numpy()}, or another run directory."
                )
            _, self.batches = _parse_position(path)
            return int(self._epochs.numpy())
        if paths:
            raise InputError(
                f"no checkpoint can be read: {', '.join(paths)}. Restore one of them from a backup, "
                "or choose another run directory."
            )
        return 0

    def restore_best(self) -> None:
        """Restores the best epoch; raises `InputError` if its checkpoint cannot be read."""
        path = str(self._directory / f"ckpt-{self._best.best}")
        try:
            self._restore_from(path)
        except _UNREADABLE as error:
            reason = str(error).partition("\n")[0]
            raise InputError(
                f"cannot read {path}, the checkpoint of the best epoch ({reason}). Restore it from "
                "a backup, or choose another run directory."
            ) from error

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        self._saved_at = time.monotonic()

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._epoch = epoch
        if self.batches:  # Keras has reset the metrics.
            values, variables = self._metrics.numpy(), _list_metrics(self.model)
            ends = np.cumsum([math.prod(variable.shape) for variable in variables])
            for part, variable in zip(np.split(values, ends[:-1]), variables, strict=True):
                variable.assign(part.reshape(variable.shape).astype(variable.dtype))

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        is_last = batch + 1 == self.params["steps"]
        if self._minutes is not None and not is_last and self._is_due(batch):
            values = [whole_value(variable).ravel() for variable in _list_metrics(self.model)]
            self._metrics.assign(np.concatenate(values))
            self.save(self._epoch, self.batches + batch + 1)

    def _is_due(self, batch):
        """Returns whether the last save was at least `minutes` ago."""
        age = time.monotonic() - self._saved_at
        if num_workers() > 1:  # All workers save at the same batch: the chief decides.
            age = number_of_chief(self._strategy, age) if batch % _BATCHES == 0 else 0
        return age > 60 * self._minutes

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self.batches = 0
        self.save(epoch + 1)

    def save(self, epochs: int, batches: int = 0) -> None:
        """Saves the state. All workers can read the checkpoint when this method returns."""
        self._epochs.assign(epochs)
        self._batches.assign(batches)
        if _ARE_COPIES:
            for copy, variable in zip(self._saved, self._variables, strict=True):
                copy.assign(whole_value(variable))
        directory = Path(self._scratch.name) if self._scratch else self._directory
        path = directory / (f"ckpt-{epochs}-{batches}" if batches else f"ckpt-{epochs}")
        try:
            (self._within if batches else self._checkpoint).write(str(path))
        except (tf.errors.ResourceExhaustedError, tf.errors.OutOfRangeError) as error:
            shutil.rmtree(f"{path}_temp", ignore_errors=True)
            reason = error.message.partition(" [Op:")[0].rpartition("; ")[2]
            raise InputError(
                f"cannot write {path}: {reason}. Earlier checkpoints are intact. Free some disk "
                "space and run the same command again."
            ) from error
        has_best = self._best is not None and self._best.scores
        best_path = str(directory / f"ckpt-{self._best.best}") if has_best else None
        for path in _list_checkpoints(directory, (epochs, batches))[self._max_to_keep :]:
            if path != best_path:
                # The index is deleted first. The other files alone do not count as a
                # checkpoint.
                for file in sorted(directory.glob(f"{Path(path).name}.*"), reverse=True):
                    file.unlink()
        mean_of_workers(self._strategy, 0.0)  # This blocks until the chief has saved.
        self._saved_at = time.monotonic()

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        """Removes the temporary directory of a worker that is not the chief."""
        if self._scratch:
            self._scratch.cleanup()

    def _restore_from(self, path):
        _check_number(path)
        saved = _read_saved_shapes(path)
        variables = self._variables
        checkpoint = self._within if _parse_position(path)[1] else self._checkpoint
        _check_model(path, saved, variables)
        checkpoint.restore(path).assert_consumed()
        if _ARE_COPIES:
            for copy, variable in zip(self._saved, variables, strict=True):
                variable.assign(copy.numpy())

    def _build_checkpoint(self, variables, **extra_variables):
        state = tf.train.Checkpoint(
            variables=variables, epochs=self._epochs, seed=self._seed, **extra_variables
        )
        # This creates the variable that `restore` expects in the file.
        assert state.save_counter is not None
        return state


class _MisnamedError(Exception):
    """The content of a checkpoint file does not match its name."""


_UNREADABLE = (tf.errors.OpError, IndexError, _MisnamedError)


def _check_number(path):
    """Raises an error if the name of a checkpoint does not match its epochs and batches."""
    reader = tf.train.load_checkpoint(path)
    names = [f"{name}/.ATTRIBUTES/VARIABLE_VALUE" for name in ("epochs", "batches")]
    saved = [int(reader.get_tensor(name)) for name in names if reader.has_tensor(name)]
    if (*saved, 0)[:2] != _parse_position(path):
        name = "-".join(map(str, ["ckpt", *saved]))
        raise _MisnamedError(f"the file is a renamed {name}")


def _parse_position(path):
    """Returns (epochs, batches of the next epoch) from the name of a checkpoint file."""
    match = re.match(r"ckpt-(\d+)(?:-(\d+))?", Path(path).name)
    return int(match[1]), int(match[2] or 0)


def _read_saved_shapes(path):
    shapes = {}
    for name, shape in tf.train.load_checkpoint(path).get_variable_to_shape_map().items():
        match = re.fullmatch(r"variables/(\d+)/\.ATTRIBUTES/VARIABLE_VALUE", name)
        if match:
            shapes[int(match[1])] = tuple(shape)
    return shapes


def _check_model(path, saved, variables):
    for index, variable in enumerate(variables):
        if saved.get(index) != tuple(variable.shape):
            raise InputError(
                f"{path} is from another model or optimizer: {variable.path} has shape "
                f"{tuple(variable.shape)} here and {saved.get(index, 'none')} in the checkpoint."
            )
    if len(saved) > len(variables):
        raise InputError(
            f"{path} is from another model or optimizer: it has {len(saved)} variables, but this "
            f"model and its optimizer have {len(variables)} (last: {variables[-1].path})."
        )


def _convert_to_tensorflow(variable):
    """Returns the underlying `tf.Variable`, or a copy on other backends."""
    return tf.Variable(whole_value(variable), trainable=False) if _ARE_COPIES else variable.value


def _list_variables(model):
    with model.distribute_strategy.scope():
        if not model.optimizer.built:
            model.optimizer.build(model.trainable_variables)
    # Variables are identified by position, because names contain counters of earlier layers.
    return [*model.variables, *model.optimizer.variables]


def _list_metrics(model):
    watch = model.step_watch
    return [*model.metrics_variables, *(watch.variables if watch is not None else ())]


def _list_checkpoints(directory, last=None):
    """Returns the checkpoint paths in a directory, newest first.

    Checkpoints after `last` are omitted.
    """
    paths = [
        str(file.with_suffix(""))
        for file in directory.glob("ckpt-*.index")
        if re.fullmatch(r"ckpt-\d+(-\d+)?\.index", file.name)
    ]
    earlier_paths = (path for path in paths if last is None or _parse_position(path) <= last)
    return sorted(earlier_paths, key=_parse_position, reverse=True)
