"""Metrics for comparing models, computed with NumPy from labels and predictions."""

import functools
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike


def _handle_nan(metric):

    @functools.wraps(metric)
    def checked(labels, predictions):
        for values in (labels, predictions):
            values = np.asarray(values)
            if values.dtype.kind == "f" and np.isnan(values).any():
                return float("nan")
        return metric(labels, predictions)

    return checked


@_handle_nan
def accuracy(labels: ArrayLike, predictions: ArrayLike) -> float:
    """Fraction of equal entries."""
    return float(np.mean(np.asarray(labels) == np.asarray(predictions)))


@_handle_nan
def f1(labels: ArrayLike, predictions: ArrayLike) -> float:
    """F1 of class 1: the harmonic mean of precision and recall; 0 if both are undefined."""
    labels, predictions = np.asarray(labels), np.asarray(predictions)
    hits = np.sum((labels == 1) & (predictions == 1))
    either = np.sum(labels == 1) + np.sum(predictions == 1)
    return float(2 * hits / either) if either else 0.0


@_handle_nan
def macro_f1(labels: ArrayLike, predictions: ArrayLike) -> float:
    """Mean F1 of the classes that occur."""
    labels, predictions = np.asarray(labels), np.asarray(predictions)
    classes = np.union1d(labels, predictions)
    return float(np.mean([f1(labels == c, predictions == c) for c in classes]))


@_handle_nan
def matthews(labels: ArrayLike, predictions: ArrayLike) -> float:
    """Matthews correlation of class indices; 0 if labels or predictions have only one class.

    Source: Gorodkin 2004, "Comparing two K-category assignments by a K-category correlation
    coefficient", equation 8.
    """
    classes = np.union1d(labels, predictions)
    true = np.asarray(labels)[:, None] == classes  # [examples, classes]
    predicted = np.asarray(predictions)[:, None] == classes
    scale = np.sqrt(_compute_covariance(true, true) * _compute_covariance(predicted, predicted))
    return float(_compute_covariance(true, predicted) / scale) if scale else 0.0


@_handle_nan
def pearson(labels: ArrayLike, predictions: ArrayLike) -> float:
    """Pearson correlation; NaN if labels or predictions are constant."""
    deviations = []
    for values in (labels, predictions):
        values = np.asarray(values, "float64").ravel()
        if not np.ptp(values):  # with rounding, deviations may not be exactly 0
            return float("nan")
        from_mean = values - values.mean()
        deviations.append(from_mean / np.linalg.norm(from_mean))
    return float(np.sum(deviations[0] * deviations[1]))


@_handle_nan
def spearman(labels: ArrayLike, predictions: ArrayLike) -> float:
    """Spearman correlation: the Pearson correlation of the ranks."""
    return pearson(ranks(labels), ranks(predictions))


def ranks(values: ArrayLike) -> np.ndarray:
    """Returns 1-based ranks; equal values get their mean rank."""
    _, inverse, counts = np.unique(np.ravel(values), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[inverse]


@_handle_nan
def mean_squared_error(labels: ArrayLike, predictions: ArrayLike) -> float:
    x, y = (np.asarray(v, "float64").ravel() for v in (labels, predictions))
    return float(np.mean((x - y) ** 2))


@_handle_nan
def subset_accuracy(labels: ArrayLike, predictions: ArrayLike) -> float:
    """Fraction of examples whose labels are all correct."""
    return float(np.mean((np.asarray(labels) == np.asarray(predictions)).all(axis=1)))


@_handle_nan
def macro_f1_of_labels(labels: ArrayLike, predictions: ArrayLike) -> float:
    """Macro F1 of multi-label predictions, 0 and 1 `[examples, labels]`."""
    columns = zip(np.asarray(labels).T, np.asarray(predictions).T, strict=True)
    return float(np.mean([f1(*column) for column in columns]))


@_handle_nan
def average_precision(labels: ArrayLike, scores: ArrayLike) -> float:
    """Mean of the average precision of each class against the rest.

    The precision at each threshold is weighted by the increase in recall, without interpolation.

    Args:
        labels: class indices `[examples]`, or 0 and 1 `[examples, classes]`.
        scores: `[examples, classes]`. Classes without examples are ignored. If the labels are class
            indices of two classes, only the average precision of class 1 is returned.
    """
    is_class, ranking = np.asarray(labels), np.asarray(scores)
    classes = range(ranking.shape[1])
    if is_class.ndim == 1:
        is_class = is_class[:, None] == np.array(classes)
        classes = classes[1:] if len(classes) == 2 else classes
    precisions = [
        _compute_average_precision(is_class[:, c], ranking[:, c])
        for c in classes
        if is_class[:, c].any()
    ]
    return float(np.mean(precisions)) if precisions else 0.0


def _compute_average_precision(is_positive, scores):
    order = np.argsort(-scores, kind="stable")
    hits, ranked = np.cumsum(is_positive[order]), scores[order]
    last = np.flatnonzero(np.append(ranked[1:] != ranked[:-1], True))  # last of equal scores
    return np.sum(np.diff(hits[last], prepend=0) * hits[last] / (last + 1)) / hits[-1]


METRICS: dict[str, Callable[[ArrayLike, ArrayLike], float]] = {
    function.__name__: function
    for function in (accuracy, f1, macro_f1, matthews, pearson, spearman, mean_squared_error)
}

# Metrics of multi-label predictions, 0 and 1 `[examples, labels]`.
MULTI_LABEL_METRICS: dict[str, Callable[[ArrayLike, ArrayLike], float]] = {
    "micro_f1": f1,
    "macro_f1": macro_f1_of_labels,
    "subset_accuracy": subset_accuracy,
}


OF_CLASS = "f1/"  # prefix of a class name
RANKING = average_precision.__name__  # metric of scores; `/CLASS` may follow


def is_of_scores(name: str) -> bool:
    """Returns whether a metric is a function of labels and class scores, not of predictions."""
    return name == RANKING or name.startswith(f"{RANKING}/")


def metric_named(
    name: str, classes: Sequence[str] = (), is_multi_label: bool = False
) -> Callable[..., float]:
    if name == RANKING:
        return average_precision
    kind, _, class_name = name.partition("/")
    if not class_name:
        return (MULTI_LABEL_METRICS if is_multi_label else METRICS)[name]
    number = list(classes).index(class_name)
    if kind == RANKING:
        return lambda labels, scores: average_precision(
            _is_class(labels, number)[:, None], scores[:, number, None]
        )
    return lambda labels, predictions: f1(_is_class(labels, number), _is_class(predictions, number))


def _is_class(labels, number):
    if labels.ndim > 1:
        return labels[:, number]
    return np.where(np.isnan(labels), np.nan, labels == number)


def class_metrics(classes: Sequence[str]) -> list[str]:
    return [RANKING, *(f"{of}{name}" for name in classes for of in (OF_CLASS, f"{RANKING}/"))]


def comparable(name: str, value: float) -> float:
    """Negates the mean squared error, so that higher is better for all scores."""
    return -value if name == "mean_squared_error" else value


def highest(name: str) -> float:
    """Returns the score of perfect predictions."""
    return 0.0 if name == "mean_squared_error" else 1.0


def _compute_covariance(a, b):
    a, b = a - a.mean(axis=0), b - b.mean(axis=0)
    return np.sum(a * b)
