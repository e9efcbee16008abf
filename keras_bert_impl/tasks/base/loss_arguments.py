"""Losses and metrics as `compile` accepts them: names, classes, functions and objects of Keras."""

import difflib
import functools
import inspect
import re
from collections.abc import Callable
from typing import Any

import keras

from keras_bert_impl.io.errors import InputError


def as_loss(loss: Any, is_multi_label: bool) -> keras.losses.Loss:
    """Converts anything that `compile` accepts as a loss to a `keras.losses.Loss`."""
    if isinstance(loss, (list, tuple)) and len(loss) == 1:
        loss = loss[0]
    if isinstance(loss, (dict, list, tuple)):
        raise InputError("the model has one output: pass one loss.")
    if isinstance(loss, str):
        if loss.lower() in ("crossentropy", "ce"):
            loss = "binary" if is_multi_label else "sparse_categorical"
            loss += "_crossentropy"
        loss = _named(keras.losses, loss, "loss")
    if inspect.isclass(loss):
        loss = loss()
    if isinstance(loss, keras.losses.Loss):
        return loss
    if not callable(loss):
        raise InputError(f"loss must be a name, a function or a keras.losses.Loss, not {loss!r}.")
    function, settings = parts(loss)
    own_class = _class_of(keras.losses, function)
    return own_class(**settings) if own_class else _FunctionLoss(loss)


def as_metric(metric: Any, accuracy: Callable[[], keras.metrics.Metric]) -> keras.metrics.Metric:
    """Converts anything that `compile` accepts as a metric to a `keras.metrics.Metric`."""
    name = None
    if isinstance(metric, str):
        name = metric
        is_accuracy = name in ("accuracy", "acc")
        metric = accuracy() if is_accuracy else _named(keras.metrics, name, "metric")
    if inspect.isclass(metric):
        metric = metric()
    if not isinstance(metric, keras.metrics.Metric):
        if not callable(metric):
            raise InputError(
                f"a metric must be a name, a function or a keras.metrics.Metric, not {metric!r}."
            )
        function, settings = parts(metric)
        own_class = _class_of(keras.metrics, function)
        label = getattr(function, "__name__", type(function).__name__).strip("<>")  # of a lambda
        metric = own_class(**settings) if own_class else _FunctionMetric(metric, name=label)
        name = name or label
    if name is not None:
        metric.name = name
    return metric


class _FunctionLoss(keras.losses.Loss):
    """Per-example loss computed by a function of labels and predictions."""

    def __init__(self, function: Callable) -> None:
        super().__init__(name=getattr(parts(function)[0], "__name__", "loss"))
        self.function = function

    def call(self, y_true: Any, y_pred: Any) -> Any:
        return self.function(y_true, y_pred)


class _FunctionMetric(keras.metrics.MeanMetricWrapper):
    """Mean of a function of labels and predictions."""

    def __init__(self, function: Callable, name: str) -> None:
        super().__init__(function, name=name)
        self.function = function


def _named(module, name, what):
    """Looks up a Keras loss or metric by name."""
    classes = {
        snake_case(key): value for key, value in vars(module).items() if inspect.isclass(value)
    }
    try:
        return classes.get(name) or module.get(name)
    except ValueError as error:
        close = difflib.get_close_matches(name.lower(), classes, 1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise InputError(f"there is no {what} {name!r}.{hint}") from error


def parts(function: Callable) -> tuple[Callable, dict]:
    """Splits a `functools.partial` into (function, settings); else returns (function, {})."""
    if isinstance(function, functools.partial) and not function.args:
        return function.func, function.keywords
    return function, {}


def _class_of(module, function):
    """Returns the Keras class that corresponds to a Keras function, or None."""
    name = getattr(function, "__name__", "")
    if getattr(module, name, None) is not function:
        return None
    return next(
        (c for k, c in vars(module).items() if snake_case(k) == name and c is not function), None
    )


def valid_name(name: str) -> str:
    """Returns the name of a loss without characters that TensorFlow refuses, as in `<lambda>`."""
    return re.sub(r"[^A-Za-z0-9_.-]", "", name) or "loss"


def snake_case(name: str) -> str:
    """Converts the name of a class, such as `"BinaryIoU"`, to that of its function."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
