"""The scores by which tasks are compared, from predictions in numpy."""

import numpy as np


def accuracy(labels, predictions):
    """Share of equal entries."""
    return float(np.mean(np.asarray(labels) == np.asarray(predictions)))


def f1(labels, predictions):
    """F1 of class 1: the harmonic mean of precision and recall; 0 where neither is defined."""
    labels, predictions = np.asarray(labels), np.asarray(predictions)
    hits = np.sum((labels == 1) & (predictions == 1))
    either = np.sum(labels == 1) + np.sum(predictions == 1)
    return float(2 * hits / either) if either else 0.0


def macro_f1(labels, predictions):
    """Mean over the classes of the F1 of each; classes that never occur are left out."""
    labels, predictions = np.asarray(labels), np.asarray(predictions)
    classes = np.union1d(labels, predictions)
    return float(np.mean([f1(labels == c, predictions == c) for c in classes]))


def matthews(labels, predictions):
    """Matthews correlation of class numbers; 0 where either side has one class alone.

    Source: Gorodkin 2004, "Comparing two K-category assignments by a K-category correlation
    coefficient", equation 8.
    """
    classes = np.union1d(labels, predictions)
    true = np.asarray(labels)[:, None] == classes  # [examples, classes]
    predicted = np.asarray(predictions)[:, None] == classes
    scale = np.sqrt(_covariance(true, true) * _covariance(predicted, predicted))
    return float(_covariance(true, predicted) / scale) if scale else 0.0


def pearson(labels, predictions):
    """Pearson correlation; NaN where either side is constant."""
    x, y = (np.asarray(v, "float64").ravel() for v in (labels, predictions))
    x, y = x - x.mean(), y - y.mean()
    scale = np.sqrt(np.sum(x * x) * np.sum(y * y))
    return float(np.sum(x * y) / scale) if scale else float("nan")


def spearman(labels, predictions):
    """Pearson correlation of the ranks; equal values share the mean of their ranks."""
    return pearson(_ranks(labels), _ranks(predictions))


def mean_squared_error(labels, predictions):
    """Mean squared difference."""
    x, y = (np.asarray(v, "float64").ravel() for v in (labels, predictions))
    return float(np.mean((x - y) ** 2))


def multi_label_scores(labels, predictions):
    """The scores of several labels at once.

    Args:
        labels, predictions: arrays of 0 and 1 `[examples, labels]`.

    Returns:
        dict: `micro_f1` over all entries, `macro_f1`, the mean of the F1 of each label, and
        `accuracy`, the share of examples whose labels are all right.
    """
    labels, predictions = np.asarray(labels), np.asarray(predictions)
    return {
        "micro_f1": f1(labels, predictions),
        "macro_f1": float(np.mean([f1(*column) for column in zip(labels.T, predictions.T)])),
        "accuracy": float(np.mean((labels == predictions).all(axis=1))),
    }


METRICS = {
    function.__name__: function
    for function in (accuracy, f1, macro_f1, matthews, pearson, spearman, mean_squared_error)
}


def _covariance(a, b):
    a, b = a - a.mean(axis=0), b - b.mean(axis=0)
    return np.sum(a * b)


def _ranks(values):
    _, inverse, counts = np.unique(np.ravel(values), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[inverse]
