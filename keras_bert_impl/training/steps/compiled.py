"""Compiles a function of batches that calls a model, on either backend."""

from collections.abc import Callable
from typing import Any

import keras


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
