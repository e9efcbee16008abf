"""Window-level scores as Keras metrics: `compile(metrics=["exact_match", "f1"])`."""

from typing import Any

from keras import ops

from keras_bert_impl.tasks.base.task_compile import ScoreMetric
from keras_bert_impl.tasks.scores.counting import count, defined_weights


class ExactMatch(ScoreMetric):
    """Share of rows whose predicted start and end both match the label."""

    def __init__(self, name: str = "exact_match") -> None:
        super().__init__(name=name)
        self._scores, self._rows = map(self.count_variable, ("scores", "rows"))

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        found = ops.cast(ops.argmax(y_pred, axis=-1), "int32")  # [rows, 2]
        score = self._score(ops.cast(y_true, "int32"), found)
        weights = None if sample_weight is None else ops.reshape(sample_weight, (-1, 1))
        weights = ops.max(defined_weights(y_pred, weights), axis=-1)  # NaN if one is
        self.add_count(self._scores, ops.sum(score * weights))
        self.add_count(self._rows, ops.sum(weights))

    def _score(self, labels, found):
        return ops.cast(ops.all(ops.equal(labels, found), axis=-1), "float32")

    def result(self) -> Any:
        return ops.divide_no_nan(count(self._scores), count(self._rows))


class SpanF1(ExactMatch):
    """Mean token F1 of the predicted and the labeled answer, over rows."""

    def __init__(self, name: str = "f1") -> None:
        super().__init__(name=name)

    def _score(self, labels, found):
        starts = ops.maximum(labels[:, 0], found[:, 0])
        ends = ops.minimum(labels[:, 1], found[:, 1])
        shared = ops.maximum(ends - starts + 1, 0)
        sizes = [ops.maximum(span[:, 1] - span[:, 0] + 1, 0) for span in (labels, found)]
        both = ops.cast(sizes[0] + sizes[1], "float32")
        return ops.divide_no_nan(2 * ops.cast(shared, "float32"), both)
