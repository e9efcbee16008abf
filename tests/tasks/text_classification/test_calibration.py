"""Temperature and thresholds of a `TextClassifier`, in its files and exports."""

import json

import keras
import numpy as np
import pytest
import scipy.special
import tensorflow as tf
import transformers

from keras_bert_impl.tasks import TextClassifier
from keras_bert_impl.utils.errors import InputError
from tests.tasks.helpers import classifier, encoder, examples, tokenizer

TEXTS, LABELS = examples(count=60)
HELD_OUT = examples(count=80, seed=7)
MULTI = "multi_label_classification"
LABEL_SETS = ["good", "film", "plot"]


def trained(scale=4.0, **arguments):
    """A model that is right sometimes, with logits `scale` times too large."""
    model = classifier(dropout=0.0, **arguments)
    model.compile(optimizer=keras.optimizers.Adam(1e-2))
    labels = LABELS
    if arguments:
        labels = [[name for name in LABEL_SETS if name in text.split()] for text in TEXTS]
    model.fit(TEXTS, labels, epochs=3, batch_size=8, verbose=0)
    dense = model.head_layer.dense
    for weight in dense.weights:
        weight.assign(weight * scale)
    return model


def logits_of(model, texts):
    return np.asarray(model(texts))


@pytest.fixture(scope="module")
def calibrated():
    """(logits before, what was found, the model)."""
    model = trained()
    before = logits_of(model, HELD_OUT[0])
    return before, model.calibrate(*HELD_OUT, threshold="f1", label="negative"), model


def test_logits_are_divided_by_the_temperature(calibrated):
    before, calibration, model = calibrated
    after = logits_of(model, HELD_OUT[0])
    assert calibration.temperature > 1.5
    np.testing.assert_allclose(after, before / calibration.temperature, atol=1e-5)
    scores = model.predict(HELD_OUT[0], verbose=0)
    np.testing.assert_allclose(scores, scipy.special.softmax(after, axis=1), atol=1e-6)


def test_threshold_decides_in_every_answer(calibrated, tmp_path):
    model = calibrated[2]
    bound = model.thresholds["negative"]
    scores = model.predict(HELD_OUT[0], verbose=0)
    expected = ["negative" if row[0] >= bound else "positive" for row in scores]
    assert model.classify(HELD_OUT[0]) == expected
    likeliest = [model.labels[n] for n in scores.argmax(axis=1)]
    model.thresholds = {"negative": float(np.median(scores[:, 0]))}  # differs from 0.5
    try:
        model.export(tmp_path / "served")
        served = tf.saved_model.load(str(tmp_path / "served")).signatures["serving_default"]
        outputs = served(text=tf.constant(HELD_OUT[0]))
        labels = [name.decode() for name in outputs["label"].numpy()]
        assert labels == model.classify(HELD_OUT[0]) and labels != likeliest
        np.testing.assert_allclose(outputs["scores"], scores, atol=1e-5)
        label_scores = scores[np.arange(80), outputs["label_id"]]
        np.testing.assert_allclose(outputs["score"], label_scores, atol=1e-5)
    finally:
        model.thresholds = {"negative": bound}


def test_files_keep_temperature_and_threshold(calibrated, tmp_path):
    model = calibrated[2]
    expected = model.predict(HELD_OUT[0], verbose=0)
    model.save_pretrained(tmp_path / "hf")
    loaded = TextClassifier.from_pretrained(tmp_path / "hf")
    model.save(tmp_path / "model.keras")
    copies = loaded, keras.models.load_model(tmp_path / "model.keras")
    for copy in copies:
        assert copy.thresholds == model.thresholds
        np.testing.assert_array_equal(copy.predict(HELD_OUT[0], verbose=0), expected)
    original = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "hf")
    rows = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")(
        HELD_OUT[0], padding=True, return_tensors="pt"
    )
    logits = original.eval()(**rows).logits.detach().numpy()
    np.testing.assert_allclose(scipy.special.softmax(logits, axis=1), expected, atol=1e-5)


def test_a_model_that_learns_other_labels_has_no_threshold(calibrated, tmp_path):
    calibrated[2].save_pretrained(tmp_path / "hf")
    relabeled = TextClassifier.from_pretrained(tmp_path / "hf", labels=["negative", "positive"])
    assert relabeled.thresholds is None
    settings = json.loads((tmp_path / "hf/config.json").read_text())["keras_bert_impl"]
    assert settings["thresholds"] == calibrated[2].thresholds


def test_each_of_several_labels_has_a_threshold(tmp_path):
    model = trained(labels=LABEL_SETS, problem_type=MULTI)
    texts = HELD_OUT[0]
    labels = [[name for name in LABEL_SETS if name in text.split()] for text in texts]
    calibration = model.calibrate(texts, labels, threshold="f2")
    scores = model.predict(texts, verbose=0)
    bounds = np.array([calibration.thresholds[name] for name in LABEL_SETS], "float32")
    expected = [[LABEL_SETS[i] for i in np.flatnonzero(row >= bounds)] for row in scores]
    assert model.classify(texts) == expected
    model.export(tmp_path / "served")
    served = tf.saved_model.load(str(tmp_path / "served")).signatures["serving_default"]
    names = served(text=tf.constant(texts))["labels"].numpy()
    assert [[name.decode() for name in row if name] for row in names] == expected


def test_what_cannot_be_calibrated():
    numbers = TextClassifier(encoder(), tokenizer(), num_classes=1)
    with pytest.raises(InputError, match="no probabilities to calibrate"):
        numbers.calibrate(["good"], [1.0])
    with pytest.raises(InputError, match="threshold must be f1"):
        trained().calibrate(*HELD_OUT, threshold="best")
