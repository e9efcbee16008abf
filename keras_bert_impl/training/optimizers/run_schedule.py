"""Learning-rate schedule whose number of steps is set when `fit` starts."""

from typing import Any

import keras
from keras import ops

from keras_bert_impl.io.settings import NonNegativeFloat, Share, check
from keras_bert_impl.keras_internals import learning_rate_of


@keras.saving.register_keras_serializable("keras_bert_impl")
class RunSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """Learning-rate schedule of `LinearWarmupDecay` whose length is set when a run starts."""

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
        """The variable that the rate depends on, for the optimizer."""
        return self._steps

    def begin(self, total_steps: int) -> None:
        """Sets the number of optimizer steps of the run."""
        self.total_steps = total_steps
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


def restart(optimizer: keras.optimizers.Optimizer, total_steps: int) -> None:
    """Resets an optimizer with a `RunSchedule` to its state before the first step."""
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)
    for variable in optimizer.variables:
        variable.assign(ops.zeros(variable.shape, variable.dtype))
    learning_rate_of(optimizer).begin(total_steps)
