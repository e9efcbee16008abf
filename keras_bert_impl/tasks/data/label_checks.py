"""Checks of the labels of a `tf.data.Dataset`: in the graph, and reported as an `InputError`."""

import contextlib
import re
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from keras_bert_impl.io.errors import InputError

_MARK = "keras_bert_impl: "
_FAILED = re.compile(rf"assertion failed: \[{_MARK}(.*?)\] \[(.*?)\]", re.DOTALL)
_ESCAPE = re.compile(rb"\\([0-7]{3})|\\(['\"\\])")


def check_labels(is_right: tf.Tensor, labels: tf.Tensor, message: str) -> None:
    """Stops `fit` or `evaluate` where a label of a batch is wrong.

    Args:
        is_right: bool, one for each label, or for each row of labels.
        labels: what is shown of those that are wrong.
        message: what labels must be, a sentence.
    """
    wrong = tf.boolean_mask(labels, tf.logical_not(is_right))
    tf.debugging.Assert(tf.reduce_all(is_right), [_MARK + message, wrong])


def check_numbers(labels: tf.Tensor, what: str) -> None:
    """Raises an `InputError` unless the type of labels is that of a number or a bool."""
    if not isinstance(labels, tf.Tensor):
        raise InputError(f"labels must be {what}. Received: {type(labels).__name__} {labels!r:.80}")
    if not (labels.dtype.is_floating or labels.dtype.is_integer or labels.dtype.is_bool):
        raise InputError(f"labels must be {what}. Received: {labels.dtype.name}")


def check_width(labels: tf.Tensor, width: int, what: str) -> None:
    """Raises an `InputError` where the last dimension is known and another one."""
    if labels.shape.rank is not None and (
        labels.shape.rank != 2 or labels.shape[1] not in (None, width)
    ):
        raise InputError(f"labels must be {what}, [batch, {width}]. Received: {labels.shape}")


def class_numbers(labels: Any, num_classes: int, least: float = 0) -> tf.Tensor:
    """int32 class numbers of labels of any number type, checked.

    Args:
        labels: of any shape.
        num_classes: how many classes there are.
        least: the least number that is allowed; `-inf` where negative ones stand for no label.
    """
    check_numbers(labels, f"class numbers from 0 to {num_classes - 1}")
    if labels.dtype.is_bool:
        labels = tf.cast(labels, tf.int32)
    values = tf.cast(labels, tf.float64)
    is_right = (values == tf.floor(values)) & (values >= least) & (values < num_classes)
    check_labels(is_right, labels, f"labels must be class numbers from 0 to {num_classes - 1}.")
    return tf.cast(labels, tf.int32)


@contextlib.contextmanager
def readable_errors() -> Iterator[None]:
    """Raises what `check_labels` found as an `InputError`, without the trace of the graph."""
    try:
        yield
    except tf.errors.InvalidArgumentError as error:
        found = _FAILED.search(str(error))
        if found is None:
            raise
        message, received = map(_unescaped, found.groups())
        raise InputError(f"{message} Received: {received}") from None


def _unescaped(text):
    # TensorFlow writes some bytes that are not ASCII, and quotes, as C does.
    return _ESCAPE.sub(_byte, text.encode()).decode("utf-8", "replace")


def _byte(escape):
    octal, character = escape.groups()
    return character if octal is None else bytes([int(octal, 8) % 256])
