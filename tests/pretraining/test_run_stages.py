"""Runs with stages, spikes, averages and budgets: their data, and how they resume."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.pretraining import run, stages
from keras_bert_impl.pretraining.corpus.preparation import prepare
from keras_bert_impl.pretraining.pretrainer import Pretrainer
from keras_bert_impl.pretraining.run import pretrain
from keras_bert_impl.pretraining.settings import PretrainSettings
from keras_bert_impl.pretraining.stages import Stage, StageData, plan
from keras_bert_impl.training.optimizers.schedules import SpendsBudget
from keras_bert_impl.utils.errors import InputError
from tests.pretraining.helpers import Stop, weights

BATCH = 8


def lines_of(run):
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


# === The plan ===


def planned(**changes):
    settings = PretrainSettings(total_steps=100, report_every=5, batch_size=BATCH, **changes)
    return plan("short", settings)


def test_one_stage():
    (stage,) = planned()
    assert stage == Stage("short", BATCH, 0, 20, steps=5, first_step=0, first_row=0)
    assert stage.row(3) == 3 * 5 * BATCH and stage.step(3) == 15


def test_batches_double_and_rows_follow_on():
    schedule = planned(first_batch_size=2, ramp_steps=40)
    assert [(s.batch_size, s.first, s.end) for s in schedule] == [(2, 0, 4), (4, 4, 8), (8, 8, 20)]
    assert [stage.first_row for stage in schedule] == [0, 20 * 2, 20 * 2 + 20 * 4]
    assert schedule[2].row(9) == schedule[2].first_row + 5 * 8


def test_long_rows_come_last_from_the_first_row():
    schedule = planned(long_records="long", long_part=0.1)
    assert [(s.records, s.first, s.end) for s in schedule] == [("short", 0, 18), ("long", 18, 20)]
    assert [stage.row(stage.first) for stage in schedule] == [0, 0]
    both = planned(long_records="long", long_part=0.5, first_batch_size=4, ramp_steps=75)
    assert [(s.records, s.batch_size, s.first_row) for s in both] == [
        ("short", 4, 0),
        ("long", 4, 0),
        ("long", 8, 25 * 4),
    ]


def steps_by_stage(**changes):
    """Returns (records, batch size, steps) of each part of a run with one batch shape."""
    parts = {}
    for stage in plan("short", PretrainSettings(**{"batch_size": BATCH, **changes})):
        key = stage.records, stage.batch_size
        parts[key] = parts.get(key, 0) + (stage.end - stage.first) * stage.steps
    return parts


def test_rounding_drops_no_stage():
    # A tenth of 400 steps is 40, less than half of a report interval.
    steps = steps_by_stage(total_steps=400, report_every=100, long_records="long", long_part=0.1)
    assert steps == {("short", BATCH): 360, ("long", BATCH): 40}
    few = steps_by_stage(total_steps=10, report_every=5, long_records="long", long_part=0.01)
    assert few == {("short", BATCH): 9, ("long", BATCH): 1}
    # Four doublings within one report interval: each size gets its steps.
    ramp = steps_by_stage(
        total_steps=300, report_every=100, batch_size=16, first_batch_size=1, ramp_steps=40
    )
    assert ramp == {("short", size): 10 for size in (1, 2, 4, 8)} | {("short", 16): 260}
    executions = steps_by_stage(
        total_steps=40, report_every=20, long_records="long", long_part=0.3, steps_per_execution=5
    )
    assert executions == {("short", BATCH): 30, ("long", BATCH): 10}


def test_the_last_interval_may_be_shorter():
    settings = PretrainSettings(total_steps=250, report_every=100, batch_size=BATCH)
    schedule = plan("short", settings)
    assert [(s.first, s.end, s.steps, s.first_step) for s in schedule] == [
        (0, 2, 100, 0),
        (2, 3, 50, 200),
    ]
    assert [stages.step_of(schedule, finished) for finished in range(4)] == [0, 100, 200, 250]
    assert schedule[1].first_row == 200 * BATCH and schedule[0].same_batches(schedule[1])


@pytest.mark.parametrize("seed", range(20))
def test_a_plan_has_every_step_and_row_once(seed):
    draw = np.random.default_rng(seed)
    total, every = int(draw.integers(20, 500)), int(draw.integers(1, 200))
    doublings = int(draw.integers(0, 4))
    longer = {"long_records": "long", "long_part": float(draw.uniform(0.01, 0.5))}
    settings = PretrainSettings(
        total_steps=total,
        report_every=every,
        batch_size=16,
        first_batch_size=16 >> doublings,
        ramp_steps=int(draw.integers(doublings, total)) if doublings else 0,
        **longer if draw.random() < 0.5 else {},
    )
    schedule = plan("short", settings)
    step, rows, ends = 0, {"short": 0, "long": 0}, set()
    for number, stage in enumerate(schedule):
        assert stage.first == (schedule[number - 1].end if number else 0)
        for finished in range(stage.first, stage.end):
            assert stage.step(finished) == stages.step_of(schedule, finished) == step
            assert stage.row(finished) == rows[stage.records]
            assert 0 < stage.steps <= every
            step += stage.steps
            rows[stage.records] += stage.rows
            ends.add(step)
    assert step == total and set(range(every, total, every)) <= ends
    assert {stage.batch_size for stage in schedule} == {16 >> n for n in range(doublings + 1)}
    assert ("long" in {stage.records for stage in schedule}) == (settings.long_records is not None)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"first_batch_size": 3, "ramp_steps": 5}, "first_batch_size times a power of two"),
        ({"first_batch_size": 2}, "ramp_steps must be"),
        (
            {"first_batch_size": 1, "ramp_steps": 2},
            "ramp_steps must be 0 .* at least 3 .one step per batch",
        ),
        ({"first_batch_size": 2, "ramp_steps": 100}, "less than total_steps"),
        (
            {"first_batch_size": 2, "ramp_steps": 98, "steps_per_execution": 5},
            "multiple of steps_per_execution=5, less than total_steps",
        ),
        ({"steps_per_execution": 3}, "total_steps must be a multiple of steps_per_execution"),
        ({"long_part": 1.0}, r"long_part must be a number in \(0, 1\), got 1.0"),
        ({"optimizer": "sgd"}, "optimizer must be one of adamw, lamb"),
        ({"schedule": "budget"}, "schedule=budget requires budget_hours"),
        ({"budget_hours": 1.0}, "no other schedule accepts it"),
        ({"schedule": "budget", "budget_hours": 1.0, "warmup_steps": 5}, "accepts no warmup_steps"),
        ({"ema": 1.0}, r"ema must be a number in \(0, 1\) or None, got 1.0"),
        ({"learning_rate": -1}, r"learning_rate must be a positive number, got -1\."),
        ({"learning_rate": float("nan")}, "learning_rate must be a positive number, got nan"),
        ({"weight_decay": float("inf")}, "weight_decay must be a number, at least 0, got inf"),
        ({"dropout": 7}, r"dropout must be a number in \[0, 1\) or None, got 7"),
        ({"mask_unit": "wrd"}, "mask_unit must be one of token, .*got 'wrd'. Did you mean 'word'?"),
        ({"mask_rate": 0}, r"mask_rate must be a number in \(0, 1\), got 0"),
        ({"mask_split": (1.2, -0.1, -0.1)}, "mask_split must be a list"),
        ({"accumulation_steps": True}, "accumulation_steps must be a positive integer, got True"),
        ({"steps_per_execution": 0}, "steps_per_execution must be a positive integer, got 0"),
        ({"warmup_steps": -5}, "warmup_steps must be an integer, at least 0 or None, got -5"),
        ({"seed": -1}, "seed must be an integer in"),
        ({"dtype": "float31"}, "dtype must be one of float32, .*Did you mean 'float32'?"),
        ({"objectives": ["mlm"]}, "objectives must be a list of values, each one of masked_lm"),
        ({"spike_factor": 1.0}, "spike_factor must be a number, above 1, got 1.0"),
    ],
)
def test_rejects_invalid_stage_settings(changes, message):
    with pytest.raises(InputError, match=message):
        planned(**changes)


def test_rejects_invalid_budget_and_interval_settings():
    with pytest.raises(InputError, match="leaves no step for the shorter records"):
        PretrainSettings(total_steps=1, long_records="long")


# === Runs ===


@pytest.fixture(scope="module")
def other_records(tmp_path_factory, corpus, tokenizer):
    directory = tmp_path_factory.mktemp("other") / "records"
    prepare(corpus, directory, tokenizer, length=16, held_out=0.1, num_workers=1, seed=4)
    return directory


@pytest.mark.slow
def test_interrupted_run_with_all_options_reaches_the_same_weights(
    records_directory, other_records, tmp_path, settings
):
    settings |= {
        "optimizer": "lamb",
        "schedule": "one_cycle",
        "first_batch_size": 4,
        "ramp_steps": 2,
        "long_records": str(other_records),
        "long_part": 0.34,
        "ema": 0.5,
        "remat": True,
        "evaluate_every": 2,
    }
    whole = pretrain(records_directory, tmp_path / "one", **settings)
    with pytest.raises(KeyboardInterrupt):  # in the second of three stages
        pretrain(records_directory, tmp_path / "two", callbacks=[Stop(4)], **settings)
    resumed = pretrain(records_directory, tmp_path / "two", **settings)
    np.testing.assert_array_equal(weights(whole), weights(resumed))
    lines = lines_of(tmp_path / "two")
    assert [line["step"] for line in lines] == [2, 4, 6]
    expected = lines_of(tmp_path / "one")
    for name in ("masked_lm_loss", "gradient_norm", "learning_rate", "val_loss"):
        assert [line[name] for line in lines] == [line[name] for line in expected], name
    # The averages are saved and scored; the last checkpoint holds them beside the weights.
    scores = json.loads((tmp_path / "one" / "scores.json").read_text())
    assert scores["loss"] == pytest.approx(lines[-1]["val_loss"], rel=1e-6)
    again = pretrain(records_directory, tmp_path / "one", **settings)  # already finished
    np.testing.assert_array_equal(weights(whole), weights(again))
    saved = Pretrainer.from_pretrained(tmp_path / "one" / "model", ["masked_lm", "next_sentence"])
    np.testing.assert_array_equal(weights(whole), weights(saved))


@pytest.mark.slow
def test_a_run_ends_with_its_budget(records_directory, tmp_path, settings):
    settings |= {"schedule": "budget", "budget_hours": 1e-9, "dtype": "mixed_bfloat16"}
    first = pretrain(records_directory, tmp_path, **settings)
    (line,) = lines_of(tmp_path)
    assert line["seconds_left"] == 0 and line["learning_rate"] == 0
    again = pretrain(records_directory, tmp_path, **settings)
    assert len(lines_of(tmp_path)) == 1
    np.testing.assert_array_equal(weights(first), weights(again))


def batches(index, change):
    """Wraps `pretraining_dataset` to change the batch at an index."""
    original = stages.pretraining_dataset

    def changed(records, batch_size, start_row=0, **arguments):
        dataset = original(records, batch_size=batch_size, start_row=start_row, **arguments)
        if "split" in arguments:
            return dataset
        start = start_row // batch_size
        return change(dataset, index - start) if start <= index else dataset

    return changed


def poison(dataset, index):
    """Makes the weights of one batch NaN."""

    def spoil(number, batch):
        features, labels, weights = batch
        factor = tf.where(number == index, np.nan, 1.0)
        return features, labels, {name: value * factor for name, value in weights.items()}

    return dataset.enumerate().map(spoil)


def poisoned_in(directory, index):
    """Wraps `pretraining_dataset` to poison a batch in the records of one directory only."""
    original, bad = stages.pretraining_dataset, batches(index, poison)

    def chosen(records, **arguments):
        return (bad if Path(records) == directory else original)(records, **arguments)

    return chosen


@pytest.mark.slow
def test_spike_stops_a_run_that_resumes_without_these_rows(
    records_directory, tmp_path, settings, monkeypatch
):
    with monkeypatch.context() as patched:
        # All batches but the third and fourth, the interval of the bad one.
        without = batches(2, lambda data, at: data.take(at).concatenate(data.skip(at + 2)))
        patched.setattr(stages, "pretraining_dataset", without)
        expected = pretrain(records_directory, tmp_path / "without", **settings)
    monkeypatch.setattr(stages, "pretraining_dataset", batches(3, poison))
    run = tmp_path / "run"
    with pytest.raises(InputError, match="between steps 2 and 4 the loss rose to inf, after a"):
        pretrain(records_directory, run, **settings)
    assert [line["step"] for line in lines_of(run)] == [2]
    settings |= {"on_spike": "skip"}
    with pytest.raises(KeyboardInterrupt):  # after the spike, in the interval that replaces it
        pretrain(records_directory, run, callbacks=[Stop(4)], **settings)
    assert [line["step"] for line in lines_of(run)] == [2]
    model = pretrain(records_directory, run, **settings)
    np.testing.assert_array_equal(weights(model), weights(expected))
    assert [line["step"] for line in lines_of(run)] == [2, 4, 6]


@pytest.mark.slow
def test_spike_skips_no_rows_of_other_records_and_counts_its_time(
    records_directory, other_records, tmp_path, settings, monkeypatch
):
    read, budgets, clock = [], [], itertools.count(0, 10)
    train = StageData.train

    def recorded(self, stage, row):
        read.append((Path(stage.records), row))
        return train(self, stage, row)

    def spends(budget):  # ten seconds between calls
        budgets.append(budget)
        return SpendsBudget(budget, clock=lambda: next(clock))

    monkeypatch.setattr(StageData, "train", recorded)
    monkeypatch.setattr(run, "SpendsBudget", spends)
    settings |= {"long_records": str(other_records), "long_part": 0.34, "on_spike": "skip"}
    # The last two of six steps use the other records; the first two spike.
    monkeypatch.setattr(stages, "pretraining_dataset", poisoned_in(records_directory, 1))
    pretrain(records_directory, tmp_path, schedule="budget", budget_hours=1.0, **settings)
    rows = 2 * BATCH
    assert read == [(records_directory, 0), (records_directory, rows), (other_records, 0)]
    assert float(budgets[0].used.numpy()) == 40  # three intervals, and the one that spiked


@pytest.mark.slow
def test_spike_in_the_first_interval_is_skipped(records_directory, tmp_path, settings, monkeypatch):
    with monkeypatch.context() as patched:
        without = batches(0, lambda data, at: data.skip(2))
        patched.setattr(stages, "pretraining_dataset", without)
        expected = pretrain(records_directory, tmp_path / "without", **settings)
    monkeypatch.setattr(stages, "pretraining_dataset", batches(1, poison))
    model = pretrain(records_directory, tmp_path / "run", on_spike="skip", **settings)
    np.testing.assert_array_equal(weights(model), weights(expected))


@pytest.mark.slow
def test_run_ends_after_spikes_on_all_rows(records_directory, tmp_path, settings):
    settings |= {"on_spike": "skip", "learning_rate": 1e30, "warmup_steps": 0}
    with pytest.raises(InputError, match="There were 10 spikes in a row"):
        pretrain(records_directory, tmp_path, **settings)
