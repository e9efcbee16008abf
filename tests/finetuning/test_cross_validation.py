"""Folds, and the runs of `cross_validate` and `keras-bert finetune --folds`."""

import json

import numpy as np
import pytest

from keras_bert_impl.cli.main import main
from keras_bert_impl.data.prediction_files import read_predictions_table
from keras_bert_impl.data.tables.examples import Examples
from keras_bert_impl.data.tables.splits import folds
from keras_bert_impl.data.tags.examples import TaggedExamples, read_tag_predictions
from keras_bert_impl.finetuning.cross_validation import cross_validate
from keras_bert_impl.utils.errors import InputError
from tests.tasks.helpers import examples, save_base


def test_each_example_is_held_out_once_and_classes_are_spread():
    labels = ["a"] * 60 + ["b"] * 11
    texts = [f"text {number}" for number in range(71)]
    parts = folds(Examples(texts, labels), 5)
    held = np.concatenate([rows for *_, rows in parts])
    assert sorted(held) == list(range(71))
    for train, dev, rows in parts:
        assert dev.texts == [texts[row] for row in rows]
        assert not set(train.texts) & set(dev.texts) and len(train) + len(dev) == 71
        assert dev.labels.count("a") == 12 and dev.labels.count("b") in (2, 3)
    again = folds(Examples(texts, labels), 5)
    assert all(np.array_equal(old[2], new[2]) for old, new in zip(parts, again, strict=True))
    assert any(
        not np.array_equal(old[2], new[2])
        for old, new in zip(parts, folds(Examples(texts, labels), 5, seed=2), strict=True)
    )


def test_groups_stay_in_one_fold():
    draw = np.random.default_rng(0)
    groups = draw.integers(0, 12, 100).astype(str).tolist()
    data = Examples([f"text {n}" for n in range(100)], ["a", "b"] * 50, groups=groups)
    group_sets = [set(dev.groups) for _, dev, _ in folds(data, 4)]
    assert sum(map(len, group_sets)) == len(set().union(*group_sets)) == len(set(groups))
    with pytest.raises(InputError, match="fewer groups of examples than 13 folds"):
        folds(data, 13)


@pytest.mark.parametrize("count", [1, 101])
def test_impossible_numbers_of_folds(count):
    with pytest.raises(InputError, match="folds must be from 2 to 4"):
        folds(Examples(list("abcd"), ["a", "b"] * 2), count)


def test_the_command_writes_a_run_per_fold_and_all_predictions(tmp_path, capsys):
    save_base(tmp_path / "base")
    texts, labels = examples(30)
    rows = "".join(
        f"{label},{text} {number}\n" for number, (text, label) in enumerate(zip(texts, labels))
    )
    (tmp_path / "all.csv").write_text("label,text\n" + rows)
    command = ["finetune", f"--model={tmp_path}/base", f"--train={tmp_path}/all.csv", "--json"]
    command += ["--text=text", "--label=label", "--epochs=1", f"--out={tmp_path}/out"]
    assert main([*command, "--folds=2"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert list(summary["folds"]) == ["folds/1", "folds/2"]
    accuracies = [scores["accuracy"] for scores in summary["folds"].values()]
    assert summary["scores"]["accuracy"]["mean"] == pytest.approx(np.mean(accuracies))
    assert summary["scores"]["accuracy"]["std"] == pytest.approx(np.std(accuracies, ddof=1))
    assert json.loads((tmp_path / "out/scores.json").read_text()) == summary
    headings, predicted = read_predictions_table(tmp_path / "out/predictions.tsv")
    assert headings == ["label", "negative", "positive"] and len(predicted) == 30
    right = np.array([row[0] for row in predicted]) == np.array(labels)
    assert summary["pooled"]["accuracy"] == pytest.approx(np.mean(right))
    truth = np.array(labels)
    of_classes = [2 * np.sum(right & (truth == name)) / (np.sum(truth == name) + np.sum(
        np.array([row[0] for row in predicted]) == name)) for name in headings[1:]]  # fmt: skip
    assert summary["pooled"]["macro_f1"] == pytest.approx(np.mean(of_classes))
    parts = folds(Examples([f"{t} {n}" for n, t in enumerate(texts)], labels), 2)
    for (_, dev, held), accuracy in zip(parts, accuracies, strict=True):
        assert np.mean(right[held]) == pytest.approx(accuracy) and len(dev) == 15
    assert main(["report", f"{tmp_path}/out"]) == 0
    page = (tmp_path / "out/comparison.html").read_text(encoding="utf-8")
    assert "Comparison of 2 runs" in page and f"{accuracies[1]:.4f}" in page
    capsys.readouterr()
    assert main([*command, "--folds=2", "--dev-split=0.5"]) == 2
    assert "leave out --dev-split" in capsys.readouterr().err
    assert main([*command, "--folds=2", "--dates=text"]) == 2
    assert "--dates cannot be combined with --folds" in capsys.readouterr().err


def test_predictions_of_words_are_joined(tmp_path):
    save_base(tmp_path / "base")
    texts = [[*text.split(), str(number)] for number, text in enumerate(examples(8)[0])]
    labels = [["B-X", *["O"] * (len(words) - 1)] for words in texts]
    data = TaggedExamples(texts, labels, ["O", "B-X"])
    summary = cross_validate(
        tmp_path / "base", data, tmp_path / "out", folds=2, epochs=1, verbose=0
    )
    predicted = read_tag_predictions(tmp_path / "out/predictions.tsv")
    assert [len(row) for row in predicted] == [len(words) for words in texts]
    for number, (_, dev, held) in enumerate(folds(data, 2), 1):
        of_fold = read_tag_predictions(tmp_path / f"out/folds/{number}/predictions.tsv")
        assert [predicted[index] for index in held] == of_fold and len(dev) == len(of_fold)
    assert "f1" in summary["scores"]
