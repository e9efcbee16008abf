"""Properties of JAX programs."""

from collections.abc import Callable
from typing import Any

import jax
import jax.extend
import numpy as np


def are_always_zero(function: Callable, *arguments: Any) -> list[bool]:
    """Returns for each output whether it is a constant of zeros, whatever the arguments are."""
    program = jax.make_jaxpr(function)(*arguments)
    variables: set[Any] = set(program.jaxpr.invars)
    made_by: dict[Any, Any] = {}  # output -> its step
    constants = dict(zip(program.jaxpr.constvars, program.consts))
    for step in program.jaxpr.eqns:
        if any(_is_variable(value) and value in variables for value in step.invars):
            variables.update(step.outvars)
        else:
            made_by |= dict.fromkeys(step.outvars, step)

    def computed(value):
        if not _is_variable(value):
            return value.val
        if value not in constants:
            step = made_by[value]
            results = step.primitive.bind(*map(computed, step.invars), **step.params)
            results = results if step.primitive.multiple_results else [results]
            constants.update(zip(step.outvars, results))
        return constants[value]

    with jax.ensure_compile_time_eval():
        return [
            not (_is_variable(value) and value in variables) and not np.any(computed(value))
            for value in program.jaxpr.outvars
        ]


def _is_variable(value):
    return not isinstance(value, jax.extend.core.Literal)
