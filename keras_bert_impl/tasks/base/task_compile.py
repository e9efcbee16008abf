"""Arguments of `compile` of a task model, and its scores as Keras metrics."""

import functools
from collections.abc import Callable
from typing import Annotated, Any

import keras
from keras import ops

from keras_bert_impl.io.errors import InputError, listed
from keras_bert_impl.io.settings import NonNegativeFloat, Range, check
from keras_bert_impl.tasks.base.keras_losses import Outputs, TaskMetric, as_list
from keras_bert_impl.tasks.data.labels import MULTI
from keras_bert_impl.tasks.scores.counting import CountingMetric, count, defined_weights
from keras_bert_impl.tasks.scores.token_weights import token_weights
from keras_bert_impl.training.jax_devices import num_hosts

SCORES = ("f1", "micro_f1", "macro_f1", "matthews", "entity_f1", "exact_match")


class ScoreMetric(CountingMetric):
    """Base class of metrics that take labels and the network's logits."""


class ConfusionScore(ScoreMetric):
    """A classification score computed from the confusion matrix."""

    def __init__(self, name: str, num_classes: int, positive_class: int = 1) -> None:
        super().__init__(name=name)
        self._num_classes = num_classes
        self._positive = positive_class
        # [label, prediction]
        self._matrix = self.count_variable("matrix", (num_classes, num_classes))

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        weights = sample_weight
        if len(y_pred.shape) > 2:  # words
            weights = token_weights(y_true, sample_weight)
        if len(y_true.shape) == len(y_pred.shape):
            y_true = ops.argmax(y_true, axis=-1)
        y_true = ops.reshape(ops.maximum(y_true, 0), (-1,))
        y_pred = ops.reshape(y_pred, (-1, self._num_classes))
        weights = None if weights is None else ops.reshape(weights, (-1,))
        cells = ops.cast(y_true, "int32") * self._num_classes
        cells += ops.cast(ops.argmax(y_pred, axis=-1), "int32")
        # Not a matrix product, whose weights an accelerator would round.
        found = ops.segment_sum(defined_weights(y_pred, weights), cells, self._num_classes**2)
        self.add_count(self._matrix, ops.reshape(found, (self._num_classes, -1)))

    def result(self) -> Any:
        matrix = count(self._matrix)
        if self.name == "matthews":
            return _matthews(matrix)
        hits = ops.diagonal(matrix)
        labels, predictions = ops.sum(matrix, axis=1), ops.sum(matrix, axis=0)
        f1 = ops.divide_no_nan(2 * hits, labels + predictions)
        if self.name == "f1":
            return f1[self._positive]
        occurs = ops.cast(ops.not_equal(labels + predictions, 0), f1.dtype)  # NaN does
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


def _matthews(matrix):
    """Returns the correlation of a confusion matrix, as sums of positive terms."""
    hits, missed = ops.diagonal(matrix), ops.diagonal(_sum_of_others(ops.transpose(matrix)))
    wrong = ops.diagonal(_sum_of_others(matrix))  # of those predicted as a class
    of_others = ops.transpose(_sum_of_others(ops.transpose(matrix)))  # [label, not predicted]
    rest = ops.diagonal(_sum_of_others(of_others))
    covariance = ops.sum(hits * rest - missed * wrong)
    deviations = [
        ops.sqrt(ops.sum(total * _sum_of_others(total)))
        for total in (ops.sum(matrix, axis=1), ops.sum(matrix, axis=0))
    ]
    return ops.divide_no_nan(covariance / ops.maximum(deviations[0], 1e-30), deviations[1])


def _sum_of_others(values):
    """Returns for each entry of the first dimension the sum of the others."""
    none = ops.zeros_like(values[:1])
    before = ops.concatenate([none, ops.cumsum(values, axis=0)[:-1]])
    after = ops.concatenate([none, ops.cumsum(ops.flip(values, axis=0), axis=0)[:-1]])
    return before + ops.flip(after, axis=0)


_Int64 = Annotated[int, Range(least=-(2**63), most=2**63 - 1)]


def check_backend() -> None:
    """Raises `InputError` if tasks do not run on the Keras backend and its processes."""
    if keras.backend.backend() not in ("tensorflow", "jax"):
        raise InputError(
            "tasks need the TensorFlow or the JAX backend of Keras: set KERAS_BACKEND=tensorflow "
            "or KERAS_BACKEND=jax."
        )
    if num_hosts() > 1:
        raise InputError(
            "tasks train on the devices of one host on the JAX backend; on several hosts set "
            "KERAS_BACKEND=tensorflow. Pre-training takes several hosts on both."
        )


def check_arguments(optimizer: Any, learning_rate: Any, seed: Any, others: dict[str, Any]) -> None:
    """Checks arguments of `RawTextTrainer.compile`; `others` are by name."""
    if optimizer is not None and learning_rate is not None:
        raise InputError("pass either an optimizer or the learning_rate of the default optimizer.")
    if isinstance(learning_rate, keras.optimizers.schedules.LearningRateSchedule):
        raise InputError(
            "learning_rate must be a number, the peak of the default schedule. For another "
            "schedule, write compile(optimizer=AdamW(schedule))."
        )
    check("learning_rate", learning_rate, NonNegativeFloat | None)
    check("seed", seed, _Int64)
    if others.get("loss_weights"):
        raise InputError(
            "loss_weights are for models with several losses, and this one has one: leave them "
            "out. sample_weight and class_weight weigh examples."
        )
    if optimizer is not None:
        _check_optimizer(optimizer)


def _check_optimizer(optimizer):
    try:
        keras.optimizers.get(optimizer)
    except (TypeError, ValueError) as error:
        line = "compile(optimizer='adam')"
        if isinstance(optimizer, type):
            line = f"compile(optimizer={optimizer.__name__}(3e-5))"
        elif isinstance(optimizer, float):
            line = f"compile(learning_rate={optimizer})"
        raise InputError(
            "optimizer must be a name or an object of keras.optimizers. Received: "
            f"{getattr(optimizer, '__name__', None) or repr(optimizer):.60}; write "
            f"{line}.{about_keras_2(optimizer)}"
        ) from error


def about_keras_2(value: Any) -> str:
    """Returns what to do about an object of Keras 2, or an empty string for any other."""
    kinds = [kind.__module__.partition(".")[0] for kind in type(value).__mro__]
    if "tf_keras" not in kinds:
        return ""
    return " It is of Keras 2: unset TF_USE_LEGACY_KERAS and take it from keras, not tf_keras."


def task_metrics(metrics: Any, named: dict[str, Callable], outputs_are: Outputs) -> list:
    """Converts a user's metrics to metrics of the network's outputs."""
    return [_task_metric(metric, named, outputs_are) for metric in as_list(metrics)]


def _task_metric(metric, named, outputs_are):
    if isinstance(metric, ScoreMetric):
        return metric
    if isinstance(metric, str) and metric in named:
        return named[metric]()
    if isinstance(metric, str) and metric in SCORES:
        raise InputError(
            f"{metric!r} is not a score of this model. Its scores are {listed(named) or 'none'}."
        )
    return TaskMetric(metric, outputs_are)
