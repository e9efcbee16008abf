"""Runs on JAX equal those on TensorFlow, on any number of devices and with every feature."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from keras_bert_impl.pretraining.pretrainer import Pretrainer
from keras_bert_impl.pretraining.run import pretrain
from tests.pretraining.helpers import CONFIG, weights
from tests.training.helpers import output_of, run_workers, start_python

PROGRAM = Path(__file__).with_name("pretrain_on_backend.py")
OBJECTIVES = ["masked_lm", "next_sentence"]


@pytest.fixture
def on_jax(records_directory, tmp_path, monkeypatch):
    """Returns a function that executes runs (name -> settings) on JAX with several devices."""
    monkeypatch.setenv("KERAS_BACKEND", "jax")

    def run(num_devices=2, **runs):
        flag = f"--xla_force_host_platform_device_count={num_devices}"
        # 8 devices on a busy machine may wait longer for each other than the default of 40 seconds.
        flag += " --xla_cpu_collective_call_terminate_timeout_seconds=600"
        monkeypatch.setenv("XLA_FLAGS", flag)
        process = start_python(PROGRAM, records_directory, tmp_path, json.dumps(runs))
        output_of(process, timeout=900)  # devices wait for each other on a busy CPU

    return run


def lines_of(run):
    return [json.loads(line) for line in (run / "metrics.jsonl").open()]


def saved(run):
    return weights(Pretrainer.from_pretrained(run / "model", OBJECTIVES))


def assert_same_lines(first, second, names):
    for name in names:
        expected = [line[name] for line in lines_of(first)]
        assert [line[name] for line in lines_of(second)] == pytest.approx(expected, rel=1e-4), name


def assert_same_run(first, second):
    assert_same_lines(first, second, ("loss", "masked_lm_loss", "gradient_norm", "highest_loss"))
    np.testing.assert_allclose(saved(second), saved(first), rtol=0, atol=1e-4)


def test_run_on_jax_devices_equals_tensorflow(records_directory, tmp_path, settings, on_jax):
    # Starts from saved weights because JAX draws other ones.
    pretrain(records_directory, tmp_path / "first", **settings | {"total_steps": 2})
    settings |= {"model": str(tmp_path / "first" / "model"), "dropout": 0.0, "evaluate_every": 2}
    pretrain(records_directory, tmp_path / "tensorflow", **settings)
    on_jax(8, jax=settings)
    assert_same_run(tmp_path / "tensorflow", tmp_path / "jax")
    scores, expected = (
        json.loads((tmp_path / run / "scores.json").read_text()) for run in ("jax", "tensorflow")
    )
    assert scores == pytest.approx(expected, rel=1e-4)


@pytest.mark.slow
def test_devices_and_rematerialization_change_nothing(tmp_path, settings, on_jax):
    settings |= {"dropout": 0.2}
    variants = {"devices": {}, "again": {"remat": True}, "model": {"model_devices": 4}}
    runs = {name: settings | changes for name, changes in variants.items()}
    on_jax(8, one=settings | {"strategy": "one_device"}, **runs)
    for variant in variants:
        assert_same_run(tmp_path / "one", tmp_path / variant)


@pytest.mark.slow
def test_devices_change_nothing_with_all_options(tmp_path, settings, on_jax):
    settings |= {
        "dropout": 0.2,
        "ema": 0.9,
        "global_clipnorm": 0.5,
        "steps_per_execution": 2,
        "accumulation_steps": 2,
        "batch_size": 16,
        "evaluate_every": 2,
    }
    lamb = settings | {"optimizer": "lamb"}
    on_jax(
        8,
        one=settings | {"strategy": "one_device"},
        devices=settings,
        model={**settings, "model_devices": 2, "stop_at": 3},
        one_lamb=lamb | {"strategy": "one_device"},
        devices_lamb=lamb,
    )
    for first, second in ("one", "devices"), ("one", "model"), ("one_lamb", "devices_lamb"):
        assert_same_run(tmp_path / first, tmp_path / second)


@pytest.mark.slow
def test_two_workers_equal_one(records_directory, tmp_path, settings, on_jax):
    settings |= {"dropout": 0.2, "ema": 0.9, "evaluate_every": 2, "accumulation_steps": 2}
    on_jax(1, one=settings)
    runs = json.dumps({"two": settings | {"stop_at": 3}})
    run_workers(PROGRAM, records_directory, tmp_path, runs, timeout=900)
    assert_same_run(tmp_path / "one", tmp_path / "two")


@pytest.mark.slow
def test_accumulation_equals_the_whole_batch(tmp_path, settings, on_jax):
    settings |= {"dropout": 0.0}
    on_jax(whole=settings, parts=settings | {"accumulation_steps": 2})
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


@pytest.mark.slow
def test_interrupted_run_with_all_options_reaches_the_same_weights(tmp_path, settings, on_jax):
    settings |= {
        "dropout": 0.2,
        "ema": 0.9,
        "evaluate_every": 2,
        "dtype": "mixed_bfloat16",
        "steps_per_execution": 2,
        "accumulation_steps": 2,
        "first_batch_size": 8,
        "ramp_steps": 4,
        "batch_size": 16,
    }
    on_jax(undisturbed=settings, interrupted=settings | {"stop_at": 2})
    np.testing.assert_array_equal(saved(tmp_path / "undisturbed"), saved(tmp_path / "interrupted"))
    assert [line["step"] for line in lines_of(tmp_path / "interrupted")] == [2, 4, 6]


@pytest.mark.slow
def test_a_budget_ends_a_run(tmp_path, settings, on_jax):
    budget = {"schedule": "budget", "budget_hours": 40 / 3600, "total_steps": 100_000}
    on_jax(run=settings | budget)
    lines = lines_of(tmp_path / "run")
    rates = [line["learning_rate"] for line in lines]
    assert lines[-1]["seconds_left"] == 0 and lines[-1]["step"] < 100_000
    assert rates[-1] == 0 < max(rates) and len(set(rates)) > 2
    # The steps used these rates: the loss changed.
    assert lines[0]["loss"] != lines[-1]["loss"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "objectives", [["replaced_token"], ["left_to_right"], ["masked_lm", "span_boundary"]]
)
def test_other_objectives(records_directory, tmp_path, settings, on_jax, objectives):
    settings["objectives"] = objectives
    if "replaced_token" in objectives:
        shape = tmp_path / "electra.json"
        shape.write_text(json.dumps(CONFIG | {"model_type": "electra", "embedding_size": 16}))
        settings["model"] = str(shape)
    if "span_boundary" in objectives:
        settings["mask_unit"] = "span"
    pretrain(records_directory, tmp_path / "first", **settings | {"total_steps": 2})
    settings |= {"model": str(tmp_path / "first" / "model"), "dropout": 0.0}
    pretrain(records_directory, tmp_path / "tensorflow", **settings)
    on_jax(jax=settings)
    names = [name for name in lines_of(tmp_path / "jax")[0] if name.endswith(("loss", "norm"))]
    assert len(names) > 3
    assert_same_lines(tmp_path / "tensorflow", tmp_path / "jax", names)


@pytest.mark.slow
def test_rejects_invalid_arguments(records_directory, tmp_path, settings, monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    command = [
        sys.executable,
        "-m",
        "keras_bert_impl.cli.main",
        "pretrain",
        str(records_directory),
        "--out",
        str(tmp_path / "run"),
        f"--model={settings['model']}",
        "--total-steps=2",
        "--report-every=2",
        "--batch-size=8",
    ]

    def error_of(*options):
        ended = subprocess.run([*command, *options], capture_output=True, text=True)
        assert ended.returncode == 2, ended.stderr
        return ended.stderr

    assert "strategy 'tpu': JAX finds no TPU" in error_of("--strategy", "tpu")
    assert "batch_size must be a multiple of 16 (number of replicas times" in error_of(
        "--cpu-devices", "16"
    )
    assert "such as 16" in error_of("--cpu-devices", "16")
    assert "float16 needs the TensorFlow backend" in error_of("--dtype", "mixed_float16")
    assert not (tmp_path / "run").exists()
