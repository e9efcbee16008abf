"""Which epoch of a run was the best, and when to stop for want of a better one."""

import logging
import math

import keras

_LOG = logging.getLogger(__name__)
KEY = "dev_score"  # in `metrics.jsonl`


class BestEpoch(keras.callbacks.Callback):
    """Scores the model after every epoch, and ends the training where that no longer helps.

    Put it before the callbacks that write, which then find the score among the logs: that of an
    epoch is in `metrics.jsonl` before its checkpoint is saved, so a run that goes on knows the
    scores of all epochs that it has.

    Args:
        score: function of no arguments that returns a float, the more the better. NaN is less
            than every number.
        patience: int or None. Training ends after so many epochs in a row without a better score.
        scores: list of float, those of the epochs that are done.
        start: int. How many epochs of the run come before the first that is scored.

    Attributes:
        scores: list of float, one an epoch.
    """

    def __init__(self, score, patience=None, scores=(), start=0):
        super().__init__()
        self._score = score
        self._patience = patience
        self._start = start
        self.scores = list(scores)

    @property
    def best(self):
        """int. The epoch with the best score, from 1; the first of those with equal ones."""
        ranks = [-math.inf if math.isnan(score) else score for score in self.scores]
        return self._start + ranks.index(max(ranks)) + 1

    @property
    def is_over(self):
        """bool. Whether patience is at its end."""
        if self._patience is None or not self.scores:
            return False
        return self._start + len(self.scores) - self.best >= self._patience

    def on_epoch_end(self, epoch, logs=None):
        """Scores; called by Keras."""
        self.scores.append(float(self._score()))
        logs[KEY] = self.scores[-1]
        if math.isnan(self.scores[-1]):
            _LOG.warning(
                "epoch %d has no score (NaN): all its predictions are equal, or some are NaN",
                epoch + 1,
            )
        if self.is_over:
            self.model.stop_training = True
