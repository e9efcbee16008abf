"""Metrics for comparing models, computed with NumPy from labels and predictions."""

import functools
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike


def _nan_if_any_is(metric):
    """Wraps a metric to return NaN if a label or a prediction is NaN."""

    @functools.wraps(metric)
    def checked(labels, predictions):
        for values in (labels, predictions):
            values = np.asarray(values)
            if values.dtype.kind == "f" and np.isnan(values).any():
                return float("nan")
        return metric(labels, predictions)

    return checked


@_nan_if_any_is
def accuracy(labels: ArrayLike, predictions: ArrayLike) -> float:
    """Fraction of equal entries."""
    return float(np.mean(np.asarray(labels) == np.asarray(predictions)))


@_nan_if_any_is
def f1(labels: ArrayLike, predictions: ArrayLike) -> float:
    """F1 of class 1, the harmonic mean of precision and recall; 0 if both are undefined."""
    labels, predictions = np.asarray(labels), np.asarray(predictions)
    hits = np.sum((labels == 1) & (predictions == 1))
    either = np.sum(labels == 1) + np.sum(predictions == 1)
    return float(2 * hits / either) if either else 0.0


@_nan_if_any_is
def macro_f1(labels: ArrayLike, predictions: ArrayLike) -> float:
    """Mean of the F1 scores of the classes; classes that never occur are left out."""
    labels, predictions = np.asarray(labels), np.asarray(predictions)
    classes = np.union1d(labels, predictions)
    return float(np.mean([f1(labels == c, predictions == c) for c in classes]))


@_nan_if_any_is
def matthews(labels: ArrayLike, predictions: ArrayLike) -> float:
    """Matthews correlation of class indices; 0 if labels or predictions have only one class.

    Source: Gorodkin 2004, "Comparing two K-category assignments by a K-category correlation
    coefficient", equation 8.
    """
    classes = np.union1d(labels, predictions)
    true = np.asarray(labels)[:, None] == classes  # [examples, classes]
    predicted = np.asarray(predictions)[:, None] == classes
    scale = np.sqrt(_covariance(true, true) * _covariance(predicted, predicted))
    return float(_covariance(true, predicted) / scale) if scale else 0.0


@_nan_if_any_is
def pearson(labels: ArrayLike, predictions: ArrayLike) -> float:
    """Pearson correlation; NaN if labels or predictions are constant."""
    deviations = []
    for values in (labels, predictions):
        values = np.asarray(values, "float64").ravel()
        if not np.ptp(values):  # deviations from a rounded mean are not exactly 0
            return float("nan")
        from_mean = values - values.mean()
        deviations.append(from_mean / np.linalg.norm(from_mean))
    return float(np.sum(deviations[0] * deviations[1]))


@_nan_if_any_is
def spearman(labels: ArrayLike, predictions: ArrayLike) -> float:
    """Spearman correlation: Pearson correlation of the ranks; ties share their mean rank."""
    return pearson(ranks(labels), ranks(predictions))


def ranks(values: ArrayLike) -> np.ndarray:
    """Returns the rank of each value, from 1; ties share their mean rank."""
    _, inverse, counts = np.unique(np.ravel(values), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[inverse]


@_nan_if_any_is
def mean_squared_error(labels: ArrayLike, predictions: ArrayLike) -> float:
    """Mean squared difference."""
    x, y = (np.asarray(v, "float64").ravel() for v in (labels, predictions))
    return float(np.mean((x - y) ** 2))


@_nan_if_any_is
def subset_accuracy(labels: ArrayLike, predictions: ArrayLike) -> float:
    """Fraction of the rows `[examples, labels]` whose entries are all equal."""
    return float(np.mean((np.asarray(labels) == np.asarray(predictions)).all(axis=1)))


@_nan_if_any_is
def macro_f1_of_labels(labels: ArrayLike, predictions: ArrayLike) -> float:
    """Macro F1 of multi-label predictions, 0 and 1 `[examples, labels]`."""
    columns = zip(np.asarray(labels).T, np.asarray(predictions).T, strict=True)
    return float(np.mean([f1(*column) for column in columns]))


METRICS: dict[str, Callable[[ArrayLike, ArrayLike], float]] = {
    function.__name__: function
    for function in (accuracy, f1, macro_f1, matthews, pearson, spearman, mean_squared_error)
}

# For 0 and 1 `[examples, labels]`. `accuracy` counts each label, as in Keras.
MULTI_LABEL_METRICS: dict[str, Callable[[ArrayLike, ArrayLike], float]] = {
    "micro_f1": f1,
    "macro_f1": macro_f1_of_labels,
    "subset_accuracy": subset_accuracy,
}


def metric_named(name: str, classes: Sequence[str] = ()) -> Callable[..., float]:
    """Returns the function for a name in `METRICS`, or for `f1/CLASS` with a class name."""
    if not name.startswith(OF_CLASS):
        return METRICS[name]
    number = list(classes).index(name.removeprefix(OF_CLASS))
    return lambda labels, predictions: f1(labels == number, predictions == number)


OF_CLASS = "f1/"  # prefix of a class name


def multi_label_scores(labels: ArrayLike, predictions: ArrayLike) -> dict[str, float]:
    """Computes multi-label scores from 0 and 1 `[examples, labels]`."""
    return {name: metric(labels, predictions) for name, metric in MULTI_LABEL_METRICS.items()}


def comparable(name: str, value: float) -> float:
    """Converts a metric's score so that higher is better."""
    return -value if name == "mean_squared_error" else value


def _covariance(a, b):
    a, b = a - a.mean(axis=0), b - b.mean(axis=0)
    return np.sum(a * b)
