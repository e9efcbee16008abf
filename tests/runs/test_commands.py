"""`keras-bert finetune`, then `predict` and `export`, from the command line."""

import io
import json
import shutil

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl import TextClassifier
from keras_bert_impl.cli.main import main
from keras_bert_impl.data.tables.splits import hold_out
from keras_bert_impl.finetuning.finetune import finetune as finetune_in_python
from keras_bert_impl.tasks import TextEmbedder, load_tuned, read_table
from keras_bert_impl.tokenizers import Tokenizer
from tests.runs.scores import without_baselines
from tests.tasks.helpers import examples, save_base


def write_table(path, seed, label="sentiment"):
    texts, labels = examples(count=16, seed=seed)
    rows = [f"{text},{name}\n" for text, name in zip(texts, labels)]
    path.write_text(f"review,{label}\n" + "".join(rows))
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model directory, tables, and a run written by `finetune`."""
    folder = tmp_path_factory.mktemp("commands")
    save_base(folder / "base")
    for seed, split in enumerate(("train", "dev")):
        write_table(folder / f"{split}.csv", seed)
    assert main([*finetune(folder), "--json", "--epochs=1", "--max-length=16", "--seed=3"]) == 0
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
        "report.html",
        "predictions.tsv", "tensorboard",
    }  # fmt: skip
    assert [path.name for path in (folder / "run" / "checkpoints").iterdir()] == [".lock"]
    assert load_tuned(folder / "run").labels == ["negative", "positive"]


def test_tables_in_another_encoding_are_read_and_read_again(folder, tmp_path, capsys):
    text = (folder / "train.csv").read_text().replace("positive", "naïve €")
    (tmp_path / "train.csv").write_bytes(text.encode("cp1252"))
    options = {"model": folder / "base", "train": tmp_path / "train.csv", "encoding": "cp1252"}
    settings = ["--text=review", "--label=sentiment", "--dev-split=0.5", "--epochs=1", "--json"]
    arguments = [f"--{name}={value}" for name, value in options.items()]
    run = f"--out={tmp_path / 'run'}"
    assert main(["finetune", *arguments[:2], *settings, run]) == 2
    assert "pass --encoding cp1252" in capsys.readouterr().err
    assert main(["finetune", *arguments, *settings, run]) == 0
    scores = without_baselines(json.loads(capsys.readouterr().out))
    assert load_tuned(tmp_path / "run").labels == ["naïve €", "negative"]
    assert main(["evaluate", "--model", str(tmp_path / "run"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == scores
    # The encoding of the run is that of similar files, but a UTF-8 file is read as such.
    command = ["predict", "--model", str(tmp_path / "run"), "--json"]
    assert main([*command, f"--input={tmp_path / 'train.csv'}"]) == 0
    answers = capsys.readouterr().out
    (tmp_path / "utf8.csv").write_text(text, encoding="utf-8")
    assert main([*command, f"--input={tmp_path / 'utf8.csv'}"]) == 0
    assert capsys.readouterr().out == answers


def test_a_run_directory_is_a_model_everywhere(folder, tmp_path):
    run = folder / "run"
    assert TextClassifier.from_pretrained(run).labels == ["negative", "positive"]
    assert TextEmbedder.from_pretrained(str(run)).encoder.config.num_layers == 1
    assert Tokenizer.from_pretrained(run).fingerprint
    assert main(finetune(folder, tmp_path / "next", model=run, epochs=1)) == 0
    data = json.loads((tmp_path / "next" / "data.json").read_text())
    assert data["model"]["source"] == str(run)


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


@pytest.fixture
def called(monkeypatch):
    """The arguments with which commands call `finetune` and `adapt`."""
    calls = []

    def finetune(train, dev, output_directory, **settings):
        calls.append({"train": train, "dev": dev, **settings})
        output_directory.mkdir(exist_ok=True)
        (output_directory / "scores.json").write_text('{"accuracy": 1.0}')

    monkeypatch.setattr("keras_bert_impl.finetuning.finetune.finetune", finetune)
    monkeypatch.setattr(
        "keras_bert_impl.pretraining.adaptation.adapt",
        lambda *paths, **settings: calls.append({"paths": paths, **settings}),
    )
    return calls


def test_settings_are_also_options(folder, called):
    options = ["--epochs", "3", "--learning_rate=5e-5", "--batch-size", "16", "--keep-best"]
    settings = ["--epochs=3", "--learning-rate=5e-5", "--batch-size=16", "--keep-best"]
    for arguments in (options, settings, [*options[:2], *settings[1:]]):
        assert main([*finetune(folder, out="options"), *arguments]) == 0
    first, *later = called
    assert first["epochs"] == 3 and first["learning_rate"] == 5e-5 and first["keep_best"]
    assert later == [first, first]


def test_dev_split_depends_on_the_seed(folder, called, capsys):
    command = [each for each in finetune(folder, out="options") if not each.startswith("--dev")]
    for seed in ("1", "1", "2"):
        assert main([*command, "--dev-split", "0.25", "--seed", seed]) == 0
        assert f"held out 4 of 16 examples to score on, seed {seed}" in capsys.readouterr().err
    first, again, reseeded = (call["dev"].texts for call in called)
    assert len(first) == 4 and first == again != reseeded
    assert called[0]["seed"] == 1 and len(called[0]["train"]) == 12


def test_adapt_command_passes_its_arguments(folder, called, capsys):
    corpus = str(folder / "dev.csv")
    command = ["adapt", "--model", str(folder / "base"), corpus, "--out", str(folder / "adapted")]
    assert main([*command, "--adapt-steps", "20", "--dtype=mixed_bfloat16", "--seed=4"]) == 0
    (call,) = called
    assert call["paths"] == (str(folder / "base"), corpus, str(folder / "adapted"))
    assert (call["adapt_steps"], call["seed"], call["dtype"]) == (20, 4, "mixed_bfloat16")
    assert main([*command, "steps=20"]) == 2
    assert "there is no option --steps; " in capsys.readouterr().err


def test_the_columns_of_the_run_are_remembered(folder, capsys, tmp_path):
    texts, labels = examples(count=16, seed=1)
    command = ["predict", "--model", str(folder / "run"), "--input", str(folder / "dev.csv")]
    assert main([*command, "--json"]) == 0
    expected = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [answer["label"] for answer in expected] == load_tuned(folder / "run").classify(texts)
    assert main([*command, "--out", str(tmp_path / "out.jsonl")]) == 0
    assert capsys.readouterr().out == ""
    rows = [{"review": text, "sentiment": label} for text, label in zip(texts, labels)]
    written = [json.loads(line) for line in (tmp_path / "out.jsonl").open()]
    assert written == [row | answer for row, answer in zip(rows, expected)]
    assert main([*command, "--id", "sentiment"]) == 0
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [line[:2] for line in lines] == [[a, b["label"]] for a, b in zip(labels, expected)]


def test_evaluate_reads_the_data_of_the_run_again(folder, capsys):
    command = ["evaluate", "--model", str(folder / "run"), "--json"]
    expected = json.loads((folder / "run" / "scores.json").read_text())
    assert main(command) == 0
    assert json.loads(capsys.readouterr().out) == without_baselines(expected)
    before = (folder / "dev.csv").read_text()
    (folder / "dev.csv").write_text(before.replace("positive", "negative", 1))
    assert main(command) == 2
    assert "dev.csv has changed since" in capsys.readouterr().err.splitlines()[-1]
    (folder / "dev.csv").unlink()
    assert main(command) == 2
    assert "dev.csv, on which" in (error := capsys.readouterr().err.splitlines()[-1])
    assert "does not exist. Pass the data to score on with --dev FILE" in error
    (folder / "dev.csv").write_text(before)


@pytest.mark.parametrize(
    "options, message",
    [
        (["--out", "out.xlsx"], "out.xlsx: the name must end in .csv, .tsv, .jsonl or .parquet"),
        (["--out", "{0}/dev.csv"], "dev.csv is the input; choose a different output"),
        (["--id", "key"], "no column named 'key'. Found: 'review', 'sentiment'"),
        (["--input", "{0}/texts.txt", "--id", "key"], "--id requires a table"),
        (["--input", "{0}/empty.txt", "--out", "{0}/out.csv"], "empty.txt has no texts"),
        (["--input", "{0}/empty.txt"], "empty.txt has no texts"),
        (["--input", "{0}/binary.txt"], "binary.txt, line 2: a NUL byte"),
    ],
)
def test_predict_rejects_invalid_options(folder, capsys, options, message):
    (folder / "texts.txt").write_text("good\n")
    (folder / "empty.txt").write_text("")
    (folder / "binary.txt").write_bytes(b"a film\n\xff\xfe\0\n")
    command = ["predict", "--model", str(folder / "run"), "--input", str(folder / "dev.csv")]
    assert main([*command, *(option.format(folder) for option in options)]) == 2
    assert message in capsys.readouterr().err.splitlines()[-1]
    assert not (folder / "out.csv").exists()


@pytest.mark.slow
def test_exported_model_agrees_with_the_run(folder, capsys):
    assert main(["export", "--model", str(folder / "run"), "--out", str(folder / "exported")]) == 0
    served = tf.saved_model.load(str(folder / "exported" / "1")).signatures["serving_default"]
    texts = ["a good film", ""]
    expected = load_tuned(folder / "run").predict(texts, verbose=0)
    np.testing.assert_allclose(served(text=tf.constant(texts))["scores"], expected, atol=1e-5)


@pytest.mark.parametrize(
    "changes, settings, message",
    [
        ({"label": "mood"}, [], "no column named 'mood'. Found: 'review', 'sentiment'"),
        ({"train": "nowhere.csv"}, [], "--train: nowhere.csv does not exist."),
        ({"model": "nowhere"}, [], "No model is named 'nowhere'"),
        ({}, ["--epochs=0"], "epochs must be a positive integer"),
        ({}, ["epoch=2"], "did you mean --epochs?"),
        ({}, ["--max-length=512"], "max_length must be from 3 to 32"),
    ],
)
def test_bad_input_prints_one_line_and_exits_with_2(folder, capsys, changes, settings, message):
    assert main([*finetune(folder, out="other", **changes), *settings]) == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert error.startswith("keras-bert: ") and message in error
    assert not (folder / "other").exists()


def test_unknown_label_is_reported_with_file_and_line(folder, capsys):
    wrong = folder / "wrong.csv"
    wrong.write_text("review,sentiment\na film,positive\na plot,odd\n")
    assert main(finetune(folder, out="other", dev=wrong)) == 2
    assert "wrong.csv, line 3: label 'odd' is not one of" in capsys.readouterr().err


@pytest.mark.slow
def test_truncated_checkpoints_are_reported_by_name(folder, capsys):
    settings = ["--epochs=2", "--max-length=16", "--keep-checkpoints"]
    assert main([*finetune(folder, out="cut"), *settings]) == 0
    shutil.rmtree(folder / "cut" / "model")
    newest, *_ = sorted((folder / "cut" / "checkpoints").glob("*.data-*"), reverse=True)
    newest.write_bytes(newest.read_bytes()[:100])
    assert main([*finetune(folder, out="cut"), *settings]) == 0  # resumes from the earlier one
    for path in (folder / "cut" / "checkpoints").glob("*.data-*"):
        path.write_bytes(path.read_bytes()[:100])
    assert main([*finetune(folder, out="cut"), *settings]) == 0  # finished: reads the model alone
    shutil.rmtree(folder / "cut" / "model")
    assert main([*finetune(folder, out="cut"), *settings]) == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert "no checkpoint can be read" in error and "ckpt-2" in error


def test_a_run_made_in_python_remembers_how_its_tables_were_read(folder, tmp_path, capsys):
    train = read_table(folder / "train.csv", text="review", label="sentiment")
    run = str(tmp_path / "run")
    # The sixteen examples with their labels, of which a quarter is held out.
    finetune_in_python(folder / "base", *hold_out(train, 0.25, 5), run, epochs=1, max_length=16)
    capsys.readouterr()
    assert main(["evaluate", "--model", run, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == without_baselines(
        json.loads((tmp_path / "run/scores.json").read_text())
    )
    assert main(["predict", "--model", run, "--input", str(folder / "dev.csv")]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 16
