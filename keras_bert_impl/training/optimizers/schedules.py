"""Learning-rate schedules over a known number of steps."""

import math
from typing import Any

import keras
from keras import ops

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.io.settings import NonNegativeFloat, NonNegativeInt, PositiveInt, check


class WarmupSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """Base class of the schedules over a known number of steps. Subclasses implement `factor`."""

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
        """Returns the fraction of the peak at a step; both are float32 scalars."""
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
        warmup_steps: Number of warmup steps; step s of these, from 0, has the rate
            `peak_learning_rate * (s + 1) / warmup_steps`.
        total_steps: Number of optimizer steps, more than `warmup_steps`.

    Example:
        LinearWarmupDecay(1e-4, warmup_steps=100, total_steps=1000)(0)  # 1e-6
    """

    def factor(self, step: Any) -> Any:
        fall = (self.total_steps - step) / (self.total_steps - self.warmup_steps)
        return ops.where(step < self.warmup_steps, _rise(self, step), ops.maximum(fall, 0.0))


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
        done = (step - self.warmup_steps) / (self.total_steps - self.warmup_steps)
        fall = _half_cosine(ops.minimum(done, 1.0))
        return ops.where(step < self.warmup_steps, _rise(self, step), fall)


@keras.saving.register_keras_serializable("keras_bert_impl")
class OneCycle(WarmupSchedule):
    """Rises from 1/25 of the peak along half a cosine, then falls to 1/250,000 along another.

    Same rates as PyTorch's `OneCycleLR` with `pct_start = warmup_steps / total_steps`. Momentum is
    constant.

    Args:
        warmup_steps: Number of warmup steps; the last one has the peak.
        total_steps: Number of optimizer steps; the last one has the lowest rate.

    Source: Smith & Topin 2018, "Super-Convergence", section 3, with cosines instead of lines.

    Example:
        from keras_bert_impl.training import OneCycle
        OneCycle(1e-3, warmup_steps=300, total_steps=1000)(299)  # 1e-3
    """

    def factor(self, step: Any) -> Any:
        first, last = 1 / 25, 1 / 250_000
        peak_step = self.warmup_steps - 1
        rise = ops.minimum(step / max(peak_step, 1), 1.0)
        fall = ops.minimum((step - peak_step) / (self.total_steps - 1 - peak_step), 1.0)
        rising = 1 + (first - 1) * _half_cosine(rise)
        return ops.where(step < peak_step, rising, last + (1 - last) * _half_cosine(fall))


def _rise(schedule, step):
    return (step + 1) / max(schedule.warmup_steps, 1)


def _half_cosine(share):
    """Returns half a cosine that falls from 1 at `share=0` to 0 at `share=1`."""
    return (1 + ops.cos(math.pi * share)) / 2
