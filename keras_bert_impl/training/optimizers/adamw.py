"""AdamW for BERT, and the base class of AdamW and LAMB."""

import math
import re
import types
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import keras
import numpy as np
from keras import ops

from keras_bert_impl.training.optimizers.schedules import LinearWarmupDecay, RunSchedule
from keras_bert_impl.training.sharding import is_ours
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.first_guesses import first_guesses
from keras_bert_impl.utils.internals import (
    OptimizerHooks,
    averages_of,
    has_value,
    index_of,
    iterations_of,
    variables_of,
)
from keras_bert_impl.utils.settings import NonNegativeFloat, PositiveFloat, Rate, Share, check


class EvaluatesAverages(keras.callbacks.Callback):
    """Callback that evaluates with the optimizer's moving averages (`use_ema`) during `fit`."""

    def on_test_begin(self, logs: dict[str, Any] | None = None) -> None:
        self._weights = [variable.numpy() for variable in self.model.trainable_variables]
        use_averages(self.model)

    def on_test_end(self, logs: dict[str, Any] | None = None) -> None:
        for variable, value in zip(self.model.trainable_variables, self._weights, strict=True):
            variable.assign(value)


def use_averages(model: keras.Model) -> None:
    """Sets the weights of a model to their moving averages, if any, as at the end of `fit`."""
    model.optimizer.finalize_variable_values(model.trainable_variables)


def overwrite_with_averages(
    optimizer: keras.optimizers.Optimizer, variables: Iterable[keras.Variable]
) -> None:
    """Sets variables to the moving averages in an optimizer."""
    for variable in variables:
        average = averages_of(optimizer)[index_of(optimizer, variable)]
        # On JAX, the variables may have no values after an error in `fit`. The copy is needed
        # because a step donates the buffers of variables, so two variables must not share a
        # buffer.
        if average is not None and has_value(average):
            variable.assign(keras.ops.copy(average))


Tensor = Any
LearningRate: TypeAlias = float | keras.optimizers.schedules.LearningRateSchedule
_NOT_DECAYED = ("bias$", "gamma$", "beta$")
_RULES_OF_KERAS = {
    "clipnorm": PositiveFloat,
    "clipvalue": PositiveFloat,
    "global_clipnorm": PositiveFloat,
    "ema_momentum": Share,
    "loss_scale_factor": PositiveFloat,
}


@first_guesses("Optimizer")
class MomentOptimizer(OptimizerHooks, keras.optimizers.Optimizer):
    """Base class of AdamW and LAMB, with Adam's moments and rates by variable path.

    As in PyTorch, the bias correction of a variable depends on the number of steps in which the
    variable had a gradient. A variable has no gradient if it is frozen or does not affect the loss.
    A gradient of zeros is also a gradient.

    Args: see `AdamW`. Subclasses implement `update_step`.
    """

    def __init__(
        self,
        learning_rate: LearningRate = 1e-4,
        weight_decay: float | None = 0.01,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-6,
        bias_correction: bool = True,
        not_decayed: str | Iterable[str] = _NOT_DECAYED,
        rates: Sequence[tuple[str, float]] = (),
        **kwargs: Any,
    ) -> None:
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
        self.beta_1 = _check_in_float32("beta_1", beta_1, Rate)
        self.beta_2 = _check_in_float32("beta_2", beta_2, Rate)
        self.epsilon = _check_in_float32("epsilon", epsilon, PositiveFloat)
        if not isinstance(bias_correction, bool):
            raise InputError(f"bias_correction must be True or False, not {bias_correction!r}.")
        self.bias_correction = bias_correction
        self.not_decayed = tuple(_check_patterns("not_decayed", not_decayed))
        self.rates = _check_rates(rates)
        # The variable of a schedule such as `TimeBudget` is part of the state of a step.
        self._of_schedule = getattr(learning_rate, "variable", None)
        # A namespace hides these variables from Keras and from checkpoints.
        self._this_step = types.SimpleNamespace(scalars={})

    @property
    def learning_rate(self) -> Any:
        """The current learning rate. The learning rate can be set unless it is a schedule."""
        return super().learning_rate

    @learning_rate.setter
    def learning_rate(self, value: LearningRate) -> None:
        schedule = keras.optimizers.schedules.LearningRateSchedule
        if isinstance(self._learning_rate, schedule) and not callable(value):
            raise InputError(
                "the learning rate of an optimizer with a schedule cannot be set. First compile "
                "with a constant rate, such as compile(optimizer=AdamW(3e-5))."
            )
        keras.optimizers.Optimizer.learning_rate.fset(self, value)

    def apply(
        self, grads: list[Tensor], trainable_variables: list[keras.Variable] | None = None
    ) -> Any:
        try:
            return super().apply(grads, trainable_variables)
        finally:
            self._this_step.scalars = {}

    def build(self, variables: list[keras.Variable]) -> None:
        if self.built:
            return
        super().build(variables)
        self._momentums, self._velocities = self.add_optimizer_variables(
            variables, ["momentum", "velocity"]
        )
        # `steps` is the last variable, so older states without `steps` have the same order of
        # variables.
        self.steps = self.add_variable(
            (len(variables),), dtype="int", aggregation="only_first_replica", name="steps"
        )
        self._is_decayed = [
            not any(re.search(pattern, variable.path) for pattern in self.not_decayed)
            for variable in variables
        ]
        self._factors = [
            next((factor for pattern, factor in self.rates if re.search(pattern, variable.path)), 1)
            for variable in variables
        ]

    def before_update(self, trainable_variables: list[keras.Variable]) -> None:
        indices = [index_of(self, variable) for variable in trainable_variables]
        has_gradient = np.isin(np.arange(len(variables_of(self))), indices)
        every = self.gradient_accumulation_steps or 1
        is_update = ops.cast((iterations_of(self) + 1) % every == 0, self.steps.dtype)
        self.steps.assign_add(is_update * ops.cast(has_gradient, self.steps.dtype))

    def slot_layout(self, shape: tuple[int, ...], layout: Any) -> Any:
        distribution = keras.distribution.distribution()
        if layout is None or not is_ours(distribution):
            return layout
        return distribution.slot_layout(shape, layout)

    def use_averages(self, trainable_variables: list[keras.Variable]) -> None:
        overwrite_with_averages(self, trainable_variables)

    def clip(self, gradients: list[Tensor]) -> list[Tensor]:
        if self.global_clipnorm and keras.backend.backend() == "tensorflow":
            # The version in Keras keeps the squares of all gradients in memory before adding them
            # up.
            return tf.clip_by_global_norm(gradients, self.global_clipnorm)[0]
        return super().clip(gradients)

    def _apply_weight_decay(self, variables):
        pass  # `update_step` applies the decay

    def _select_scalars(self, learning_rate, variable, index):
        # They are computed for all variables at once, because BERT's graph would otherwise have
        # thousands of operations.
        key = id(learning_rate), variable.dtype
        if key not in self._this_step.scalars:
            self._this_step.scalars[key] = self._compute_scalars(learning_rate, variable.dtype)
        return self._this_step.scalars[key][index]

    def _compute_scalars(self, learning_rate, dtype):
        # The corrections must use the same rounded betas as the fused operation.
        betas = [float(np.float32(beta)) for beta in (self.beta_1, self.beta_2)]
        rates = ops.cast(learning_rate, "float32") * np.array(self._factors, "float32")
        first = second = ops.ones_like(rates)
        if self.bias_correction:
            steps = ops.cast(ops.maximum(self.steps, 1), "float32")
            first, second = (_compute_correction(beta, steps) for beta in betas)
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
            types.SimpleNamespace(**dict(zip(vectors, scalars)), beta_1=betas[0], beta_2=betas[1])
            for scalars in zip(*columns)
        ]

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "beta_1": self.beta_1,
            "beta_2": self.beta_2,
            "epsilon": self.epsilon,
            "bias_correction": self.bias_correction,
            "not_decayed": list(self.not_decayed),
            "rates": [list(rate) for rate in self.rates],
        }


def _compute_correction(beta, steps):
    # 1 - beta ** steps; expm1 avoids the loss of four digits in float32
    return -ops.expm1(steps * math.log(beta)) if beta else ops.ones_like(steps)


def _check_in_float32(name, value, annotation):
    """Checks a number, also after rounding to float32, where 1e-50 becomes 0."""
    value = check(name, value, annotation)
    check(name, float(np.float32(value)), annotation)
    return value


def _check_patterns(name, patterns):
    try:
        patterns = (patterns,) if isinstance(patterns, str) else tuple(patterns)
        for pattern in patterns:
            re.compile(pattern)
    except (re.error, TypeError) as error:
        raise InputError(
            f"{name} must be a list of regular expressions ({error}). Received: {patterns!r}"
        ) from error
    return patterns


def _check_rates(rates):
    try:
        pairs = [(pattern, factor) for pattern, factor in rates if isinstance(pattern, str)]
        complete = len(pairs) == len(rates)
    except (TypeError, ValueError):
        complete = False
    if not complete:
        raise InputError(f"rates must be (regular expression, number) pairs. Received: {rates!r}")
    patterns = _check_patterns("rates", [pattern for pattern, _ in pairs])
    factors = [check("a factor of rates", factor, NonNegativeFloat) for _, factor in pairs]
    return list(zip(patterns, factors))


@keras.saving.register_keras_serializable("keras_bert_impl")
class AdamW(MomentOptimizer):
    """Adam with decoupled weight decay (Kingma & Ba 2015, algorithm 1; Loshchilov & Hutter 2019).

        m = beta_1 * m + (1 - beta_1) * gradient
        v = beta_2 * v + (1 - beta_2) * gradient ** 2
        weight -= learning_rate * (m / (sqrt(v) + epsilon) + weight_decay * weight)

    With bias correction, m is first divided by `1 - beta_1 ** steps` and v by `1 - beta_2 **
    steps`. As in PyTorch, `steps` is the number of steps in which the variable had a gradient. In
    Keras's Adam, `steps` is the number of all steps, so the first updates of a layer that is
    unfrozen late are up to six times as large. `keras.optimizers.AdamW` adds epsilon before the
    bias correction of v, so its first steps are smaller. PyTorch's AdamW has bias correction; the
    original BERT does not.

    Args:
        learning_rate, weight_decay, beta_1, beta_2, epsilon: as in the formulas. Defaults: 1e-4,
            0.01, 0.9, 0.999, 1e-6.
        bias_correction: default True.
        not_decayed: regular expressions. Variables with a matching path (`re.search`) have no
            weight decay. Default: biases, and gamma and beta in normalization layers.
        rates: (regular expression, factor) pairs. The learning rate of a variable is multiplied by
            the factor of the first expression that matches the path of the variable. The factor
            also applies to the weight decay. Default: empty.
        **kwargs: see `keras.optimizers.Optimizer`: `global_clipnorm`, `use_ema`, `name`, ...

    Example:
        optimizer = AdamW(LinearWarmupDecay(1e-4, 100, 1000), global_clipnorm=1.0)
    """

    def update_step(
        self, gradient: Tensor, variable: keras.Variable, learning_rate: Tensor
    ) -> None:
        index = index_of(self, variable)
        scalars = self._select_scalars(learning_rate, variable, index)
        if self.weight_decay and self._is_decayed[index]:
            self.assign_sub(variable, variable * scalars.decay)
        _update(variable, self._momentums[index], self._velocities[index], gradient, scalars)


def update_moments(
    m: keras.Variable, v: keras.Variable, gradient: Tensor, scalars: types.SimpleNamespace
) -> None:
    gradient = ops.cast(gradient, m.dtype)
    m.assign(m + (gradient - m) * (1 - scalars.beta_1))
    v.assign(v + (gradient * gradient - v) * (1 - scalars.beta_2))


def _update_unfused(weight, m, v, gradient, scalars):
    update_moments(m, v, gradient, scalars)
    weight.assign(weight - scalars.step_size * m / (ops.sqrt(v) + scalars.epsilon))


if keras.backend.backend() == "tensorflow":
    import tensorflow as tf

    def _update(weight, m, v, gradient, scalars):
        # `ResourceApplyAdam` is 3 to 4 times faster on CPUs than `_update_unfused`, because it
        # reads and writes memory less often.
        gradient = tf.convert_to_tensor(gradient)
        if weight.dtype != tf.float32:  # In bfloat16, a beta of 0.999 becomes 1.
            return _update_unfused(weight, m, v, gradient, scalars)
        tf.raw_ops.ResourceApplyAdam(
            var=weight.handle,
            m=m.value.handle,
            v=v.value.handle,
            # step_size already contains the bias correction.
            beta1_power=0.0,
            beta2_power=0.0,
            lr=scalars.step_size,
            beta1=scalars.beta_1,
            beta2=scalars.beta_2,
            epsilon=scalars.epsilon,
            grad=tf.cast(gradient, tf.float32),
        )
else:
    _update = _update_unfused


def default_optimizer(
    total_steps: int | None,
    learning_rate: float = 3e-5,
    weight_decay: float = 0.01,
    warmup: float = 0.1,
    clip_norm: float | None = 1.0,
    rates: Sequence[tuple[str, float]] = (),
) -> AdamW:
    """Creates AdamW for fine-tuning: linear warmup, linear decay to 0, global norm clipping.

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
