"""Calls functions of many small TensorFlow operations as one graph."""

import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf

_GRAPHS = 64  # of a function, for different settings


def in_one_graph(function: Callable) -> Callable:
    """Decorates a function so that a call in eager mode runs one graph, on the CPU.

    An operation in eager mode takes some 50 microseconds to start, so that a hundred small ones
    take longer than a network needs for a sentence. The graph is traced once for any shape. Inside
    another graph the function is called as it is.

    Args:
        function: takes nested structures of tensors, or None, as positional arguments and hashable
            settings as keyword arguments; returns a nested structure of tensors. It must not depend
            on the shapes of its arguments, only on their ranks.

    Example:
        from keras_bert_impl.one_graph import in_one_graph

        @in_one_graph
        def scaled(values, *, factor):
            return values * factor

        scaled(tf.constant([1, 2]), factor=3)  # [3, 6]
    """

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
