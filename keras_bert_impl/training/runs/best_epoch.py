"""Selection of the best epoch, and early stopping."""

import logging
import math
from collections.abc import Callable, Iterable
from typing import Any

import keras

_LOG = logging.getLogger(__name__)
KEY = "dev_score"  # in `metrics.jsonl`


class BestEpoch(keras.callbacks.Callback):
    """Scores the model after every epoch and stops training when the score no longer improves."""

    def __init__(
        self,
        score: Callable[[], float],
        patience: int | None = None,
        scores: Iterable[float] = (),
        start: int = 0,
    ) -> None:
        super().__init__()
        self._score = score
        self._patience = patience
        self._start = start
        self.scores = list(scores)

    @property
    def best(self) -> int:
        """The epoch with the best score, counted from 1; the first of equal scores."""
        ranks = [-math.inf if math.isnan(score) else score for score in self.scores]
        return self._start + ranks.index(max(ranks)) + 1

    @property
    def is_over(self) -> bool:
        """Whether `patience` is used up."""
        if self._patience is None or not self.scores:
            return False
        return self._start + len(self.scores) - self.best >= self._patience

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] = None) -> None:
        self.scores.append(float(self._score()))
        logs[KEY] = self.scores[-1]
        if math.isnan(self.scores[-1]):
            _LOG.warning(
                "epoch %d has no score (NaN): all its predictions are equal, or some are NaN",
                epoch + 1,
            )
        if self.is_over:
            self.model.stop_training = True
