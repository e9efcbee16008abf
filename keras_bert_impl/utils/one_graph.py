"""Functions compiled to a graph, datasets without autotuning, and assertions in graphs."""

import contextlib
import functools
import re
from collections.abc import Callable, Iterator
from typing import Any

import keras
import tensorflow as tf

from keras_bert_impl.utils.errors import InputError

_GRAPHS = 64  # maximum number of graphs per function


def in_one_graph(function: Callable) -> Callable:
    """Decorator that runs eager calls of a function as one compiled graph on the CPU."""

    @functools.lru_cache(maxsize=_GRAPHS)
    def build_graph(settings):
        def run_on_cpu(*tensors):
            with tf.device("CPU:0"):
                return function(*tensors, **dict(settings))

        return tf.function(run_on_cpu, autograph=False)

    @functools.wraps(function)
    def call(*tensors, **settings):
        if not tf.executing_eagerly():
            return function(*tensors, **settings)
        graph = build_graph(tuple(settings.items()))
        graph.get_concrete_function(*tf.nest.map_structure(any_shape, tensors))
        return graph(*tensors)

    return call


def any_shape(value: Any) -> Any:
    """Returns a `tf.TypeSpec` with the rank and dtype of a tensor. All sizes are None."""
    if value is None:
        return None
    spec = value if isinstance(value, tf.TypeSpec) else tf.type_spec_from_value(value)
    shape = [None] * spec.shape.rank
    if isinstance(spec, tf.RaggedTensorSpec):
        return tf.RaggedTensorSpec(shape, spec.dtype, spec.ragged_rank, spec.row_splits_dtype)
    return tf.TensorSpec(shape, spec.dtype)


def compiled(function: Callable, model: keras.Model, signature: Any) -> Callable:
    """Compiles a function with `jax.jit` or `tf.function`. Each call uses the current weights."""
    if keras.backend.backend() == "jax":
        import jax

        @jax.jit
        def run_stateless(values, *batch):
            with keras.StatelessScope(state_mapping=list(zip(model.variables, values))):
                return function(*batch)

        def run(*batch):
            arrays = keras.tree.map_structure(keras.ops.convert_to_numpy, batch)
            return run_stateless([variable.value for variable in model.variables], *arrays)

    else:
        traced = tf.function(function, input_signature=signature, autograph=False)
        # Tracing in the first call of several models would log a warning about retracing.
        traced.get_concrete_function()
        run = traced

    return lambda *batch: keras.tree.map_structure(keras.ops.convert_to_numpy, run(*batch))


def without_autotuner(dataset: tf.data.Dataset) -> tf.data.Dataset:
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)


# === Assertions on labels and ids ===

_MARK = "keras_bert_impl: "
_FAILED = re.compile(rf"assertion failed: \[{_MARK}(.*?)\] \[(.*?)\]", re.DOTALL)
_ESCAPE = re.compile(rb"\\([0-7]{3})|\\(['\"\\])")


def check_labels(is_right: tf.Tensor, labels: tf.Tensor, message: str) -> None:
    """Adds an assertion that stops `fit` or `evaluate` if a label is wrong."""
    wrong = tf.boolean_mask(labels, tf.logical_not(is_right))
    tf.debugging.Assert(tf.reduce_all(is_right), [_MARK + message, wrong])


@contextlib.contextmanager
def readable_errors() -> Iterator[None]:
    """Context manager that converts failed assertions of this package to `InputError`."""
    try:
        yield
    except tf.errors.InvalidArgumentError as error:
        match = _FAILED.search(str(error))
        if match is None:
            raise
        message, received = map(_decode_escapes, match.groups())
        raise InputError(f"{message} Received: {received}") from None


def _decode_escapes(text):
    # TensorFlow writes quotes and some non-ASCII bytes as C escapes.
    return _ESCAPE.sub(_decode_byte, text.encode()).decode("utf-8", "replace")


def _decode_byte(escape):
    octal, character = escape.groups()
    return character if octal is None else bytes([int(octal, 8) % 256])
