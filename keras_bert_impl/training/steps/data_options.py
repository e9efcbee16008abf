"""Options of the data sets that models are trained and evaluated on."""

import tensorflow as tf


def without_autotuner(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """The data set without tf.data's autotuner.

    With it `fit`, `evaluate` and `predict` return up to twice as late: they wait at the end of the
    data for the autotuner's thread, which wakes at doubling periods. Parallel calls and prefetching
    keep their defaults.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)
