"""What scores decide: ties and NaN never count in favour of a model."""

import logging
import math

import numpy as np

from keras_bert_impl.io.errors import InputError

_LOG = logging.getLogger(__name__)
# Cosines of float32 vectors that differ by less are equal: some ten units in the last place.
EQUAL_COSINES = 1e-6


class UndefinedScoresError(InputError):
    """A model's scores are NaN, so that nothing can be decided by them.

    Args:
        what: str. What an example is called.
        number: int, that of the example.
    """

    def __init__(self, what, number):
        super().__init__(
            f"the scores of {what} {number} are NaN (not a number): the model has NaN or infinite "
            "weights, or its numbers overflow. Load an earlier checkpoint, train with a lower "
            "learning rate, or use dtype='float32'."
        )
        self.what, self.number = what, number


def check_scores(scores, what="text"):
    """Raises unless all scores are numbers.

    Args:
        scores: float array `[examples, ...]`, or a list of arrays `[...]`, one for each example.
        what: str. What an example is called in the message.

    Raises:
        UndefinedScoresError: a score is NaN; names the first example that has one.
    """
    if isinstance(scores, np.ndarray) and not np.isnan(scores).any():
        return
    for number, row in enumerate(scores):
        if np.isnan(row).any():
            raise UndefinedScoresError(what, number)


def likeliest(scores):
    """The number of the highest score of each example, of equal scores the first.

    Args:
        scores: list of float arrays `[classes]`, or one array `[examples, classes]`.

    Returns:
        int64 array `[examples]`; where an example has a NaN score float64, NaN for that example.
    """
    best = np.array([row.argmax() for row in scores], "int64")
    undefined = np.array([np.isnan(row).any() for row in scores], bool)
    return np.where(undefined, np.nan, best) if undefined.any() else best


def at_least_half(scores):
    """1 for scores of 0.5 or more, 0 for lower ones, NaN for NaN; an array of the same shape."""
    chosen = (scores >= 0.5).astype("int64")
    undefined = np.isnan(scores)
    return np.where(undefined, np.nan, chosen) if undefined.any() else chosen


def undefined(scores):
    """dict. The same names, NaN as their values."""
    return dict.fromkeys(scores, math.nan)


def warn_of_nan(scores, where):
    """Logs a warning that names the scores that are NaN.

    Args:
        scores: dict of float.
        where: str, what was scored.
    """
    names = [name for name, value in scores.items() if math.isnan(value)]
    if names:
        _LOG.warning(
            "%s: %s cannot be computed (NaN): all predictions are equal, or some are NaN",
            where,
            ", ".join(names),
        )
