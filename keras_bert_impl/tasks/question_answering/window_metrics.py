"""Scores of windows of contexts as Keras metrics: `compile(metrics=["exact_match", "f1"])`."""

import keras
from keras import ops

from keras_bert_impl.tasks.base.score_metrics import ScoreMetric


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
