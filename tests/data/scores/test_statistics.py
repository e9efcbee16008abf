"""Bootstrap intervals, class scores, calibration and thresholds."""

import itertools

import numpy as np
import pytest
import scipy.stats
from sklearn import metrics as sklearn

from keras_bert_impl.data.scores import statistics
from keras_bert_impl.data.scores.metrics import accuracy, macro_f1

RANDOM = np.random.default_rng(0)
LABELS = RANDOM.integers(0, 4, 300)
PREDICTIONS = np.where(RANDOM.random(300) < 0.7, LABELS, RANDOM.integers(0, 3, 300))


def test_class_scores_are_those_of_scikit_learn():
    counts = statistics.confusion(LABELS, PREDICTIONS, 5)  # class 4 never occurs, 3 is rarely found
    np.testing.assert_array_equal(
        counts, sklearn.confusion_matrix(LABELS, PREDICTIONS, labels=range(5))
    )
    scores = statistics.class_scores(list("abcde"), counts)
    expected = sklearn.precision_recall_fscore_support(
        LABELS, PREDICTIONS, labels=range(5), zero_division=0
    )
    np.testing.assert_allclose([row[1:] for row in scores], np.transpose(expected), rtol=1e-12)


def test_the_interval_of_a_mean_is_that_of_its_standard_error():
    values = RANDOM.normal(3, 2, 400)
    mean = statistics.bootstrap(np.mean, values, samples=4000)
    assert mean.value == values.mean()
    error = 1.96 * values.std() / 20
    # Percentiles of 4,000 resamples are exact to some 3 % of the width.
    np.testing.assert_allclose(
        [mean.low, mean.high], [mean.value - error, mean.value + error], atol=0.15 * error
    )
    assert mean == statistics.bootstrap(np.mean, values, samples=4000)
    assert mean != statistics.bootstrap(np.mean, values, samples=4000, seed=1)


@pytest.mark.parametrize(("hits", "count"), [(0, 14), (1, 3), (14, 14), (300, 400)])
def test_the_wilson_interval_is_that_of_scipy(hits, count):
    interval = statistics.wilson(np.arange(count) < hits)
    expected = scipy.stats.binomtest(hits, count).proportion_ci(0.95, method="wilson")
    np.testing.assert_allclose(interval, [hits / count, expected.low, expected.high], atol=1e-7)


@pytest.mark.parametrize("count", [2, 3, 5, 10, 11, 30])
def test_the_interval_of_runs_is_that_of_scipy(count):
    scores = RANDOM.normal(0.8, 0.02, count)
    low, high = scipy.stats.t.interval(
        0.95, count - 1, scores.mean(), scores.std(ddof=1) / count**0.5
    )
    interval = statistics.of_runs(scores)
    assert interval.value == scores.mean()
    assert (interval.high - interval.low) == pytest.approx(high - low, rel=1e-4)
    assert (interval.high + interval.low) / 2 == pytest.approx(scores.mean())


@pytest.mark.parametrize("wins", range(0, 21, 4))
@pytest.mark.parametrize("losses", [0, 3, 9, 60])
def test_accuracies_are_compared_by_a_sign_test(wins, losses):
    count = 100 + wins + losses
    labels, first, second = np.zeros((3, count), int)
    first[:wins], second[wins : wins + losses] = 1, 1
    p = statistics.paired_difference(accuracy, labels, first, second).p
    expected = scipy.stats.binomtest(wins, wins + losses).pvalue if wins + losses else 1.0
    if wins + losses > 20:  # half of the probability of the observed result
        expected -= scipy.stats.binom.pmf(wins, wins + losses, 0.5)
    assert p == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("metric", [accuracy, macro_f1])
@pytest.mark.parametrize("count", [1, 2, 4, 8, 20, 50, 200])
def test_equal_models_are_seldom_different(count, metric):
    draw, runs = np.random.default_rng(0), 300 if metric is accuracy else 40
    labels = np.arange(count) % 2
    different = 0
    for _ in range(runs):
        columns = labels, *draw.integers(0, 2, (2, count))
        different += statistics.paired_difference(metric, *columns, samples=60).p < 0.05
    assert different <= 0.05 * runs + 3 * (0.05 * 0.95 * runs) ** 0.5
    assert count > 5 or not different  # p is at least 2 / 2^5


def test_exchanges_are_enumerated_or_drawn():
    """The p-value of random exchanges is near the p-value of all exchanges."""
    labels = np.arange(40) % 3
    second = np.where(np.arange(40) % 4 == 1, (labels + 1) % 3, labels)
    first = np.where(np.arange(40) < 15, labels[::-1], second)
    drawn = statistics.paired_difference(macro_f1, labels, first, second, samples=5000).p
    rows = np.flatnonzero(first != second)
    assert 8 < len(rows) <= 12
    differences = []
    for swap in itertools.product([False, True], repeat=len(rows)):
        a, b = first.copy(), second.copy()
        swapped = rows[list(swap)]
        a[swapped], b[swapped] = second[swapped], first[swapped]
        differences.append(abs(macro_f1(labels, b) - macro_f1(labels, a)))
    assert drawn == pytest.approx(np.mean(np.array(differences) >= differences[0] - 1e-9), abs=0.02)


def test_the_interval_of_a_difference_agrees_with_its_p_value():
    same = statistics.paired_difference(accuracy, LABELS, PREDICTIONS, PREDICTIONS)
    np.testing.assert_equal(tuple(same.interval), (0.0, np.nan, np.nan))
    better = statistics.paired_difference(accuracy, LABELS, PREDICTIONS, LABELS)
    assert better.interval.value == np.mean(LABELS != PREDICTIONS)
    assert better.interval.low > 0 and better.p < 1e-6
    draw = np.random.default_rng(0)
    for _ in range(8):
        predictions = np.where(draw.random(300) < 0.2, LABELS, PREDICTIONS)
        predictions = np.where(draw.random(300) < 0.1, draw.integers(0, 3, 300), predictions)
        for metric in (accuracy, macro_f1):
            (_, low, high), p = statistics.paired_difference(
                metric, LABELS, PREDICTIONS, predictions, samples=100
            )
            assert (low <= 0 <= high) or p < 0.05
            assert p >= 0.05 or low >= 0 or high <= 0


@pytest.mark.parametrize("sharpness", [1, 1.3, 3], ids=["calibrated", "a little off", "far off"])
@pytest.mark.parametrize("count", [20, 1000])
def test_calibration_errors_are_in_their_interval(sharpness, count):
    """`sharpness` is the temperature at which the confidences would be calibrated."""
    draw = np.random.default_rng(0)

    def drawn(count):
        confidences = draw.uniform(0.5, 1, count)
        odds = (confidences / (1 - confidences)) ** (1 / sharpness)
        return confidences, odds / (1 + odds)

    confidences, probabilities = drawn(1_000_000)
    bins = np.minimum((confidences * 10).astype(int), 9)
    gaps = np.bincount(bins, confidences) - np.bincount(bins, probabilities)
    expected = np.abs(gaps).sum() / len(confidences)
    inside = 0
    for _ in range(200):
        confidences, probabilities = drawn(count)
        error = statistics.calibration_error(confidences, draw.random(count) < probabilities)
        inside += error.low <= expected <= error.high
    assert inside >= 190


def test_calibration_by_hand():
    confidences = np.array([0.55, 0.55, 0.95, 1.0])
    bins, error = statistics.calibration(confidences, np.array([True, False, True, True]))
    assert [(part.low, part.size, part.accuracy) for part in bins] == [(0.5, 2, 0.5), (0.9, 2, 1.0)]
    assert error == pytest.approx((2 * 0.05 + 2 * 0.025) / 4)


def test_thresholds_are_those_of_scikit_learn():
    is_positive, scores = LABELS > 1, np.round(RANDOM.random(300), 3)
    for point in statistics.by_threshold(is_positive, scores)[::20]:
        predicted = scores >= point.threshold
        if predicted.any():
            assert point.precision == sklearn.precision_score(is_positive, predicted)
        assert point.recall == sklearn.recall_score(is_positive, predicted)
        assert point.f1 == pytest.approx(sklearn.f1_score(is_positive, predicted))
    nothing = statistics.by_threshold(is_positive, np.zeros(300))[-1]
    assert np.isnan(nothing.precision) and nothing.recall == 0
