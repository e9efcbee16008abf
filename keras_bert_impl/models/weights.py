"""Freezes, initializes, loads and converts the weights of models."""

import contextlib
import logging
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_bert_impl.checkpoints.interop.layouts.bert import TensorName
from keras_bert_impl.checkpoints.interop.source import ModelSource
from keras_bert_impl.layers import is_added
from keras_bert_impl.layers.basic import ThreadValue
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.internals import (
    all_layers,
    forget_variables_without_values,
    has_value,
    set_first_value,
)


def no_hdf5(cls: type) -> type:
    """Class decorator: `save` rejects HDF5 files, because Keras cannot load the model from them."""

    def save(self, filepath: str | Path, overwrite: bool = True, **kwargs: Any) -> None:
        if str(filepath).endswith((".h5", ".hdf5")):
            raise InputError(
                f"{filepath}: Keras cannot load this model from an HDF5 file. Write "
                'save("model.keras") or save_pretrained("directory").'
            )
        super(cls, self).save(filepath, overwrite, **kwargs)  # type: ignore[arg-type]  # any class

    save.__doc__ = keras.Model.save.__doc__
    cls.save = save  # type: ignore[attr-defined]  # any model class
    return cls


def deserialize_parts(config: dict, *names: str, custom_objects: dict | None = None) -> dict:
    """Returns a copy of a Keras config in which the entries `names` are deserialized."""
    return config | {
        name: keras.saving.deserialize_keras_object(config[name], custom_objects) for name in names
    }


def new_name(class_name: str) -> str:
    """Returns a unique model name in Keras's style: `encoder`, `encoder_1`, ..."""
    name = re.sub("(?<=[a-z0-9])(?=[A-Z])", "_", class_name).lower()
    number = keras.backend.get_uid(name) - 1
    return f"{name}_{number}" if number else name


def frozen(model: keras.Model) -> dict[str, list[int]]:
    """Returns the indices of the layers and weights that are not trainable."""
    return {
        "layers": [n for n, layer in enumerate(_list_layers(model)) if not layer.trainable],
        "weights": [n for n, weight in enumerate(model.weights) if not weight.trainable],
    }


def set_frozen(model: keras.Model, state: dict[str, list[int]] | None) -> None:
    """Sets `trainable` of all layers and weights to a state from `frozen`."""
    if state is None:
        return
    # An outer layer precedes its inner layers.
    for number, layer in enumerate(_list_layers(model)):
        layer.trainable = number not in state["layers"]
    for number, weight in enumerate(model.weights):
        weight.trainable = number not in state["weights"]


def _list_layers(model):
    return all_layers(model, include_self=True)


_ALIGNMENT = 64  # bytes; TensorFlow and JAX copy arrays that are not aligned
_COLUMNS = 64  # number of columns of a transposed array that are copied at once


def copy_of(array: np.ndarray, dtype: str) -> np.ndarray:
    """Returns an aligned, C-contiguous copy of an array with the given dtype."""
    copy = _create_empty(array.shape, np.dtype(dtype))
    if array.ndim == 2 and not array.flags.c_contiguous:
        for start in range(0, array.shape[1], _COLUMNS):
            columns = slice(start, start + _COLUMNS)
            copy[:, columns] = array[:, columns]
    else:
        copy[...] = array
    return copy


def _create_empty(shape, dtype):
    size = math.prod(shape) * dtype.itemsize
    memory = np.empty(size + _ALIGNMENT, "uint8")
    start = -memory.ctypes.data % _ALIGNMENT
    return memory[start : start + size].view(dtype).reshape(shape)


def as_tensor(copy: np.ndarray) -> Any:
    """Converts a NumPy array to a tensor. Arrays from `copy_of` are not copied again."""
    if keras.backend.backend() != "tensorflow" or copy.dtype.kind != "f":
        return copy
    import tensorflow as tf

    # `tf.constant` would copy the data twice.
    return tf.experimental.dlpack.from_dlpack(copy.__dlpack__())


_log = logging.getLogger(__name__)


_defers_values = ThreadValue(False)


def values_deferred() -> contextlib.AbstractContextManager[None]:
    """Context manager in which encoders are created without weights. Then call `load_weights`."""
    return _defers_values.set(True)


@contextlib.contextmanager
def values_of_encoder() -> Iterator[None]:
    """Context manager that creates variables without values if `values_deferred` is active."""
    # This is no decorator, because `clone_model` reads the arguments of the constructor.
    if not _defers_values.value:
        yield
        return
    try:
        # In this scope, Keras creates variables without values.
        with keras.StatelessScope(initialize_variables=False):
            yield
    finally:
        # Otherwise, the next stateless scope would initialize the variables.
        forget_variables_without_values()


# Tensors that no model misses: position ids and GPT-2's causal mask in old files, and the pooler if
# a model has none.
_UNUSED = (
    *("position_ids", ".attn.bias", ".attn.masked_bias"),
    *("pooler.weight", "pooler.bias", "pooler.dense.weight", "pooler.dense.bias"),
)


class MissingTensorError(InputError):
    """A model directory lacks a tensor of the model."""


def load_weights(model: keras.Model, directory: ModelSource, names: list[TensorName]) -> list[str]:
    """Assigns the tensors of a model directory to a built model's variables."""
    variables = _index_by_path(model)
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
        tensor = np.split(tensor, name.num_parts, name.axis)[name.part]
        assign(variables[name.variable], tensor.T if name.transpose else tensor)
    for variable in model.variables:
        if not has_value(variable):
            set_first_value(variable)
    unread = [name for name in directory.unread() if not name.endswith(_UNUSED)]
    for remark, tensor_names in (
        ("newly initialized; train before use", fresh),
        ("not loaded", unread),
        ("NaN or infinite values in", not_finite),
    ):
        if tensor_names:
            _log.warning("%s: %s: %s", directory.name, remark, ", ".join(tensor_names))
    return fresh


def check_tied(directory: ModelSource, copies: dict[str, str]) -> None:
    """Raises `InputError` if a copy of a tied tensor differs from the original."""
    for copy, name in copies.items():
        if directory.shape(copy) is None or directory.shape(name) is None:
            continue
        if not np.array_equal(directory.read(copy), directory.read(name)):
            raise InputError(
                f"{directory.path}: tensor {copy} differs from {name}, but only an output matrix "
                "tied to the embeddings is supported."
            )


def _check_shape(directory, name, shape):
    received = directory.shape(name.tensor)
    if received is None and not name.optional:
        raise MissingTensorError(f"{directory.path}: tensor {name.tensor} is missing.")
    sizes = list(shape[::-1] if name.transpose else shape)
    sizes[name.axis] *= name.num_parts
    expected = tuple(sizes)
    if received not in (None, expected):
        raise InputError(
            f"{directory.path}: tensor {name.tensor} must have shape {expected}. "
            f"Received: {received}"
        )


def assign(variable: keras.Variable, array: np.ndarray) -> None:
    """Assigns a copy of an array to a variable, even if the variable has no value yet."""
    if not has_value(variable):
        set_first_value(variable, _FirstValue(array))
    else:
        variable.assign(array.astype(variable.dtype))


class _FirstValue:
    def __init__(self, array):
        self._array = array

    def __call__(self, shape, dtype):
        return as_tensor(copy_of(self._array, dtype))


def added_names(model: keras.Model) -> list[TensorName]:
    """Returns the names of a model's adapter variables. Tensors are named like the variables."""
    return [TensorName(w.path, w.path) for w in model.weights if is_added(w.path)]


def tensors_of(
    model: keras.Model,
    names: list[TensorName],
    prefix: str = "",
    in_place_of: dict[str, np.ndarray] | None = None,
) -> dict[str, np.ndarray]:
    """Returns the weights of a built model as {tensor name: float32 array}."""
    variables = _index_by_path(model)
    parts: dict[str, list[np.ndarray]] = {}
    axes = {prefix + name.tensor: name.axis for name in names}
    for name in names:
        array = (in_place_of or {}).get(name.variable)
        if array is None:
            array = variables[name.variable].numpy()
        array = np.asarray(array, dtype="float32")
        array = array.T if name.transpose else array
        parts.setdefault(prefix + name.tensor, []).append(array)
    return {
        tensor: np.concatenate(arrays, axes[tensor]) if len(arrays) > 1 else arrays[0]
        for tensor, arrays in parts.items()
    }


def _index_by_path(model):
    return {variable.path: variable for variable in model.weights}
