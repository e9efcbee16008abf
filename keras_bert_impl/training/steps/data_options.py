"""`tf.data` options for training and evaluation data sets."""

import tensorflow as tf


def without_autotuner(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Returns the data set with tf.data's autotuner disabled."""
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)
