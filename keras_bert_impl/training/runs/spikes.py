"""Detection of loss spikes and non-finite losses."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from keras_bert_impl.io.errors import InputError

_MOST_IN_A_ROW = 10
_LEAST_RISE = 1.0  # nats; a loss near 0 may rise by a large factor without harm


class Spike(Exception):
    """The loss of a step was not finite or too high. The message gives the steps."""


class SpikeGuard(keras.callbacks.Callback):
    """Raises `Spike` at the end of a Keras epoch that had a loss spike, before the epoch is saved."""

    def __init__(self, factor: float, step_of: Callable[[int], int]) -> None:
        super().__init__()
        self._factor = factor
        self._step_of = step_of
        self._in_a_row = 0
        self._last_loss = keras.Variable(0.0, trainable=False, name="last_loss")
        dtype = "int64" if keras.backend.backend() == "tensorflow" else "int32"  # JAX has no int64
        self.skipped_rows = keras.Variable(0, dtype=dtype, trainable=False, name="skipped_rows")

    @property
    def variables(self) -> list[keras.Variable]:
        return [self._last_loss, self.skipped_rows]

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] = None) -> None:
        highest, last = float(logs["highest_loss"]), float(self._last_loss.numpy())
        limit = max(self._factor * last, last + _LEAST_RISE) if last else np.inf
        if not np.isfinite(highest) or highest > limit:
            before = f", after a mean of {last:.4g}" if last else ""
            raise Spike(
                f"between steps {self._step_of(epoch)} and {self._step_of(epoch + 1)} the loss "
                f"rose to {highest:.4g}{before}"
            )
        self._in_a_row = 0
        self._last_loss.assign(float(logs["loss"]))

    def skip(self, spike: Spike, rows: int) -> int:
        """Skips the rows of an epoch with a spike; returns the number of rows skipped so far."""
        self._in_a_row += 1
        if self._in_a_row == _MOST_IN_A_ROW:
            raise InputError(
                f"{spike}. This is spike {_MOST_IN_A_ROW} in a row, each on other rows, so the "
                "data is not the cause. Start a new run with a lower learning_rate or a longer "
                "warmup."
            )
        return int(self.skipped_rows.numpy()) + rows
