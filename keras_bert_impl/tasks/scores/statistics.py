"""Uncertainty and calibration of scores, computed with NumPy."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

SAMPLES = 1000
_SEED = 0
_LEVEL = 0.95
_Z = 1.959964  # standard normal quantile of 0.975
# quantiles of Student's t-distribution with 1 to 9 degrees of freedom
_T = (12.7062, 4.30265, 3.18245, 2.77645, 2.57058, 2.44691, 2.36462, 2.306, 2.26216)


class Interval(NamedTuple):
    """A score with its 95% confidence interval."""

    value: float
    low: float
    high: float


class Difference(NamedTuple):
    """The difference between the scores of two models on the same examples.

    Attributes:
        interval: score of the second model minus score of the first model.
        p: two-sided bootstrap p-value for no difference; at least 2 / (samples + 1).
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
            from all arrays, with replacement.

    Source: Efron and Tibshirani 1993, "An Introduction to the Bootstrap", section 13.3.
    """
    columns = tuple(map(np.asarray, columns))
    scores = np.array(
        [metric(*(c[rows] for c in columns)) for rows in _rows(columns, samples, seed)]
    )
    return Interval(float(metric(*columns)), *_bounds(scores))


def paired_difference(
    metric: Callable[..., float],
    labels: Any,
    first: Any,
    second: Any,
    samples: int = SAMPLES,
    seed: int = _SEED,
) -> Difference:
    """Computes the difference between the scores of two models on the same resampled examples.

    Args:
        labels, first, second: arrays `[examples, ...]`: labels, and predictions of both models.
    """
    columns = tuple(map(np.asarray, (labels, first, second)))

    def difference(labels, first, second):
        return metric(labels, second) - metric(labels, first)

    found = np.array([difference(*(c[r] for c in columns)) for r in _rows(columns, samples, seed)])
    tail = min(np.sum(found <= 0), np.sum(found >= 0))
    p = min(1.0, 2 * (tail + 1) / (samples + 1))
    return Difference(Interval(float(difference(*columns)), *_bounds(found)), float(p))


def _rows(columns, samples, seed):
    random = np.random.default_rng(seed)
    count = len(columns[0])
    return (random.integers(0, count, count) for _ in range(samples))


def _bounds(scores):
    tail = 100 * (1 - _LEVEL) / 2
    return tuple(map(float, np.percentile(scores, [tail, 100 - tail])))


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
    hits, wanted, found = np.diag(counts), counts.sum(axis=1), counts.sum(axis=0)
    return [
        ClassScores(name, *ratios(int(h), int(w), int(f)), int(w))
        for name, h, w, f in zip(names, hits, wanted, found, strict=True)
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
    error = sum(one.size * abs(one.accuracy - one.confidence) for one in bins)
    return bins, error / max(len(confidences), 1)


def calibration_error(confidences: np.ndarray, is_right: np.ndarray) -> Interval:
    """Computes the expected calibration error with its "basic" bootstrap interval.

    The error of a finite sample is too high on average, and resampling increases the error further.
    Basic intervals correct this bias. Percentile intervals do not.
    """

    def error(confidences, is_right):
        return calibration(confidences.ravel(), is_right.ravel())[1]

    value, low, high = bootstrap(error, confidences, is_right)
    return Interval(value, max(0.0, 2 * value - high), max(0.0, 2 * value - low))


class ThresholdScores(NamedTuple):
    """Scores of the positive class for one probability threshold."""

    threshold: float
    precision: float  # NaN if nothing is predicted as positive
    recall: float
    f1: float


def by_threshold(is_positive: np.ndarray, scores: np.ndarray) -> list[ThresholdScores]:
    """Computes the scores of the positive class for thresholds 0.00, 0.01, ..., 1.00."""
    is_positive, found = np.asarray(is_positive, bool), []
    for threshold in np.arange(101) / 100:
        chosen = scores >= threshold
        hits, wanted, picked = (int(np.sum(x)) for x in (chosen & is_positive, is_positive, chosen))
        precision, recall, f1 = ratios(hits, wanted, picked)
        precision = precision if picked else float("nan")
        found.append(ThresholdScores(float(threshold), precision, recall, f1))
    return found
