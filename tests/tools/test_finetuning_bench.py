"""tools/bench/finetuning.py: which runs are measured together."""

import pytest


@pytest.fixture(scope="module")
def finetuning(bench):
    return bench("finetuning")


def test_both_systems_of_a_run_or_two_runs_of_one(finetuning, monkeypatch):
    monkeypatch.setattr(finetuning.os, "sched_getaffinity", lambda _: {0, 1})
    runs = [{"task": "rte", "seed": seed, "way": "full", "dtype": "bfloat16"} for seed in range(4)]
    results = [runs[1] | {"system": "ours", "seconds": 1.0}, runs[3] | {"system": "transformers"}]
    assert finetuning.groups(runs, ["ours", "transformers"], results) == [
        [("ours", runs[0]), ("transformers", runs[0])],
        [("ours", runs[2]), ("transformers", runs[2])],
        [("transformers", runs[1]), ("ours", runs[3])],
    ]
    assert finetuning.groups(runs, ["ours"], results) == [
        [("ours", runs[0]), ("ours", runs[2])],
        [("ours", runs[3])],
    ]
    monkeypatch.setattr(finetuning.os, "sched_getaffinity", lambda _: {1})
    assert finetuning.groups(runs[:1], ["ours", "transformers"], results) == [
        [("ours", runs[0])],
        [("transformers", runs[0])],
    ]


def test_the_table_has_the_seeds_that_both_systems_have(finetuning):
    def result(system, seed, accuracy):
        return {
            "system": system,
            "task": "rte",
            "seed": seed,
            "way": "full",
            "cpu_seconds": 60.0,
            "scores": {"accuracy": accuracy},
        }

    results = [
        result("ours", 1, 0.5),
        result("ours", 2, 0.7),
        result("ours", 3, 0.9),
        result("transformers", 1, 0.6),
        result("transformers", 2, 0.5),
    ]
    last = finetuning.table_of_scores(results).splitlines()[-1]
    assert last == (
        "| rte | accuracy | 60.00 ± 14.14 (50.00, 70.00) | 55.00 ± 7.07 (60.00, 50.00) | +5.00 | "
        "1.0 / 1.0 |"
    )
