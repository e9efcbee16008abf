"""Task scores as Keras metrics: `compile(metrics=["f1"])`.

They are computed from the logits of a task model and accumulate over batches, so an epoch's value
is the score of all its examples.
"""

import functools
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_bert_impl.tasks.base.keras_losses import Outputs, TaskMetric
from keras_bert_impl.tasks.base.options import MULTI
from keras_bert_impl.tasks.scores.token_weights import token_weights

SCORES = ("f1", "micro_f1", "macro_f1", "matthews", "entity_f1", "exact_match")


class ScoreMetric(keras.metrics.Metric):
    """Base class of metrics that take labels and the network's logits."""

    def count_variable(self, name: str, shape: tuple[int, ...] = ()) -> keras.Variable:
        return self.add_variable(shape, initializer="zeros", name=name)


class ConfusionScore(ScoreMetric):
    """A classification score computed from the confusion matrix.

    Args:
        name: `"f1"`, of the positive class of two; `"macro_f1"`, the mean over the classes that
            occur; or `"matthews"`.
        positive_class: the class of `"f1"`. Default 1.

    Source for several classes: Gorodkin 2004, "Comparing two K-category assignments by a
    K-category correlation coefficient", equation 8.
    """

    def __init__(self, name: str, num_classes: int, positive_class: int = 1) -> None:
        super().__init__(name=name)
        self._num_classes = num_classes
        self._positive = positive_class
        # [label, prediction]
        self._matrix = self.count_variable("matrix", (num_classes, num_classes))

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        if len(y_true.shape) == len(y_pred.shape):
            y_true = ops.argmax(y_true, axis=-1)
        weights = sample_weight
        if len(y_pred.shape) > 2:  # words
            weights = ops.reshape(token_weights(y_true, sample_weight), (-1,))
            y_true = ops.reshape(ops.maximum(y_true, 0), (-1,))
        labels = ops.one_hot(ops.cast(y_true, "int32"), self._num_classes)
        predictions = ops.argmax(ops.reshape(y_pred, (-1, self._num_classes)), axis=-1)
        if weights is not None:
            labels = labels * ops.reshape(ops.cast(weights, labels.dtype), (-1, 1))
        found = ops.matmul(ops.transpose(labels), ops.one_hot(predictions, self._num_classes))
        self._matrix.assign_add(found)

    def result(self) -> Any:
        hits = ops.diagonal(self._matrix)
        labels, predictions = ops.sum(self._matrix, axis=1), ops.sum(self._matrix, axis=0)
        if self.name == "matthews":
            return _matthews(hits, labels, predictions)
        f1 = ops.divide_no_nan(2 * hits, labels + predictions)
        if self.name == "f1":
            return f1[self._positive]
        occurs = ops.cast(labels + predictions > 0, f1.dtype)
        return ops.divide_no_nan(ops.sum(f1), ops.sum(occurs))


def score_metrics(num_classes: int, positive_class: int = 1) -> dict[str, Callable[[], Any]]:
    """Returns single-label scores by name, as functions that create the metric."""
    names = ["macro_f1", "matthews"] + (["f1"] if num_classes == 2 else [])
    return {
        name: functools.partial(ConfusionScore, name, num_classes, positive_class) for name in names
    }


def multi_label_metrics() -> dict[str, Callable[[], Any]]:
    """Returns multi-label F1 scores by name, as functions that create the metric: `"micro_f1"`
    over all entries, and `"macro_f1"`, the mean over the labels."""

    def f1(average):
        metric = keras.metrics.F1Score(average, threshold=0.5, name=f"{average}_f1")
        return TaskMetric(metric, Outputs(MULTI))

    return {f"{average}_f1": functools.partial(f1, average) for average in ("micro", "macro")}


def _matthews(hits, labels, predictions):
    count = ops.sum(labels)
    covariance = count * ops.sum(hits) - ops.sum(labels * predictions)
    variances = [count**2 - ops.sum(ops.square(of)) for of in (labels, predictions)]
    return ops.divide_no_nan(covariance, ops.sqrt(variances[0]) * ops.sqrt(variances[1]))
