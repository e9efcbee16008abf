"""Conversion of weights between Keras variables and the tensors of a model directory."""

import contextlib
import logging
from collections.abc import Iterator

import keras
import numpy as np

from keras_bert_impl.interop.layouts.names import TensorName
from keras_bert_impl.interop.source import ModelSource
from keras_bert_impl.io.errors import InputError
from keras_bert_impl.keras_internals import (
    forget_variables_without_values,
    has_value,
    set_first_value,
)
from keras_bert_impl.layers import is_added
from keras_bert_impl.models.weight_copies import as_tensor, copy_of
from keras_bert_impl.thread_value import ThreadValue

_log = logging.getLogger(__name__)


_defers_values = ThreadValue(False)


def values_deferred() -> contextlib.AbstractContextManager[None]:
    """Context in which encoders are created without weight values; `load_weights` must follow."""
    return _defers_values.set(True)


@contextlib.contextmanager
def values_of_encoder() -> Iterator[None]:
    """Context of an encoder's constructor, without values for variables inside `values_deferred`.

    Keras has variables without values for its stateless scopes. It would initialize them when the
    next such scope ends, so its list of them is cleared. Not a decorator: `clone_model` reads the
    arguments of the constructor.
    """
    if not _defers_values.value:
        yield
        return
    try:
        with keras.StatelessScope(initialize_variables=False):
            yield
    finally:
        forget_variables_without_values()


class MissingTensorError(InputError):
    """A model directory lacks a tensor that the model needs."""


def load_weights(model: keras.Model, directory: ModelSource, names: list[TensorName]) -> list[str]:
    """Assigns the tensors of a model directory to a built model's variables."""
    variables = _by_path(model)
    for name in names:
        _check_shape(directory, name, tuple(variables[name.variable].shape))
    fresh, not_finite = [], []
    for name in names:
        tensor = directory.read(name.tensor)
        if tensor is None:
            fresh.append(name.variable)
            continue
        with np.errstate(all="ignore"):
            if not np.isfinite(np.sum(tensor, dtype="float32")):
                not_finite.append(name.tensor)
        tensor = np.split(tensor, name.num_parts)[name.part]
        assign(variables[name.variable], tensor.T if name.transpose else tensor)
    for variable in model.variables:
        if not has_value(variable):
            set_first_value(variable)
    unread = [name for name in directory.unread() if not name.endswith("position_ids")]
    for what, found in (
        ("newly initialized; train before use", fresh),
        ("not loaded", unread),
        ("NaN or infinite values in", not_finite),
    ):
        if found:
            _log.warning("%s: %s: %s", directory.path, what, ", ".join(found))
    return fresh


def check_tied(directory: ModelSource, copies: dict[str, str]) -> None:
    """Raises if head weights that should be tied to other weights differ from them."""
    for copy, name in copies.items():
        if directory.shape(copy) is None or directory.shape(name) is None:
            continue
        if not np.array_equal(directory.read(copy), directory.read(name)):
            raise InputError(
                f"{directory.path}: tensor {copy} differs from {name}; an output matrix that is "
                "not tied to the embeddings is not supported."
            )


def _check_shape(directory, name, shape):
    received = directory.shape(name.tensor)
    if received is None and not name.optional:
        raise MissingTensorError(f"{directory.path}: tensor {name.tensor} is missing.")
    expected = shape[::-1] if name.transpose else shape
    expected = (name.num_parts * expected[0], *expected[1:])
    if received not in (None, expected):
        raise InputError(
            f"{directory.path}: tensor {name.tensor} must have shape {expected}. "
            f"Received: {received}"
        )


def assign(variable: keras.Variable, array: np.ndarray) -> None:
    """Assigns a copy of an array to a variable, also if `values_deferred` left it without a value."""
    if not has_value(variable):
        set_first_value(variable, _FirstValue(array))
    else:
        variable.assign(array.astype(variable.dtype))


class _FirstValue:
    """An array as an initializer; Keras compiles that of a large variable on several JAX devices."""

    def __init__(self, array):
        self._array = array

    def __call__(self, shape, dtype):
        return as_tensor(copy_of(self._array, dtype))


def added_names(model: keras.Model) -> list[TensorName]:
    """Returns the names of a model's adapter variables, which are their own paths."""
    return [TensorName(w.path, w.path) for w in model.weights if is_added(w.path)]


def tensors_of(
    model: keras.Model,
    names: list[TensorName],
    prefix: str = "",
    in_place_of: dict[str, np.ndarray] | None = None,
) -> dict[str, np.ndarray]:
    """Returns a built model's variables as float32 arrays, named as in a model directory."""
    variables = _by_path(model)
    parts: dict[str, list[np.ndarray]] = {}
    for name in names:
        array = (in_place_of or {}).get(name.variable)
        if array is None:
            array = variables[name.variable].numpy()
        array = np.asarray(array, dtype="float32")
        array = array.T if name.transpose else array
        parts.setdefault(prefix + name.tensor, []).append(array)
    return {
        tensor: np.concatenate(arrays) if len(arrays) > 1 else arrays[0]
        for tensor, arrays in parts.items()
    }


def _by_path(model):
    return {variable.path: variable for variable in model.weights}
