"""Pairwise similarities of vectors, in NumPy."""

import numpy as np

from keras_bert_impl.data.scores.decisions import unit_length
from keras_bert_impl.utils.errors import InputError

_VALUES = 1 << 22  # maximum number of differences in memory


def similarity(first: np.ndarray, second: np.ndarray, kind: str = "cosine") -> np.ndarray:
    """Computes the similarity of each vector in `first` to each vector in `second`.

    Args:
        first, second: float arrays `[n, dim]` and `[m, dim]`, or `[dim]`.

    Returns:
        float32 `[n, m]`.
    """
    first, second = np.atleast_2d(first), np.atleast_2d(second)
    if first.ndim != 2 or second.ndim != 2 or first.shape[1] != second.shape[1]:
        raise InputError(
            "similarity takes vectors [n, dim] and [m, dim]. Received: shapes "
            f"{first.shape} and {second.shape}"
        )
    if kind in ("cosine", "dot"):
        if kind == "cosine":
            first, second = unit_length(first), unit_length(second)
        return first @ second.T
    order = {"euclidean": 2, "manhattan": 1}[kind]
    rows = max(1, _VALUES // max(1, second.size))
    parts = [
        -np.linalg.norm(first[start : start + rows, None] - second[None], order, axis=-1)
        for start in range(0, len(first), rows)
    ]
    return np.concatenate(parts) if parts else np.zeros((0, len(second)), "float32")
