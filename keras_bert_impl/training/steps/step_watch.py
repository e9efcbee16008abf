"""Per-step training statistics: gradient norm, highest loss and waits for data."""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf


class StepWatch:
    """Per-step statistics since `reset`, kept on the devices so that no step waits for them."""

    def __init__(self) -> None:
        self._norm = keras.metrics.Mean(name="gradient_norm")
        # The value is the same on every replica, so the mean is exact.
        self._highest = keras.Variable(
            0.0, trainable=False, name="highest_loss", aggregation="mean", synchronization="on_read"
        )
        with tf.device("CPU:0"):
            self._waited = tf.Variable(0.0, dtype=tf.float64, trainable=False)  # seconds

    def update(
        self, loss: tf.Tensor, gradients: list[tf.Tensor | None], loss_scale: tf.Tensor | None
    ) -> None:
        """Records a step, on each replica."""
        norm = tf.linalg.global_norm([g for g in gradients if g is not None])
        is_fine = tf.math.is_finite(loss)
        has_norm = tf.math.is_finite(norm)
        if loss_scale is None:
            is_fine &= has_norm
        else:
            norm /= loss_scale
        # `where`, because infinity times a weight of 0 is NaN.
        known = tf.where(has_norm, norm, 0.0)
        self._norm.update_state(known, sample_weight=tf.cast(has_norm, tf.float32))
        loss = tf.where(is_fine, loss, float("inf"))
        self._highest.assign(tf.maximum(self._highest.value, loss))

    def timed(self, get_next: Callable[[], tuple[Any, list[tf.Tensor]]]) -> Any:
        """Calls `get_next` in a graph, adds its time to the waits and returns its element."""
        begin = tf.timestamp()
        with tf.control_dependencies([begin]):
            element, tensors = get_next()
        with tf.control_dependencies(tensors):
            # The graph's clock is wall-clock time, which may be set back.
            self._waited.assign_add(tf.maximum(tf.timestamp() - begin, 0.0))
        return element

    def results(self) -> dict[str, tf.Tensor]:
        """Returns the statistics since `reset`."""
        highest = keras.ops.convert_to_tensor(self._highest)
        return {"gradient_norm": self._norm.result(), "highest_loss": highest}

    def input_wait(self) -> float:
        """Returns the seconds (float) that all steps so far have waited for data."""
        return float(self._waited.numpy())

    def reset(self) -> None:
        self._norm.reset_state()
        self._highest.assign(0.0)
