"""Traces networks for inference alone: matrices in the precision that multiplies them."""

import contextlib
from collections.abc import Iterator

import keras
import tensorflow as tf

from keras_bert_impl.keras_internals import all_layers
from keras_bert_impl.layers.dense import without_gradients


@contextlib.contextmanager
def for_inference(model: keras.Model) -> Iterator[list[tf.Variable]]:
    """Makes graphs traced inside the context read dense matrices in the dtype that they compute in."""
    stored = {id(variable): variable.value for variable in model.variables}
    values = keras.StatelessScope()
    for layer in all_layers(model):
        kernel = getattr(layer, "kernel", None)
        is_matrix = isinstance(layer, keras.layers.Dense) and isinstance(kernel, keras.Variable)
        # A quantized matrix is not in float32.
        if is_matrix and kernel.dtype == "float32" and layer.compute_dtype != "float32":
            rounded = tf.Variable(tf.cast(kernel.value, layer.compute_dtype), trainable=False)
            stored[id(kernel)] = rounded
            values.add_update((kernel, rounded))
    with values, without_gradients():
        yield list(stored.values())
