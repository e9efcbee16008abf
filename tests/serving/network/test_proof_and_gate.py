"""Checks for every format: outputs too far from the model's, and scores that drop."""

import numpy as np
import pytest

from keras_bert_impl import TextEmbedder
from keras_bert_impl.serving.graphs.networks import network_of
from keras_bert_impl.serving.network import export
from keras_bert_impl.serving.network.proof import relative_difference
from keras_bert_impl.utils.errors import InputError
from tests.tasks import helpers


def exported(directory, error=0.0, model=None, change=None, **how):
    """Exports a classifier to a runtime that is Keras with a relative error; returns the report."""
    model = model or helpers.classifier()

    def write(model, directory, precision, batches):
        (directory / "model.onnx").write_bytes(b"network")

    def session(directory, config):
        def outputs(features):
            expected = network_of(model).outputs_of_model(features)
            changed = {name: (1 + error) * array for name, array in expected.items()}
            return change(changed) if change else changed

        return outputs

    keras = export.Format("Keras", write, session, "print('loaded')\n")
    return export.export_network(model, directory, keras, **how)


def test_rejects_outputs_that_differ_too_much(tmp_path):
    with pytest.raises(
        InputError, match="Keras file .* relative error of 0.0002, .* Nothing was written"
    ):
        exported(tmp_path / "served", error=2e-4)
    assert not (tmp_path / "served").exists()
    report = exported(tmp_path / "served", error=5e-5)
    assert report.difference == pytest.approx(5e-5, rel=0.01) and report.bytes == len(b"network")


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_difference_of_non_finite_outputs_is_infinite(side, number):
    outputs = [{"logits": np.array([[1.0, 2.0, 3.0]])} for _ in range(2)]
    assert relative_difference(*outputs, np.ones((1, 3))) == 0
    outputs[side]["logits"][0, 1] = number  # one of three numbers
    assert relative_difference(*outputs, np.ones((1, 3))) == float("inf")


def test_rejects_scores_that_drop(tmp_path):
    def scores(*values):
        values = iter(values)
        return lambda model: next(values)

    directory = tmp_path / "served"
    message = "from 80.00 to 79.40, by more than 0.5 points"
    with pytest.raises(InputError, match=message):
        exported(directory, measure=scores(80.0, 79.4), max_drop=0.5)
    with pytest.raises(InputError, match="drops"):
        exported(directory, measure=scores(80.0, float("nan")), max_drop=0.5)
    assert not directory.exists()
    report = exported(directory, measure=scores(80.0, 79.6), max_drop=0.5)
    assert (report.before, report.after) == (80.0, 79.6)
    card = (directory / "README.md").read_text()
    assert "Exported to Keras in fp32" in card and "```python\nprint('loaded')\n```" in card
    assert "The score is 80.00 before the export, and 79.60 after." in card


def test_the_card_has_the_scores_of_the_run_and_is_kept_if_edited(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "scores.json").write_text('{"accuracy": 0.875}')
    exported(tmp_path / "served", run=tmp_path / "run")
    card = tmp_path / "served" / "README.md"
    assert "| accuracy | 0.875 |" in card.read_text()
    assert "`negative`, `positive`" in card.read_text()
    card.write_text(card.read_text() + "For reviews of films only.\n")
    exported(tmp_path / "served", run=tmp_path / "run")
    assert card.read_text().endswith("For reviews of films only.\n")


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"precision": "int4"}, "precision must be one of fp32, fp16, int8"),
        ({"calibration": ["a"]}, "calibration requires precision int8"),
        ({"precision": "int8", "calibration": []}, "at least one text"),
        ({"precision": "int8", "calibration": "texts.txt"}, "calibration must be a list"),
        ({"texts": "one text"}, "texts must be a list"),
        ({"max_drop": 0.5}, "max_drop requires labeled examples"),
    ],
)
def test_arguments_that_do_not_go_together(tmp_path, arguments, message):
    with pytest.raises(InputError, match=message):
        exported(tmp_path / "served", **arguments)


TEXTS = list(dict.fromkeys(helpers.examples(count=60)[0]))[:40]


def embedder():
    return TextEmbedder(helpers.encoder(dropout=0.0), helpers.tokenizer())


def nearest(vectors):
    vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    similarities = vectors @ vectors.T
    np.fill_diagonal(similarities, -1)
    return similarities.argmax(axis=1)


def test_nearest_neighbors_that_change_are_counted(tmp_path, caplog):
    model = embedder()
    signs = np.where(np.arange(16) < 4, 0.5, 1).astype("float32")  # not a rotation

    def change(outputs):
        return {name: array * signs for name, array in outputs.items()}

    vectors = model.encode(TEXTS)
    expected = int(np.sum(nearest(vectors) != nearest(vectors * signs)))
    assert 2 < expected < 40
    how = {"model": model, "change": change, "precision": "int8"}
    report = exported(tmp_path / "served", texts=TEXTS, **how)
    assert (report.neighbors.changed, report.neighbors.texts) == (expected, 40)
    sentence = f"the nearest neighbor changes for {expected / 40:.1%} of 40 texts"
    assert sentence in (tmp_path / "served" / "README.md").read_text()
    assert sentence in caplog.text and "Precision fp16 is more accurate" in caplog.text


def test_neighbors_of_the_same_vectors_do_not_change(tmp_path, caplog):
    report = exported(tmp_path / "served", model=embedder(), error=1e-3, precision="fp16")
    assert (report.neighbors.changed, report.neighbors.texts) == (0, 96)
    assert "0.0% of 96 built-in" in (tmp_path / "served" / "README.md").read_text()
    assert not caplog.text
    assert exported(tmp_path / "exact", model=embedder()).neighbors is None  # fp32
    assert exported(tmp_path / "classes", precision="int8").neighbors is None


def test_texts_of_equal_vectors_may_exchange_places(tmp_path):
    doubled = [*TEXTS[:20], *(f"{text} " for text in TEXTS[:20])]
    report = exported(tmp_path / "a", model=embedder(), error=1e-3, precision="int8", texts=doubled)
    assert (report.neighbors.changed, report.neighbors.texts) == (0, 40)
