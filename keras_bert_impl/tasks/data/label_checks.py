"""Checks of a `tf.data.Dataset`'s batches: made in the graph and reported as `InputError`."""

import contextlib
import re
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from keras_bert_impl.config import EncoderConfig
from keras_bert_impl.io.errors import InputError

_MARK = "keras_bert_impl: "
_FAILED = re.compile(rf"assertion failed: \[{_MARK}(.*?)\] \[(.*?)\]", re.DOTALL)
_ESCAPE = re.compile(rb"\\([0-7]{3})|\\(['\"\\])")


def check_labels(is_right: tf.Tensor, labels: tf.Tensor, message: str) -> None:
    """Stops `fit` or `evaluate` if a label of a batch is wrong."""
    wrong = tf.boolean_mask(labels, tf.logical_not(is_right))
    tf.debugging.Assert(tf.reduce_all(is_right), [_MARK + message, wrong])


def check_ids(features: dict[str, tf.Tensor], config: EncoderConfig) -> None:
    """Stops `fit`, `evaluate` or `predict` if an id of a batch has no embedding."""
    limits = {"token_ids": config.vocabulary_size, "segment_ids": config.num_segments}
    for name, limit in limits.items():
        if limit and name in features:  # without segment embeddings, the ids are not used
            ids = features[name]
            is_right = (ids >= 0) & (ids < limit)
            check_labels(is_right, ids, f"{name} must be in [0, {limit}).")


def check_numbers(labels: tf.Tensor, what: str) -> None:
    """Raises `InputError` unless labels have a number or bool type."""
    if not isinstance(labels, tf.Tensor):
        raise InputError(f"labels must be {what}. Received: {type(labels).__name__} {labels!r:.80}")
    if not (labels.dtype.is_floating or labels.dtype.is_integer or labels.dtype.is_bool):
        raise InputError(f"labels must be {what}. Received: {labels.dtype.name}")


def check_width(labels: tf.Tensor, width: int, what: str) -> None:
    """Raises `InputError` if the last dimension is known and differs from `width`."""
    if labels.shape.rank is not None and (
        labels.shape.rank != 2 or labels.shape[1] not in (None, width)
    ):
        raise InputError(f"labels must be {what}, [batch, {width}]. Received: {labels.shape}")


def class_numbers(labels: Any, num_classes: int, least: float = 0) -> tf.Tensor:
    """Checks labels of any number type and converts them to int32 class indices."""
    check_numbers(labels, f"class numbers from 0 to {num_classes - 1}")
    if labels.dtype.is_bool:
        labels = tf.cast(labels, tf.int32)
    values = tf.cast(labels, tf.float64)
    is_right = (values == tf.floor(values)) & (values >= least) & (values < num_classes)
    check_labels(is_right, labels, f"labels must be class numbers from 0 to {num_classes - 1}.")
    return tf.cast(labels, tf.int32)


def one_hot_tensor(labels: tf.Tensor) -> tf.Tensor:
    """Checks one-hot rows `[..., classes]`, of zeros where there is no label; returns float32."""
    labels = tf.cast(labels, tf.float32)
    is_right = tf.reduce_all((labels == 0) | (labels == 1), axis=-1)
    is_right &= tf.reduce_sum(labels, axis=-1) <= 1
    check_labels(is_right, labels, "labels must be one-hot rows.")
    return labels


@contextlib.contextmanager
def readable_errors() -> Iterator[None]:
    """Reraises the failures of `check_labels` and `check_ids` as `InputError`, without the graph's traceback."""
    try:
        yield
    except tf.errors.InvalidArgumentError as error:
        found = _FAILED.search(str(error))
        if found is None:
            raise
        message, received = map(_unescaped, found.groups())
        raise InputError(f"{message} Received: {received}") from None


def _unescaped(text):
    # TensorFlow writes quotes and some non-ASCII bytes as C escapes.
    return _ESCAPE.sub(_byte, text.encode()).decode("utf-8", "replace")


def _byte(escape):
    octal, character = escape.groups()
    return character if octal is None else bytes([int(octal, 8) % 256])
