"""Converts and checks the arguments of `compile`."""

import difflib
import functools
import inspect
import re
from collections.abc import Callable
from typing import Annotated, Any

import keras

from keras_bert_impl.training.jax_devices import num_hosts
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.settings import NonNegativeFloat, Range, check


def as_loss(loss: Any, is_multi_label: bool) -> keras.losses.Loss:
    if isinstance(loss, (list, tuple)) and len(loss) == 1:
        loss = loss[0]
    if isinstance(loss, (dict, list, tuple)):
        raise InputError("the model has one output. Pass one loss.")
    if isinstance(loss, str):
        if loss.lower() in ("crossentropy", "ce"):
            loss = "binary" if is_multi_label else "sparse_categorical"
            loss += "_crossentropy"
        loss = _find_by_name(keras.losses, loss, "loss")
    if inspect.isclass(loss):
        loss = loss()
    if isinstance(loss, keras.losses.Loss):
        return loss
    if not callable(loss):
        raise InputError(f"loss must be a name, a function or a keras.losses.Loss, not {loss!r}.")
    function, settings = parts(loss)
    own_class = _find_class(keras.losses, function)
    return own_class(**settings) if own_class else _FunctionLoss(loss)


def as_metric(metric: Any, accuracy: Callable[[], keras.metrics.Metric]) -> keras.metrics.Metric:
    name = None
    if isinstance(metric, str):
        name = metric
        is_accuracy = name in ("accuracy", "acc")
        metric = accuracy() if is_accuracy else _find_by_name(keras.metrics, name, "metric")
    if inspect.isclass(metric):
        metric = metric()
    if not isinstance(metric, keras.metrics.Metric):
        if not callable(metric):
            raise InputError(
                f"a metric must be a name, a function or a keras.metrics.Metric, not {metric!r}."
            )
        function, settings = parts(metric)
        own_class = _find_class(keras.metrics, function)
        # Names must not contain the brackets of `<lambda>`.
        label = getattr(function, "__name__", type(function).__name__).strip("<>")
        metric = own_class(**settings) if own_class else _FunctionMetric(metric, name=label)
        name = name or label
    if name is not None:
        metric.name = name
    return metric


class _FunctionLoss(keras.losses.Loss):
    def __init__(self, function: Callable) -> None:
        super().__init__(name=getattr(parts(function)[0], "__name__", "loss"))
        self.function = function

    def call(self, y_true: Any, y_pred: Any) -> Any:
        return self.function(y_true, y_pred)


class _FunctionMetric(keras.metrics.MeanMetricWrapper):
    def __init__(self, function: Callable, name: str) -> None:
        super().__init__(function, name=name)
        self.function = function


def _find_by_name(module, name, kind):
    classes = {
        snake_case(key): value for key, value in vars(module).items() if inspect.isclass(value)
    }
    try:
        return classes.get(name) or module.get(name)
    except ValueError as error:
        close = difflib.get_close_matches(name.lower(), classes, 1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise InputError(f"there is no {kind} {name!r}.{hint}") from error


def parts(function: Callable) -> tuple[Callable, dict]:
    if isinstance(function, functools.partial) and not function.args:
        return function.func, function.keywords
    return function, {}


def _find_class(module, function):
    """Returns the class of a Keras function such as `keras.losses.huber`, else None."""
    name = getattr(function, "__name__", "")
    if getattr(module, name, None) is not function:
        return None
    return next(
        (c for k, c in vars(module).items() if snake_case(k) == name and c is not function), None
    )


def valid_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]", "", name) or "loss"


def snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


# === Other arguments of `compile` ===

_Int64 = Annotated[int, Range(least=-(2**63), most=2**63 - 1)]


def check_backend() -> None:
    backend = keras.backend.backend()
    if backend not in ("tensorflow", "jax"):
        raise InputError(
            "task models require the TensorFlow or JAX backend of Keras. Set "
            "KERAS_BACKEND=tensorflow or KERAS_BACKEND=jax."
        )
    if backend == "jax" and num_hosts() > 1:
        raise InputError(
            "the JAX backend supports fine-tuning on one host only. For several hosts, set "
            "KERAS_BACKEND=tensorflow; pre-training supports several hosts on both backends."
        )


def check_arguments(optimizer: Any, learning_rate: Any, seed: Any, others: dict[str, Any]) -> None:
    if optimizer is not None and learning_rate is not None:
        raise InputError("pass either an optimizer or the learning_rate of the default optimizer.")
    if isinstance(learning_rate, keras.optimizers.schedules.LearningRateSchedule):
        raise InputError(
            "learning_rate must be a number, the peak of the default schedule. For a different "
            "schedule, write compile(optimizer=AdamW(schedule))."
        )
    check("learning_rate", learning_rate, NonNegativeFloat | None)
    check("seed", seed, _Int64)
    if others.get("loss_weights"):
        raise InputError(
            "loss_weights require a model with several losses, but this model has one. To weight "
            "examples, use sample_weight or class_weight."
        )
    if optimizer is not None:
        _check_optimizer(optimizer)


def _check_optimizer(optimizer):
    try:
        if isinstance(optimizer, type):  # Keras 3.16 accepts a class
            raise TypeError("a class")
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
    """Returns advice for an error message if `value` is a Keras 2 object, otherwise ""."""
    kinds = [kind.__module__.partition(".")[0] for kind in type(value).__mro__]
    if "tf_keras" not in kinds:
        return ""
    return " It belongs to Keras 2. Unset TF_USE_LEGACY_KERAS and import from keras, not tf_keras."
