"""Adapts Keras losses and metrics to task models, which return logits.

Each loss or metric receives predictions and labels in the format that it expects. Predictions are
probabilities or, with `from_logits=True`, logits. Labels are class indices or one-hot vectors.

In shapes, `...` means `batch`. For words and spans, it means `batch, length`.
"""

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_bert_impl.data.scores.counting import SCORES, Accuracy, ScoreMetric, defined_weights
from keras_bert_impl.data.tables.labels import ABOUT_SEVERAL, MULTI, REGRESSION, SINGLE
from keras_bert_impl.tasks.base.compile_arguments import (
    as_loss,
    as_metric,
    parts,
    snake_case,
    valid_name,
)
from keras_bert_impl.utils.errors import InputError, listed

_NUMBERS = {  # labels are class indices
    "sparse_categorical_crossentropy",
    "sparse_categorical_accuracy",
    "sparse_top_k_categorical_accuracy",
    "categorical_generalized_cross_entropy",
}
_SOFTMAX_LOSSES = {
    "sparse_categorical_crossentropy",
    "categorical_crossentropy",
    "categorical_focal_crossentropy",
}
_SIGMOID_LOSSES = {"binary_crossentropy", "binary_focal_crossentropy"}
_MARGINS = {"hinge", "squared_hinge", "categorical_hinge"}  # predictions are logits
# Elementwise losses and metrics do not use classes.
_BINARY = _SIGMOID_LOSSES | set(
    "hinge squared_hinge auc binary_accuracy binary_io_u precision precision_at_recall recall "
    "recall_at_precision sensitivity_at_specificity specificity_at_sensitivity "
    "true_positives true_negatives false_positives false_negatives".split()
)
_ONE_HOT = {"categorical_accuracy", "categorical_hinge", "top_k_categorical_accuracy"}
_ACCURACIES = set(
    "accuracy binary_accuracy categorical_accuracy sparse_categorical_accuracy "
    "top_k_categorical_accuracy sparse_top_k_categorical_accuracy f1_score f_beta_score".split()
)
_ONE_CLASS = _NUMBERS | _SOFTMAX_LOSSES | _ONE_HOT
_OVER_CLASSES = _BINARY | set(
    "mean_squared_error mean_absolute_error mean_absolute_percentage_error f1_score f_beta_score "
    "mean_squared_logarithmic_error root_mean_squared_error huber log_cosh log_cosh_error poisson "
    "pearson_correlation concordance_correlation r2_score".split()
)
_BASES = {
    "loss",
    "metric",
    "mean",
    "sum",
    "mean_metric_wrapper",
}  # user-defined classes inherit these names
_OTHER_DATA = {"circle", "ctc"}  # these losses are for embeddings or sequences
_CLASSES = _ONE_CLASS | _BINARY | {"accuracy", "f1_score", "f_beta_score"}
_REFUSED = {
    SINGLE: _OTHER_DATA,
    MULTI: _ONE_CLASS | _OTHER_DATA,
    REGRESSION: _CLASSES | _OTHER_DATA,
}
_WRITE = {
    SINGLE: ("loss='sparse_categorical_crossentropy'", "metrics=['accuracy']"),
    MULTI: ("loss='binary_crossentropy'", "metrics=['accuracy']"),
    REGRESSION: ("loss='mse'", "metrics=['mae']"),
}


@dataclasses.dataclass(frozen=True)
class Outputs:
    """Describes the logits of a task model.

    Attributes:
        problem_type: one of `PROBLEM_TYPES`.
        num_classes: size of the last dimension; None if it differs between batches.
        is_reversed: whether the first logit of a binary classifier belongs to label 1.
    """

    problem_type: str = SINGLE
    num_classes: int | None = None
    is_reversed: bool = False

    @property
    def is_binary(self) -> bool:
        return self.problem_type == SINGLE and self.num_classes == 2

    def in_order(self, labels: Any, logits: Any) -> tuple[Any, Any]:
        """If `is_reversed` is true, swaps the two classes in labels and logits."""
        if not self.is_reversed:
            return labels, logits
        is_dense = len(labels.shape) == len(logits.shape)
        return ops.flip(labels, axis=-1) if is_dense else 1 - labels, ops.flip(logits, axis=-1)

    def probabilities(self, logits: Any) -> Any:
        """Converts logits `[..., num_classes]` to probabilities, except for regression."""
        if self.problem_type == REGRESSION:
            return logits
        return ops.sigmoid(logits) if self.problem_type == MULTI else ops.softmax(logits)


@dataclasses.dataclass(frozen=True)
class _View:
    """Converts labels and logits to the format that a loss or metric expects.

    Attributes:
        labels: `"given"` (unchanged), `"numbers"` (class indices), `"one_hot"`, or `"positive"`
            (`[..., 1]`, which is 1 for the second of two classes).
        predictions: `"logits"`, `"probabilities"`, `"numbers"` (class indices), `"positive"`
            (`[..., 1]`, the probability of the second of two classes), or `"positive_logit"`
            (`[..., 1]`, the logit of this probability).
    """

    outputs: Outputs
    labels: str
    predictions: str

    def __call__(self, labels: Any, logits: Any) -> tuple[Any, Any]:
        labels, logits = self.outputs.in_order(labels, logits)
        return self._convert_labels(labels, logits), self._convert_predictions(logits)

    def _convert_labels(self, labels, logits):
        is_dense = len(labels.shape) == len(logits.shape)
        if self.labels == "given" or self.outputs.problem_type != SINGLE:
            return labels
        if self.labels == "numbers":
            return ops.argmax(labels, axis=-1) if is_dense else labels
        if not is_dense:
            num_classes = logits.shape[-1] or ops.shape(logits)[-1]
            labels = ops.one_hot(ops.cast(labels, "int32"), num_classes, dtype=logits.dtype)
        if self.labels == "one_hot":
            return labels
        return labels[..., 1:]

    def _convert_predictions(self, logits):
        if self.predictions == "logits":
            return logits
        if self.predictions == "numbers":
            if self.outputs.problem_type == MULTI:
                return ops.cast(logits > 0, logits.dtype)
            return ops.argmax(logits, axis=-1)
        if self.predictions == "probabilities":
            return self.outputs.probabilities(logits)
        logit = logits[..., 1:] - logits[..., :1]
        return logit if self.predictions == "positive_logit" else ops.sigmoid(logit)


class TaskLoss(keras.losses.Loss):
    """Computes a Keras loss from the labels and logits of a task model."""

    def __init__(self, loss: Any, outputs: Outputs) -> None:
        loss = as_loss(loss, outputs.problem_type == MULTI)
        name = _find_keras_name(loss)
        _check(name, outputs, "loss")
        if name in _SIGMOID_LOSSES and outputs.problem_type == SINGLE and not outputs.is_binary:
            raise _make_refusal(name, outputs, "loss")
        _check_ignores_padding(loss, name, outputs, "loss")
        stable = _SIGMOID_LOSSES if outputs.problem_type == MULTI else _SOFTMAX_LOSSES
        if outputs.is_binary:
            stable = stable | _SIGMOID_LOSSES
        if name in stable and _is_of_keras(type(loss)):
            # The value is the same, but the gradient does not vanish if a probability rounds to
            # 0 or 1.
            loss = type(loss).from_config(loss.get_config() | {"from_logits": True})
        super().__init__(name=valid_name(loss.name), reduction=loss.reduction)
        self._loss = loss
        self._view = _choose_view(loss, name, outputs)

    @property
    def takes_soft_labels(self) -> bool:
        return self._view.labels != "numbers"

    def call(self, y_true: Any, y_pred: Any) -> Any:
        losses = self._loss.call(*self._view(y_true, y_pred))
        if len(losses.shape) < len(y_pred.shape) - 1:
            raise InputError(
                f"the loss {self.name!r} returns one value for the whole batch, but must return "
                "one per example. Reduce over axis=-1."
            )
        return losses


class TaskMetric(keras.metrics.Metric):
    """Computes a Keras metric from the labels and logits of a task model."""

    def __init__(self, metric: Any, outputs: Outputs) -> None:
        metric = as_metric(metric, lambda: _default_accuracy(outputs))
        name = _find_keras_name(metric)
        _check(name, outputs, "metric")
        _check_ignores_padding(metric, name, outputs, "metric")
        super().__init__(name=metric.name, dtype=metric.dtype)
        if hasattr(metric, "_direction"):  # Keras's callbacks read it
            self._direction = metric._direction
        self.metric = metric
        self._view = _choose_view(metric, name, outputs)
        self._compares_outputs = name in _ACCURACIES

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        if len(y_pred.shape) > len(y_true.shape) > 1:
            y_true = ops.maximum(y_true, 0)  # negative labels have weight 0
        y_true, predictions = self._view(y_true, y_pred)
        if self._compares_outputs:  # NaN would be predicted as class 0
            sample_weight = defined_weights(y_pred, sample_weight)
        if len(y_pred.shape) > 2:
            y_true, predictions, sample_weight = _convert_to_rows(
                y_true, predictions, sample_weight, y_pred
            )
        self.metric.update_state(y_true, predictions, sample_weight=sample_weight)

    def result(self) -> Any:
        return self.metric.result()

    def reset_state(self) -> None:
        self.metric.reset_state()


def as_list(metrics: Any) -> list:
    if metrics is None:
        return []
    if isinstance(metrics, dict):
        raise InputError("the model has one output. Pass metrics as a list, not a dict.")
    if not isinstance(metrics, (list, tuple)):
        return [metrics]
    return [metric for nested in metrics for metric in as_list(nested)]


# === Expected labels and predictions ===


def _default_accuracy(outputs):
    if outputs.problem_type == REGRESSION:
        raise _make_refusal("accuracy", outputs, "metric")
    if outputs.problem_type == MULTI:
        return keras.metrics.BinaryAccuracy()
    return Accuracy()


def _choose_view(measure, name, outputs):
    takes_logits = _is_from_logits(measure) or name in _MARGINS
    predictions = "logits" if takes_logits else "probabilities"
    if name == "accuracy":
        return _View(outputs, "numbers", "numbers")
    if hasattr(measure, "sparse_y_pred"):  # only metrics of intersection over union
        labels = "numbers" if measure.sparse_y_true else "one_hot"
        return _View(outputs, labels, "numbers" if measure.sparse_y_pred else predictions)
    if name in _NUMBERS:
        return _View(outputs, "numbers", predictions)
    by_class = ("class_id", "multi_label", "top_k")
    class_options = [getattr(measure, key, None) for key in by_class]
    names_class = any(
        value is not None and value is not False for value in class_options
    )  # class 0 is valid
    if outputs.is_binary and name in _BINARY and not names_class:
        return _View(outputs, "positive", "positive_logit" if takes_logits else "positive")
    return _View(outputs, "given" if name is None else "one_hot", predictions)


def _find_keras_name(measure):
    for cls in type(measure).__mro__:
        if _is_of_keras(cls):
            name = snake_case(cls.__name__)
            return None if name in _BASES else name
    return None


def _is_of_keras(cls):
    return cls.__module__.split(".")[0] == "keras"


def _is_from_logits(measure):
    function = getattr(measure, "function", None)
    if function is not None:
        function, settings = parts(function)
        if "from_logits" in settings:
            return bool(settings["from_logits"])
        if getattr(function, "from_logits", False):
            return True
        parameter = inspect.signature(function).parameters.get("from_logits")
        return parameter is not None and parameter.default is True
    if getattr(measure, "from_logits", False):
        return True
    if not _is_of_keras(type(measure)):
        return bool(getattr(measure, "_from_logits", False))
    return bool(measure.get_config().get("from_logits", False))


def _check(name, outputs, kind):
    if name in _REFUSED[outputs.problem_type]:
        raise _make_refusal(name, outputs, kind)


def _check_ignores_padding(measure, name, outputs, kind):
    """Raises `InputError` if a loss or metric would count padding as wrong answers."""
    if outputs.num_classes is not None or outputs.problem_type != SINGLE:
        return
    smooths = bool(
        getattr(measure, "label_smoothing", 0) or _read_settings(measure).get("label_smoothing")
    )
    if smooths or name in _OVER_CLASSES:
        line = _WRITE[SINGLE][kind == "metric"]
        raise InputError(
            f"the {kind} {measure.name!r}{' with label smoothing' if smooths else ''} would count "
            f"the padding of a batch as wrong answers. Write compile({line})."
        )


def _read_settings(measure):
    return measure.get_config() if _is_of_keras(type(measure)) else {}


def _make_refusal(name, outputs, kind):
    line = _WRITE[outputs.problem_type][kind == "metric"]
    hint = " For two classes, give the model num_classes=2." * (outputs.problem_type == REGRESSION)
    if outputs.problem_type == SINGLE and "binary" in name:
        hint = ABOUT_SEVERAL
    return InputError(
        f"the {kind} {name!r} does not fit this model, whose problem_type is "
        f"{outputs.problem_type!r}. Write compile({line})."
        f"{hint}"
    )


def _convert_to_rows(labels, predictions, weights, logits):
    leading = ops.shape(logits)[:-1]
    if weights is not None:
        weights = ops.cast(weights, "float32")
        for _ in range(len(logits.shape) - 1 - len(weights.shape)):
            weights = weights[..., None]
        weights = ops.reshape(ops.broadcast_to(weights, leading), (-1,))
    return _merge_leading_dims(labels, logits), _merge_leading_dims(predictions, logits), weights


def _merge_leading_dims(values, logits):
    """Reshapes `[..., dim]` to `[rows, dim]`, or `[...]` to `[rows]`."""
    if len(values.shape) < len(logits.shape):
        return ops.reshape(values, (-1,))
    return ops.reshape(values, (-1, values.shape[-1] or ops.shape(values)[-1]))


def multi_label_metrics() -> dict[str, Callable[[], Any]]:
    """Returns {metric name: function that creates the metric} for multi-label F1."""

    def make_f1(average):
        metric = keras.metrics.F1Score(average, threshold=0.5, name=f"{average}_f1")
        return TaskMetric(metric, Outputs(MULTI))

    return {f"{average}_f1": functools.partial(make_f1, average) for average in ("micro", "macro")}


def task_metrics(metrics: Any, named: dict[str, Callable], outputs_are: Outputs) -> list:
    return [_create_metric(metric, named, outputs_are) for metric in as_list(metrics)]


def _create_metric(metric, named, outputs_are):
    if isinstance(metric, ScoreMetric):
        return metric
    if isinstance(metric, str) and metric in named:
        return named[metric]()
    if isinstance(metric, str) and metric in SCORES:
        raise InputError(
            f"{metric!r} is not a score of this model. Its scores are {listed(named) or 'none'}."
        )
    return TaskMetric(metric, outputs_are)
