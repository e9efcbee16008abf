"""Runs with several workers equal those with one: training, skipped steps, and their end."""

import contextlib
import json
from pathlib import Path

import numpy as np
import pytest

from keras_bert_impl.pretraining.pretrainer import Pretrainer
from tests.pretraining.helpers import weights
from tests.training.helpers import output_of, run_workers, start_python
from tests.training.network import machines

PROGRAM = Path(__file__).with_name("work_with_a_spike.py")
OBJECTIVES = ["masked_lm", "next_sentence"]


def lines_of(run):
    return [json.loads(line) for line in (run / "metrics.jsonl").open()]


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("network", ["loopback", "namespaces"])
def test_workers_skip_a_spike_of_one_worker(records_directory, tmp_path, settings, count, network):
    settings |= {"on_spike": "skip", "total_steps": 12, "evaluate_every": 6, "dropout": 0.0}
    arguments = [PROGRAM, records_directory]
    with machines(count) if network == "namespaces" else contextlib.nullcontext() as hosts:
        many = [*arguments, tmp_path / "many", json.dumps(settings)]
        outputs = run_workers(*many, count=count, machines=hosts)
    outputs.append(output_of(start_python(*arguments, tmp_path / "one", json.dumps(settings))))
    assert all("rolling back and skipping these 16 rows" in text for text in outputs)
    single, many = lines_of(tmp_path / "one"), lines_of(tmp_path / "many")
    assert [line["step"] for line in many] == [2, 4, 6, 8, 10, 12]
    for name in "loss", "masked_lm_loss", "next_sentence_loss", "gradient_norm":
        expected = [line[name] for line in single]
        assert [line[name] for line in many] == pytest.approx(expected, rel=1e-4), name
    scores, expected = (
        json.loads((tmp_path / run / "scores.json").read_text()) for run in ("many", "one")
    )
    assert scores == pytest.approx(expected, rel=1e-4)
    models = (
        Pretrainer.from_pretrained(tmp_path / run / "model", OBJECTIVES) for run in ("many", "one")
    )
    np.testing.assert_allclose(*map(weights, models), rtol=0, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 4])
def test_budget_ends_all_workers_at_the_same_step(records_directory, tmp_path, settings, count):
    settings |= {
        "schedule": "budget",
        "on_spike": "skip",
        "budget_hours": 4 / 3600,
        "total_steps": 100_000,
    }
    run_workers(PROGRAM, records_directory, tmp_path, json.dumps(settings), count=count)
    # Workers that ended at different steps would wait for each other until `run_workers` fails.
    assert lines_of(tmp_path)[-1]["step"] < 100_000
    assert (tmp_path / "scores.json").exists()
