"""Tagging scores as Keras metrics: `compile(metrics=["entity_f1"])`."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from keras import ops

from keras_bert_impl.tasks.base.task_compile import ScoreMetric, score_metrics
from keras_bert_impl.tasks.scores.counting import count, defined_weights
from keras_bert_impl.tasks.scores.token_weights import token_weights
from keras_bert_impl.tasks.tagging.entity_labels import read_labels
from keras_bert_impl.tasks.tagging.spans import spans_of


class EntityF1(ScoreMetric):
    """F1 of entities; an entity counts as found if its words and type match."""

    def __init__(self, labels: list[str], name: str = "entity_f1"):
        super().__init__(name=name)
        parts = read_labels(labels).parts
        alone = [next(iter(spans_of([label], parts=parts)), None) for label in labels]
        types = sorted({span.type for span in alone if span})
        self._is_outside = np.array([span is None for span in alone])
        self._types = np.array([types.index(span.type) if span else -1 for span in alone])
        # Whether a word starts an entity depends on its label and that of the previous word.
        self._begins = np.array(
            [[_begins_second(before, label, parts) for label in labels] for before in labels]
        )
        self._found, self._wanted, self._right = map(
            self.count_variable, ("found", "wanted", "right")
        )

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        weights = token_weights(y_true, sample_weight)
        undefined = 0 * ops.sum(defined_weights(y_pred, weights))  # NaN or 0
        is_word = weights > 0  # [rows, length]
        if len(y_true.shape) == len(y_pred.shape):
            y_true = ops.argmax(y_true, axis=-1)
        order = _true_ones_first(is_word)
        is_word = ops.take_along_axis(is_word, order, axis=1)
        labels = (
            ops.maximum(ops.cast(y_true, "int32"), 0),
            ops.cast(ops.argmax(y_pred, -1), "int32"),
        )
        wanted, found = (
            self._spans(ops.take_along_axis(one, order, axis=1), is_word) for one in labels
        )
        is_right = wanted.begins & found.begins & (wanted.types == found.types)
        is_right = is_right & _end_together(wanted.stops, found.stops)
        counts = (
            (self._wanted, wanted.begins),
            (self._found, found.begins),
            (self._right, is_right),
        )
        for variable, spans in counts:
            self.add_count(variable, ops.sum(ops.cast(spans, "float32")) + undefined)

    def _spans(self, labels, is_word):
        """Returns the entities in the words of each row."""
        inside = is_word & ops.logical_not(ops.take(self._is_outside, labels, axis=0))
        before = ops.concatenate([labels[:, :1], labels[:, :-1]], axis=1)  # label of previous word
        pairs = ops.take(self._begins.ravel(), before * len(self._begins) + labels, axis=0)
        is_first = ops.arange(ops.shape(labels)[1])[None] == 0
        begins = inside & (pairs | is_first)
        # An entity ends before the next word that is outside or starts another entity.
        stops = begins | ops.logical_not(inside)
        return _Spans(begins, stops, ops.take(self._types, labels, axis=0))

    def result(self) -> Any:
        right, found, wanted = map(count, (self._right, self._found, self._wanted))
        return ops.divide_no_nan(2 * right, found + wanted)


def tagging_metrics(labels: list[str]) -> dict[str, Callable[[], Any]]:
    """Returns functions that create the metrics, by name."""
    found = score_metrics(len(labels))
    found.pop("f1", None)  # ambiguous: of words or of entities
    if read_labels(labels) is not None:
        found["entity_f1"] = lambda: EntityF1(labels)
    return found


def _begins_second(before, label, parts):
    return any(span.start == 1 for span in spans_of([before, label], parts=parts))


class _Spans(NamedTuple):
    """Entities `[rows, length]`: where one begins, where the previous one ends, and its type."""

    begins: Any
    stops: Any
    types: Any


def _end_together(first, second):
    """Returns whether the next stop after each word is in both; True if none follows.

    Args:
        first, second: bool `[rows, length]`.
    """
    either = first | second
    count = ops.cumsum(ops.cast(either, "int32"), axis=1)  # stops up to and with each word
    length = ops.shape(either)[1]
    places = ops.take_along_axis(_true_ones_first(either), ops.minimum(count, length - 1), axis=1)
    is_alone = ops.take_along_axis(first != second, places, axis=1)
    return ops.logical_not(is_alone & (count < count[:, -1:]))


def _true_ones_first(is_true):
    """Returns int32 `[rows, length]`: the columns of the True values in order, then the others."""
    length = ops.shape(is_true)[1]
    places = ops.arange(length)[None]
    return ops.argsort(ops.where(is_true, places, places + length), axis=1)
