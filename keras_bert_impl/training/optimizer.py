"""AdamW as BERT has it, and what it shares with LAMB."""

import math
import re
import types

import keras
import numpy as np
from keras import ops

from keras_bert_impl.training.run_schedule import RunSchedule
from keras_bert_impl.training.schedules import LinearWarmupDecay

_NOT_DECAYED = ("bias$", "gamma$", "beta$")


class MomentOptimizer(keras.optimizers.Optimizer):
    """What AdamW and LAMB share: Adam's two moments, and options by the paths of variables.

    Args: as of `AdamW`. A subclass has `update_step`.
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
        **kwargs,
    ):
        super().__init__(learning_rate=learning_rate, weight_decay=weight_decay or 0.0, **kwargs)
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon
        self.bias_correction = bias_correction
        self.not_decayed = tuple(not_decayed)
        self.rates = [(pattern, float(factor)) for pattern, factor in rates]
        # A variable of the schedule's, as a `TimeBudget` has, is part of the state of the step.
        self._of_schedule = getattr(learning_rate, "used", None)
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
        self._is_decayed = [self._matches_none(variable) for variable in variables]
        self._factors = [self._factor(variable) for variable in variables]

    def _matches_none(self, variable):
        return not any(re.search(pattern, variable.path) for pattern in self.not_decayed)

    def _factor(self, variable):
        found = (factor for pattern, factor in self.rates if re.search(pattern, variable.path))
        return next(found, 1.0)

    def _clip_gradients(self, grads):
        if self.global_clipnorm and keras.backend.backend() == "tensorflow":
            # Keras's has the squares of all gradients in memory before they are summed.
            return tf.clip_by_global_norm(grads, self.global_clipnorm)[0]
        return super()._clip_gradients(grads)

    def _apply_weight_decay(self, variables):
        """`update_step` decays in the same pass over the weights."""

    def _scalars(self, learning_rate, variable, index):
        """What the variables of a dtype and rate share in a step, as a namespace.

        With these Adam's `m / (sqrt(v) + epsilon)`, both corrected, is
        `correction * m / (sqrt(v) + epsilon)` of the moments as they are kept.
        """
        # Computed once, not for each variable: a graph of BERT would have thousands of them.
        key = id(learning_rate), variable.dtype, self._factors[index]
        if key not in self._this_step.scalars:
            self._this_step.scalars[key] = self._new_scalars(*key[1:], learning_rate)
        return self._this_step.scalars[key]

    def _new_scalars(self, dtype, factor, learning_rate):
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
        correction = ops.sqrt(correction_2) / correction_1
        return types.SimpleNamespace(
            learning_rate=learning_rate,
            correction=correction,
            step_size=learning_rate * correction,
            beta_1=beta_1,
            beta_2=beta_2,
            epsilon=self.epsilon * ops.sqrt(correction_2),
            decay=learning_rate * self.weight_decay,
        )

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


@keras.saving.register_keras_serializable("keras_bert_impl")
class AdamW(MomentOptimizer):
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

    def update_step(self, gradient, variable, learning_rate):
        index = self._get_variable_index(variable)
        scalars = self._scalars(learning_rate, variable, index)
        if self.weight_decay and self._is_decayed[index]:
            self.assign_sub(variable, variable * scalars.decay)
        _update(variable, self._momentums[index], self._velocities[index], gradient, scalars)


def update_moments(m, v, gradient, scalars):
    """Takes a gradient into `m` and `v`, the moments of a variable."""
    gradient = ops.cast(gradient, m.dtype)
    m.assign(m + (gradient - m) * (1 - scalars.beta_1))
    v.assign(v + (gradient * gradient - v) * (1 - scalars.beta_2))


def _plain_update(weight, m, v, gradient, scalars):
    update_moments(m, v, gradient, scalars)
    weight.assign(weight - scalars.step_size * m / (ops.sqrt(v) + scalars.epsilon))


if keras.backend.backend() == "tensorflow":
    import tensorflow as tf

    def _update(weight, m, v, gradient, scalars):
        """The same in two passes over memory, not ten: three to four times as fast on a CPU."""
        gradient = tf.convert_to_tensor(gradient)
        if weight.dtype != tf.float32:  # in bfloat16 a beta of 0.999 is 1
            return _plain_update(weight, m, v, gradient, scalars)
        tf.raw_ops.ResourceApplyAdam(
            var=weight.handle,
            m=m.value.handle,
            v=v.value.handle,
            beta1_power=0.0,  # no correction in the operation: step_size holds it
            beta2_power=0.0,
            lr=scalars.step_size,
            beta1=scalars.beta_1,
            beta2=scalars.beta_2,
            epsilon=scalars.epsilon,
            grad=tf.cast(gradient, tf.float32),
        )
else:
    _update = _plain_update


def default_optimizer(
    total_steps, learning_rate=3e-5, weight_decay=0.01, warmup=0.1, clip_norm=1.0, rates=()
):
    """AdamW for fine-tuning: linear warm-up, then linear decay to 0; clipped by the global norm.

    Args:
        total_steps: int, optimizer steps of the run; None for a `RunSchedule`, which is told when
            the run begins.
        learning_rate: float, the highest.
        weight_decay: float; biases and normalization layers are not decayed.
        warmup: float, share of the steps in which the rate rises.
        clip_norm: float or None.
        rates: as of `AdamW`: factors for some weights.

    Source: Devlin et al., "BERT", appendix A.3.
    """
    if total_steps is None:
        schedule = RunSchedule(learning_rate, warmup)
    else:
        schedule = LinearWarmupDecay(learning_rate, int(warmup * total_steps), total_steps)
    return AdamW(
        schedule,
        weight_decay=weight_decay,
        epsilon=1e-8,
        global_clipnorm=clip_norm,
        rates=rates,
    )
