"""What a run compares by, its baselines, and what it says about itself."""

import json

import numpy as np
import pytest

from keras_bert_impl.tasks import Examples, TaggedExamples, evaluate, finetune, load_tuned
from keras_bert_impl.utils.errors import InputError

TEXTS = ["a good film", "a bad film"] * 20
UNEVEN = Examples(TEXTS[:22] + TEXTS[:20:2], ["good"] * 11 * 2 + ["good"] * 9 + ["bad"])


def run(base, folder, train, **settings):
    finetune(base, train, train, folder, epochs=1, max_length=16, verbose=2, **settings)
    return json.loads((folder / "scores.json").read_text())


def test_a_run_of_uneven_classes_is_compared_by_macro_f1_and_judged(base, tmp_path, capsys):
    scores = run(base, tmp_path / "run", UNEVEN, keep_best=True)
    assert list(scores)[:4] == ["macro_f1", "accuracy", "majority/macro_f1", "majority/accuracy"]
    assert scores["majority/accuracy"] == 31 / 32
    sentences = json.loads((tmp_path / "run" / "data.json").read_text())["verdict"]["sentences"]
    assert "bad' is never predicted, but 1 of 32 examples have this label" in sentences[0]
    assert "does not beat the baseline" in sentences[1] or "worse than the baseline" in sentences[1]
    printed = capsys.readouterr().err
    assert "Models are compared by macro_f1" in printed and f"verdict: {sentences[0]}" in printed
    assert "macro_f1 0." in next(line for line in printed.splitlines() if line[:5] == "epoch")


def test_a_model_that_is_not_finite_is_not_saved(base, tmp_path, caplog):
    train = Examples(TEXTS, ["good", "bad"] * 20)
    with pytest.raises(InputError, match="epoch 1: the loss .* not finite.*dtype=mixed_bfloat16"):
        run(base, tmp_path / "run", train, dtype="float16", learning_rate=1e-3)
    assert not (tmp_path / "run" / "model").exists()
    model = run(base, tmp_path / "other", train) and load_tuned(tmp_path / "other")
    model.trainable_weights[0].assign(np.nan * model.trainable_weights[0])
    model.save_pretrained(tmp_path / "saved")
    assert "model.safetensors: NaN or infinite values in " in caplog.text


def test_a_metric_is_chosen_by_its_name(base, tmp_path):
    train = Examples(TEXTS, ["good", "bad"] * 20)
    scores = run(base, tmp_path / "run", train, metric="f1/bad")
    assert list(scores)[:3] == ["f1/bad", "accuracy", "macro_f1"]
    rescored = evaluate(tmp_path / "run", train)
    assert rescored["accuracy"] == scores["accuracy"]
    with pytest.raises(InputError, match="metric must be .*accuracy, macro_f1, .*got 'f1'"):
        finetune(base, train, train, tmp_path / "other", metric="f1")
    assert not (tmp_path / "other").exists()


def test_a_message_names_the_first_of_many_metrics(base, tmp_path):
    train = Examples(TEXTS, [f"class {number}" for number in range(40)])
    first = "accuracy, macro_f1, matthews, average_precision, f1/class 0, average_precision/class 0"
    with pytest.raises(
        InputError, match=f"metric must be one of {first}, .*, [.]{{3}}, got 'f1/c'"
    ):
        finetune(base, train, train, tmp_path / "run", metric="f1/c")


@pytest.mark.parametrize("is_multi_label", [False, True])
def test_epochs_are_compared_by_average_precision(base, tmp_path, capsys, is_multi_label):
    oracle = pytest.importorskip("sklearn.metrics").average_precision_score
    names = ["bad", "good"] * 20
    train = Examples(TEXTS, [["film", name] for name in names] if is_multi_label else names)
    out, metric = tmp_path / "run", "average_precision"
    scores = run(base, out, train, metric=metric, keep_best=True)
    assert list(scores)[0] == metric and scores[f"majority/{metric}"] in (0.5, 2 / 3)
    assert scores[f"tfidf/{metric}"] == 1.0
    lines = capsys.readouterr().err.splitlines()
    line = next(line for line in lines if line.startswith("epoch 1"))
    assert f"{metric} {scores[metric]:.4f}" in line
    rows = [row.split("\t") for row in (out / "predictions.tsv").read_text().splitlines()]
    first, count = 2, 3 if is_multi_label else 2
    of_classes = np.array([row[first : first + count] for row in rows[1:]], float)
    if is_multi_label:
        expected = oracle(
            [[name in row for name in rows[0][2:5]] for row in train.labels], of_classes
        )
    else:
        expected = oracle([name == "good" for name in names], of_classes[:, 1])
    assert scores[metric] == pytest.approx(expected, abs=1e-13)
    assert evaluate(out, train)[metric] == scores[metric]
    assert ">average precision</th>" in (out / "report.html").read_text()


def test_a_tagger_is_compared_with_the_most_frequent_tag_of_a_word(base, tmp_path):
    words, labels = [["good", "film"], ["bad", "film"]] * 8, [["B-X", "O"], ["O", "O"]] * 8
    scores = run(base, tmp_path / "run", TaggedExamples(words, labels, ["B-X", "O"]))
    assert scores["most_frequent_tag/f1"] == 1.0
    sentences = json.loads((tmp_path / "run" / "data.json").read_text())["verdict"]["sentences"]
    assert any("baseline most_frequent_tag 1.000" in line for line in sentences)
