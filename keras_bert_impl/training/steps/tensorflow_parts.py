"""Micro-batches and statistics of training steps on TensorFlow."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import keras
import tensorflow as tf

from keras_bert_impl.utils.errors import InputError

_NOT_DIVISIBLE = "accumulation_steps does not divide the batch"


def unpack(data: Any) -> tuple[Any, Any, Any]:
    """Unpacks a dataset element to (x, y, sample_weight). Missing elements are None."""
    data = tf.nest.map_structure(
        lambda leaf: None if isinstance(leaf, tf.experimental.Optional) else leaf, data
    )
    return keras.utils.unpack_x_y_sample_weight(data)


def num_rows(batch: Any) -> tf.Tensor:
    return tf.shape(first_leaf(batch), out_type=tf.int32)[0]


def first_leaf(batch: Any) -> tf.Tensor:
    return next(leaf for leaf in tf.nest.flatten(batch) if leaf is not None)


def may_be_empty(batch: Any, parts: int) -> bool:
    """Returns whether a micro-batch may have no examples, because the last batch may be short."""
    return parts > 1 and not first_leaf(batch).shape[0]


def micro_batch(batch: Any, index: tf.Tensor, count: int, exact: bool) -> Any:
    if count == 1:
        return batch
    # In eager mode, all shapes are known, but the next batch may have another shape.
    static = None if tf.executing_eagerly() else first_leaf(batch).shape[0]
    if static is not None and static % count:
        raise InputError(
            f"the batch size of a replica must be a multiple of accumulation_steps={count}. "
            f"Received: a batch of {static} examples"
        )

    def slice_rows(leaf):
        if leaf is None:
            return None
        if static is None and not exact:
            size = -(-tf.shape(leaf)[0] // count)
            return leaf[index * size : (index + 1) * size]
        size = (static or tf.shape(leaf)[0]) // count
        begin = tf.stack([index * size] + [0] * (leaf.shape.rank - 1))
        return tf.slice(leaf, begin, tf.concat([[size], tf.shape(leaf)[1:]], axis=0))

    return tf.nest.map_structure(slice_rows, batch)


def assert_divisible(batch: Any, count: int) -> None:
    """Raises in the graph if the batch cannot be split into `count` equal micro-batches."""
    tf.debugging.assert_equal(num_rows(batch) % count, 0, _NOT_DIVISIBLE)


@contextlib.contextmanager
def divisible_batches(count: int) -> Iterator[None]:
    """Context that raises `InputError` if `assert_divisible` failed in a graph."""
    try:
        yield
    except tf.errors.InvalidArgumentError as error:
        if _NOT_DIVISIBLE not in error.message:
            raise
        raise InputError(
            "with jit_compile, the size of every batch of a replica, including the last batch, "
            f"must be a multiple of accumulation_steps={count}. Choose a multiple as batch_size "
            "and drop the remainder of the dataset, or compile with jit_compile=False."
        ) from error


class StepWatch:
    """Statistics of the training steps since the last call of `reset`.

    The statistics are stored on the devices, so that no step waits for the host.
    """

    def __init__(self) -> None:
        self._norm = keras.metrics.Mean(name="gradient_norm")
        # The value is the same on all replicas, so the mean is exact.
        self._highest = keras.Variable(
            0.0, trainable=False, name="highest_loss", aggregation="mean", synchronization="on_read"
        )
        with tf.device("CPU:0"):
            self._waited = tf.Variable(0.0, dtype=tf.float64, trainable=False)  # seconds

    @property
    def variables(self) -> list[keras.Variable]:
        return [*self._norm.variables, self._highest]

    def update(
        self, loss: tf.Tensor, gradients: list[tf.Tensor | None], loss_scale: tf.Tensor | None
    ) -> None:
        norm = tf.linalg.global_norm([g for g in gradients if g is not None])
        is_fine = tf.math.is_finite(loss)
        has_norm = tf.math.is_finite(norm)
        if loss_scale is None:
            is_fine &= has_norm
        else:
            norm /= loss_scale
        # `where` is used because infinity times a weight of 0 is NaN.
        finite_norm = tf.where(has_norm, norm, 0.0)
        self._norm.update_state(finite_norm, sample_weight=tf.cast(has_norm, tf.float32))
        loss = tf.where(is_fine, loss, float("inf"))
        self._highest.assign(tf.maximum(self._highest.value, loss))

    def timed(self, get_next: Callable[[], tuple[Any, list[tf.Tensor]]]) -> Any:
        """Calls `get_next`, and adds the elapsed time to `input_wait`. Returns the element."""
        begin = tf.timestamp()
        with tf.control_dependencies([begin]):
            element, tensors = get_next()
        with tf.control_dependencies(tensors):
            # The clock of a graph is wall-clock time, which may be set back.
            self._waited.assign_add(tf.maximum(tf.timestamp() - begin, 0.0))
        return element

    def results(self) -> dict[str, tf.Tensor]:
        highest = keras.ops.convert_to_tensor(self._highest)
        return {"gradient_norm": self._norm.result(), "highest_loss": highest}

    def input_wait(self) -> float:
        """Returns the total time that steps have waited for data, in seconds."""
        return float(self._waited.numpy())

    def reset(self) -> None:
        self._norm.reset_state()
        self._highest.assign(0.0)
