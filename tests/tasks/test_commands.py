"""`keras-bert finetune`, `predict` and `export`, one after the other as a user calls them."""

import io
import json
import shutil

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.cli.main import main
from keras_bert_impl.tasks import load_tuned
from tests.tasks.helpers import examples, save_base


def write_table(path, seed, label="sentiment"):
    texts, labels = examples(count=16, seed=seed)
    rows = [f"{text},{name}\n" for text, name in zip(texts, labels)]
    path.write_text(f"review,{label}\n" + "".join(rows))
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model directory, tables, and the run that the command made of them."""
    folder = tmp_path_factory.mktemp("commands")
    save_base(folder / "base")
    for seed, split in enumerate(("train", "dev")):
        write_table(folder / f"{split}.csv", seed)
    assert main([*finetune(folder), "--json", "epochs=1", "max_length=16", "seed=3"]) == 0
    return folder


def finetune(folder, out="run", **changes):
    options = {
        "model": folder / "base",
        "train": folder / "train.csv",
        "dev": folder / "dev.csv",
        "text": "review",
        "label": "sentiment",
        "out": folder / out,
    } | changes
    return ["finetune", *(f"--{key}={value}" for key, value in options.items())]


def test_finetune_writes_a_run(folder):
    names = {path.name for path in (folder / "run").iterdir()}
    assert names == {
        "model", "checkpoints", "recipe.yaml", "data.json", "metrics.jsonl", "scores.json",
        "predictions.tsv", "tensorboard",
    }  # fmt: skip
    assert load_tuned(folder / "run").labels == ["negative", "positive"]


def test_predict_reads_files_tables_and_standard_input(folder, capsys, monkeypatch):
    texts, _ = examples(count=16, seed=1)
    (folder / "texts.txt").write_text("".join(f"{text}\n" for text in texts))
    monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{text}\n" for text in texts)))
    model = ["predict", "--model", str(folder / "run")]
    outputs = []
    table = [str(folder / "dev.csv"), "--text", "review"]
    for source in (["-"], [str(folder / "texts.txt")], table):
        assert main([*model, "--input", *source, "--json"]) == 0
        outputs.append([json.loads(line) for line in capsys.readouterr().out.splitlines()])
    assert outputs[0] == outputs[1] == outputs[2]
    classifier = load_tuned(folder / "run")
    scores = classifier.predict(texts, verbose=0)
    assert [answer["label"] for answer in outputs[0]] == classifier.classify(texts)
    printed = [list(answer["scores"].values()) for answer in outputs[0]]
    np.testing.assert_array_equal(printed, scores)


def test_export_writes_a_model_that_agrees(folder, capsys):
    assert main(["export", "--model", str(folder / "run"), "--out", str(folder / "exported")]) == 0
    served = tf.saved_model.load(str(folder / "exported" / "1")).signatures["serving_default"]
    texts = ["a good film", ""]
    expected = load_tuned(folder / "run").predict(texts, verbose=0)
    np.testing.assert_allclose(served(text=tf.constant(texts))["scores"], expected, atol=1e-5)


@pytest.mark.parametrize(
    "changes, settings, message",
    [
        ({"label": "mood"}, [], "there is no column 'mood'; there is 'review', 'sentiment'"),
        ({"train": "nowhere.csv"}, [], "nowhere.csv cannot be read: No such file"),
        ({"model": "nowhere"}, [], "No model is named 'nowhere'"),
        ({}, ["epochs=0"], "epochs must be a positive integer"),
        ({}, ["epoch=2"], "did you mean 'epochs'?"),
        ({}, ["max_length=512"], "max_length must be from 3 to 32"),
    ],
)
def test_bad_input_is_one_line_and_status_2(folder, capsys, changes, settings, message):
    assert main([*finetune(folder, out="other", **changes), *settings]) == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert error.startswith("keras-bert: ") and message in error
    assert not (folder / "other").exists()


def test_task_and_tables_do_not_go_together(folder, capsys):
    assert main([*finetune(folder), "--task", "sst2"]) == 2
    assert "--task needs --data" in capsys.readouterr().err


def test_a_wrong_label_is_named_with_file_and_line(folder, capsys):
    wrong = folder / "wrong.csv"
    wrong.write_text("review,sentiment\na film,positive\na plot,odd\n")
    assert main(finetune(folder, out="other", dev=wrong)) == 2
    assert "wrong.csv, line 3: the label 'odd' is none of" in capsys.readouterr().err


def test_predict_refuses_what_is_no_text(folder, capsys):
    (folder / "binary.txt").write_bytes(b"a film\n\xff\xfe\0\n")
    command = ["predict", "--model", str(folder / "run"), "--input", str(folder / "binary.txt")]
    assert main(command) == 2
    assert "binary.txt, line 2: a NUL byte" in capsys.readouterr().err


@pytest.mark.slow
def test_checkpoints_cut_short_are_named(folder, capsys):
    settings = ["epochs=2", "max_length=16"]
    assert main([*finetune(folder, out="cut"), *settings]) == 0
    shutil.rmtree(folder / "cut" / "model")
    newest, *_ = sorted((folder / "cut" / "checkpoints").glob("*.data-*"), reverse=True)
    newest.write_bytes(newest.read_bytes()[:100])
    assert main([*finetune(folder, out="cut"), *settings]) == 0  # goes on from the one before
    for path in (folder / "cut" / "checkpoints").glob("*.data-*"):
        path.write_bytes(path.read_bytes()[:100])
    assert main([*finetune(folder, out="cut"), *settings]) == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert "no checkpoint can be read, all are damaged" in error and "ckpt-2" in error
