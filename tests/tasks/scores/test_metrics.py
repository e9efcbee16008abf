import math

import numpy as np
import pytest
import scipy.stats
import sklearn.metrics

from keras_bert_impl.tasks.scores.metrics import METRICS, comparable, multi_label_scores

DRAW = np.random.default_rng(0)
BINARY = DRAW.integers(0, 2, (2, 200))
CLASSES = DRAW.integers(0, 5, (2, 200))
NUMBERS = np.round(DRAW.normal(size=(2, 200)), 1)  # has ties

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
def test_metrics_equal_scikit_learn_and_scipy(name, pair, oracle):
    # Sums of 200 float64 terms in another order: 200 * 2.2e-16.
    assert METRICS[name](*pair) == pytest.approx(oracle(*pair), abs=1e-13)


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("side", [0, 1])
def test_nan_in_labels_or_predictions_gives_nan(name, side):
    pair = [np.array([0.0, 1.0, 1.0, 0.0]), np.array([0.0, 1.0, 1.0, 0.0])]
    pair[side][2] = math.nan
    assert math.isnan(METRICS[name](*pair))


def test_nan_in_multi_label_predictions_gives_nan():
    labels = np.eye(3)
    predictions = labels.copy()
    predictions[0, 1] = math.nan
    assert all(map(math.isnan, multi_label_scores(labels, predictions).values()))


@pytest.mark.parametrize("constant", [0.1, 0.3, 1e-9, 0.0])
def test_correlation_of_constants_is_nan(constant):
    # The mean of ten times 0.1 is not exactly 0.1, so the deviations are pure rounding errors.
    numbers = np.arange(10.0)
    for metric in ("pearson", "spearman"):
        assert math.isnan(METRICS[metric](numbers, np.full(10, constant)))
        assert math.isnan(METRICS[metric](np.full(10, constant), numbers))


def test_lower_errors_rank_higher():
    assert comparable("mean_squared_error", 0.5) == -0.5 and comparable("pearson", 0.5) == 0.5


def test_degenerate_predictions_have_defined_scores():
    labels = np.array([0, 1, 1])
    assert METRICS["f1"](np.zeros(3), np.zeros(3)) == 0.0
    assert METRICS["matthews"](labels, np.ones(3)) == 0.0
    assert math.isnan(METRICS["pearson"](labels, np.ones(3)))
