"""Bootstrap intervals, class scores, calibration and thresholds."""

import numpy as np
import pytest
import scipy.stats
from sklearn import metrics as sklearn

from keras_bert_impl.tasks.scores import statistics

RANDOM = np.random.default_rng(0)
LABELS = RANDOM.integers(0, 4, 300)
PREDICTIONS = np.where(RANDOM.random(300) < 0.7, LABELS, RANDOM.integers(0, 3, 300))


def test_class_scores_are_those_of_scikit_learn():
    counts = statistics.confusion(LABELS, PREDICTIONS, 5)  # class 4 never occurs, 3 is rarely found
    np.testing.assert_array_equal(
        counts, sklearn.confusion_matrix(LABELS, PREDICTIONS, labels=range(5))
    )
    found = statistics.class_scores(list("abcde"), counts)
    expected = sklearn.precision_recall_fscore_support(
        LABELS, PREDICTIONS, labels=range(5), zero_division=0
    )
    np.testing.assert_allclose([one[1:] for one in found], np.transpose(expected), rtol=1e-12)


def test_the_interval_of_a_mean_is_that_of_its_standard_error():
    values = RANDOM.normal(3, 2, 400)
    found = statistics.bootstrap(np.mean, values, samples=4000)
    assert found.value == values.mean()
    error = 1.96 * values.std() / 20
    # Percentiles of 4,000 resamples are exact to some 3 % of the width.
    np.testing.assert_allclose(
        [found.low, found.high], [found.value - error, found.value + error], atol=0.15 * error
    )
    assert found == statistics.bootstrap(np.mean, values, samples=4000)
    assert found != statistics.bootstrap(np.mean, values, samples=4000, seed=1)


@pytest.mark.parametrize(("hits", "count"), [(0, 14), (1, 3), (14, 14), (300, 400)])
def test_the_wilson_interval_is_that_of_scipy(hits, count):
    found = statistics.wilson(np.arange(count) < hits)
    expected = scipy.stats.binomtest(hits, count).proportion_ci(0.95, method="wilson")
    np.testing.assert_allclose(found, [hits / count, expected.low, expected.high], atol=1e-7)


@pytest.mark.parametrize("count", [2, 3, 5, 10, 11, 30])
def test_the_interval_of_runs_is_that_of_scipy(count):
    scores = RANDOM.normal(0.8, 0.02, count)
    low, high = scipy.stats.t.interval(
        0.95, count - 1, scores.mean(), scores.std(ddof=1) / count**0.5
    )
    found = statistics.of_runs(scores)
    assert found.value == scores.mean()
    assert (found.high - found.low) == pytest.approx(high - low, rel=1e-4)
    assert (found.high + found.low) / 2 == pytest.approx(scores.mean())


def test_paired_difference():
    def accuracy(labels, predictions):
        return np.mean(labels == predictions)

    same = statistics.paired_difference(accuracy, LABELS, PREDICTIONS, PREDICTIONS)
    assert same == ((0.0, 0.0, 0.0), 1.0)
    better = statistics.paired_difference(accuracy, LABELS, PREDICTIONS, LABELS)
    assert better.interval.value == np.mean(LABELS != PREDICTIONS)
    assert better.interval.low > 0 and better.p == 2 / 1001
    # A single example that differs is no evidence.
    other = PREDICTIONS.copy()
    other[np.flatnonzero(other != LABELS)[0]] = LABELS[np.flatnonzero(other != LABELS)[0]]
    assert statistics.paired_difference(accuracy, LABELS, PREDICTIONS, other).p > 0.3


def test_calibration_by_hand():
    confidences = np.array([0.55, 0.55, 0.95, 1.0])
    bins, error = statistics.calibration(confidences, np.array([True, False, True, True]))
    assert [(one.low, one.size, one.accuracy) for one in bins] == [(0.5, 2, 0.5), (0.9, 2, 1.0)]
    assert error == pytest.approx((2 * 0.05 + 2 * 0.025) / 4)


def test_thresholds_are_those_of_scikit_learn():
    is_positive, scores = LABELS > 1, np.round(RANDOM.random(300), 3)
    for one in statistics.by_threshold(is_positive, scores)[::20]:
        chosen = scores >= one.threshold
        if chosen.any():
            assert one.precision == sklearn.precision_score(is_positive, chosen)
        assert one.recall == sklearn.recall_score(is_positive, chosen)
        assert one.f1 == pytest.approx(sklearn.f1_score(is_positive, chosen))
    nothing = statistics.by_threshold(is_positive, np.zeros(300))[-1]
    assert np.isnan(nothing.precision) and nothing.recall == 0
