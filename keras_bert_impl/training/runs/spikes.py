"""Steps that spoil a run: a loss that is no number, or far above what it was."""

import keras
import numpy as np

from keras_bert_impl.io.errors import InputError

_MOST_IN_A_ROW = 10
_LEAST_RISE = 1.0  # nats; a loss near 0 may multiply and do no harm


class Spike(Exception):
    """The loss of a step was not finite, or too high; says which steps."""


class SpikeGuard(keras.callbacks.Callback):
    """Ends `fit` with a `Spike` at the end of a Keras epoch that had one, before it is saved.

    Put it in front of the callbacks that save and report, and its `variables` into the
    checkpoints: what a run that goes on finds is then what the undisturbed one found. The model
    is compiled with `watch_steps`.

    Args:
        factor: float. A loss of so many times the mean of the epoch before, and at least 1 above
            it, is a spike, as is one that is not finite or has a gradient that is not.
        step_of: function of a number of finished Keras epochs that returns the steps of the run.

    Attributes:
        skipped_rows: int variable. Rows of the records that are read now that were passed over.
    """

    def __init__(self, factor, step_of):
        super().__init__()
        self._factor = factor
        self._step_of = step_of
        self._in_a_row = 0
        self._last_loss = keras.Variable(0.0, trainable=False, name="last_loss")
        dtype = "int64" if keras.backend.backend() == "tensorflow" else "int32"  # JAX has no other
        self.skipped_rows = keras.Variable(0, dtype=dtype, trainable=False, name="skipped_rows")

    @property
    def variables(self):
        return [self._last_loss, self.skipped_rows]

    def on_epoch_end(self, epoch, logs=None):
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

    def skip(self, spike, rows):
        """Passes rows over. Set `skipped_rows` to what it returns once the run has gone back.

        Args:
            spike: the `Spike`.
            rows: int. Rows of the epoch.

        Returns:
            int. Rows passed over so far.

        Raises:
            InputError: the same happened 10 times one after the other.
        """
        self._in_a_row += 1
        if self._in_a_row == _MOST_IN_A_ROW:
            raise InputError(
                f"{spike}, and so it did {_MOST_IN_A_ROW} times in a row on other rows: it is not "
                "the data. Start a new run with a lower learning_rate or a longer warmup."
            )
        return int(self.skipped_rows.numpy()) + rows
