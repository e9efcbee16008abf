"""Baselines of text classification, compared with scikit-learn's own pipeline."""

import numpy as np
import pytest

from keras_bert_impl.data.tables.labels import MULTI, REGRESSION, SINGLE
from keras_bert_impl.tasks.text_classification import baselines as module
from keras_bert_impl.tasks.text_classification.baselines import baselines as all_of

WORDS = ["the parcel is late", "a late parcel again", "great, thank you", "thank you so much"]
TEXTS, CLASSES = WORDS * 5, np.array([0, 0, 1, 1] * 5)
DEV = ["late again", "thank you", "so great", "the parcel"]


def baselines(*arguments):
    """Returns the predictions by name."""
    return {name: baseline.predictions for name, baseline in all_of(*arguments, 3).items()}


def test_majority_is_the_most_frequent_class():
    predictions = baselines(TEXTS, np.array([0] * 15 + [2] * 5), DEV, SINGLE)
    np.testing.assert_array_equal(predictions["majority"], [0, 0, 0, 0])


def test_tfidf_is_scikit_learns():
    text, linear = pytest.importorskip("sklearn.feature_extraction.text"), "sklearn.linear_model"
    features = text.TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, max_features=50_000)
    model = pytest.importorskip(linear).LogisticRegression(max_iter=1000)
    model.fit(features.fit_transform(TEXTS), CLASSES)
    predictions = baselines(TEXTS, CLASSES, DEV, SINGLE)["tfidf"]
    np.testing.assert_array_equal(predictions, model.predict(features.transform(DEV)))
    np.testing.assert_array_equal(predictions, [0, 1, 1, 0])
    scores = all_of(TEXTS, CLASSES * 2, DEV, SINGLE, 3)["tfidf"].scores  # class 1 never occurs
    np.testing.assert_array_equal(scores[:, ::2], model.predict_proba(features.transform(DEV)))
    np.testing.assert_array_equal(scores[:, 1], np.zeros(4))


def test_several_labels_numbers_pairs_and_texts_without_spaces():
    pytest.importorskip("sklearn")
    hot = np.eye(3)[CLASSES]
    predictions = baselines(TEXTS, hot, DEV, MULTI)
    np.testing.assert_array_equal(predictions["tfidf"], np.eye(3)[[0, 1, 1, 0]])
    assert predictions["majority"].shape == (4, 3)
    numbers = baselines(TEXTS, CLASSES.astype("float32"), DEV, REGRESSION)
    assert set(numbers) == {"tfidf"} and numbers["tfidf"][1] > 0.7 > 0.3 > numbers["tfidf"][3]
    pairs = [("ticket", text) for text in TEXTS]
    dev_pairs = [("ticket", text) for text in DEV]
    np.testing.assert_array_equal(
        baselines(pairs, CLASSES, dev_pairs, SINGLE)["tfidf"], [0, 1, 1, 0]
    )
    chinese = ["包裹迟到了", "谢谢你们"] * 10
    predictions = baselines(chinese, np.array([0, 1] * 10), ["迟到", "谢谢"], SINGLE)
    np.testing.assert_array_equal(predictions["tfidf"], [0, 1])


def test_without_scikit_learn_the_most_frequent_class_is_left(monkeypatch):
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda name: None)
    assert set(baselines(TEXTS, CLASSES, DEV, SINGLE)) == {"majority"}


def test_one_class_and_empty_vocabularies_are_no_errors():
    assert set(baselines(TEXTS, np.zeros(20, int), DEV, SINGLE)) == {"majority"}
    assert set(baselines(["a b !", "c d ?"] * 4, np.array([0, 1] * 4), DEV, SINGLE)) == {"majority"}
