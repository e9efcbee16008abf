"""The scores of tasks as Keras metrics: `compile(metrics=["f1"])`.

They are computed from the logits of a task model and add up over batches, so that an epoch has the
score of all its examples.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from keras_bert_impl.tasks.base.keras_losses import Outputs, TaskMetric
from keras_bert_impl.tasks.base.problem_types import MULTI
from keras_bert_impl.tasks.tagging.entity_labels import read_labels
from keras_bert_impl.tasks.tagging.spans import spans_of
from keras_bert_impl.tasks.tagging.token_weights import token_weights

SCORES = ("f1", "micro_f1", "macro_f1", "matthews", "entity_f1", "exact_match")


class ScoreMetric(keras.metrics.Metric):
    """A metric of labels and logits, as the network returns them."""

    def _count(self, name, shape=()):
        return self.add_variable(shape, initializer="zeros", name=name)


class ConfusionScore(ScoreMetric):
    """A score of class numbers, from the matrix of labels and predictions.

    Args:
        name: `"f1"`, of the positive class of two; `"macro_f1"`, the mean over the classes that
            occur; or `"matthews"`.
        num_classes: int.
        positive_class: int, the class of `"f1"`.

    Source: for several classes Gorodkin 2004, "Comparing two K-category assignments by a
    K-category correlation coefficient", equation 8.
    """

    def __init__(self, name: str, num_classes: int, positive_class: int = 1):
        super().__init__(name=name)
        self._num_classes = num_classes
        self._positive = positive_class
        self._matrix = self._count("matrix", (num_classes, num_classes))  # [label, prediction]

    def update_state(self, y_true, y_pred, sample_weight=None):
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

    def result(self):
        hits = ops.diagonal(self._matrix)
        labels, predictions = ops.sum(self._matrix, axis=1), ops.sum(self._matrix, axis=0)
        if self.name == "matthews":
            return _matthews(hits, labels, predictions)
        f1 = ops.divide_no_nan(2 * hits, labels + predictions)
        if self.name == "f1":
            return f1[self._positive]
        occurs = ops.cast(labels + predictions > 0, f1.dtype)
        return ops.divide_no_nan(ops.sum(f1), ops.sum(occurs))


class ExactMatch(ScoreMetric):
    """The share of rows whose predicted answer begins and ends where the labelled one does.

    A row is a window of a context, and the first of several answers counts. The official exact
    match of whole questions is that of `keras_bert_impl.evaluate`.
    """

    def __init__(self, name: str = "exact_match"):
        super().__init__(name=name)
        self._mean = keras.metrics.Mean()

    def update_state(self, y_true, y_pred, sample_weight=None):
        found = ops.cast(ops.argmax(y_pred, axis=-1), "int32")  # [rows, 2]
        score = self._score(ops.cast(y_true, "int32"), found)
        self._mean.update_state(score, sample_weight=sample_weight)

    def _score(self, labels, found):
        return ops.cast(ops.all(ops.equal(labels, found), axis=-1), "float32")

    def result(self):
        return self._mean.result()


class SpanF1(ExactMatch):
    """The mean over rows of the F1 of the tokens of the predicted and the labelled answer."""

    def __init__(self, name: str = "f1"):
        super().__init__(name=name)

    def _score(self, labels, found):
        starts = ops.maximum(labels[:, 0], found[:, 0])
        ends = ops.minimum(labels[:, 1], found[:, 1])
        shared = ops.maximum(ends - starts + 1, 0)
        sizes = [ops.maximum(span[:, 1] - span[:, 0] + 1, 0) for span in (labels, found)]
        both = ops.cast(sizes[0] + sizes[1], "float32")
        return ops.divide_no_nan(2 * ops.cast(shared, "float32"), both)


class EntityF1(ScoreMetric):
    """F1 of entities: found are those with the same words and type.

    Entities are those of `spans.spans_of`. They are counted by row, that is by window: of a text
    that is longer than a row, one across the border of two windows counts as two.

    Args:
        labels: list of str, the names of the classes.
    """

    def __init__(self, labels: list[str], name: str = "entity_f1"):
        super().__init__(name=name)
        parts = read_labels(labels).parts
        alone = [next(iter(spans_of([label], parts=parts)), None) for label in labels]
        types = sorted({span.type for span in alone if span})
        self._is_outside = np.array([span is None for span in alone])
        self._types = np.array([types.index(span.type) if span else -1 for span in alone])
        # Whether an entity begins at a word depends on its label and that of the word before.
        self._begins = np.array(
            [[_begins_second(before, label, parts) for label in labels] for before in labels]
        )
        self._found, self._wanted, self._right = map(self._count, ("found", "wanted", "right"))

    def update_state(self, y_true, y_pred, sample_weight=None):
        is_word = token_weights(y_true, sample_weight) > 0  # [rows, length]
        order = _true_ones_first(is_word)
        is_word = ops.take_along_axis(is_word, order, axis=1)
        labels = ops.maximum(ops.cast(y_true, "int32"), 0), ops.cast(ops.argmax(y_pred, -1), "int32")
        wanted, found = (
            self._spans(ops.take_along_axis(one, order, axis=1), is_word) for one in labels
        )
        is_right = wanted.begins & found.begins & (wanted.types == found.types)
        is_right = is_right & _end_together(wanted.stops, found.stops)
        counts = ((self._wanted, wanted.begins), (self._found, found.begins), (self._right, is_right))
        for variable, spans in counts:
            variable.assign_add(ops.sum(ops.cast(spans, variable.dtype)))

    def _spans(self, labels, is_word):
        """The entities of the words of each row."""
        inside = is_word & ops.logical_not(ops.take(self._is_outside, labels, axis=0))
        pairs = ops.take(self._begins.ravel(), _before(labels) * len(self._begins) + labels, axis=0)
        is_first = ops.arange(ops.shape(labels)[1])[None] == 0
        begins = inside & (pairs | is_first)
        # An entity ends before the next word that is outside of all or begins another.
        stops = begins | ops.logical_not(inside)
        return _Spans(begins, stops, ops.take(self._types, labels, axis=0))

    def result(self):
        return ops.divide_no_nan(2 * self._right, self._found + self._wanted)


def score_metrics(num_classes: int, positive_class: int = 1) -> dict[str, Callable[[], Any]]:
    """Scores of one class of several by name, as functions that make the metric."""
    names = ["macro_f1", "matthews"] + (["f1"] if num_classes == 2 else [])
    return {
        name: functools.partial(ConfusionScore, name, num_classes, positive_class)
        for name in names
    }


def multi_label_metrics() -> dict[str, Callable[[], Any]]:
    """F1 of several labels at once by name, as functions that make the metric: `"micro_f1"` over
    all entries, `"macro_f1"`, the mean over the labels."""

    def f1(average):
        metric = keras.metrics.F1Score(average, threshold=0.5, name=f"{average}_f1")
        return TaskMetric(metric, Outputs(MULTI))

    return {f"{average}_f1": functools.partial(f1, average) for average in ("micro", "macro")}


def tagging_metrics(labels: list[str]) -> dict[str, Callable[[], Any]]:
    """Scores of labels of words by name, as functions that make the metric."""
    found = score_metrics(len(labels))
    found.pop("f1", None)  # of words or of entities?
    if read_labels(labels) is not None:
        found["entity_f1"] = lambda: EntityF1(labels)
    return found


def _matthews(hits, labels, predictions):
    count = ops.sum(labels)
    covariance = count * ops.sum(hits) - ops.sum(labels * predictions)
    variances = [count**2 - ops.sum(ops.square(of)) for of in (labels, predictions)]
    return ops.divide_no_nan(covariance, ops.sqrt(variances[0]) * ops.sqrt(variances[1]))


def _before(values):
    """The value of the word before, and for the first word its own."""
    return ops.concatenate([values[:, :1], values[:, :-1]], axis=1)


def _begins_second(before, label, parts):
    return any(span.start == 1 for span in spans_of([before, label], parts=parts))


class _Spans(NamedTuple):
    """Entities `[rows, length]`: where one begins, where the one before ends, and its type."""

    begins: Any
    stops: Any
    types: Any


def _end_together(first, second):
    """Whether the next stop after each word is one of both, `[rows, length]`; of none it is."""
    either = first | second
    count = ops.cumsum(ops.cast(either, "int32"), axis=1)  # stops up to and with each word
    length = ops.shape(either)[1]
    places = ops.take_along_axis(_true_ones_first(either), ops.minimum(count, length - 1), axis=1)
    is_alone = ops.take_along_axis(first != second, places, axis=1)
    return ops.logical_not(is_alone & (count < count[:, -1:]))


def _true_ones_first(is_true):
    """int32 `[rows, length]`: the places of True in each row, in order, then those of False."""
    length = ops.shape(is_true)[1]
    places = ops.arange(length)[None]
    return ops.argsort(ops.where(is_true, places, places + length), axis=1)
