"""Reports of a run: progress, floating-point operations, loss spikes and metrics.jsonl."""

import functools
import json
import logging
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_bert_impl.checkpoints.config import EncoderConfig
from keras_bert_impl.training.optimizers.schedules import TimeBudget
from keras_bert_impl.training.runs.run_directory import RunDirectory
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.io.files import clear_errors, replace_file
from keras_bert_impl.utils.io.reading import Document, parse_json_line, read_bytes
from keras_bert_impl.utils.io.run_files import check_numbers
from keras_bert_impl.utils.progress import Progress, clock

KEY = "dev_score"  # keys of an epoch in metrics.jsonl
_SECONDS = 0.4  # seconds of a measurement
_LARGEST = 8192  # 3 matrices of float32 are 805 MB


def encoder_flops(config: EncoderConfig, length: int) -> int:
    """Returns the floating-point operations of an encoder's forward pass per token.

    Source: Chowdhery et al. 2022, "PaLM", appendix B.
    """
    hidden, inner = config.hidden_dim, config.intermediate_dim
    projections = 4 if config.max_global_tokens is None else 6
    maps = projections * hidden * hidden + (3 if config.gated else 2) * hidden * inner
    total = 0
    for index in range(config.num_layers):
        is_local = config.is_local(index)
        keys = min(length, 2 * config.window + 1) if is_local else length
        if config.block_size is not None:
            keys = min(length, (5 + config.num_random_blocks) * config.block_size)
        total += 2 * maps + 2 * 2 * keys * hidden
    if config.embedding_dim is not None:
        total += 2 * config.embedding_dim * hidden
    return total


def vocabulary_flops(config: EncoderConfig) -> int:
    """Returns the floating-point operations of a masked LM head per prediction."""
    width = config.embedding_dim or config.hidden_dim
    return 2 * width * (config.hidden_dim + config.vocabulary_size)


@functools.lru_cache
def matmul_peak(dtype: str = "float32") -> float:
    """Measures the peak rate of large square matrix products on the first device."""
    ones, multiply = _make_matrix_functions(dtype)
    size, best, spent = 512, 0.0, 0.0
    matrix = ones(size)
    multiply(matrix)  # the first call compiles and initializes libraries
    while spent < _SECONDS:
        begin = time.perf_counter()
        multiply(matrix)
        seconds = time.perf_counter() - begin
        spent += seconds
        best = max(best, 2 * size**3 / seconds)
        if seconds < 0.02 and size < _LARGEST:
            size *= 2
            matrix = ones(size)
            multiply(matrix)
    return best


def _make_matrix_functions(dtype):
    """Returns two functions: one creates a matrix of a given size, and one squares a matrix."""
    if keras.backend.backend() == "jax":
        import jax

        product = jax.jit(lambda matrix: matrix @ matrix)
        return (
            lambda size: jax.numpy.ones([size, size], dtype),
            lambda matrix: product(matrix).block_until_ready(),
        )
    import tensorflow as tf

    product = tf.function(
        lambda matrix: tf.reduce_sum(tf.matmul(matrix, matrix)[:1]),
        input_signature=[tf.TensorSpec([None, None], dtype)],
        autograph=False,
    )
    return lambda size: tf.ones([size, size], dtype), lambda matrix: product(matrix).numpy()


_MOST_IN_A_ROW = 10
_LEAST_RISE = 1.0  # nats; a large factor is harmless if the loss is near 0


class Spike(Exception):
    """The loss of a step was not finite or too high. The message names the steps."""


class SpikeGuard(keras.callbacks.Callback):
    """Raises `Spike` after a Keras epoch with a loss spike, before a checkpoint is saved."""

    def __init__(self, factor: float, step_of: Callable[[int], int]) -> None:
        super().__init__()
        self._factor = factor
        self._step_of = step_of
        self._in_a_row = 0
        self._last_loss = keras.Variable(0.0, trainable=False, name="last_loss")
        dtype = "int64" if keras.backend.backend() == "tensorflow" else "int32"  # JAX has no int64
        self.skipped_rows = keras.Variable(0, dtype=dtype, trainable=False, name="skipped_rows")

    @property
    def variables(self) -> list[keras.Variable]:
        return [self._last_loss, self.skipped_rows]

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] = None) -> None:
        highest, last = float(logs["highest_loss"]), float(self._last_loss.numpy())
        limit = max(self._factor * last, last + _LEAST_RISE) if last else np.inf
        if not np.isfinite(highest) or highest > limit:
            before = f", after a mean of {last:.4g}" if last else ""
            raise Spike(
                f"between steps {self._step_of(epoch)} and {self._step_of(epoch + 1)} the loss "
                f"rose to {highest:.4g}{before}"
            )
        self._in_a_row = 0
        self._last_loss.assign(float(logs["loss"]))

    def skip(self, spike: Spike, rows: int) -> int:
        """Returns the total number of rows to skip, including `rows` of an epoch with a spike."""
        self._in_a_row += 1
        if self._in_a_row == _MOST_IN_A_ROW:
            raise InputError(
                f"{spike}. There were {_MOST_IN_A_ROW} spikes in a row on different data, so "
                "the data is not the cause. Start a new run with a lower learning_rate or a "
                "longer warmup."
            )
        return int(self.skipped_rows.numpy()) + rows


class DivergedError(InputError):
    """The weights of a model are not finite."""


class StopsIfDiverged(keras.callbacks.Callback):
    """Raises `DivergedError` after a Keras epoch with undefined weights, before they are saved."""

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] = None) -> None:
        # If loss scaling skips a step with an infinite loss, the weights stay finite.
        if np.isfinite(logs["highest_loss"]) or all(map(_is_finite, self.model.trainable_weights)):
            return
        raise DivergedError(
            f"epoch {epoch + 1}: the loss and the weights are not finite. No model is saved. Start "
            f"a new run with {remedy_for(self.model)}."
        )


def remedy_for(model: keras.Model) -> str:
    """Returns the settings that prevent a loss that is not finite."""
    if any(weight.dtype == "float16" for weight in model.trainable_weights):
        return (
            "dtype=mixed_bfloat16 or dtype=mixed_float16, because weights in float16 cannot "
            "represent small updates"
        )
    return "a lower learning_rate"


def _is_finite(weight):
    return np.isfinite(np.sum(keras.ops.convert_to_numpy(weight), dtype="float64"))


# Values added by `MetricsLog` and the step watch to the metrics of the model.
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
    """Prints one line per report on stderr, with a progress bar on a terminal."""

    def __init__(
        self,
        total: int,
        step_of: Callable[[int], int],
        done: int = 0,
        unit: str = "report",
        verbose: int | str = "auto",
        metric: str | None = None,
    ) -> None:
        super().__init__()
        self._total, self._unit, self._metric = total, unit, metric
        self._is_shown = verbose != 0
        self._step_of, self._begun = step_of, done
        self._progress = Progress(unit, step_of(total), "steps", done=done)
        is_terminal = sys.stderr.isatty()
        self._has_bar = verbose in (1, "auto") and is_terminal
        self._has_lines = self._is_shown and not is_terminal

    def __enter__(self) -> "TrainingProgress":
        if self._begun and self._is_shown:
            line = f"resuming after step {self._begun:,} of {self._step_of(self._total):,}"
            if self._unit == "epoch":
                ends = map(self._step_of, range(1, self._total))
                line += f", in {self._name(sum(end <= self._begun for end in ends))}"
            print(line, file=sys.stderr)
        if self._has_bar:
            self._progress.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        if self._has_bar:
            self._progress.__exit__(*error)

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._step = max(self._step_of(epoch), self._begun)
        self._progress.label = self._name(epoch)

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        if self._has_bar or self._has_lines:
            self._progress.update(self._step + batch + 1)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if self._is_shown:
            self._progress.say(
                f"{self._name(epoch)}: {', '.join(numbers(logs or {}, self._metric))}"
            )

    def _name(self, epoch):
        return f"{self._unit} {epoch + 1} of {self._total}"


def numbers(logs: dict[str, Any], metric: str | None = None) -> list[str]:
    """Formats at most six numbers of a report.

    `metric` is the displayed name of the score `KEY`.
    """
    texts = [f"{name} {logs[name]:.4f}" for name in ("loss", "val_loss") if name in logs]
    score = _score_of(logs)
    if score is not None:
        name = metric if metric and score == KEY else score
        texts.append(f"{name} {logs[score]:.4f}")
    if "learning_rate" in logs:
        texts.append(f"learning rate {logs['learning_rate']:.2g}")
    texts += [f"{logs[name]:,.0f} {unit}" for name, unit in _RATES.items() if name in logs][:1]
    if logs.get("seconds_left"):
        texts.append(f"{clock(logs['seconds_left'])} left")
    return texts


def _score_of(logs):
    """Returns the name of the score: `KEY`, else a validation metric, else a training metric."""
    names = [name for name in logs if name not in _NO_SCORES and not name.endswith("loss")]
    held_out = [name for name in names if name.startswith("val_")]
    return KEY if KEY in logs else next(iter([*held_out, *names]), None)


_LOG = logging.getLogger(__name__)


class MetricsLog(keras.callbacks.Callback):
    """Callback that reports the metrics after every Keras epoch (one report interval of a run).

    Source: Chowdhery et al. 2022, "PaLM", appendix B, for utilization.
    """

    def __init__(
        self,
        run: RunDirectory,
        steps_per_epoch: int,
        total_steps: int,
        initial_step: int = 0,
        peak_flops: float | None = None,
        budget: TimeBudget | None = None,
    ) -> None:
        super().__init__()
        self.tokens_per_step = self.flops_per_token = self.examples_per_step = None
        self._path = run.metrics
        self.steps_per_epoch = steps_per_epoch
        self._total_steps = total_steps
        self._peak_flops = peak_flops
        self._budget = budget
        self._start = self._epoch_start = time.monotonic()
        self._initial_step = self._step = initial_step
        lines = read_metrics(self._path, initial_step)
        with replace_file(self._path) as temporary:
            text = "".join(f"{json.dumps(line)}\n" for line in lines)
            temporary.write_text(text, encoding="utf-8")
        self._events = EventFile(run.tensorboard, initial_step)

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._epoch_start = time.monotonic()
        self._waited_before = self._read_input_wait()

    def on_test_begin(self, logs: dict[str, Any] | None = None) -> None:
        # the time of held-out evaluation does not count as training time
        self._test_start = time.monotonic()

    def on_test_end(self, logs: dict[str, Any] | None = None) -> None:
        self._epoch_start += time.monotonic() - self._test_start

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        now = time.monotonic()
        steps = self.steps_per_epoch - self.model.batches_done
        self._step += steps
        logs = {} if logs is None else logs
        for name, value in logs.items():
            logs[name] = float(value)
        logs["learning_rate"] = float(
            keras.ops.convert_to_numpy(self.model.optimizer.learning_rate)
        )
        logs |= self._compute_speed(steps, now - self._epoch_start)
        logs["seconds_left"] = round(self._estimate_seconds_left(now - self._start), 1)
        line = {"step": self._step, "seconds": round(now - self._start, 3), **logs}
        with clear_errors(self._path, "Free some disk space and run the same command again."):
            with open(self._path, "a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
            self._events.write(self._step, logs)

    def _compute_speed(self, steps, seconds):
        speed = {}
        if self.tokens_per_step is not None:
            tokens = self.tokens_per_step * steps / seconds
            speed["tokens_per_second"] = round(tokens, 1)
            if self._peak_flops is not None:
                share = 3 * self.flops_per_token * tokens / self._peak_flops
                speed["model_flops_utilization"] = round(share, 4)
        if self.examples_per_step is not None:
            examples = self.examples_per_step * steps / seconds
            speed["examples_per_second"] = round(examples, 1)
        if self.model.step_watch is not None:
            waited = self._read_input_wait() - self._waited_before
            speed["input_wait"] = round(min(waited / seconds, 1.0), 4)
        return speed

    def _read_input_wait(self):
        watch = self.model.step_watch
        return watch.input_wait() if watch is not None else 0.0

    def _estimate_seconds_left(self, seconds):
        seconds_left = (
            (self._total_steps - self._step) * seconds / (self._step - self._initial_step)
        )
        if self._budget is not None:
            seconds_left = min(
                seconds_left, max(self._budget.seconds - float(self._budget.used.numpy()), 0.0)
            )
        return seconds_left


def read_metrics(path: Path, last_step: int) -> list[dict[str, Any]]:
    """Reads `metrics.jsonl` up to a step; drops damaged lines with a warning."""
    lines = []
    if path.exists():
        for number, text in enumerate(read_bytes(path).splitlines(), 1):
            try:
                line = Document(parse_json_line(text), f"{path}, line {number}")
                if line.integer("step") <= last_step:
                    lines.append(check_numbers(line))
            except (InputError, TypeError, ValueError):  # the line is not a JSON object
                _LOG.warning("%s: dropped damaged line %d", path, number)
    return lines


class EventFile:
    """Writes scalars to a new event file for TensorBoard, which need not be installed."""

    def __init__(self, directory: Path, initial_step: int = 0) -> None:
        import tensorflow as tf

        self._proto = tf.compat.v1
        directory.mkdir(exist_ok=True)
        number = len(list(directory.iterdir()))
        path = directory / f"events.out.tfevents.{int(time.time()):010d}.{number}"
        self._writer = tf.io.TFRecordWriter(str(path))
        self._add(file_version="brain.Event:2")
        start = self._proto.SessionLog(status=self._proto.SessionLog.START)
        self._add(step=initial_step + 1, session_log=start)

    def write(self, step: int, values: dict[str, float]) -> None:
        value = self._proto.Summary.Value
        points = [value(tag=name, simple_value=number) for name, number in values.items()]
        self._add(step=step, summary=self._proto.Summary(value=points))
        self._writer.flush()

    def _add(self, **event):
        event = self._proto.Event(wall_time=time.time(), **event)
        self._writer.write(event.SerializeToString())
