"""Selection of the next token: greedy, or sampling with temperature, top-k and top-p."""

import dataclasses
from typing import Annotated

import numpy as np

from keras_bert_impl.data.batches.blocks import UndefinedScoresError
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.settings import NonNegativeFloat, PositiveInt, Range, Seed, validate

Probability = Annotated[float, Range(above=0, most=1)]


@dataclasses.dataclass(frozen=True)
class Sampling:
    """Settings for selecting the next token.

    Args:
        temperature: divisor of the logits; 0 selects the most likely token.
        top_k: number of the most likely tokens to draw from; None for all.
        top_p: draws from the most likely tokens whose probabilities add up to at least this value.
        seed: random seed. Each draw depends only on the seed, the index of the text and the
            position of the token.

    Raises:
        InputError: a value is invalid.

    Source: Fan et al. 2018 (arXiv:1805.04833), section 4, for top-k; Holtzman et al. 2020
    (arXiv:1904.09751), section 3.1, for top-p.
    """

    temperature: NonNegativeFloat = 0.0
    top_k: PositiveInt | None = None
    top_p: Probability | None = None
    seed: Seed = 0

    def __post_init__(self) -> None:
        validate(self)
        if not self.temperature and (self.top_k or self.top_p):
            raise InputError(
                "top_k and top_p have no effect at temperature 0, which takes the most likely "
                "token. Set temperature=1.0."
            )

    def probabilities(self, logits: np.ndarray) -> np.ndarray:
        """Computes the probabilities of the next token. The temperature must be above 0.

        Args:
            logits: float array [rows, tokens].

        Returns:
            float64 array [rows, tokens], 0 for excluded tokens.
        """
        logits = logits.astype("float64") / self.temperature
        order = np.argsort(-logits, axis=1, kind="stable")
        highest = np.take_along_axis(logits, order, axis=1)  # descending
        if self.top_k is not None and self.top_k < highest.shape[1]:
            # Tokens with the same logit as the last one are included.
            highest[highest < highest[:, self.top_k - 1, None]] = -np.inf
        sorted_probabilities = _compute_softmax(highest)
        if self.top_p is not None:
            before = np.cumsum(sorted_probabilities, axis=1) - sorted_probabilities
            before[:, 0] = 0.0
            highest[before >= self.top_p] = -np.inf
            sorted_probabilities = _compute_softmax(highest)
        probabilities = np.empty_like(sorted_probabilities)
        np.put_along_axis(probabilities, order, sorted_probabilities, axis=1)
        return probabilities

    def choose(self, logits: np.ndarray, texts: list[int], step: int) -> np.ndarray:
        """Selects the next token of each row, int array [rows].

        Args:
            logits: float array [rows, tokens].
            texts: text index of each row.
            step: number of tokens generated so far.

        Raises:
            UndefinedScoresError: a logit is NaN.
        """
        for row in np.flatnonzero(np.isnan(logits).any(axis=1)):
            raise UndefinedScoresError("text", texts[row])
        if not self.temperature:
            return logits.argmax(axis=1)
        cumulative = np.cumsum(self.probabilities(logits), axis=1)
        draws = [np.random.default_rng([self.seed, text, step]).random() for text in texts]
        # A value in [0, total) never selects a token with probability 0.
        limits = np.array(draws) * cumulative[:, -1]
        return (cumulative <= limits[:, None]).sum(axis=1)


def _compute_softmax(logits):
    exps = np.exp(logits - logits.max(axis=1, keepdims=True))
    return exps / exps.sum(axis=1, keepdims=True)
