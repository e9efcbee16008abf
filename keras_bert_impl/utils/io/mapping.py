"""Memory-mapped arrays."""

import math
from pathlib import Path

import numpy as np

from keras_bert_impl.utils.errors import InputError

# The supported dtypes and their names in a file header.
DTYPES = {"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16"}


def mapped(path: Path, dtype: np.dtype, shape: tuple[int, ...], offset: int) -> np.ndarray:
    if math.prod(shape) == 0:  # An empty array cannot be mapped.
        return np.zeros(shape, dtype)
    try:
        return np.asarray(np.memmap(path, dtype, "r", offset, shape))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {error}.") from error
