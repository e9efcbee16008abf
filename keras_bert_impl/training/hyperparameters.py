"""Checks of the numbers that optimizers and schedules are made of."""

import math
import numbers

import numpy as np

from keras_bert_impl.errors import InputError

# (whether a float is allowed, what the message says). As float32, which is what a step computes in:
# there 1 - 1e-9 is 1, and 1e-50 is 0.
AT_LEAST_0 = (lambda value: 0 <= value < math.inf, "a number of at least 0")
POSITIVE = (lambda value: 0 < np.float32(value) < math.inf, "a positive number")
BELOW_1 = (lambda value: 0 <= value and np.float32(value) < 1, "a number in [0, 1)")
UP_TO_1 = (lambda value: 0 <= value <= 1, "a number in [0, 1]")


def checked_number(name, value, rule):
    """A hyperparameter as a Python float.

    Args:
        name: str, for the message.
        value: any real number, of Python or of NumPy.
        rule: one of the rules of this module.

    Raises:
        InputError: the value is not a number, NaN, or outside of the rule.
    """
    is_allowed, text = rule
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not is_number or not is_allowed(float(value)):
        raise InputError(f"{name} must be {text}. Received: {name}={value!r}")
    return float(value)


def checked_learning_rate(learning_rate):
    """A learning rate as Keras's optimizers take it: a float; schedules are returned as they are.

    Raises:
        InputError: it is neither a number of at least 0 nor a schedule.
    """
    if callable(learning_rate):
        return learning_rate
    return checked_number("learning_rate", learning_rate, AT_LEAST_0)
