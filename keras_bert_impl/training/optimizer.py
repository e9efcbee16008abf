"""AdamW as BERT has it, and the learning rate schedule it is used with."""

import math
import re
import types

import keras
import numpy as np
from keras import ops

from keras_bert_impl.errors import InputError

_NOT_DECAYED = ("bias$", "gamma$", "beta$")


@keras.saving.register_keras_serializable("keras_bert_impl")
class AdamW(keras.optimizers.Optimizer):
    """Adam with decoupled weight decay (Kingma & Ba 2015, algorithm 1; Loshchilov & Hutter 2019).

        m = beta_1 * m + (1 - beta_1) * gradient
        v = beta_2 * v + (1 - beta_2) * gradient ** 2
        weight -= learning_rate * (m / (sqrt(v) + epsilon) + weight_decay * weight)

    where with bias correction m is divided by `1 - beta_1 ** step` and v by `1 - beta_2 ** step`
    first. `keras.optimizers.AdamW` adds epsilon before it corrects v, and so starts with smaller
    steps. The first BERT had no bias correction, PyTorch's AdamW has it.

    Args:
        learning_rate: float or `LearningRateSchedule`.
        weight_decay: float, default 0.01.
        beta_1: float, default 0.9.
        beta_2: float, default 0.999.
        epsilon: float, default 1e-6.
        bias_correction: bool, default True.
        not_decayed: regular expressions, searched in the paths of the variables; what matches is
            not decayed. Default: biases, and gamma and beta of normalization layers.
        rates: list of (regular expression, factor): a variable learns at the learning rate times
            the factor of the first expression that is found in its path; at the learning rate
            where none is. Decay is by the same rate. Default: none.
        **kwargs: as of `keras.optimizers.Optimizer`: `global_clipnorm`, `use_ema`, `name`, ...

    Example:
        optimizer = AdamW(LinearWarmupDecay(1e-4, 100, 1000), global_clipnorm=1.0)
    """

    def __init__(
        self,
        learning_rate=1e-4,
        weight_decay=0.01,
        beta_1=0.9,
        beta_2=0.999,
        epsilon=1e-6,
        bias_correction=True,
        not_decayed=_NOT_DECAYED,
        rates=(),
        name="adamw",
        **kwargs,
    ):
        super().__init__(
            learning_rate=learning_rate, weight_decay=weight_decay or 0.0, name=name, **kwargs
        )
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon
        self.bias_correction = bias_correction
        self.not_decayed = tuple(not_decayed)
        self.rates = [(pattern, float(factor)) for pattern, factor in rates]
        # In a namespace, in which neither Keras nor a checkpoint looks for variables.
        self._this_step = types.SimpleNamespace(scalars={})

    def apply(self, grads, trainable_variables=None):
        try:
            return super().apply(grads, trainable_variables)
        finally:
            self._this_step.scalars = {}

    def build(self, variables):
        if self.built:
            return
        super().build(variables)
        self._momentums, self._velocities = self.add_optimizer_variables(
            variables, ["momentum", "velocity"]
        )
        self._decays = [self._decay(variable) for variable in variables]
        self._factors = [self._factor(variable) for variable in variables]

    def _decay(self, variable):
        kept = any(re.search(pattern, variable.path) for pattern in self.not_decayed)
        return 0.0 if kept else self.weight_decay

    def _factor(self, variable):
        found = (factor for pattern, factor in self.rates if re.search(pattern, variable.path))
        return next(found, 1.0)

    def _apply_weight_decay(self, variables):
        """`update_step` decays in the same pass over the weights."""

    def update_step(self, gradient, variable, learning_rate):
        index = self._get_variable_index(variable)
        # Computed once, not for each variable: a graph of BERT would have thousands of them.
        factor = self._factors[index]
        key = id(learning_rate), variable.dtype, factor
        if key not in self._this_step.scalars:
            self._this_step.scalars[key] = self._scalars(learning_rate, variable.dtype, factor)
        scalars, decay = self._this_step.scalars[key]
        if self._decays[index]:
            self.assign_sub(variable, variable * decay)
        _update(variable, self._momentums[index], self._velocities[index], gradient, **scalars)

    def _scalars(self, learning_rate, dtype, factor):
        """What all variables of a dtype and rate share in a step: arguments of `_update`, and the
        decay."""
        learning_rate = ops.cast(learning_rate, dtype)
        if factor != 1.0:
            learning_rate = learning_rate * factor
        step = ops.cast(self.iterations + 1, "float32")
        # The betas as the fused operation sees them, or the corrections would not fit to it.
        beta_1, beta_2 = float(np.float32(self.beta_1)), float(np.float32(self.beta_2))
        correction_1 = correction_2 = 1.0
        if self.bias_correction:
            # 1 - beta ** step by expm1: in float32 the difference itself loses four digits.
            correction_1 = ops.cast(-ops.expm1(step * math.log(beta_1)), dtype)
            correction_2 = ops.cast(-ops.expm1(step * math.log(beta_2)), dtype)
        scalars = {
            # The two corrections and epsilon, brought into the form m / (sqrt(v) + epsilon).
            "step_size": learning_rate * ops.sqrt(correction_2) / correction_1,
            "beta_1": beta_1,
            "beta_2": beta_2,
            "epsilon": self.epsilon * ops.sqrt(correction_2),
        }
        return scalars, learning_rate * self.weight_decay

    def get_config(self):
        return {
            **super().get_config(),
            "beta_1": self.beta_1,
            "beta_2": self.beta_2,
            "epsilon": self.epsilon,
            "bias_correction": self.bias_correction,
            "not_decayed": list(self.not_decayed),
            "rates": [list(rate) for rate in self.rates],
        }


def _plain_update(weight, m, v, gradient, step_size, beta_1, beta_2, epsilon):
    gradient = ops.cast(gradient, weight.dtype)
    m.assign(m + (gradient - m) * (1 - beta_1))
    v.assign(v + (gradient * gradient - v) * (1 - beta_2))
    weight.assign(weight - step_size * m / (ops.sqrt(v) + epsilon))


if keras.backend.backend() == "tensorflow":
    import tensorflow as tf

    def _update(weight, m, v, gradient, step_size, beta_1, beta_2, epsilon):
        """The same in two passes over memory, not ten: three to four times as fast on a CPU."""
        if weight.dtype != tf.float32:  # in bfloat16 a beta of 0.999 is 1
            gradient = tf.convert_to_tensor(gradient)
            return _plain_update(weight, m, v, gradient, step_size, beta_1, beta_2, epsilon)
        tf.raw_ops.ResourceApplyAdam(
            var=weight.handle,
            m=m.value.handle,
            v=v.value.handle,
            beta1_power=0.0,  # no correction in the operation: step_size holds it
            beta2_power=0.0,
            lr=step_size,
            beta1=beta_1,
            beta2=beta_2,
            epsilon=epsilon,
            grad=tf.cast(tf.convert_to_tensor(gradient), tf.float32),
        )
else:
    _update = _plain_update


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
