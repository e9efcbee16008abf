"""A run that has so many hours: its learning rate, and its end."""

import time

import keras
from keras import ops

from keras_bert_impl.settings import Fraction, NonNegativeFloat, PositiveFloat, check
from keras_bert_impl.training.strategy import mean_of_workers

_LEAST = 0.01  # of the peak, so that something is learned before the first time is taken


@keras.saving.register_keras_serializable("keras_bert_impl")
class TimeBudget(keras.optimizers.schedules.LearningRateSchedule):
    """A rate that rises and falls linearly with the share of a time that is used.

    The time that is used is a variable that `SpendsBudget` sets at the end of every Keras epoch:
    within one the rate is constant, and a run that goes on from a checkpoint with this variable
    in it repeats the rates that it had. The rate begins at a hundredth of the peak.

    Args:
        peak_learning_rate: float.
        seconds: float. The whole time.
        warmup: float in (0, 1). Share of the time in which the rate rises.

    Attributes:
        used: `keras.Variable`, float32, seconds.

    Source: Geiping & Goldstein 2023, "Cramming", section 4.3: a schedule over the budget.

    Example:
        schedule = TimeBudget(1e-3, seconds=24 * 3600)
        model.compile(AdamW(schedule))
        model.fit(data, callbacks=[SpendsBudget(schedule)])
    """

    def __init__(self, peak_learning_rate, seconds, warmup=0.1):
        self.peak_learning_rate = check("peak_learning_rate", peak_learning_rate, NonNegativeFloat)
        self.seconds = check("seconds", seconds, PositiveFloat)
        self.warmup = check("warmup", warmup, Fraction)
        self.used = keras.Variable(0.0, trainable=False, dtype="float32", name="seconds_used")

    def __call__(self, step):
        share = self.used / self.seconds
        rise = ops.maximum(share / self.warmup, _LEAST)
        fall = ops.maximum((1 - share) / (1 - self.warmup), 0.0)
        return self.peak_learning_rate * ops.minimum(rise, fall)

    @property
    def is_used_up(self):
        return float(ops.convert_to_numpy(self.used)) >= self.seconds

    def get_config(self):
        return {
            "peak_learning_rate": self.peak_learning_rate,
            "seconds": self.seconds,
            "warmup": self.warmup,
        }


class SpendsBudget(keras.callbacks.Callback):
    """Takes the time of every Keras epoch, all that belongs to it, and ends `fit` in time.

    The clock runs while `fit` does and is not the time of day, which may jump: a run that was down
    has not used its budget meanwhile, nor with the epoch that a kill cost it. Workers take the
    mean of their times, so that all have one rate.

    Args:
        schedule: `TimeBudget`.
        clock: function that returns seconds.
    """

    def __init__(self, schedule, clock=time.monotonic):
        super().__init__()
        self._schedule = schedule
        self._clock = clock

    def on_train_begin(self, logs=None):
        self._begin = self._clock()

    def on_epoch_end(self, epoch, logs=None):
        now = self._clock()
        passed, self._begin = now - self._begin, now
        self._schedule.used.assign_add(mean_of_workers(self.model.distribute_strategy, passed))
        if self._schedule.is_used_up:
            self.model.stop_training = True
