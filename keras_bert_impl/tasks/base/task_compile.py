"""Checks and conversions of the arguments of `compile` of a task model."""

from collections.abc import Callable
from typing import Annotated, Any

import keras

from keras_bert_impl.io.errors import InputError, listed
from keras_bert_impl.io.settings import NonNegativeFloat, Range, check
from keras_bert_impl.tasks.base.keras_losses import Outputs, TaskMetric, as_list
from keras_bert_impl.tasks.base.score_metrics import SCORES, ScoreMetric
from keras_bert_impl.training.jax_devices import num_hosts

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
