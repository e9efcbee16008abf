"""Reports of a run: on screen, in `metrics.jsonl` and for TensorBoard."""

import json
import logging
import time
from pathlib import Path
from typing import Any

import keras

from keras_bert_impl.io.document import Document
from keras_bert_impl.io.errors import InputError
from keras_bert_impl.io.files import clear_errors, replace_file
from keras_bert_impl.io.reading import parse_json_line, read_bytes
from keras_bert_impl.training.optimizers.budget import TimeBudget
from keras_bert_impl.training.runs.run_directory import RunDirectory

_LOG = logging.getLogger(__name__)


class MetricsLog(keras.callbacks.Callback):
    """Reports the metrics of every Keras epoch, which in a run is an interval between reports.

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
        kept = read_metrics(self._path, initial_step)
        with replace_file(self._path) as temporary:
            text = "".join(f"{json.dumps(line)}\n" for line in kept)
            temporary.write_text(text, encoding="utf-8")
        self._events = EventFile(run.tensorboard, initial_step)

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._epoch_start = time.monotonic()
        self._waited_before = self._input_wait()

    def on_test_begin(self, logs: dict[str, Any] | None = None) -> None:
        # Held-out evaluation is not training time.
        self._test_start = time.monotonic()

    def on_test_end(self, logs: dict[str, Any] | None = None) -> None:
        self._epoch_start += time.monotonic() - self._test_start

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        now = time.monotonic()
        self._step += self.steps_per_epoch
        logs = {} if logs is None else logs
        for name, value in logs.items():
            logs[name] = float(value)
        logs["learning_rate"] = float(
            keras.ops.convert_to_numpy(self.model.optimizer.learning_rate)
        )
        logs |= self._speed(now - self._epoch_start)
        logs["seconds_left"] = round(self._seconds_left(now - self._start), 1)
        line = {"step": self._step, "seconds": round(now - self._start, 3), **logs}
        with clear_errors(self._path, "Free some disk space and run the same command again."):
            with open(self._path, "a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
            self._events.write(self._step, logs)

    def _speed(self, seconds):
        speed = {}
        if self.tokens_per_step is not None:
            tokens = self.tokens_per_step * self.steps_per_epoch / seconds
            speed["tokens_per_second"] = round(tokens, 1)
            if self._peak_flops is not None:
                share = 3 * self.flops_per_token * tokens / self._peak_flops
                speed["model_flops_utilization"] = round(share, 4)
        if self.examples_per_step is not None:
            examples = self.examples_per_step * self.steps_per_epoch / seconds
            speed["examples_per_second"] = round(examples, 1)
        if self.model.step_watch is not None:
            waited = self._input_wait() - self._waited_before
            speed["input_wait"] = round(min(waited / seconds, 1.0), 4)
        return speed

    def _input_wait(self):
        watch = self.model.step_watch
        return watch.input_wait() if watch is not None else 0.0

    def _seconds_left(self, seconds):
        left = (self._total_steps - self._step) * seconds / (self._step - self._initial_step)
        if self._budget is not None:
            left = min(left, max(self._budget.seconds - float(self._budget.used.numpy()), 0.0))
        return left


def read_metrics(path: Path, last_step: int) -> list[dict[str, Any]]:
    """Reads `metrics.jsonl`, if it exists, up to a step; drops damaged lines with a warning."""
    kept = []
    if path.exists():
        for number, text in enumerate(read_bytes(path).splitlines(), 1):
            try:
                line = Document(parse_json_line(text), f"{path}, line {number}")
                if line.integer("step") <= last_step:
                    kept.append(dict(line))
            except (InputError, TypeError, ValueError):  # the line is not a JSON object
                _LOG.warning("%s: dropped damaged line %d", path, number)
    return kept


class EventFile:
    """A new TensorBoard event file of scalars. Writing it does not need TensorBoard."""

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
        """Writes values (dict of str to float) at a step."""
        value = self._proto.Summary.Value
        points = [value(tag=name, simple_value=number) for name, number in values.items()]
        self._add(step=step, summary=self._proto.Summary(value=points))
        self._writer.flush()

    def _add(self, **event):
        event = self._proto.Event(wall_time=time.time(), **event)
        self._writer.write(event.SerializeToString())
