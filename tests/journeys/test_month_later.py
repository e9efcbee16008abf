"""A month later: labels of served predictions, a second run on two files, and its comparison."""

import csv
import json
import re

import pytest

from tests.journeys import journey


@pytest.mark.slow
def test_month_later(programs, tmp_path, model):
    metrics = pytest.importorskip("sklearn.metrics")
    _, served, drift, _, better, worse = journey.go("month_later.sh", programs, tmp_path, model)
    with open(tmp_path / "feedback.jsonl") as file:
        rows = [json.loads(line) for line in file]
    with open(tmp_path / "tickets.csv", newline="") as file:
        november = [(row["ticket"], row["team"]) for row in csv.DictReader(file)][::2]
    assert [(row["ticket"], row["team"]) for row in rows] == november
    right, answers = ([row[name] for row in rows] for name in ("team", "prediction"))
    scores = dict(re.findall(r'keras_bert_feedback_(\w+){version="1"} ([\d.]+)', served))
    accuracy = metrics.accuracy_score(right, answers)
    assert float(scores["accuracy"]) == pytest.approx(accuracy)
    macro_f1 = metrics.f1_score(right, answers, average="macro")
    assert float(scores["macro_f1"]) == pytest.approx(macro_f1)
    weeks = json.loads(drift[drift.index("{") :])["weeks"]
    assert sum(week["labels"] for week in weeks) == int(float(scores["rows"])) == len(november)
    # The second run is scored on the rows of the first, and is not trained on them.
    before, after = (
        json.loads((tmp_path / run / "data.json").read_text()) for run in ("run", "run-2")
    )
    assert after["dev"]["sha256"] == before["dev"]["sha256"]
    assert after["dev"]["examples"] == 18 and after["summary"]["in_both"] == 0
    assert after["train"]["examples"] == 144 - 18
    against = json.loads(better)["against"]
    assert against["num_examples"] == 18 and against["new"] > against["old"]
    assert worse.endswith("exit status 1")
