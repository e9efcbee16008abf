"""Reports: lines of JSON, TensorBoard events, and their values."""

import json
import time
import types

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.training.optimizers.schedules import TimeBudget
from keras_bert_impl.training.runs import reports
from keras_bert_impl.training.runs.reports import MetricsLog
from keras_bert_impl.training.runs.run_directory import RunDirectory
from tests.training.runs.test_run_directory import Settings


class Model:
    """The part of a model that reports use; it waits 2.5 seconds for data in an epoch."""

    class optimizer:
        learning_rate = np.float32(0.5)

    def __init__(self):
        self.step_watch, self.batches_done = self, 0
        self.waited = 10.0

    def input_wait(self):
        self.waited += 2.5
        return self.waited


@pytest.fixture
def clock(monkeypatch):
    """A clock set by hand."""
    times = [100.0]
    clock = types.SimpleNamespace(monotonic=lambda: times[-1], time=time.time)
    monkeypatch.setattr(reports, "time", clock)  # and no other module's
    return times


def make(path, **arguments):
    log = MetricsLog(RunDirectory(path, Settings()), 10, total_steps=50, **arguments)
    log.set_model(Model())
    log.on_epoch_begin(0)
    return log


def test_a_report(tmp_path, clock):
    log = make(tmp_path, peak_flops=1e6)
    log.tokens_per_step, log.flops_per_token = 500.0, 80.0
    logs = {"loss": np.float32(0.25)}
    clock.append(110.0)
    log.on_epoch_begin(0)
    clock.append(130.0)
    log.on_test_begin()
    clock.append(134.0)
    log.on_test_end()
    clock.append(135.0)
    log.on_epoch_end(0, logs)
    # 25 seconds, 4 of them evaluation; 10 steps of 500 tokens at 3 * 80 FLOPs.
    expected = {
        "loss": 0.25,
        "learning_rate": 0.5,
        "tokens_per_second": round(5000 / 21, 1),
        "model_flops_utilization": round(240 * 5000 / 21 / 1e6, 4),
        "input_wait": round(2.5 / 21, 4),
        "seconds_left": 35.0 * 4,
    }
    assert logs == expected  # for Keras to display
    (line,) = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert json.loads(line) == {"step": 10, "seconds": 35.0, **expected}


def test_a_report_of_the_rest_of_an_epoch(tmp_path, clock):
    log = make(tmp_path, initial_step=14)
    log.examples_per_step, log.model.batches_done = 8, 4
    clock.append(103.0)
    logs = {}
    log.on_epoch_end(1, logs)
    assert logs["examples_per_second"] == 6 * 8 / 3
    assert logs["seconds_left"] == 30 * 3 / 6
    assert json.loads((tmp_path / "metrics.jsonl").read_text())["step"] == 20


def test_time_left_is_not_more_than_the_budget(tmp_path, clock):
    budget = TimeBudget(1e-3, seconds=60)
    budget.used.assign(35)
    log = make(tmp_path, budget=budget)
    clock.append(135.0)
    logs = {}
    log.on_epoch_end(0, logs)
    assert logs["seconds_left"] == 25.0


def test_log_drops_what_comes_after_the_step_resumed_from(tmp_path):
    make(tmp_path)
    path = tmp_path / "metrics.jsonl"
    whole = [json.dumps({"step": step, "loss": 1.0}) for step in (10, 20, 30)]
    path.write_text("\n".join(whole) + '\n{"step": 40, "lo')  # killed while writing
    make(tmp_path, initial_step=20)
    assert path.read_text().splitlines() == whole[:2]


def events(path):
    for record in tf.data.TFRecordDataset(sorted(map(str, path.iterdir()))).as_numpy_iterator():
        yield tf.compat.v1.Event.FromString(record)


def test_points_for_tensorboard(tmp_path):
    make(tmp_path).on_epoch_end(0, {"loss": 0.25})
    make(tmp_path, initial_step=10).on_epoch_end(1, {"loss": 0.125})
    logged = list(events(tmp_path / "tensorboard"))
    assert [event.file_version for event in logged if event.file_version] == ["brain.Event:2"] * 2
    points = [
        (event.step, value.simple_value)
        for event in logged
        for value in event.summary.value
        if value.tag == "loss"
    ]
    assert points == [(10, 0.25), (20, 0.125)]
    # TensorBoard discards an interrupted run's later points from here on.
    start = tf.compat.v1.SessionLog.START
    assert [e.step for e in logged if e.session_log.status == start] == [1, 11]


def test_clock_jumps_do_not_overwrite_event_files(tmp_path, monkeypatch):
    for now in (2e9, 1e9, 2e9):
        monkeypatch.setattr(reports, "time", types.SimpleNamespace(time=lambda now=now: now))
        reports.EventFile(tmp_path).write(1, {"loss": 0.5})
    assert len(list(tmp_path.iterdir())) == 3
