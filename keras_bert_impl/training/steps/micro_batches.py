"""Batches of a step on TensorFlow: their parts, their rows, and micro-batches of them."""

import contextlib

import keras
import tensorflow as tf

from keras_bert_impl.io.errors import InputError

_NOT_DIVISIBLE = "accumulation_steps does not divide the batch"


def unpack(data):
    """(x, y, sample_weight) of what a data set gives, None for what it does not."""
    data = tf.nest.map_structure(
        lambda leaf: None if isinstance(leaf, tf.experimental.Optional) else leaf, data
    )
    return keras.utils.unpack_x_y_sample_weight(data)


def num_rows(batch):
    """int32 scalar: how many examples a batch has."""
    return tf.shape(first_leaf(batch), out_type=tf.int32)[0]


def first_leaf(batch):
    """The first tensor of a batch; all have its number of rows."""
    return next(leaf for leaf in tf.nest.flatten(batch) if leaf is not None)


def unless_empty(batch, parts, compute, nothing):
    """`compute()`; or `nothing()` where the last batch left one of the parts without examples.

    A mean over no examples is NaN, and so are its gradients.
    """
    if parts == 1 or first_leaf(batch).shape[0]:
        return compute()
    return tf.cond(num_rows(batch) > 0, compute, nothing)


def micro_batch(batch, index, count, exact):
    """Rows of micro-batch `index` of `count`.

    Equal parts where `exact` is True, as XLA needs it; otherwise the last ones may be shorter or
    empty.
    """
    if count == 1:
        return batch
    # Eagerly every shape is known, which says nothing of the other batches.
    static = None if tf.executing_eagerly() else first_leaf(batch).shape[0]
    if static is not None and static % count:
        raise InputError(
            f"the batch of a replica has {static} examples, which accumulation_steps={count} does "
            "not divide; choose a batch size that it divides."
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


def assert_divisible(batch, count):
    """Fails in the graph where `count` micro-batches of the batch would not be of equal size."""
    tf.debugging.assert_equal(num_rows(batch) % count, 0, _NOT_DIVISIBLE)


@contextlib.contextmanager
def divisible_batches(count):
    """A scope that raises an `InputError` where `assert_divisible` failed in a graph."""
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
