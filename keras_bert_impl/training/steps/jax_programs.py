"""Properties of JAX programs."""

from collections.abc import Callable
from typing import Any

import jax
import jax.extend


def depend_on_arguments(function: Callable, *arguments: Any) -> list[bool]:
    """Returns for each output whether it depends on an argument; constants do not.

    The gradient with respect to an array that a function does not use is a constant of zeros.

    Args:
        function: function of nests of arrays that returns a nest of arrays.
    """
    program = jax.make_jaxpr(function)(*arguments).jaxpr
    dependent = set(program.invars)
    for step in program.eqns:
        if any(_is_variable(value) and value in dependent for value in step.invars):
            dependent.update(step.outvars)
    return [_is_variable(value) and value in dependent for value in program.outvars]


def _is_variable(value):
    return not isinstance(value, jax.extend.core.Literal)
