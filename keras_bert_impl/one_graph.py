"""Calls functions of many small TensorFlow operations as one graph."""

import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf

_GRAPHS = 64  # of a function, for different settings


def in_one_graph(function: Callable) -> Callable:
    """Decorates a function so that a call in eager mode runs one graph, on the CPU."""

    @functools.lru_cache(maxsize=_GRAPHS)
    def graph_of(settings):
        def on_cpu(*tensors):
            with tf.device("CPU:0"):
                return function(*tensors, **dict(settings))

        return tf.function(on_cpu, autograph=False)

    @functools.wraps(function)
    def call(*tensors, **settings):
        if not tf.executing_eagerly():
            return function(*tensors, **settings)
        graph = graph_of(tuple(settings.items()))
        graph.get_concrete_function(*tf.nest.map_structure(any_shape, tensors))
        return graph(*tensors)

    return call


def any_shape(value: Any) -> Any:
    """Returns the spec of a tensor, an array or a spec, with its rank but any shape; None of None."""
    if value is None:
        return None
    spec = value if isinstance(value, tf.TypeSpec) else tf.type_spec_from_value(value)
    shape = [None] * spec.shape.rank
    if isinstance(spec, tf.RaggedTensorSpec):
        return tf.RaggedTensorSpec(shape, spec.dtype, spec.ragged_rank, spec.row_splits_dtype)
    return tf.TensorSpec(shape, spec.dtype)
