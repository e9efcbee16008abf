"""AdamW as BERT has it, and what it shares with LAMB."""

import math
import re
import types

import keras
import numpy as np
from keras import ops

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.keras_internals import OptimizerHooks, index_of, iterations_of, variables_of
from keras_bert_impl.settings import NonNegativeFloat, PositiveFloat, Rate, Share, check
from keras_bert_impl.training.optimizers.averages import overwrite_with_averages
from keras_bert_impl.training.optimizers.run_schedule import RunSchedule
from keras_bert_impl.training.optimizers.schedules import LinearWarmupDecay

_NOT_DECAYED = ("bias$", "gamma$", "beta$")
_RULES_OF_KERAS = {
    "clipnorm": PositiveFloat,
    "clipvalue": PositiveFloat,
    "global_clipnorm": PositiveFloat,
    "ema_momentum": Share,
    "loss_scale_factor": PositiveFloat,
}


class MomentOptimizer(OptimizerHooks, keras.optimizers.Optimizer):
    """What AdamW and LAMB share: Adam's two moments, and options by the paths of variables.

    Moments are corrected by the number of steps of their own variable, those in which it had a
    gradient, as in PyTorch. By the number of all steps a layer that is unfrozen late would begin
    with up to six times the learning rate. A gradient of zeros counts. A variable has no gradient
    where it is frozen or not connected to the loss.

    Args: see `AdamW`. A subclass has `update_step`.
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
        for name, rule in _RULES_OF_KERAS.items():
            if kwargs.get(name) is not None:
                kwargs[name] = check(name, kwargs[name], rule)
        if not callable(learning_rate):
            learning_rate = check("learning_rate", learning_rate, NonNegativeFloat)
        super().__init__(
            learning_rate=learning_rate,
            weight_decay=check("weight_decay", weight_decay or 0.0, NonNegativeFloat),
            **kwargs,
        )
        self.beta_1 = _in_float32("beta_1", beta_1, Rate)
        self.beta_2 = _in_float32("beta_2", beta_2, Rate)
        self.epsilon = _in_float32("epsilon", epsilon, PositiveFloat)
        if not isinstance(bias_correction, bool):
            raise InputError(f"bias_correction must be True or False, not {bias_correction!r}.")
        self.bias_correction = bias_correction
        self.not_decayed = tuple(_checked_patterns("not_decayed", not_decayed))
        self.rates = _checked_rates(rates)
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
        # Last among the variables: states that were saved without it are those before it.
        self.steps = self.add_variable(
            (len(variables),), dtype="int", aggregation="only_first_replica", name="steps"
        )
        self._is_decayed = [self._matches_none(variable) for variable in variables]
        self._factors = [self._factor(variable) for variable in variables]

    def infer_steps(self):
        """Sets `steps` from a state that has none: all `iterations` for what has moments, else 0."""
        iterations = int(ops.convert_to_numpy(self.iterations))
        moved = [np.any(ops.convert_to_numpy(v)) for v in self._velocities]
        self.steps.assign(np.where(moved, iterations, 0))

    def load_own_variables(self, store):
        """Called by Keras, which leaves out a state with another number of variables."""
        if len(store.keys()) != len(self.variables) - 1:
            return super().load_own_variables(store)
        for index, variable in enumerate(self.variables[:-1]):
            variable.assign(store[str(index)])
        self.infer_steps()

    def _matches_none(self, variable):
        return not any(re.search(pattern, variable.path) for pattern in self.not_decayed)

    def _factor(self, variable):
        found = (factor for pattern, factor in self.rates if re.search(pattern, variable.path))
        return next(found, 1.0)

    def before_update(self, trainable_variables):
        indices = [index_of(self, variable) for variable in trainable_variables]
        has_gradient = np.isin(np.arange(len(variables_of(self))), indices)
        every = self.gradient_accumulation_steps or 1
        is_update = ops.cast((iterations_of(self) + 1) % every == 0, self.steps.dtype)
        self.steps.assign_add(is_update * ops.cast(has_gradient, self.steps.dtype))

    def use_averages(self, trainable_variables):
        overwrite_with_averages(self, trainable_variables)

    def clip(self, gradients):
        if self.global_clipnorm and keras.backend.backend() == "tensorflow":
            # Keras's has the squares of all gradients in memory before they are summed.
            return tf.clip_by_global_norm(gradients, self.global_clipnorm)[0]
        return super().clip(gradients)

    def _apply_weight_decay(self, variables):
        """`update_step` decays in the same pass over the weights."""

    def _scalars(self, learning_rate, variable, index):
        """Scalars of the step of a variable, as a namespace.

        With these Adam's `m / (sqrt(v) + epsilon)`, both corrected, is
        `correction * m / (sqrt(v) + epsilon)` of the moments as they are kept.
        """
        # Computed for all variables at once: a graph of BERT would have thousands of operations.
        key = id(learning_rate), variable.dtype
        if key not in self._this_step.scalars:
            self._this_step.scalars[key] = self._new_scalars(learning_rate, variable.dtype)
        return self._this_step.scalars[key][index]

    def _new_scalars(self, learning_rate, dtype):
        """list of the scalars of each variable."""
        # The betas as the fused operation sees them, or the corrections would not fit to it.
        betas = [float(np.float32(beta)) for beta in (self.beta_1, self.beta_2)]
        rates = ops.cast(learning_rate, "float32") * np.array(self._factors, "float32")
        first = second = ops.ones_like(rates)
        if self.bias_correction:
            steps = ops.cast(ops.maximum(self.steps, 1), "float32")
            first, second = (_correction(beta, steps) for beta in betas)
        correction = ops.sqrt(second) / first
        vectors = {
            "learning_rate": rates,
            "correction": correction,
            "step_size": rates * correction,
            "epsilon": self.epsilon * ops.sqrt(second),
            "decay": rates * self.weight_decay,
        }
        columns = [ops.unstack(ops.cast(vector, dtype)) for vector in vectors.values()]
        return [
            types.SimpleNamespace(
                **dict(zip(vectors, scalars)), beta_1=betas[0], beta_2=betas[1]
            )
            for scalars in zip(*columns)
        ]

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


def _correction(beta, steps):
    # 1 - beta ** steps by expm1: in float32 the difference itself loses four digits.
    return -ops.expm1(steps * math.log(beta)) if beta else ops.ones_like(steps)


def _in_float32(name, value, annotation):
    """A number that fits an annotation in float32, too: there 1 - 1e-9 is 1, and 1e-50 is 0."""
    value = check(name, value, annotation)
    check(name, float(np.float32(value)), annotation)
    return value


def _checked_patterns(name, patterns):
    try:
        patterns = (patterns,) if isinstance(patterns, str) else tuple(patterns)
        for pattern in patterns:
            re.compile(pattern)
    except (re.error, TypeError) as error:
        raise InputError(
            f"{name} must be a list of regular expressions ({error}). Received: {patterns!r}"
        ) from error
    return patterns


def _checked_rates(rates):
    try:
        pairs = [(pattern, factor) for pattern, factor in rates if isinstance(pattern, str)]
        complete = len(pairs) == len(rates)
    except (TypeError, ValueError):
        complete = False
    if not complete:
        raise InputError(f"rates must be (regular expression, number) pairs. Received: {rates!r}")
    patterns = _checked_patterns("rates", [pattern for pattern, _ in pairs])
    factors = [check("a factor of rates", factor, NonNegativeFloat) for _, factor in pairs]
    return list(zip(patterns, factors))


@keras.saving.register_keras_serializable("keras_bert_impl")
class AdamW(MomentOptimizer):
    """Adam with decoupled weight decay (Kingma & Ba 2015, algorithm 1; Loshchilov & Hutter 2019).

        m = beta_1 * m + (1 - beta_1) * gradient
        v = beta_2 * v + (1 - beta_2) * gradient ** 2
        weight -= learning_rate * (m / (sqrt(v) + epsilon) + weight_decay * weight)

    where with bias correction m is divided by `1 - beta_1 ** steps` and v by `1 - beta_2 ** steps`
    first, `steps` counted for each variable as in PyTorch: those in which it had a gradient. Keras
    corrects by the number of all steps, so that its Adam moves a layer that is unfrozen late by up
    to six learning rates a step. `keras.optimizers.AdamW` adds epsilon before it corrects v, and so starts with smaller
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
        index = index_of(self, variable)
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
