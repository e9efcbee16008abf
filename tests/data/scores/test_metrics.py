import math

import numpy as np
import pytest
import scipy.stats
import sklearn.metrics

from keras_bert_impl.data.scores.metrics import (
    METRICS,
    MULTI_LABEL_METRICS,
    comparable,
    is_of_scores,
    metric_named,
)

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


@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("decimals", [1, 8])  # with and without equal scores
def test_average_precision_equals_scikit_learn(classes, decimals):
    oracle = sklearn.metrics.average_precision_score
    random = np.random.default_rng(classes)
    labels = np.concatenate([np.arange(classes), random.integers(0, classes, 300)])
    scores = random.dirichlet(np.ones(classes), len(labels)).round(decimals)
    metric = metric_named("average_precision")
    expected = oracle(labels, scores[:, 1] if classes == 2 else scores, average="macro")
    assert metric(labels, scores) == pytest.approx(expected, abs=1e-13)
    names, hot = [f"name {number}" for number in range(classes)], np.eye(classes)[labels]
    for number, name in enumerate(names):
        class_metric = metric_named(f"average_precision/{name}", names)
        expected = oracle(hot[:, number], scores[:, number])
        assert class_metric(labels, scores) == pytest.approx(expected, abs=1e-13)
        assert class_metric(hot, scores) == class_metric(labels, scores)
    several = (random.random(hot.shape) < 0.3) | (hot > 0)
    assert metric(several, scores) == pytest.approx(oracle(several, scores), abs=1e-13)


def test_f1_of_a_class_equals_scikit_learn():
    oracle = sklearn.metrics.f1_score
    for number, name in enumerate("abcde"):
        f1 = metric_named(f"f1/{name}", "abcde")
        expected = oracle(*(values == number for values in CLASSES))
        assert f1(*CLASSES) == pytest.approx(expected, abs=1e-13)
        hot = [np.eye(5)[values] for values in CLASSES]
        assert f1(*hot) == f1(*CLASSES)
        for predictions in (np.where(np.arange(200) == 3, math.nan, CLASSES[1]), hot[1] * math.nan):
            assert math.isnan(f1(CLASSES[0] if predictions.ndim == 1 else hot[0], predictions))


def test_average_precision_leaves_out_classes_that_never_occur():
    scores = np.random.default_rng(0).random([50, 3])
    labels = np.arange(50) % 2
    by_class = (metric_named(f"average_precision/{c}", "abc")(labels, scores) for c in "ab")
    assert metric_named("average_precision")(labels, scores) == np.mean([*by_class])
    assert metric_named("average_precision/c", "abc")(labels, scores) == 0.0
    scores[3, 1] = math.nan
    assert math.isnan(metric_named("average_precision")(labels, scores))
    assert is_of_scores("average_precision/c") and not is_of_scores("f1/c")


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
    assert all(math.isnan(of(labels, predictions)) for of in MULTI_LABEL_METRICS.values())


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
