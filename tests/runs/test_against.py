"""`keras-bert evaluate --against OLD --max-drop X`."""

import json

import numpy as np
import pytest

from keras_bert_impl.cli.main import main
from keras_bert_impl.tasks import TextClassifier, finetune, read_table
from keras_bert_impl.tasks import evaluate as evaluate_in_python
from keras_bert_impl.tasks.scores.statistics import paired_difference
from tests.tasks.helpers import classifier, examples, save_base


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A trained and an untrained model, with labels in another order, and texts."""
    folder = tmp_path_factory.mktemp("against")
    texts, labels = examples(60)
    (folder / "dev.csv").write_text(
        "label,text\n" + "".join(f"{b},{a}\n" for a, b in zip(texts, labels))
    )
    good, other = classifier(dropout=0.0), classifier(labels=["positive", "negative"], seed=4)
    good.compile(learning_rate=0.02)
    good.fit(texts, labels, batch_size=8, epochs=6, verbose=0)
    good.save_pretrained(folder / "good")
    other.save_pretrained(folder / "other")
    return folder


def evaluate(folder, new, old, *more):
    columns = f"--dev={folder}/dev.csv", "--text=text", "--label=label"
    return main(
        ["evaluate", f"--model={folder / new}", f"--against={folder / old}", *columns, *more]
    )


def test_change_is_the_paired_difference_by_label_name(folder, capsys):
    assert evaluate(folder, "good", "other", "--json") == 0
    found = json.loads(capsys.readouterr().out)["against"]
    data = read_table(folder / "dev.csv", text="text", label="label")
    by = [TextClassifier.from_pretrained(folder / name) for name in ("good", "other")]
    new, old = (np.array(model.classify(data.texts)) for model in by)
    labels = np.array(data.labels)
    expected = paired_difference(lambda a, b: float(np.mean(a == b)), labels, old, new).interval
    assert found["new"] == np.mean(new == labels) > found["old"] == np.mean(old == labels)
    assert list(found["gain"].values()) == pytest.approx(list(expected))
    assert (found["metric"], found["num_examples"]) == ("accuracy", 60)


def test_a_drop_beyond_the_limit_exits_with_1(folder, capsys):
    assert evaluate(folder, "good", "other", "--max-drop=0.01") == 0
    assert evaluate(folder, "other", "good", "--max-drop=0.01") == 1
    out, err = capsys.readouterr()
    assert "accuracy dropped by more than 0.01" in err
    assert "improvement -0." in out
    assert evaluate(folder, "other", "good", "--max-drop=1") == 0


def test_what_cannot_be_compared(folder, capsys):
    classifier(labels=["negative", "positive", "new"]).save_pretrained(folder / "three")
    assert evaluate(folder, "good", "three") == 2
    assert "the models have different labels" in capsys.readouterr().err
    assert main(["evaluate", f"--model={folder}/good", "--max-drop=0.1"]) == 2
    assert "requires --against OLD" in capsys.readouterr().err


def test_a_run_is_compared_by_its_metric(folder, capsys):
    """Accuracy would let a model pass that never predicts a rare class."""
    data = read_table(folder / "dev.csv", text="text", label="label")
    settings = {"epochs": 1, "metric": "f1/negative", "max_length": 16}
    finetune(save_base(folder / "base"), data, data, folder / "run", verbose=0, **settings)
    capsys.readouterr()
    assert evaluate(folder, "run", "good", "--json") == 0
    scores = json.loads(capsys.readouterr().out)
    found = scores.pop("against")
    assert list(scores) == ["f1/negative", "accuracy", "macro_f1"]
    assert (found["metric"], found["new"]) == ("f1/negative", scores["f1/negative"])
    assert evaluate_in_python(folder / "run", data) == scores
    assert "- dev: 60 examples" in (folder / "run" / "model" / "README.md").read_text()
