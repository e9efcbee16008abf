"""Strangers reach their results: from the checkout and from the wheel."""

import ast
import csv
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.journeys import journey

FOLDER = Path(__file__).parent
SCRIPTS = [*sorted(FOLDER.glob("*.sh")), FOLDER / "researcher.py", FOLDER / "selection.py"]


@pytest.mark.slow
def test_engineer(programs, tmp_path, model):
    _, team, _, answer = journey.go("engineer.sh", programs, tmp_path, model)
    assert team.startswith("billing\t")
    assert json.loads(answer)["predictions"][0]["label"] == "bug"


@pytest.mark.slow
def test_team(programs, tmp_path, model):
    vocabulary, records, scores, words, _ = journey.go("team.sh", programs, tmp_path, model)
    assert json.loads(scores)["masked_lm_loss"] < 7.6  # log(2000), of a uniform prediction
    # 60 steps of pre-training teach too little to be better than chance at three classes.
    assert {"accuracy", "macro_f1"} <= json.loads(
        (tmp_path / "ours" / "scores.json").read_text()
    ).keys()


@pytest.mark.slow
def test_researcher(programs, tmp_path, model):
    inside, trained, sweep = journey.go("researcher.py", programs, tmp_path, model)
    assert re.match(r"7 \(1, 12, \d+, \d+\)", inside)
    assert trained.endswith("(1, 2)")
    assert "accuracy" in sweep


@pytest.mark.slow
def test_tagger(programs, tmp_path, model):
    checked, scores, words, same, drift, later = journey.go("tagger.sh", programs, tmp_path, model)
    assert "entities: PART 48, FAULT 48" in checked and "label scheme: IOB2, valid" in checked
    scores, later = json.loads(scores), json.loads(later)
    assert scores["f1"] > 0.8 and later["f1"] > 0.8
    assert words.splitlines()[0].split("\t") == [
        *("index", "label", "score", "true_label", "line", "word")
    ]
    assert {comparison["verdict"] for comparison in json.loads(same).values()} == {"same"}
    shifted, status = drift.rsplit("\n", 1)
    verdicts = {name: comparison["verdict"] for name, comparison in json.loads(shifted).items()}
    assert verdicts["tokens"] == verdicts["label"] == "shifted far" and status == "exit status 2"
    dev = [
        json.loads((tmp_path / run / "data.json").read_text())["dev"] for run in ("run", "later")
    ]
    assert dev[0]["examples"] == dev[1]["examples"] == 10


@pytest.mark.slow
def test_selection(programs, tmp_path, model):
    command = [programs / "python", "-c", "import optuna, pandas"]
    if subprocess.run(command, capture_output=True).returncode:
        pytest.skip("Optuna or pandas is not installed")
    folds, best, study = journey.go("selection.py", programs, tmp_path, model)
    spread = ast.literal_eval(folds)
    with (tmp_path / "folds" / "predictions.tsv").open() as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    right = [row["label"] == row["true_label"] for row in rows]
    assert len(right) == 144  # each ticket once
    assert 0.5 < spread["min"] <= sum(right) / 144 <= spread["max"]
    assert best == "{'bert__learning_rate': 0.001}"
    assert study.startswith("3 ")


def test_each_part_has_a_result_and_lines():
    for script in SCRIPTS:
        parts = journey.parts(script)
        assert len(parts) >= 3
        assert all(journey.lines(source) for source, _ in parts)


def test_counts_what_is_typed():
    assert journey.lines("# a comment\nkeras-bert a \\\n  --b\n\nls\n") == 2


def test_a_failed_part_is_named(tmp_path):
    script = tmp_path / "script.sh"
    script.write_text("true\n# => nothing\necho broken >&2; false\n# => something\n")
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(AssertionError, match="something: broken"):
        journey.run(script, folder, Path(sys.executable).parent, "none")
