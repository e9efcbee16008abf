"""TensorFlow's private names that this package relies on.

`setup.cfg` limits the TensorFlow version, and `tests/test_tensorflow_internals.py` fails when one of
them changes.
"""

import itertools
import weakref
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import ops

_FUNCTION = "type"  # key of a gradient's function in the registry


def call_with_own_gradient(operation: Callable, *args: Any) -> Any:
    """Calls an operation made by `tf.custom_gradient`."""
    registered = ops.gradient_registry._registry
    count = len(registered)
    outputs = operation(*args)
    if not tf.executing_eagerly():
        for name in list(itertools.islice(reversed(registered), len(registered) - count)):
            _hold_in_graph(registered[name], tf.compat.v1.get_default_graph())
    return outputs


def _hold_in_graph(record, graph):
    function = record[_FUNCTION]
    if _graph_of(function) is not graph:  # registered by another thread meanwhile
        return
    graph.own_gradients = [*getattr(graph, "own_gradients", ()), function]
    reference = weakref.ref(function)

    def gradient(operation, *upstream):
        return reference()(operation, *upstream)

    record[_FUNCTION] = gradient


def _graph_of(function):
    """Returns the graph of the outputs that a registered gradient belongs to; None if unknown."""
    inner = _variables_of(function).get("tape_grad_fn")
    outputs = tf.nest.flatten(_variables_of(inner).get("result"))
    return getattr(outputs[0], "graph", None)


def _variables_of(function):
    """Returns the variables of the enclosing functions that a function reads, by name."""
    code, cells = getattr(function, "__code__", None), getattr(function, "__closure__", None)
    if code is None or cells is None:
        return {}
    return {name: cell.cell_contents for name, cell in zip(code.co_freevars, cells)}
