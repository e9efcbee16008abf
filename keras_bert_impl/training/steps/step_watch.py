"""What is seen of the steps themselves: gradients, the highest loss, and waits for data."""

import keras
import tensorflow as tf


class StepWatch:
    """Numbers of the steps since `reset`, kept on the devices so that no step waits for them.

    The waits for data are those of all steps: an evaluation resets what belongs to an epoch.

    Make it inside the `strategy.scope()` of the model.
    """

    def __init__(self):
        self._norm = keras.metrics.Mean(name="gradient_norm")
        # The same on every replica, and so their mean.
        self._highest = keras.Variable(
            0.0,
            trainable=False,
            name="highest_loss",
            aggregation="mean",
            synchronization="on_read",
        )
        with tf.device("CPU:0"):
            self._waited = tf.Variable(0.0, dtype=tf.float64, trainable=False)  # seconds

    def update(self, loss, gradients, loss_scale):
        """Takes in a step, on each replica.

        Args:
            loss: float32 scalar, of the global batch.
            gradients: list of float32 tensors, summed over the replicas; None where there is none.
            loss_scale: float32 scalar, which the gradients are of the loss times of; None without
                loss scaling, with which a step that overflows is left out and nothing is wrong.
        """
        norm = tf.linalg.global_norm([g for g in gradients if g is not None])
        is_fine = tf.math.is_finite(loss)
        has_norm = tf.math.is_finite(norm)
        if loss_scale is None:
            is_fine &= has_norm
        else:
            norm /= loss_scale
        # Not times 0: infinity times 0 is not a number.
        known = tf.where(has_norm, norm, 0.0)
        self._norm.update_state(known, sample_weight=tf.cast(has_norm, tf.float32))
        loss = tf.where(is_fine, loss, float("inf"))
        self._highest.assign(tf.maximum(self._highest.value, loss))

    def timed(self, get_next):
        """What `get_next` returns, in a graph, and the time that this takes added to the waits.

        Args:
            get_next: function that takes an element from an iterator, and returns it with a list
                of tensors that are there when it is.
        """
        begin = tf.timestamp()
        with tf.control_dependencies([begin]):
            element, tensors = get_next()
        with tf.control_dependencies(tensors):
            # The clock of the graph is that of the day, which may be set back.
            self._waited.assign_add(tf.maximum(tf.timestamp() - begin, 0.0))
        return element

    def results(self):
        """dict: `gradient_norm`, mean of the steps; `highest_loss`, infinite after one that is
        not a number or that had gradients that are not."""
        highest = keras.ops.convert_to_tensor(self._highest)
        return {"gradient_norm": self._norm.result(), "highest_loss": highest}

    def input_wait(self):
        """float. Seconds that all steps so far have waited for data."""
        return float(self._waited.numpy())

    def reset(self):
        self._norm.reset_state()
        self._highest.assign(0.0)
