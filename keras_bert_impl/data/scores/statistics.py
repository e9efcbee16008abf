"""Uncertainty and calibration of scores, computed with NumPy."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from keras_bert_impl.data.scores.metrics import accuracy, subset_accuracy

SAMPLES = 1000
LEVEL = 0.05  # models are different if the p-value is below this level
# If n examples have different predictions, the p-value of a paired test is at least 2 ** (1 - n).
FEWEST = 6
_FEWEST_RESAMPLED = 50  # percentile intervals of fewer examples are too narrow
_FEWEST_DIFFERENT = 10  # the same for examples with different predictions
_MOST_ENUMERATED = 8  # up to this number of examples, all exchanges are computed
_MOST_EXACT = 20  # exact p-values of more examples are mid-p-values, which are not too high
_ROUNDING = 1e-9
_SEED = 0
_Z = 1.959964  # standard normal quantile of 0.975
# quantiles of Student's t-distribution with 1 to 9 degrees of freedom
_T = (12.7062, 4.30265, 3.18245, 2.77645, 2.57058, 2.44691, 2.36462, 2.306, 2.26216)


class Interval(NamedTuple):
    """A score with its 95% confidence interval. The bounds are NaN for too few examples."""

    value: float
    low: float
    high: float


class Difference(NamedTuple):
    """The difference between the scores of two models on the same examples.

    Attributes:
        interval: score of the second model minus score of the first model. If the bounds are not
            NaN, the interval contains 0 if and only if `p` is at least 0.05.
        p: two-sided p-value for no difference.
    """

    interval: Interval
    p: float


def wilson(is_right: Any) -> Interval:
    """Computes a proportion and its Wilson score interval.

    Args:
        is_right: bool `[examples]`.

    Source: Wilson 1927, "Probable Inference, the Law of Succession, and Statistical Inference".
    """
    fraction, count = float(np.mean(is_right)), len(is_right)
    weight = 1 + _Z**2 / count
    middle = (fraction + _Z**2 / (2 * count)) / weight
    half = _Z * np.sqrt(fraction * (1 - fraction) / count + (_Z / (2 * count)) ** 2) / weight
    return Interval(fraction, max(0.0, float(middle - half)), min(1.0, float(middle + half)))


def of_runs(scores: Sequence[float]) -> Interval:
    """Computes the mean score of two or more runs, with an interval from Student's t-distribution.

    Source: Student 1908, "The Probable Error of a Mean". For more than 10 runs, the quantile is
    computed with the expansion in Abramowitz and Stegun 1964, 26.7.5.
    """
    mean, degrees = float(np.mean(scores)), len(scores) - 1
    if degrees <= len(_T):
        quantile = _T[degrees - 1]
    else:
        terms = (
            (_Z**3 + _Z) / 4,
            (5 * _Z**5 + 16 * _Z**3 + 3 * _Z) / 96,
            (3 * _Z**7 + 19 * _Z**5 + 17 * _Z**3 - 15 * _Z) / 384,
        )
        quantile = _Z + sum(term / degrees**power for power, term in enumerate(terms, 1))
    half = quantile * float(np.std(scores, ddof=1)) / math.sqrt(len(scores))
    return Interval(mean, mean - half, mean + half)


def described_runs(scores: Sequence[float]) -> dict[str, float | None]:
    """Returns the mean score of runs and its interval as a dict with `value`, `low` and `high`.

    For a single run, `low` and `high` are None.
    """
    if len(scores) == 1:
        return {"value": scores[0], "low": None, "high": None}
    return of_runs(scores)._asdict()


def bootstrap(
    metric: Callable[..., float], *columns: Any, samples: int = SAMPLES, seed: int = _SEED
) -> Interval:
    """Computes a score and its percentile interval from resampled examples.

    Args:
        *columns: arrays `[examples, ...]`, the arguments of `metric`. The same examples are drawn
            from all arrays, with replacement. For fewer than 50 examples, the bounds are NaN.

    Source: Efron and Tibshirani 1993, "An Introduction to the Bootstrap", section 13.3.
    """
    columns = tuple(map(np.asarray, columns))
    value, count = float(metric(*columns)), len(columns[0])
    if count < _FEWEST_RESAMPLED:
        return Interval(value, math.nan, math.nan)
    random = np.random.default_rng(seed)
    draws = (random.integers(0, count, count) for _ in range(samples))
    scores = [metric(*(column[rows] for column in columns)) for rows in draws]
    return Interval(value, *map(float, np.percentile(scores, [2.5, 97.5])))


def paired_difference(
    metric: Callable[..., float],
    labels: Any,
    first: Any,
    second: Any,
    samples: int = SAMPLES,
    seed: int = _SEED,
) -> Difference:
    """Tests whether two models have different scores on the same examples.

    Accuracies are compared by McNemar's exact test, which is a sign test. Other scores are compared
    by a permutation test, which exchanges the predictions of the models for random examples. Both
    are exact for up to 20 examples with different results. For more, they count equally large
    differences half (mid-p), unless almost all examples differ.

    The interval is a percentile interval of resampled examples. Its bounds are NaN for fewer than
    50 examples, or fewer than 10 examples with different predictions.

    Args:
        metric: function of labels and predictions.
        labels, first, second: arrays `[examples, ...]`: labels, and predictions of both models.

    Sources: McNemar 1947, "Note on the Sampling Error of the Difference Between Correlated
    Proportions or Percentages"; Fagerland, Lydersen and Laake 2013, "The McNemar test for binary
    matched-pairs data: mid-p and asymptotic are better than exact conditional".
    """
    labels, first, second = columns = tuple(map(np.asarray, (labels, first, second)))

    def difference(labels, first, second):
        return metric(labels, second) - metric(labels, first)

    differs = (first != second).reshape(len(first), -1).any(axis=1)
    if metric in (accuracy, subset_accuracy):
        is_right = [
            (labels == predictions).reshape(len(differs), -1) for predictions in (first, second)
        ]
        p = _run_sign_test(*is_right)
    else:
        p = _run_permutation_test(difference, columns, np.flatnonzero(differs), samples, seed)
    value, low, high = bootstrap(difference, *columns, samples=samples, seed=seed)
    if differs.sum() < _FEWEST_DIFFERENT:
        low = high = math.nan
    elif p >= LEVEL:
        low, high = min(low, 0.0), max(high, 0.0)
    else:
        low, high = (max(low, 0.0), high) if value > 0 else (low, min(high, 0.0))
    return Difference(Interval(value, low, high), p)


def _run_sign_test(first, second):
    """Returns the two-sided p-value of McNemar's test.

    Args:
        first, second: bool `[examples, labels]`, whether each label is predicted correctly.
    """
    is_right = first.all(axis=1), second.all(axis=1)
    smaller, larger = sorted(int((a & ~b).sum()) for a, b in (is_right, is_right[::-1]))
    count = smaller + larger
    shares = [
        math.exp(
            math.lgamma(count + 1)
            - math.lgamma(number + 1)
            - math.lgamma(count - number + 1)
            - count * math.log(2)
        )
        for number in range(smaller + 1)
    ]
    if smaller == larger:
        return 1.0
    return 2 * (math.fsum(shares) - (1 - _weigh_ties(count, len(first))) * shares[-1])


def _run_permutation_test(difference, columns, rows, samples, seed):
    """Returns the two-sided p-value of a difference if the models are exchanged for random `rows`.

    Up to `_MOST_ENUMERATED` rows, all exchanges are computed.
    """
    labels, first, second = columns
    if len(rows) <= _MOST_ENUMERATED:
        numbers = np.arange(2 ** len(rows))
        exchanges = (numbers[:, None] >> np.arange(len(rows)) & 1).astype(bool)
    else:
        exchanges = np.random.default_rng(seed).random((samples, len(rows))) < 0.5
    observed, differences = abs(difference(*columns)), []
    for exchange in exchanges:
        subset = rows[exchange]
        exchanged = first.copy(), second.copy()
        exchanged[0][subset], exchanged[1][subset] = second[subset], first[subset]
        differences.append(abs(difference(labels, *exchanged)))
    is_equal = np.isclose(differences, observed, rtol=0, atol=_ROUNDING)
    is_larger = ~is_equal & ~(np.array(differences) < observed)  # an undefined score counts
    as_large = is_larger.sum() + _weigh_ties(len(rows), len(first)) * is_equal.sum()
    if len(rows) <= _MOST_ENUMERATED:
        return float(as_large / len(exchanges))
    return float((as_large + 1) / (samples + 1))


def _weigh_ties(num_different, count):
    """Returns 1 for exact p-values, or 0.5 for mid-p-values.

    Mid-p-values of few examples, or if almost all examples differ, may be too low.
    """
    return 0.5 if _MOST_EXACT < num_different < 0.9 * count else 1.0


# === Classes ===


class ClassScores(NamedTuple):
    """Scores of one class. An undefined ratio is 0, as in scikit-learn."""

    name: str
    precision: float
    recall: float
    f1: float
    support: int


def confusion(labels: np.ndarray, predictions: np.ndarray, count: int) -> np.ndarray:
    """Returns the confusion matrix, int64 `[count, count]`; rows are true classes."""
    pairs = np.asarray(labels, int) * count + np.asarray(predictions, int)
    return np.bincount(pairs, minlength=count * count).reshape(count, count)


def class_scores(names: list[str], counts: np.ndarray) -> list[ClassScores]:
    hits, true_counts, predicted_counts = np.diag(counts), counts.sum(axis=1), counts.sum(axis=0)
    return [
        ClassScores(name, *ratios(int(h), int(w), int(f)), int(w))
        for name, h, w, f in zip(names, hits, true_counts, predicted_counts, strict=True)
    ]


def ratios(hits: int, wanted: int, found: int) -> tuple[float, float, float]:
    """Returns precision, recall and F1. An undefined ratio is 0."""
    precision, recall = hits / found if found else 0.0, hits / wanted if wanted else 0.0
    return precision, recall, 2 * hits / (wanted + found) if wanted + found else 0.0


# === Probabilities ===


class Bin(NamedTuple):
    """A bin of a reliability diagram: examples with confidences between `low` and `high`."""

    low: float
    high: float
    size: int
    confidence: float
    accuracy: float


def calibration(
    confidences: np.ndarray, is_right: np.ndarray, count: int = 10
) -> tuple[list[Bin], float]:
    """Computes the bins of a reliability diagram, and the expected calibration error.

    All bins have the same width. Empty bins are left out.

    Args:
        confidences: float `[examples]`, in [0, 1].
        is_right: bool `[examples]`.

    Source: Guo et al. 2017 (arXiv:1706.04599), equation 3.
    """
    place = np.minimum((np.asarray(confidences) * count).astype(int), count - 1)
    bins = []
    for number in np.unique(place):
        inside = place == number
        mean = float(np.mean(confidences[inside])), float(np.mean(is_right[inside]))
        bins.append(Bin(number / count, (number + 1) / count, int(inside.sum()), *mean))
    error = sum(bin_.size * abs(bin_.accuracy - bin_.confidence) for bin_ in bins)
    return bins, error / max(len(confidences), 1)


def calibration_error(confidences: np.ndarray, is_right: np.ndarray) -> Interval:
    """Computes the expected calibration error, with an interval that contains it in 95% of samples.

    The error of a sample is too high on average: even a calibrated model has an error above 0. The
    lower bound subtracts the largest possible bias, the mean distance of a calibrated model from
    the diagonal. Accuracies of bins are estimated as in Agresti and Coull 1998.
    """
    bins, error = calibration(np.ravel(confidences), np.ravel(is_right))
    sizes = np.array([bin_.size for bin_ in bins])
    accuracies = (sizes * [bin_.accuracy for bin_ in bins] + 2) / (sizes + 4)
    deviations = np.sqrt(accuracies * (1 - accuracies) * sizes) / sizes.sum()
    bias, half = math.sqrt(2 / math.pi) * deviations.sum(), _Z * np.linalg.norm(deviations)
    return Interval(error, max(0.0, float(error - bias - half)), min(1.0, float(error + half)))


class ThresholdScores(NamedTuple):
    """Scores of the positive class for one probability threshold."""

    threshold: float
    precision: float  # NaN if nothing is predicted as positive
    recall: float
    f1: float


def by_threshold(is_positive: np.ndarray, scores: np.ndarray) -> list[ThresholdScores]:
    """Computes the scores of the positive class for thresholds 0.00, 0.01, ..., 1.00."""
    is_positive, points = np.asarray(is_positive, bool), []
    for threshold in np.arange(101) / 100:
        is_predicted = scores >= threshold
        hits, num_positive, num_predicted = (
            int(np.sum(x)) for x in (is_predicted & is_positive, is_positive, is_predicted)
        )
        precision, recall, f1 = ratios(hits, num_positive, num_predicted)
        precision = precision if num_predicted else float("nan")
        points.append(ThresholdScores(float(threshold), precision, recall, f1))
    return points
