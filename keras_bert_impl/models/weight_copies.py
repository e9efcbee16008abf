"""Copies of loaded weights: one from the file, in the order and type of the variable."""

import math
from typing import Any

import keras
import numpy as np

_ALIGNMENT = 64  # bytes; TensorFlow and JAX copy arrays that are not aligned
_COLUMNS = 64  # of a transposed array that are copied at once: four cache lines of each row


def copy_of(array: np.ndarray, dtype: str) -> np.ndarray:
    """Returns an aligned, C-contiguous copy of an array, converted to another type."""
    copy = _empty(array.shape, np.dtype(dtype))
    if array.ndim == 2 and not array.flags.c_contiguous:
        for start in range(0, array.shape[1], _COLUMNS):
            columns = slice(start, start + _COLUMNS)
            copy[:, columns] = array[:, columns]
    else:
        copy[...] = array
    return copy


def _empty(shape, dtype):
    size = math.prod(shape) * dtype.itemsize
    memory = np.empty(size + _ALIGNMENT, "uint8")
    start = -memory.ctypes.data % _ALIGNMENT
    return memory[start : start + size].view(dtype).reshape(shape)


def as_tensor(copy: np.ndarray) -> Any:
    """Returns the result of `copy_of` as a tensor in the same memory, if the backend can."""
    if keras.backend.backend() != "tensorflow" or copy.dtype.kind != "f":
        return copy
    import tensorflow as tf

    return tf.experimental.dlpack.from_dlpack(copy.__dlpack__())  # `tf.constant` copies twice
