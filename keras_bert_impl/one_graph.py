"""Functions compiled as one graph, and data sets without tf.data's autotuner."""

import functools
from collections.abc import Callable
from typing import Any

import keras
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


def compiled(function: Callable, model: keras.Model, signature: Any) -> Callable:
    """Compiles a function of a batch; it uses the weights that the model has when it is called."""
    if keras.backend.backend() == "jax":
        import jax

        @jax.jit
        def stateless(values, *batch):
            with keras.StatelessScope(state_mapping=list(zip(model.variables, values))):
                return function(*batch)

        def run(*batch):
            arrays = keras.tree.map_structure(keras.ops.convert_to_numpy, batch)
            return stateless([variable.value for variable in model.variables], *arrays)

    else:
        import tensorflow as tf

        traced = tf.function(function, input_signature=signature, autograph=False)
        traced.get_concrete_function()  # traced by a call, several models look like retracing
        run = traced

    return lambda *batch: keras.tree.map_structure(keras.ops.convert_to_numpy, run(*batch))


def without_autotuner(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Returns the data set with tf.data's autotuner disabled."""
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)
