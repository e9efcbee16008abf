"""Operations with gradients of their own."""

import functools
from collections.abc import Callable

import keras
from keras import ops


def own_gradient(function: Callable) -> Callable:
    """Same as `ops.custom_gradient`, a decorator.

    On TensorFlow, the gradient in a graph ends with the graph: a program that fits many models does
    not grow by the graph of each.

    Args:
        function: returns (outputs, function that returns the gradients of its arguments).

    Example:
        from keras_bert_impl.layers.own_gradient import own_gradient
        @own_gradient
        def half(x):
            return x / 2, lambda upstream: upstream / 2
    """
    operation = ops.custom_gradient(function)
    if keras.backend.backend() != "tensorflow":
        return operation
    from keras_bert_impl.tensorflow_internals import call_with_own_gradient

    return functools.wraps(function)(functools.partial(call_with_own_gradient, operation))
