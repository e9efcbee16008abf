"""Decisions based on scores."""

import logging
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_bert_impl.data.batches.blocks import UndefinedScoresError

_LOG = logging.getLogger(__name__)
# Tolerance for equal cosines, about ten units in the last place of float32.
EQUAL_COSINES = 1e-6


def check_scores(scores: np.ndarray | list[np.ndarray], what: str = "text") -> None:
    """Raises InputError if a score is NaN.

    Args:
        scores: float `[examples, ...]`, or a list of arrays, one per example.
    """
    if isinstance(scores, np.ndarray) and not np.isnan(scores).any():
        return
    for number, row in enumerate(scores):
        if np.isnan(row).any():
            raise UndefinedScoresError(what, number)


def ranked(scores: Any, bounds: np.ndarray, where: Callable[..., Any] = np.where) -> Any:
    """Changes scores `[examples, classes]` so that the predicted class has the highest score.

    Args:
        bounds: float32 `[classes]`, thresholds; NaN for a class without a threshold. A class with a
            threshold is predicted if its score is at least the threshold.
        where: function that selects values; pass `tf.where` if the scores are a tensor.
    """
    return where(np.isnan(bounds), scores, where(scores >= bounds, 2.0, -1.0))


def likeliest(
    scores: np.ndarray | Sequence[np.ndarray], bounds: np.ndarray | None = None
) -> np.ndarray:
    """Returns the index of the highest score of each example, or the first of equal scores.

    Args:
        scores: float `[examples, classes]`, or a list of arrays `[classes]`.
        bounds: thresholds as in `ranked`; None if no class has a threshold.

    Returns:
        int64 `[examples]`. If an example has NaN scores, float64 `[examples]` with NaN for it.
    """
    ranks = scores if bounds is None else ranked(np.asarray(scores), bounds)
    best = np.array([row.argmax() for row in ranks], "int64")
    undefined = np.array([np.isnan(row).any() for row in scores], bool)
    return np.where(undefined, np.nan, best) if undefined.any() else best


def at_least(scores: np.ndarray, bounds: np.ndarray | float = 0.5) -> np.ndarray:
    """Returns 1 for scores of at least `bounds`, 0 for lower scores, and NaN for NaN scores."""
    decisions = (scores >= bounds).astype("int64")
    undefined = np.isnan(scores)
    return np.where(undefined, np.nan, decisions) if undefined.any() else decisions


def undefined(scores: Iterable[str]) -> dict[str, float]:
    return dict.fromkeys(scores, math.nan)


def warn_of_nan(scores: dict[str, float], where: str | Path) -> None:
    names = [name for name, value in scores.items() if math.isnan(value)]
    if names:
        _LOG.warning(
            "%s: %s is NaN, because all labels or all predictions are equal, or some are NaN",
            where,
            ", ".join(names),
        )


def unit_length(vectors: np.ndarray) -> np.ndarray:
    """Scales vectors `[..., dim]` to unit length, as float32."""
    vectors = np.asarray(vectors, "float32")
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    with np.errstate(invalid="ignore"):  # infinite values become NaN
        return vectors / np.maximum(lengths, 1e-12)
