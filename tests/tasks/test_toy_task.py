"""A task defined outside the package: what it needs, and that every part of a run supports it."""

import argparse
import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.cli import main as cli
from keras_bert_impl.cli.finetuning import Finetune
from keras_bert_impl.cli.settings import given_settings
from keras_bert_impl.data.tables.examples import Examples
from keras_bert_impl.tasks import Task, TextClassifier, evaluate, finetune, load_tuned, registry
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.settings import Share
from tests.tasks import helpers


class ToyExamples(Examples):
    """Texts that are praise or not."""


@keras.saving.register_keras_serializable("tests")
class PraiseDetector(TextClassifier):
    """Detects whether a text is praise: whether its score reaches a threshold."""

    settings = (*TextClassifier.settings, "threshold")

    def __init__(self, *args, threshold: Share = 0.5, **kwargs):
        super().__init__(*args, **kwargs)
        self.threshold = threshold


class Praise(Task):
    name = "praise"
    settings = ("threshold",)
    model_classes = (PraiseDetector,)
    example_class = ToyExamples

    def __init__(self, train, dev):
        self.arguments = {"labels": ["negative", "positive"]}

    @staticmethod
    def score(model, examples, directory=None):
        return {
            "share": float(np.mean(np.array(model.classify(examples.texts)) == examples.labels))
        }

    @classmethod
    def read(cls, source, split):
        return ToyExamples(**vars(source.table(split, numeric=False)))

    @staticmethod
    def predictions(model, texts):
        for label in model.classify(texts):
            yield {"praise": label == "positive"}, [label]


def cli_finetune_settings(arguments):
    parser = argparse.ArgumentParser()
    Finetune().add_arguments(parser)
    return given_settings(parser.parse_args(["--out", "o", *arguments]), Finetune().settings_class)


@pytest.fixture
def praise(monkeypatch):
    monkeypatch.setattr(registry, "_registered", [])
    return registry.register_task(Praise)


def test_description_is_enough_for_a_task(praise, tmp_path, capsys):
    base = helpers.save_base(tmp_path / "base")
    train, dev = (ToyExamples(*helpers.examples(32, seed), source="toy") for seed in range(2))
    model = finetune(
        base, train, dev, tmp_path / "run", epochs=2, batch_size=16, verbose=0, threshold=0.75
    )
    assert type(model) is PraiseDetector and model.threshold == 0.75
    recipe = tmp_path / "run" / "recipe.yaml"
    assert "threshold: 0.75" in recipe.read_text()
    settings = {"epochs": 2, "batch_size": 16, "verbose": 0}
    finetune(base, train, dev, tmp_path / "run", threshold=0.75, **settings)  # finished
    with pytest.raises(InputError, match="threshold was 0.75"):
        finetune(base, train, dev, tmp_path / "run", threshold=0.5, **settings)
    with pytest.raises(InputError, match=r"threshold must be a number in \[0, 1\]"):
        finetune(base, train, dev, tmp_path / "other", threshold=2, **settings)
    assert load_tuned(tmp_path / "run").threshold == 0.75
    assert load_tuned(tmp_path / "run", threshold=0.25).threshold == 0.25
    arguments = cli_finetune_settings(["--recipe", str(recipe), "--threshold", "0.1"])
    assert arguments["threshold"] == 0.1 and arguments["epochs"] == 2
    model.threshold = 0.25
    model.save_pretrained(tmp_path / "lower")
    assert PraiseDetector.from_pretrained(tmp_path / "lower").threshold == 0.25
    model.save(tmp_path / "lower.keras")
    assert keras.saving.load_model(tmp_path / "lower.keras").threshold == 0.25
    config = tmp_path / "lower" / "config.json"
    config.write_text(config.read_text().replace('"threshold": 0.25', '"threshold": 2'))
    with pytest.raises(InputError, match=r"keras_bert_impl.threshold must be a number in \[0, 1\]"):
        PraiseDetector.from_pretrained(tmp_path / "lower")
    scores = json.loads((tmp_path / "run" / "scores.json").read_text())
    assert evaluate(load_tuned(tmp_path / "run"), dev) == scores
    table = tmp_path / "dev.tsv"
    rows = zip(dev.texts, dev.labels)
    table.write_text("text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in rows))
    run = ["--model", str(tmp_path / "run")]
    assert cli.main(["predict", *run, "--input", str(table), "--text", "text", "--json"]) == 0
    predictions = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    labels = np.array(dev.labels) == "positive"
    assert np.mean([row["praise"] for row in predictions] == labels) == scores["share"]
    files = ["--dev", str(table), "--text", "text", "--label", "label"]
    assert cli.main(["evaluate", *run, *files, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == scores
    assert cli.main(["export", *run, "--out", str(tmp_path / "served")]) == 0
    served = tf.saved_model.load(str(next((tmp_path / "served").glob("[0-9]*"))))
    outputs = served.signatures["serving_default"](tf.constant(dev.texts))
    served_labels = [label.decode() for label in outputs["label"].numpy()]
    assert served_labels == load_tuned(tmp_path / "run").classify(dev.texts)


def test_rejects_duplicate_names_and_example_classes(praise):
    with pytest.raises(InputError, match="'praise' is already registered"):
        registry.register_task(type("Other", (Task,), {"name": "praise"}))
    with pytest.raises(InputError, match="ToyExamples is already registered for Praise"):
        registry.register_task(type("Other", (Task,), {"example_class": ToyExamples}))
