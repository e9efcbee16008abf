import math

import numpy as np
import pytest
import scipy.stats
import sklearn.metrics

from keras_bert_impl.tasks.metrics import METRICS

DRAW = np.random.default_rng(0)
BINARY = DRAW.integers(0, 2, (2, 200))
CLASSES = DRAW.integers(0, 5, (2, 200))
NUMBERS = np.round(DRAW.normal(size=(2, 200)), 1)  # with ties

ORACLES = [
    ("accuracy", CLASSES, sklearn.metrics.accuracy_score),
    ("f1", BINARY, sklearn.metrics.f1_score),
    ("macro_f1", CLASSES, lambda y, p: sklearn.metrics.f1_score(y, p, average="macro")),
    ("matthews", BINARY, sklearn.metrics.matthews_corrcoef),
    ("matthews", CLASSES, sklearn.metrics.matthews_corrcoef),
    ("pearson", NUMBERS, lambda y, p: scipy.stats.pearsonr(y, p)[0]),
    ("spearman", NUMBERS, lambda y, p: scipy.stats.spearmanr(y, p)[0]),
    ("mean_squared_error", NUMBERS, sklearn.metrics.mean_squared_error),
]


@pytest.mark.parametrize("name, pair, oracle", ORACLES)
def test_equal_to_scikit_learn_and_scipy(name, pair, oracle):
    # Sums of 200 float64 terms in another order: 200 * 2.2e-16.
    assert METRICS[name](*pair) == pytest.approx(oracle(*pair), abs=1e-13)


def test_degenerate_predictions():
    labels = np.array([0, 1, 1])
    assert METRICS["f1"](np.zeros(3), np.zeros(3)) == 0.0
    assert METRICS["matthews"](labels, np.ones(3)) == 0.0
    assert math.isnan(METRICS["pearson"](labels, np.ones(3)))
