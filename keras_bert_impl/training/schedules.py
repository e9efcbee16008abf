"""Learning rates over a run."""

import keras
from keras import ops

from keras_bert_impl.errors import InputError


@keras.saving.register_keras_serializable("keras_bert_impl")
class LinearWarmupDecay(keras.optimizers.schedules.LearningRateSchedule):
    """Rises linearly to the peak in `warmup_steps`, then falls linearly to 0 at `total_steps`.

    Args:
        peak_learning_rate: float.
        warmup_steps: int, optimizer steps; step s of these has (s + 1) / warmup_steps of the peak.
        total_steps: int, optimizer steps, more than `warmup_steps`.

    Example:
        LinearWarmupDecay(1e-4, warmup_steps=100, total_steps=1000)(0)  # 1e-6
    """

    def __init__(self, peak_learning_rate, warmup_steps, total_steps):
        if not 0 <= warmup_steps < total_steps:
            raise InputError(
                f"warmup_steps must be less than total_steps; got {warmup_steps} and {total_steps}."
            )
        self.peak_learning_rate = peak_learning_rate
        self.warmup_steps = warmup_steps
        self.total_steps = total_steps

    def __call__(self, step):
        step = ops.cast(step, "float32")
        rise = (step + 1) / max(self.warmup_steps, 1)
        fall = (self.total_steps - step) / (self.total_steps - self.warmup_steps)
        factor = ops.where(step < self.warmup_steps, rise, ops.maximum(fall, 0.0))
        return self.peak_learning_rate * factor

    def get_config(self):
        return {
            "peak_learning_rate": self.peak_learning_rate,
            "warmup_steps": self.warmup_steps,
            "total_steps": self.total_steps,
        }
