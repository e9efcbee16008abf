"""Learning-rate schedules for a number of steps, for each `fit`, and for a time budget."""

import math
import time
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_bert_impl.training.strategy import mean_of_workers
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.internals import learning_rate_of
from keras_bert_impl.utils.settings import (
    Fraction,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Share,
    check,
)


class WarmupSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """Base class of schedules over a known number of steps."""

    def __init__(self, peak_learning_rate: float, warmup_steps: int, total_steps: int) -> None:
        peak_learning_rate = check("peak_learning_rate", peak_learning_rate, NonNegativeFloat)
        warmup_steps = check("warmup_steps", warmup_steps, NonNegativeInt)
        total_steps = check("total_steps", total_steps, PositiveInt)
        if warmup_steps >= total_steps:
            raise InputError(
                "warmup_steps must be less than total_steps. Received: "
                f"warmup_steps={warmup_steps}, total_steps={total_steps}"
            )
        self.peak_learning_rate = peak_learning_rate
        self.warmup_steps = warmup_steps
        self.total_steps = total_steps

    def __call__(self, step: Any) -> Any:
        return self.peak_learning_rate * self.factor(ops.cast(step, "float32"))

    def factor(self, step: Any) -> Any:
        """Returns the learning rate at a step as a fraction of the peak."""
        raise NotImplementedError

    def get_config(self) -> dict[str, Any]:
        return {
            "peak_learning_rate": self.peak_learning_rate,
            "warmup_steps": self.warmup_steps,
            "total_steps": self.total_steps,
        }


@keras.saving.register_keras_serializable("keras_bert_impl")
class LinearWarmupDecay(WarmupSchedule):
    """Rises linearly to the peak in `warmup_steps`, then falls linearly to 0 at `total_steps`.

    Args:
        warmup_steps: Number of warmup steps. Warmup step s (0-based) has the rate
            `peak_learning_rate * (s + 1) / warmup_steps`.
        total_steps: Number of optimizer steps; must be greater than `warmup_steps`.

    Example:
        LinearWarmupDecay(1e-4, warmup_steps=100, total_steps=1000)(0)  # 1e-6
    """

    def factor(self, step: Any) -> Any:
        fall = (self.total_steps - step) / (self.total_steps - self.warmup_steps)
        return ops.where(
            step < self.warmup_steps, _compute_rise(self, step), ops.maximum(fall, 0.0)
        )


@keras.saving.register_keras_serializable("keras_bert_impl")
class CosineWarmupDecay(WarmupSchedule):
    """Rises like `LinearWarmupDecay`, then falls to 0 along half a cosine.

    Args: see `LinearWarmupDecay`.

    Source: Loshchilov & Hutter 2017, "SGDR", equation 5, without restarts.

    Example:
        from keras_bert_impl.training import CosineWarmupDecay
        CosineWarmupDecay(1e-4, warmup_steps=100, total_steps=1000)(550)  # 5e-5
    """

    def factor(self, step: Any) -> Any:
        fraction = (step - self.warmup_steps) / (self.total_steps - self.warmup_steps)
        fall = _compute_half_cosine(ops.minimum(fraction, 1.0))
        return ops.where(step < self.warmup_steps, _compute_rise(self, step), fall)


@keras.saving.register_keras_serializable("keras_bert_impl")
class OneCycle(WarmupSchedule):
    """Rises from 1/25 of the peak to the peak, then falls to 1/250,000 of the peak (half cosines).

    The rates are the same as in PyTorch's `OneCycleLR` with `pct_start = warmup_steps /
    total_steps`. Momentum is constant.

    Args:
        warmup_steps: Number of warmup steps; the last warmup step has the peak rate.
        total_steps: Number of optimizer steps; the last step has the lowest rate.

    Source: Smith & Topin 2018, "Super-Convergence", section 3, with cosine instead of linear
        changes.

    Example:
        from keras_bert_impl.training import OneCycle
        OneCycle(1e-3, warmup_steps=300, total_steps=1000)(299)  # 1e-3
    """

    def factor(self, step: Any) -> Any:
        first, last = 1 / 25, 1 / 250_000
        peak_step = self.warmup_steps - 1
        rise = ops.minimum(step / max(peak_step, 1), 1.0)
        fall = ops.minimum((step - peak_step) / (self.total_steps - 1 - peak_step), 1.0)
        rising = 1 + (first - 1) * _compute_half_cosine(rise)
        return ops.where(step < peak_step, rising, last + (1 - last) * _compute_half_cosine(fall))


def _compute_rise(schedule, step):
    return (step + 1) / max(schedule.warmup_steps, 1)


def _compute_half_cosine(fraction):
    """Returns half a cosine that falls from 1 at `fraction=0` to 0 at `fraction=1`."""
    return (1 + ops.cos(math.pi * fraction)) / 2


@keras.saving.register_keras_serializable("keras_bert_impl")
class RunSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """Linear warmup and decay. `begin` sets the number of steps when a run starts."""

    def __init__(
        self, peak_learning_rate: float, warmup: float = 0.1, total_steps: int = 1
    ) -> None:
        self.peak_learning_rate = check("peak_learning_rate", peak_learning_rate, NonNegativeFloat)
        self.warmup = check("warmup", warmup, Share)
        self._steps = keras.Variable(
            [0.0, 0.0], trainable=False, dtype="float32", name="warmup_and_total_steps"
        )
        self.begin(total_steps)

    @property
    def variable(self) -> keras.Variable:
        """The variable from which the learning rate is computed.

        The optimizer tracks this variable.
        """
        return self._steps

    @property
    def total_steps(self) -> int:
        """Number of optimizer steps; restored with the optimizer state of a checkpoint."""
        return int(ops.convert_to_numpy(self._steps)[1])

    def begin(self, total_steps: int) -> None:
        """Sets the number of steps."""
        self._steps.assign([float(int(self.warmup * total_steps)), float(total_steps)])

    def __call__(self, step: Any) -> Any:
        step = ops.cast(step, "float32")
        warmup_steps, total_steps = self._steps[0], self._steps[1]
        rise = (step + 1) / ops.maximum(warmup_steps, 1.0)
        fall = (total_steps - step) / (total_steps - warmup_steps)
        factor = ops.where(step < warmup_steps, rise, ops.maximum(fall, 0.0))
        return self.peak_learning_rate * factor

    def get_config(self) -> dict[str, Any]:
        return {
            "peak_learning_rate": self.peak_learning_rate,
            "warmup": self.warmup,
            "total_steps": self.total_steps,
        }


def reset(optimizer: keras.optimizers.Optimizer) -> None:
    """Sets all variables of an optimizer to 0."""
    for variable in getattr(optimizer, "inner_optimizer", optimizer).variables:
        variable.assign(ops.zeros(variable.shape, variable.dtype))


def set_run_length(
    optimizer: keras.optimizers.Optimizer, steps_per_epoch: int, epochs: int, initial_epoch: int
) -> None:
    """Sets the number of steps of an optimizer's `RunSchedule`.

    The schedule ends after the last epoch. An optimizer that has already taken steps continues.
    """
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)
    schedule = learning_rate_of(optimizer)
    steps_done = int(ops.convert_to_numpy(optimizer.iterations))
    # In float16, skipped steps are not in `steps_done`, but belong to the run.
    if not steps_done or schedule.total_steps != steps_per_epoch * epochs:
        schedule.begin(steps_done + steps_per_epoch * (epochs - initial_epoch))


_LEAST = 0.01  # fraction of the peak before the first time measurement


@keras.saving.register_keras_serializable("keras_bert_impl")
class TimeBudget(keras.optimizers.schedules.LearningRateSchedule):
    """Learning-rate schedule with linear warmup and decay over a time budget.

    The rate starts at 1% of the peak and then depends on the elapsed time. `SpendsBudget` updates
    the elapsed time at the end of every Keras epoch. The elapsed time is a variable, so checkpoints
    contain it, and a resumed run continues with the same rates.

    Args:
        seconds: The time budget.
        warmup: Fraction of the budget used for warmup, in (0, 1).

    Attributes:
        used: float32. Seconds used so far.

    Source: Geiping & Goldstein 2023, "Cramming", section 4.3, on schedules over a budget.

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
        fraction = self.used / self.seconds
        rise = ops.maximum(fraction / self.warmup, _LEAST)
        fall = ops.maximum((1 - fraction) / (1 - self.warmup), 0.0)
        return self.peak_learning_rate * ops.minimum(rise, fall)

    @property
    def variable(self) -> keras.Variable:
        """The variable from which the learning rate is computed.

        The optimizer tracks this variable.
        """
        return self.used

    @property
    def is_used_up(self) -> bool:
        """Whether the elapsed time has reached the budget."""
        return float(ops.convert_to_numpy(self.used)) >= self.seconds

    def get_config(self) -> dict[str, Any]:
        return {
            "peak_learning_rate": self.peak_learning_rate,
            "seconds": self.seconds,
            "warmup": self.warmup,
        }


class SpendsBudget(keras.callbacks.Callback):
    """Adds the time of every Keras epoch to a `TimeBudget`. Ends `fit` when the budget is used up.

    The time of an epoch is measured from the end of the previous epoch or from the start of `fit`.
    If a run is interrupted and resumed, the time in between is not counted, and an epoch that is
    repeated is counted only once. The time is averaged over workers, so that all workers have the
    same rate.
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
