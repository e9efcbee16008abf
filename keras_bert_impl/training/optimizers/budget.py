"""Training within a time budget: the learning-rate schedule and the end of the run."""

import time
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_bert_impl.io.settings import Fraction, NonNegativeFloat, PositiveFloat, check
from keras_bert_impl.training.strategy import mean_of_workers

_LEAST = 0.01  # fraction of the peak, so that training starts before the first time measurement


@keras.saving.register_keras_serializable("keras_bert_impl")
class TimeBudget(keras.optimizers.schedules.LearningRateSchedule):
    """Learning-rate schedule with linear warmup and decay over a time budget.

    The time used is a variable that `SpendsBudget` updates at the end of every Keras epoch. Within
    an epoch the rate is constant. A run resumed from a checkpoint that includes this variable
    repeats the same rates. The rate starts at a hundredth of the peak.

    Args:
        seconds: The time budget.
        warmup: Fraction of the budget used for warmup, in (0, 1).

    Attributes:
        used: float32. Seconds used so far.

    Source: Geiping & Goldstein 2023, "Cramming", section 4.3: a schedule over the budget.

    Example:
        from keras_bert_impl.training import SpendsBudget, TimeBudget
        schedule = TimeBudget(1e-3, seconds=24 * 3600)
        model.compile(AdamW(schedule))
        model.fit(data, callbacks=[SpendsBudget(schedule)])
    """

    def __init__(self, peak_learning_rate: float, seconds: float, warmup: float = 0.1) -> None:
        self.peak_learning_rate = check("peak_learning_rate", peak_learning_rate, NonNegativeFloat)
        self.seconds = check("seconds", seconds, PositiveFloat)
        self.warmup = check("warmup", warmup, Fraction)
        self.used = keras.Variable(0.0, trainable=False, dtype="float32", name="seconds_used")

    def __call__(self, step: Any) -> Any:
        share = self.used / self.seconds
        rise = ops.maximum(share / self.warmup, _LEAST)
        fall = ops.maximum((1 - share) / (1 - self.warmup), 0.0)
        return self.peak_learning_rate * ops.minimum(rise, fall)

    @property
    def variable(self) -> keras.Variable:
        """The variable that the rate depends on, for the optimizer."""
        return self.used

    @property
    def is_used_up(self) -> bool:
        return float(ops.convert_to_numpy(self.used)) >= self.seconds

    def get_config(self) -> dict[str, Any]:
        return {
            "peak_learning_rate": self.peak_learning_rate,
            "seconds": self.seconds,
            "warmup": self.warmup,
        }


class SpendsBudget(keras.callbacks.Callback):
    """Adds the time of every Keras epoch to a `TimeBudget` and ends `fit` when it is used up.

    An epoch's time includes everything between its end and the end of the epoch before. The clock
    is monotonic and runs only during `fit`: neither the time while a run is down nor an epoch lost
    to a kill counts. Workers average their times, so that all have the same rate.
    """

    def __init__(self, schedule: TimeBudget, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._schedule = schedule
        self._clock = clock

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        self._begin = self._clock()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        now = self._clock()
        passed, self._begin = now - self._begin, now
        self._schedule.used.assign_add(mean_of_workers(self.model.distribute_strategy, passed))
        if self._schedule.is_used_up:
            self.model.stop_training = True
