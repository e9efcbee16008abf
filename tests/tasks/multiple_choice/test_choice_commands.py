"""`keras-bert finetune` and `predict` for multiple choice: commands, scores and predictions."""

import json

import numpy as np
import pytest

from keras_bert_impl import MultipleChoice
from keras_bert_impl.cli.main import main
from keras_bert_impl.tasks import (
    ChoiceExamples,
    LongTexts,
    load_tuned,
    read_choices,
    score_choices,
    write_choice_predictions,
)
from keras_bert_impl.tasks.multiple_choice.task import Choice
from keras_bert_impl.utils.errors import InputError
from tests.tasks.helpers import choices, save_base


def write(path, count, seed):
    rows = [
        {"prompt": prompt, "endings": endings, "answer": label}
        for (prompt, endings), label in zip(*choices(count, seed))
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def finetune(folder, *arguments, **files):
    files = {"train": "train.jsonl", "dev": "dev.jsonl", "out": "run"} | files
    options = [f"--{name}={folder / file}" for name, file in files.items()]
    return main(["finetune", f"--model={folder / 'base'}", "--task=choice", *options, *arguments])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model directory, files of choices, and a run of the command on them."""
    folder = tmp_path_factory.mktemp("choices")
    save_base(folder / "base")
    write(folder / "train.jsonl", 12, 0)
    write(folder / "dev.jsonl", 5, 1)
    settings = [
        "--epochs=1",
        "--batch-size=4",
        "--max-length=10",
        "--long-texts=max",
        "--learning-rate=0.01",
    ]
    settings += ["--max-windows=3"]
    assert finetune(folder, *settings) == 0
    return folder


@pytest.mark.slow
def test_saved_run_has_the_same_scores(folder):
    dev = read_choices(folder / "dev.jsonl")
    model = load_tuned(folder / "run")
    assert isinstance(model, MultipleChoice)
    assert (model.max_length, model.long_texts) == (10, LongTexts("max", max_windows=3))
    probabilities = model.predict(dev.texts, verbose=0)
    scores = json.loads((folder / "run" / "scores.json").read_text())
    assert scores == score_choices(dev, probabilities)
    header, *rows = (folder / "run" / "predictions.tsv").read_text().splitlines()
    assert header == "index\tchoice\tending0\tending1\tending2\ttrue_label\tline\ttext"
    for number, (line, row) in enumerate(zip(rows, probabilities, strict=True)):
        index, choice, *cells = line.split("\t")[:5]
        assert (int(index), int(choice), len(cells)) == (number, row.argmax(), 3)
        np.testing.assert_array_equal(np.array(cells[: len(row)], "float32"), row)
        assert cells[len(row) :] == [""] * (3 - len(row))


@pytest.mark.slow
def test_predict_prints_the_choices_of_the_model(folder, capsys):
    command = ["predict", "--model", str(folder / "run"), "--input", str(folder / "dev.jsonl")]
    assert main([*command, "--json"]) == 0
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    texts = read_choices(folder / "dev.jsonl").texts
    rows = (folder / "run" / "predictions.tsv").read_text().splitlines()[1:]
    for answer, (_, endings), row in zip(answers, texts, rows, strict=True):
        scores = np.array(row.split("\t")[2 : 2 + len(endings)], "float32")
        np.testing.assert_array_equal(np.array(answer["scores"], "float32"), scores)
        assert answer["choice"] == scores.argmax() and answer["score"] == scores.max()
        assert answer["ending"] == endings[scores.argmax()]
    assert main([*command, "--text", "prompt"]) == 2
    assert "leave out --text, --pair and --id" in capsys.readouterr().err


def test_lines_have_the_best_ending_and_its_probability():
    class Model:
        def predict(self, texts, verbose):
            return [np.array([0.25, 0.75], "float32")]

    answers = list(Choice.predictions(Model(), [("a film", ["is bad", "is good"])]))
    assert answers[0][1] == ["is good", "0.7500"]


def test_bad_rows_stop_the_command_or_are_skipped(folder, capsys, caplog):
    good = (folder / "train.jsonl").read_text()
    bad = '{"prompt": "a", "endings": ["b", "c"], "answer": 2}\n'
    (folder / "bad.jsonl").write_text(good + bad)
    files = {"train": "bad.jsonl", "out": "other"}
    assert finetune(folder, **files) == 2
    assert (
        "bad.jsonl, line 13: the answer must be from 0 to 1. Received: 2" in capsys.readouterr().err
    )
    assert not (folder / "other").exists()
    # The rows are read; the error comes later.
    assert finetune(folder, "--skip-bad-rows", "--crf", **files) == 2
    assert "crf is not a setting of MultipleChoice" in capsys.readouterr().err
    assert "rows skipped: 1. " in caplog.text


def test_rejects_training_on_unlabeled_examples(folder, capsys):
    rows = [json.loads(line) for line in (folder / "dev.jsonl").read_text().splitlines()]
    for row in rows:
        del row["answer"]
    (folder / "asked.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert finetune(folder, dev="asked.jsonl", out="other") == 2
    assert "asked.jsonl has no labeled texts" in capsys.readouterr().err


def test_accuracy_is_the_share_of_correct_choices():
    examples = ChoiceExamples([("a", ["b", "c"])] * 4, [0, 1, 1, 0])
    rows = [np.array(row, "float32") for row in ([0.6, 0.4], [0.6, 0.4], [0.1, 0.9], [0.5, 0.5])]
    assert score_choices(examples, rows) == {"accuracy": 0.75}
    with pytest.raises(InputError, match="4 examples, but predictions for 3"):
        score_choices(examples, rows[:3])
    with pytest.raises(InputError, match="has no labels"):
        score_choices(ChoiceExamples(examples.texts), rows)


def test_writes_predictions_of_no_examples(tmp_path):
    write_choice_predictions(tmp_path / "none.tsv", [])
    assert (tmp_path / "none.tsv").read_text() == "index\tchoice\n"
