"""Baselines for text classification: the most frequent label, and TF-IDF with a linear model."""

import collections
import contextlib
import importlib.util
import warnings
from typing import Any, NamedTuple

import numpy as np

from keras_bert_impl.data.tables.labels import MULTI, REGRESSION, SINGLE

MOST_TEXTS = 20_000  # maximum number of training texts for TF-IDF, evenly spaced
MOST_FEATURES = 50_000


class Baseline(NamedTuple):
    """Predictions of a baseline, in the format of the targets, and scores `[texts, classes]`."""

    predictions: np.ndarray
    scores: np.ndarray


def baselines(
    texts: list, targets: np.ndarray, of_dev: list, problem_type: str, num_classes: int
) -> dict[str, Baseline]:
    """Predicts labels with baselines. TF-IDF is only used if scikit-learn is installed.

    Args:
        texts: training texts: str or tuples of str.
        targets: training labels: class indices `[texts]`, floats `[texts]` or multi-hot `[texts,
            labels]`.
        of_dev: texts to predict labels for.
        problem_type: `SINGLE`, `MULTI` or `REGRESSION`.

    Returns:
        dict of name -> `Baseline`: `majority`, the most frequent label (not for regression), and
        `tfidf`. The `scores` of `majority` and of regression baselines are 0.
    """
    predictions = {}
    no_scores = np.zeros([len(of_dev), num_classes])
    if problem_type != REGRESSION:
        rows = [tuple(np.atleast_1d(row).tolist()) for row in targets]
        most = collections.Counter(rows).most_common(1)[0][0]
        row = np.array(most, targets.dtype) if problem_type == MULTI else targets.dtype.type(*most)
        predictions["majority"] = Baseline(np.array([row] * len(of_dev)), no_scores)
    if importlib.util.find_spec("sklearn"):
        model = tfidf_model(texts, problem_type)
        sample = np.linspace(0, len(texts) - 1, min(len(texts), MOST_TEXTS)).astype(int)
        if problem_type == MULTI or len(set(targets[sample].tolist())) > 1:
            # scikit-learn raises ValueError if all words have one letter. It warns of labels that
            # no text or every text has, of many classes, and of slow convergence.
            with contextlib.suppress(ValueError), warnings.catch_warnings(action="ignore"):
                model.fit([_join_segments(texts[row]) for row in sample], targets[sample])
                inputs, scores = list(map(_join_segments, of_dev)), no_scores.copy()
                if problem_type != REGRESSION:
                    classes = model.classes_ if problem_type == SINGLE else range(num_classes)
                    scores[:, classes] = model.predict_proba(inputs)
                predictions["tfidf"] = Baseline(np.asarray(model.predict(inputs)), scores)
    return predictions


def tfidf_model(texts: list, problem_type: str) -> Any:
    """Returns a scikit-learn pipeline of TF-IDF and a linear model.

    Features are words and word pairs. If the texts contain almost no spaces, features are
    characters.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.pipeline import make_pipeline

    sample = "".join(map(_join_segments, texts[:1000]))
    has_words = sample.count(" ") > 0.02 * len(sample)
    features = TfidfVectorizer(
        analyzer="word" if has_words else "char",
        ngram_range=(1, 2),
        sublinear_tf=True,
        max_features=MOST_FEATURES,
    )
    if problem_type == SINGLE:
        return make_pipeline(features, LogisticRegression(max_iter=1000))
    if problem_type == MULTI:
        return make_pipeline(features, OneVsRestClassifier(LogisticRegression(max_iter=1000)))
    return make_pipeline(features, Ridge())


def _join_segments(text):
    return text if isinstance(text, str) else " ".join(text)
