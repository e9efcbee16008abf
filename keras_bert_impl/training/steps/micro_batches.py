"""Batches of a step on TensorFlow, and their micro-batches."""

import contextlib
from collections.abc import Iterator
from typing import Any

import keras
import tensorflow as tf

from keras_bert_impl.io.errors import InputError

_NOT_DIVISIBLE = "accumulation_steps does not divide the batch"


def unpack(data: Any) -> tuple[Any, Any, Any]:
    """Unpacks an element of a data set to (x, y, sample_weight); missing parts are None."""
    data = tf.nest.map_structure(
        lambda leaf: None if isinstance(leaf, tf.experimental.Optional) else leaf, data
    )
    return keras.utils.unpack_x_y_sample_weight(data)


def num_rows(batch: Any) -> tf.Tensor:
    """Returns the number of examples of a batch, an int32 scalar."""
    return tf.shape(first_leaf(batch), out_type=tf.int32)[0]


def first_leaf(batch: Any) -> tf.Tensor:
    """Returns the first tensor of a batch; all have the same number of rows."""
    return next(leaf for leaf in tf.nest.flatten(batch) if leaf is not None)


def may_be_empty(batch: Any, parts: int) -> bool:
    """Returns whether this one of `parts` of a short last batch may have no examples."""
    return parts > 1 and not first_leaf(batch).shape[0]


def micro_batch(batch: Any, index: tf.Tensor, count: int, exact: bool) -> Any:
    """Returns the rows of micro-batch `index` of `count`."""
    if count == 1:
        return batch
    # In eager mode every shape is known, but other batches may have another shape.
    static = None if tf.executing_eagerly() else first_leaf(batch).shape[0]
    if static is not None and static % count:
        raise InputError(
            f"the batch size of a replica must be a multiple of accumulation_steps={count}. "
            f"Received: a batch of {static} examples"
        )

    def rows(leaf):
        if leaf is None:
            return None
        if static is None and not exact:
            size = -(-tf.shape(leaf)[0] // count)
            return leaf[index * size : (index + 1) * size]
        size = (static or tf.shape(leaf)[0]) // count
        begin = tf.stack([index * size] + [0] * (leaf.shape.rank - 1))
        return tf.slice(leaf, begin, tf.concat([[size], tf.shape(leaf)[1:]], axis=0))

    return tf.nest.map_structure(rows, batch)


def assert_divisible(batch: Any, count: int) -> None:
    """Fails in the graph if the batch cannot be split into `count` micro-batches of equal size."""
    tf.debugging.assert_equal(num_rows(batch) % count, 0, _NOT_DIVISIBLE)


@contextlib.contextmanager
def divisible_batches(count: int) -> Iterator[None]:
    """Context that raises an `InputError` if `assert_divisible` failed in a graph."""
    try:
        yield
    except tf.errors.InvalidArgumentError as error:
        if _NOT_DIVISIBLE not in error.message:
            raise
        raise InputError(
            f"with jit_compile every batch of a replica must be a multiple of accumulation_steps="
            f"{count}, the last one included: choose such a batch_size and drop the remainder of "
            "the data set, or compile with jit_compile=False."
        ) from error
