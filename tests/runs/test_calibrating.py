"""`keras-bert calibrate` on runs and model directories."""

import json
import shutil

import numpy as np
import pytest

from keras_bert_impl.cli.main import main
from keras_bert_impl.data.prediction_files import read_predictions_table
from keras_bert_impl.tasks import load_tuned, read_table
from tests.killed import assert_old_or_new
from tests.tasks.helpers import examples, save_base


def write_table(path, seed, count=60):
    texts, labels = examples(count, seed)
    path.write_text("label,text\n" + "".join(f"{b},{a}\n" for a, b in zip(texts, labels)))
    return str(path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("calibrating")
    save_base(folder / "base")
    for seed, split in enumerate(("train", "dev", "other")):
        write_table(folder / f"{split}.csv", seed)
    for out, *options in (["run"], ["lora", "--tuning=lora"]):
        command = ["finetune", f"--model={folder}/base", f"--train={folder}/train.csv"]
        command += [f"--dev={folder}/dev.csv", f"--out={folder}/{out}", "--text=text"]
        command += ["--label=label", "--epochs=1", "--learning-rate=0.02", "--max-length=16"]
        assert main([*command, *options]) == 0
    return folder


def predictions(run):
    _, rows = read_predictions_table(run / "predictions.tsv")
    return [row[0] for row in rows], np.array([row[1:] for row in rows], float)


@pytest.mark.parametrize("name", ["run", "lora"])
def test_a_run_is_calibrated_on_its_validation_set(folder, tmp_path, capsys, name):
    run = shutil.copytree(folder / name, tmp_path / "run")
    before = predictions(run)[1]
    files = {path.name for path in (run / "model").iterdir()}
    assert main(["calibrate", f"--model={run}", "--threshold=recall=0.9", "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    threshold = summary["chosen"]["positive"]
    assert summary["num_texts"] == 60 and threshold["recall"] >= 0.9
    model = load_tuned(run)
    assert model.thresholds == {"positive": threshold["threshold"]}
    assert {path.name for path in (run / "model").iterdir()} == files
    # The run has the predictions and scores of the calibrated model.
    labels, scores = predictions(run)
    powers = before ** (1 / summary["temperature"])
    np.testing.assert_allclose(scores, powers / powers.sum(axis=1, keepdims=True), atol=1e-4)
    predicted = np.where(scores[:, 1] >= threshold["threshold"], "positive", "negative")
    assert labels == predicted.tolist()
    truth = np.array(read_table(folder / "dev.csv", text="text", label="label").labels)
    stored = json.loads((run / "scores.json").read_text())
    assert stored["accuracy"] == pytest.approx(np.mean(predicted == truth))
    assert "majority/accuracy" in stored
    verdict = json.loads((run / "data.json").read_text())["verdict"]["sentences"]
    assert all(sentence.startswith("Before calibration: ") for sentence in verdict) and verdict
    assert main(["evaluate", f"--model={run}", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["accuracy"] == stored["accuracy"]


@pytest.mark.parametrize("name", ["run", "lora"])
def test_a_kill_never_leaves_a_calibrated_model_with_other_scores(folder, tmp_path, name):
    run = shutil.copytree(folder / name, tmp_path / "run")
    command = ["calibrate", f"--model={run}", "--threshold=recall=0.9"]
    names = "model", "scores.json", "data.json", "predictions.tsv"
    assert_old_or_new(run, tmp_path / "states", lambda: main(command), names)


def test_a_model_directory_is_calibrated_on_a_file(folder, tmp_path, capsys):
    model = shutil.copytree(folder / "run" / "model", tmp_path / "model")
    columns = ["--text=text", "--label=label"]
    command = ["calibrate", f"--model={model}", f"--dev={folder}/other.csv", *columns]
    assert main(command) == 0
    first = capsys.readouterr().out
    assert first.startswith("temperature ") and "expected calibration error" in first
    assert main(command) == 0  # calibrated already
    assert capsys.readouterr().out.startswith("temperature 1.000, n = 60\n")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--threshold=best"], "threshold must be f1"),
        (["--class=positive"], "--class requires --threshold RULE"),
        (["--threshold=f1", "--class=spam"], "label 'spam' is not one of 'negative', 'positive'"),
    ],
)
def test_bad_rules_change_nothing(folder, capsys, options, message):
    before = (folder / "run/model/model.safetensors").read_bytes()
    assert main(["calibrate", f"--model={folder}/run", *options]) == 2
    assert message in capsys.readouterr().err
    assert (folder / "run/model/model.safetensors").read_bytes() == before


def test_a_model_directory_needs_examples(folder, capsys):
    assert main(["calibrate", f"--model={folder}/run/model"]) == 2
    assert "pass the examples to calibrate on with --dev FILE" in capsys.readouterr().err
