"""`BertClassifier` does what scikit-learn expects of an estimator of texts."""

import pickle

import numpy as np
import pytest

from keras_bert_impl.utils.errors import InputError
from tests.tasks.helpers import examples, save_base

pd = pytest.importorskip("pandas")
sklearn = pytest.importorskip("sklearn")
from sklearn.base import clone, is_classifier  # noqa: E402
from sklearn.exceptions import NotFittedError  # noqa: E402
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score  # noqa: E402
from sklearn.pipeline import Pipeline  # noqa: E402
from sklearn.preprocessing import FunctionTransformer  # noqa: E402

from keras_bert_impl.scikit_learn import BertClassifier  # noqa: E402

TEXTS, LABELS = examples(count=60)
SETTINGS = {"epochs": 6, "batch_size": 8, "learning_rate": 0.02, "max_length": 16}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    save_base(tmp_path_factory.mktemp("base"))
    return str(tmp_path_factory.getbasetemp() / "base0")


@pytest.fixture(scope="module")
def fitted(model):
    return BertClassifier(model, **SETTINGS).fit(TEXTS, LABELS)


def test_parameters_are_those_of_the_constructor(model):
    estimator = BertClassifier(model, **SETTINGS)
    copy = clone(estimator).set_params(epochs=2)
    assert copy.get_params() == estimator.get_params() | {"epochs": 2}
    assert is_classifier(estimator)
    with pytest.raises(NotFittedError):
        estimator.predict(TEXTS)


def test_predictions_are_labels_by_probability(fitted):
    scores = fitted.predict_proba(np.array(TEXTS))
    np.testing.assert_allclose(scores.sum(axis=1), 1, atol=1e-5)
    assert fitted.classes_.tolist() == ["negative", "positive"]
    assert fitted.predict(TEXTS).tolist() == fitted.classes_[scores.argmax(axis=1)].tolist()
    assert fitted.score(TEXTS, LABELS) > 0.8


def test_texts_may_be_columns_of_a_data_frame(fitted):
    frame = pd.DataFrame({"text": TEXTS, "more": TEXTS[::-1]})
    expected = fitted.predict_proba(TEXTS)
    for texts in (frame["text"], frame[["text"]], frame[["text"]].to_numpy(), tuple(TEXTS)):
        np.testing.assert_array_equal(fitted.predict_proba(texts), expected)
    pairs = list(zip(TEXTS, TEXTS[::-1]))
    np.testing.assert_array_equal(fitted.predict_proba(frame), fitted.predict_proba(pairs))


def test_labels_keep_their_type(model):
    numbers = np.array([3 if label == "positive" else 10 for label in LABELS])
    weights = {3: 1.0, 10: 2.0}
    estimator = BertClassifier(model, **SETTINGS | {"epochs": 1}, class_weight=weights)
    estimator.fit(TEXTS, numbers)
    assert estimator.classes_.tolist() == [3, 10]
    assert set(estimator.predict(TEXTS)) <= {3, 10}
    with pytest.raises(InputError, match="a label for each text"):
        estimator.fit(TEXTS, np.eye(60, dtype=int))


@pytest.mark.parametrize("labels", [["a", "a"], []])
def test_fewer_than_two_classes_are_an_error(labels):
    with pytest.raises(InputError, match="y must have at least two classes"):
        BertClassifier("base").fit(["good film", "bad film"][: len(labels)], labels)


def test_the_same_seed_gives_the_same_model(fitted, model):
    again = BertClassifier(model, **SETTINGS).fit(TEXTS, LABELS)
    np.testing.assert_array_equal(again.predict_proba(TEXTS), fitted.predict_proba(TEXTS))


def test_a_fitted_estimator_is_pickled(fitted):
    copy = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(copy.predict_proba(TEXTS), fitted.predict_proba(TEXTS))


@pytest.mark.slow
def test_cross_validation_search_and_pipeline(model):
    folds = StratifiedKFold(2, shuffle=True, random_state=0)
    scores = cross_val_score(BertClassifier(model, **SETTINGS), TEXTS, LABELS, cv=folds)
    for (train, test), score in zip(folds.split(TEXTS, LABELS), scores, strict=True):
        single = BertClassifier(model, **SETTINGS)
        single.fit([TEXTS[i] for i in train], [LABELS[i] for i in train])
        expected = single.score([TEXTS[i] for i in test], [LABELS[i] for i in test])
        assert score == pytest.approx(expected)
        break
    lower = FunctionTransformer(lambda texts: [text.lower() for text in texts])
    steps = [("lower", lower), ("bert", BertClassifier(model, **SETTINGS))]
    search = GridSearchCV(Pipeline(steps), {"bert__epochs": [1, 6]}, cv=folds)
    search.fit([text.upper() for text in TEXTS], LABELS)
    assert search.best_params_ == {"bert__epochs": 6} and search.best_score_ > 0.5
