"""Keras metrics that count more than 2^24 examples exactly. NaN predictions give NaN."""

import functools
from collections.abc import Callable
from typing import Any

import keras
from keras import ops


class CountingMetric(keras.metrics.Metric):
    """Base class of metrics that accumulate counts. Higher values are better."""

    _direction = "up"  # Keras's callbacks read it

    def count_variable(self, name: str, shape: tuple[int, ...] = ()) -> tuple[Any, Any]:
        """Creates two float variables: the sum of a count, and the rounding error of the sum."""
        return tuple(
            self.add_variable(shape, initializer="zeros", name=part)
            for part in (name, f"{name}_rest")
        )

    def add_count(self, variables: tuple[Any, Any], values: Any) -> None:
        """Adds values to a count, and stores the rounding error.

        Source: Dekker 1971, "A floating-point technique for extending the available precision".
        """
        total, rounding_error = variables
        values = ops.cast(values, total.dtype) + rounding_error
        after = total + values
        new_error = values - (after - total)  # compute it before `total` changes
        total.assign(after)
        rounding_error.assign(new_error)


def count(variables: tuple[Any, Any]) -> Any:
    total, rounding_error = variables
    return ops.convert_to_tensor(total) + ops.convert_to_tensor(rounding_error)


def defined_weights(outputs: Any, weights: Any = None) -> Any:
    """Returns the example weights, with NaN for examples with a NaN output and a weight above 0.

    Args:
        outputs: float `[..., classes]`.
        weights: float `[...]`. None means that all weights are 1.
    """
    is_undefined = ops.any(ops.isnan(outputs), axis=-1)
    weights = ops.ones_like(outputs[..., 0]) if weights is None else weights
    weights = ops.broadcast_to(ops.cast(weights, "float32"), ops.shape(is_undefined))
    return ops.where(ops.logical_and(is_undefined, weights > 0), float("nan"), weights)


@keras.saving.register_keras_serializable("keras_bert_impl")
class Accuracy(CountingMetric):
    """Fraction of examples whose label has the highest output."""

    def __init__(self, name: str = "accuracy", dtype: Any = None) -> None:
        super().__init__(name=name, dtype=dtype)
        self._hits, self._rows = map(self.count_variable, ("hits", "rows"))

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        if len(y_true.shape) == len(y_pred.shape):
            y_true = ops.argmax(y_true, axis=-1)
        weights = defined_weights(y_pred, sample_weight)
        predictions = ops.argmax(y_pred, axis=-1)
        hits = ops.equal(ops.cast(predictions, "int32"), ops.cast(y_true, "int32"))
        self.add_count(self._hits, ops.sum(weights * ops.cast(hits, weights.dtype)))
        self.add_count(self._rows, ops.sum(weights))

    def result(self) -> Any:
        return ops.divide_no_nan(count(self._hits), count(self._rows))


def token_weights(y: Any, sample_weight: Any) -> Any:
    """Computes the weight of each token, float32 `[batch, length]`; 0 for tokens without a label.

    Args:
        y: class indices, int `[batch, length]`, negative for tokens without a label; or one-hot
            labels `[batch, length, classes]`, which are all 0 for tokens without a label.
        sample_weight: `[batch]`, `[batch, length]` or None.
    """
    weights = ops.cast(y >= 0 if len(y.shape) == 2 else ops.any(y > 0, axis=-1), "float32")
    if sample_weight is None:
        return weights
    sample_weight = ops.cast(sample_weight, "float32")
    return weights * (sample_weight[:, None] if len(sample_weight.shape) == 1 else sample_weight)


@keras.saving.register_keras_serializable("keras_bert_impl")
class TokenAccuracy(Accuracy):
    """Fraction of labeled tokens whose label has the highest logit."""

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        super().update_state(y_true, y_pred, token_weights(y_true, sample_weight))


# === Scores from the confusion matrix ===

SCORES = ("f1", "micro_f1", "macro_f1", "matthews", "entity_f1", "exact_match")


class ScoreMetric(CountingMetric):
    """Base class of metrics of labels and logits."""


class ConfusionScore(ScoreMetric):
    """Classification score that is computed from the hits and errors of each class."""

    def __init__(self, name: str, num_classes: int, positive_class: int = 1) -> None:
        super().__init__(name=name)
        self._num_classes = num_classes
        self._positive = positive_class
        # `missed` counts by label, `wrong` by prediction. A matrix of thousands of classes would
        # take longer than the training step.
        self._hits, self._missed, self._wrong = (
            self.count_variable(part, (num_classes,)) for part in ("hits", "missed", "wrong")
        )

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        weights = sample_weight
        if len(y_pred.shape) > 2:  # labels of words
            weights = token_weights(y_true, sample_weight)
        if len(y_true.shape) == len(y_pred.shape):
            y_true = ops.argmax(y_true, axis=-1)
        labels = ops.cast(ops.reshape(ops.maximum(y_true, 0), (-1,)), "int32")
        y_pred = ops.reshape(y_pred, (-1, self._num_classes))
        weights = None if weights is None else ops.reshape(weights, (-1,))
        weights = defined_weights(y_pred, weights)
        predictions = ops.cast(ops.argmax(y_pred, axis=-1), "int32")
        is_hit = ops.cast(ops.equal(labels, predictions), weights.dtype)
        for variables, classes, counts in (
            (self._hits, labels, weights * is_hit),
            (self._missed, labels, weights * (1 - is_hit)),
            (self._wrong, predictions, weights * (1 - is_hit)),
        ):
            # On accelerators, a matrix product would round the weights.
            self.add_count(variables, ops.segment_sum(counts, classes, self._num_classes))

    def result(self) -> Any:
        hits, missed, wrong = map(count, (self._hits, self._missed, self._wrong))
        if self.name == "matthews":
            return _compute_matthews(hits, missed, wrong)
        total = 2 * hits + missed + wrong
        f1 = ops.divide_no_nan(2 * hits, total)
        if self.name == "f1":
            return f1[self._positive]
        occurs = ops.cast(ops.not_equal(total, 0), f1.dtype)  # NaN is unequal to 0
        return ops.divide_no_nan(ops.sum(f1), ops.sum(occurs))


def score_metrics(num_classes: int, positive_class: int = 1) -> dict[str, Callable[[], Any]]:
    """Returns {name: function that creates the metric} for single-label scores."""
    names = ["macro_f1", "matthews"] + (["f1"] if num_classes == 2 else [])
    return {
        name: functools.partial(ConfusionScore, name, num_classes, positive_class) for name in names
    }


def _compute_matthews(hits, missed, wrong):
    # Large counts are only added, because their difference would lose precision. The errors are
    # few where the rest of a class is small.
    true_negatives = _sum_of_others(hits) + ops.maximum(ops.sum(missed) - missed - wrong, 0)
    covariance = ops.sum(hits * true_negatives - missed * wrong)
    deviations = [
        ops.sqrt(ops.sum(total * _sum_of_others(total))) for total in (hits + missed, hits + wrong)
    ]
    return ops.divide_no_nan(covariance / ops.maximum(deviations[0], 1e-30), deviations[1])


def _sum_of_others(values):
    none = ops.zeros_like(values[:1])
    before = ops.concatenate([none, ops.cumsum(values, axis=0)[:-1]])
    after = ops.concatenate([none, ops.cumsum(ops.flip(values, axis=0), axis=0)[:-1]])
    return before + ops.flip(after, axis=0)
