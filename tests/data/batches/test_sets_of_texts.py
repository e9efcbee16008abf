"""`keras-bert finetune` with multiple labels per text, bad rows, and MNLI's three dev sets."""

import json

import numpy as np
import pytest
import sklearn.metrics

from keras_bert_impl.cli.main import main
from keras_bert_impl.tasks import load_tuned, read_glue, read_table
from tests.tasks.helpers import WORDS, examples

HEADER = "index\tsentence1\tsentence2\tgold_label\n"


def write_labels(path, seed):
    texts, _ = examples(count=20, seed=seed)
    # A third of the words belong to each subject.
    label_sets = [{"xyz"[WORDS.index(word) % 3] for word in text.split()} for text in texts]
    rows = [f"{text}\t{'|'.join(sorted(names))}\n" for text, names in zip(texts, label_sets)]
    rows[3] = "a row without a label\n"
    path.write_text("review\tsubjects\n" + "".join(rows))
    return path


@pytest.mark.slow
def test_multi_label_files_and_skipped_rows(base, tmp_path, caplog):
    train, dev = (write_labels(tmp_path / f"{name}.tsv", seed) for seed, name in enumerate("ab"))
    command = ["finetune", "--model", str(base), "--train", str(train), "--dev", str(dev)]
    command += ["--text", "review", "--label", "subjects", "--label-separator", "|"]
    command += ["--out", str(tmp_path / "run"), "--max-length=6", "--long-texts=max", "--epochs=8"]
    command += ["--max-windows=2", "--learning-rate=0.05", "--batch-size=5"]
    assert main(command) == 2
    assert main([*command, "--skip-bad-rows"]) == 0
    for path in (train, dev):
        left_out = f"{path}: rows skipped: 1. {path}, line 5: 1 columns, expected 2"
        assert left_out in caplog.text
    model = load_tuned(tmp_path / "run")
    assert model.labels == ["x", "y", "z"] and model.problem_type.startswith("multi_label")
    assert (model.long_texts.way, model.long_texts.max_windows) == ("max", 2)
    gold = read_table(dev, "review", label="subjects", label_separator="|", skip_bad_rows=True)
    hot, predicted = gold.multi_hot(model.labels), model.predict(gold.texts, verbose=0) >= 0.5
    assert predicted.any()
    scores = json.loads((tmp_path / "run" / "scores.json").read_text())
    for average in ("micro", "macro"):
        expected = sklearn.metrics.f1_score(hot, predicted, average=average, zero_division=0)
        assert scores[f"{average}_f1"] == pytest.approx(expected)
    expected = sklearn.metrics.accuracy_score(hot, predicted)
    assert scores["subset_accuracy"] == pytest.approx(expected)
    lines = (tmp_path / "run" / "predictions.tsv").read_text().splitlines()[1:]
    written = [line.split("\t")[1] for line in lines]
    assert written == [",".join(names) for names in model.classify(gold.texts)]


@pytest.mark.slow
def test_scores_mnli_on_all_dev_sets(base, tmp_path):
    names = ["entailment", "neutral", "contradiction"]
    draw = np.random.default_rng(0)
    for file in ("train", "dev_matched", "dev_mismatched"):
        rows = [f"{i}\t{draw.choice(WORDS)}\tfilm\t{names[i % 3]}\n" for i in range(12)]
        (tmp_path / "MNLI").mkdir(exist_ok=True)
        (tmp_path / "MNLI" / f"{file}.tsv").write_text(HEADER + "".join(rows))
    (tmp_path / "diagnostic").mkdir()
    rows = [f"{word}\tfilm\t{names[i % 3]}\n" for i, word in enumerate(WORDS)]
    file = tmp_path / "diagnostic" / "diagnostic-full.tsv"
    file.write_text("Premise\tHypothesis\tLabel\n" + "".join(rows))
    command = ["finetune", "--model", str(base), "--task", "mnli", "--data", str(tmp_path)]
    command += [
        "--out",
        str(tmp_path / "run"),
        "--epochs=3",
        "--learning-rate=0.02",
        "--max-length=8",
    ]
    assert main([*command, "--class-weight={neutral: 2.5}"]) == 0
    scores = json.loads((tmp_path / "run" / "scores.json").read_text())
    assert list(scores) == [
        "accuracy", "mismatched/accuracy", "diagnostic/matthews", "diagnostic/accuracy",
        "majority/accuracy", "tfidf/accuracy",
    ]  # fmt: skip
    model = load_tuned(tmp_path / "run")
    for name, task, split in (("mismatched/", "mnli", "dev_mismatched"), ("", "mnli", "dev"),
                              ("diagnostic/", "diagnostic", "dev")):  # fmt: skip
        gold = read_glue(task, tmp_path, split)
        predicted = model.predict(gold.texts, verbose=0).argmax(axis=1)
        assert scores[f"{name}accuracy"] == pytest.approx(np.mean(predicted == gold.labels))
        rows = (tmp_path / "run" / name / "predictions.tsv").read_text().splitlines()[1:]
        assert [row.split("\t")[1] for row in rows] == [names[i] for i in predicted]
    expected = sklearn.metrics.matthews_corrcoef(gold.labels, predicted)
    assert scores["diagnostic/matthews"] == pytest.approx(expected)


@pytest.mark.parametrize(
    "options, message",
    [
        (["--regression", "--class-weight=balanced"], "class_weight requires one label per text"),
        (["--id", "review"], "id 'a film' is already used in line 2"),
        (["--task", "xnli"], "--task requires the folder of the task in --data"),
    ],
)
def test_rejects_invalid_input(base, tmp_path, capsys, options, message):
    table = tmp_path / "a.tsv"
    table.write_text("review\tscore\na film\t1\na film\t2\n")
    command = ["finetune", "--model", str(base), "--train", str(table), "--dev", str(table)]
    command += ["--text", "review", "--label", "score", "--out", str(tmp_path / "run")]
    assert main([*command, *options]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
