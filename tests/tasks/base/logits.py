"""Random logits and labels, and parameter ids of losses and metrics."""

import functools

import keras
import numpy as np
from keras import ops


def label(value):
    """Returns a parameter id that is the same in every process."""
    if isinstance(value, functools.partial):
        return f"partial {value.func.__name__}"
    if callable(value) and hasattr(value, "__name__"):
        return value.__name__
    is_keras = isinstance(value, (keras.losses.Loss, keras.metrics.Metric))
    return type(value).__name__ if is_keras else str(value)


def logits_and_labels(num_classes, count=40, seed=0):
    draw = np.random.default_rng(seed)
    logits = draw.normal(size=(count, num_classes)).astype("float32") * 3
    return logits, draw.integers(0, num_classes, count)


def softmax(logits):
    return ops.convert_to_numpy(ops.softmax(logits))


def one_hot(labels, num_classes):
    return np.eye(num_classes, dtype="float32")[labels]
