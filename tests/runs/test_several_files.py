"""`keras-bert finetune --train october.csv november.csv`, and the commands that use its run."""

import csv
import json

import pytest

from keras_bert_impl.cli.main import main
from tests.tasks.helpers import examples, save_base


def rows(seed, count=20):
    return list(zip(*examples(count, seed)))


def write_csv(path, table, header="review,mood", delimiter=","):
    lines = [header, *(",".join(row) for row in table)]
    path.write_text("\n".join(lines).replace(",", delimiter) + "\n")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two tables of different formats, and a run that held out rows of both."""
    folder = tmp_path_factory.mktemp("several")
    save_base(folder / "base")
    write_csv(folder / "october.csv", rows(0), delimiter=";")
    lines = [json.dumps({"mood": label, "review": text}) for text, label in rows(1)]
    (folder / "november.jsonl").write_text("\n".join(lines) + "\n")
    columns = "--text=review", "--label=mood"
    assert finetune(folder, "run", "--dev-split=0.25", "--delimiter=;", *columns) == 0
    return folder


def finetune(folder, out, *options, model="base", files=("october.csv", "november.jsonl")):
    train = [str(folder / name) for name in files]
    command = ["finetune", f"--model={folder / model}", "--train", *train, "--epochs=1"]
    return main([*command, f"--out={folder / out}", *options])


def test_predictions_name_the_file(folder):
    with open(folder / "run" / "predictions.tsv") as file:
        predictions = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    lines = {folder / "october.csv": 2, folder / "november.jsonl": 1}  # of the first row
    assert {row["file"] for row in predictions} == set(map(str, lines))
    data = {folder / "october.csv": rows(0), folder / "november.jsonl": rows(1)}
    for row in predictions:
        for path, first in lines.items():
            if row["file"] == str(path):
                text, label = data[path][int(row["line"]) - first]
                assert (row["text"], row["true_label"]) == (text, label)


def test_the_run_is_scored_on_its_held_out_rows_again(folder, capsys):
    assert main(["evaluate", f"--model={folder / 'run'}", "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    scores = json.loads((folder / "run" / "scores.json").read_text())
    assert again["accuracy"] == pytest.approx(scores["accuracy"])
    assert (
        main(["evaluate", f"--model={folder / 'run'}", "--dev", str(folder / "run"), "--json"]) == 0
    )
    assert json.loads(capsys.readouterr().out)["accuracy"] == again["accuracy"]
    data = json.loads((folder / "run" / "data.json").read_text())
    assert data["read_with"]["train"] == [
        str(folder / name) for name in ("october.csv", "november.jsonl")
    ]


def test_a_later_run_takes_columns_and_held_out_rows_of_the_run(folder, capsys):
    write_csv(folder / "december.csv", rows(2), delimiter=";")
    files = "october.csv", "december.csv"
    dev = f"--dev={folder / 'run'}"
    assert finetune(folder, "run-2", dev, model="run", files=files) == 0
    data = json.loads((folder / "run-2" / "data.json").read_text())
    before = json.loads((folder / "run" / "data.json").read_text())
    assert data["dev"]["sha256"] == before["dev"]["sha256"]
    assert data["dev"]["examples"] == 10 and data["summary"]["in_both"] == 0
    # Without the texts that the first run held out, of october.csv and equal ones.
    with open(folder / "run" / "predictions.tsv") as file:
        held = {row["text"] for row in csv.DictReader(file, delimiter="\t")}
    remaining = [text for text, _ in rows(0) + rows(2) if text not in held]
    assert data["train"]["examples"] == len(remaining) < 40
    assert f"left out {40 - len(remaining)} training examples" in capsys.readouterr().err
    assert data["read_with"]["text"] == "review" and data["read_with"]["delimiter"] == ";"
    against = f"--against={folder / 'run'}"
    assert main(["evaluate", f"--model={folder / 'run-2'}", dev, against, "--max-drop=1"]) == 0
    # Given columns replace all of the run's.
    assert finetune(folder, "other", dev, "--text=mood", model="run", files=files) == 2
    assert "--label is missing" in capsys.readouterr().err


def test_a_column_that_one_file_lacks(folder, capsys):
    write_csv(folder / "wrong.csv", rows(3), header="text,mood")
    columns = "--text=review", "--label=mood", "--dev-split=0.25"
    assert finetune(folder, "none", *columns, files=("november.jsonl", "wrong.csv")) == 2
    error = capsys.readouterr().err
    assert "wrong.csv: no column named 'review'. Found: 'text', 'mood'" in error
    assert not (folder / "none").exists()


def test_check_counts_across_files(folder, capsys):
    write_csv(folder / "copy.csv", rows(0)[:3])
    files = [str(folder / name) for name in ("october.csv", "copy.csv", "november.jsonl")]
    assert main(["check", *files, "--text=review", "--label=mood", "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["file"] == ", ".join(files) and summary["usable"] == 43
    texts = [text for seed, most in ((0, 20), (0, 3), (1, 20)) for text, _ in rows(seed)[:most]]
    assert summary["repeated"] == len(texts) - len(set(texts)) >= 3
    assert summary["delimiter"] == ";,"
    assert main(["check", *files, "--text=review", "--label=mood"]) == 0
    assert "delimiter ';' and ',', columns" in capsys.readouterr().out


def test_drift_reads_all_training_files(folder, capsys):
    served = ["--served", str(folder / "november.jsonl"), "--json"]
    assert main(["drift", f"--model={folder / 'run'}", *served]) == 0
    assert json.loads(capsys.readouterr().out)["label"]["verdict"] == "same"


@pytest.mark.slow
def test_folds_and_a_report(folder):
    columns = "--text=review", "--label=mood", "--delimiter=;"
    assert finetune(folder, "folds", "--folds=2", *columns) == 0
    with open(folder / "folds" / "predictions.tsv") as file:
        predictions = list(csv.DictReader(file, delimiter="\t"))
    assert [row["text"] for row in predictions] == [text for text, _ in rows(0) + rows(1)]
    assert [row["file"] for row in predictions[::20]] == [
        str(folder / name) for name in ("october.csv", "november.jsonl")
    ]
    assert main(["report", str(folder / "run")]) == 0
