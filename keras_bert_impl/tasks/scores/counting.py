"""Metrics that count examples, exact beyond 2^24, and undefined for undefined predictions."""

from typing import Any

import keras
from keras import ops


class CountingMetric(keras.metrics.Metric):
    """Base class of metrics that accumulate counts."""

    def count_variable(self, name: str, shape: tuple[int, ...] = ()) -> tuple[Any, Any]:
        """Creates a count; see `add_count` and `count`."""
        return tuple(
            self.add_variable(shape, initializer="zeros", name=part)
            for part in (name, f"{name}_rest")
        )

    def add_count(self, variables: tuple[Any, Any], values: Any) -> None:
        """Adds values to a count.

        Source: Dekker 1971, "A floating-point technique for extending the available precision".
        """
        total, rest = variables
        values = ops.cast(values, total.dtype) + rest
        after = total + values
        left = values - (after - total)  # before `total`, which is read each time, changes
        total.assign(after)
        rest.assign(left)


def count(variables: tuple[Any, Any]) -> Any:
    """Returns the value of a count as a float32 tensor."""
    total, rest = variables
    return ops.convert_to_tensor(total) + ops.convert_to_tensor(rest)


def defined_weights(outputs: Any, weights: Any = None) -> Any:
    """Returns the weights `[...]` of rows of outputs, NaN for those with a NaN among the outputs.

    Args:
        outputs: float `[..., classes]`.
        weights: `[...]`; None for 1 each. Rows of weight 0 may be undefined.
    """
    is_undefined = ops.any(ops.isnan(outputs), axis=-1)
    weights = ops.ones_like(outputs[..., 0]) if weights is None else weights
    weights = ops.broadcast_to(ops.cast(weights, "float32"), ops.shape(is_undefined))
    return ops.where(ops.logical_and(is_undefined, weights > 0), float("nan"), weights)


@keras.saving.register_keras_serializable("keras_bert_impl")
class Accuracy(CountingMetric):
    """Fraction of rows whose label is the class with the highest output; NaN if one is undefined."""

    def __init__(self, name: str = "accuracy", dtype: Any = None) -> None:
        super().__init__(name=name, dtype=dtype)
        self._hits, self._rows = map(self.count_variable, ("hits", "rows"))

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        if len(y_true.shape) == len(y_pred.shape):
            y_true = ops.argmax(y_true, axis=-1)
        weights = defined_weights(y_pred, sample_weight)
        found = ops.argmax(y_pred, axis=-1)
        hits = ops.equal(ops.cast(found, "int32"), ops.cast(y_true, "int32"))
        self.add_count(self._hits, ops.sum(weights * ops.cast(hits, weights.dtype)))
        self.add_count(self._rows, ops.sum(weights))

    def result(self) -> Any:
        return ops.divide_no_nan(count(self._hits), count(self._rows))
