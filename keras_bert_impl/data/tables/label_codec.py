"""Label codecs: check the labels of a task and convert them for its loss.

`encode` converts NumPy arrays and lists, and `tensor` converts tensors of a `tf.data.Dataset`.
"""

import itertools
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert_impl.data.tables.examples import index_of_name
from keras_bert_impl.data.tables.label_checks import (
    check_numbers,
    check_width,
    class_numbers,
    class_weights,
    one_hot_rows,
    one_hot_tensor,
)
from keras_bert_impl.data.tables.labels import (
    ABOUT_SEVERAL,
    MULTI,
    REGRESSION,
    SINGLE,
    class_indices,
    label_values,
    number_of,
)
from keras_bert_impl.data.tables.user_input import column_names
from keras_bert_impl.utils.errors import InputError, listed
from keras_bert_impl.utils.one_graph import check_labels


class LabelCodec:
    """Base class of label codecs."""

    has_classes = False  # whether `fit` supports `class_weight`

    def encode(self, labels: Any, count: int) -> Any:
        """Checks the labels of `count` texts and converts them to an array for the loss.

        Raises:
            InputError: the number of labels is wrong, or a label is unknown.
        """
        raise NotImplementedError

    def tensor(self, labels: Any) -> Any:
        """Same as `encode`, for a batch of a `tf.data.Dataset`."""
        raise NotImplementedError

    def factors(self, class_weight: Any, labels: Any) -> list[float]:
        """Computes the loss weight of each class, in the order of the logits.

        Args:
            labels: return value of `encode`; None if the labels are in a `tf.data.Dataset`.
        """
        raise NotImplementedError


# === Labels of texts: a class, several classes, or numbers ===


def text_labels(names: list[str], problem_type: str, takes_soft: bool = False) -> LabelCodec:
    if problem_type == SINGLE:
        return ClassLabels(names, takes_soft)
    return SeveralLabels(names) if problem_type == MULTI else NumberLabels(len(names))


class ClassLabels(LabelCodec):
    """Codec for one class per text: names, class indices, or one-hot or soft labels."""

    has_classes = True

    def __init__(self, names: list[str], takes_soft: bool = False) -> None:
        self.names, self.takes_soft = names, takes_soft
        self.about_numbers = f"labels must be class indices from 0 to {len(names) - 1}."

    def factors(self, class_weight: Any, labels: Any) -> list[float]:
        return list(class_weights(class_weight, self.names, labels).values())

    def encode(self, labels: Any, count: int) -> np.ndarray:
        labels = label_values(_order_columns(labels, count, self.names), count)
        if len(labels) and all(map(_is_list_of_names, labels)):
            for position, row in enumerate(labels):
                if len(row) != 1:
                    raise InputError(f"text {position} has {len(row)} labels.{ABOUT_SEVERAL}")
            labels = [*itertools.chain(*labels)]  # the labels are a column of names
        if any(isinstance(label, (str, bytes)) for label in labels):
            indices = index_of_name(self.names)
            return np.array(
                [number_of(label, i, indices) for i, label in enumerate(labels)], "int32"
            )
        numbers = _read_numbers(labels, "a class index or a label name")
        if numbers.ndim == 2 and numbers.shape[1] == 1:
            numbers = numbers[:, 0]
        if numbers.ndim == 2 and numbers.shape[1] == len(self.names):
            return self._check_rows(numbers.astype("float32"))
        if numbers.ndim != 1:
            raise InputError(f"{self.about_numbers} Received: shape {numbers.shape}")
        self._check_numbers_are_indices()
        wrong = (numbers != np.floor(numbers)) | (numbers < 0) | (numbers >= len(self.names))
        if wrong.any():
            received = f"{numbers[wrong][0]} (text {np.flatnonzero(wrong)[0]})"
            raise InputError(f"{self.about_numbers} Received: {received}")
        return numbers.astype("int32")

    def tensor(self, labels: Any) -> tf.Tensor:
        if not isinstance(labels, tf.Tensor) or labels.dtype != tf.string:
            check_numbers(labels, "class indices or label names")
        if labels.shape.rank == 2 and labels.shape[1] == 1:
            labels = labels[:, 0]
        if labels.dtype == tf.string:
            matches = labels[:, tf.newaxis] == tf.constant(self.names)[tf.newaxis, :]
            message = f"labels must be among {listed(self.names)}."
            check_labels(tf.reduce_any(matches, axis=1), labels, message)
            return tf.argmax(matches, axis=1, output_type=tf.int32)
        if labels.shape.rank == 2:
            return self._check_row_tensor(labels)
        self._check_numbers_are_indices()
        return class_numbers(labels, len(self.names))

    def _check_numbers_are_indices(self):
        if all(_parse_number(name) in (None, index) for index, name in enumerate(self.names)):
            return
        raise InputError(
            f"the labels of this model are {listed(self.names)}, so numbers may mean names or "
            "class indices. Pass names, [str(label) for label in labels]."
        )

    def _check_rows(self, rows):
        wrong = ~np.isfinite(rows).all(axis=1) | (rows < 0).any(axis=1)
        wrong |= ~np.isclose(rows.sum(axis=1), 1, atol=1e-4)
        if wrong.any():
            raise InputError(
                f"text {wrong.argmax()}: the {len(self.names)} numbers of a label must be "
                f"probabilities that add up to 1. Received: {rows[wrong.argmax()].tolist()}"
                f"{ABOUT_SEVERAL if np.isin(rows, (0, 1)).all() else ''}"
            )
        is_soft = rows.max(axis=1) < 1
        if is_soft.any() and not self.takes_soft:
            raise InputError(
                f"text {is_soft.argmax()} has a soft label, {rows[is_soft.argmax()].tolist()}, "
                "which this loss does not support. Write compile(loss='categorical_crossentropy')."
            )
        return rows

    def _check_row_tensor(self, rows):
        check_width(rows, len(self.names), "one-hot rows")
        rows = tf.cast(rows, tf.float32)
        if self.takes_soft:
            total = tf.reduce_sum(rows, axis=1)
            is_right = tf.reduce_all(rows >= 0, axis=1) & (tf.abs(total - 1) <= 1e-4)
            message = "labels must be probabilities that add up to 1."
        else:
            is_right = tf.reduce_max(rows, axis=1) == 1
            is_right &= tf.reduce_sum(tf.abs(rows), axis=1) == 1
            message = (
                "labels are not one-hot. For probabilities, write "
                "compile(loss='categorical_crossentropy')."
            )
        check_labels(is_right, rows, f"{message}{ABOUT_SEVERAL}")
        return rows


class SeveralLabels(LabelCodec):
    """Codec for multi-label classification: lists of names, or arrays or tables of 0 and 1."""

    has_classes = True

    def __init__(self, names: list[str]) -> None:
        self.names = names

    def factors(self, class_weight: Any, labels: Any) -> list[float]:
        raise InputError(
            f"class_weight supports only {SINGLE}, not {MULTI}. Pass sample_weight, a number for "
            "each text, or compile(loss='binary_focal_crossentropy')."
        )

    def encode(self, labels: Any, count: int) -> np.ndarray:
        labels = label_values(_order_columns(labels, count, self.names), count)
        if all(map(_is_list_of_names, labels)):
            rows, indices = np.zeros((count, len(self.names)), "float32"), index_of_name(self.names)
            for position, names in enumerate(labels):
                rows[position, [number_of(name, position, indices) for name in names]] = 1
            return rows
        rows = _read_numbers(labels, "a row of 0 and 1, or a list of label names").astype("float32")
        if rows.shape != (count, len(self.names)) or not np.isin(rows, (0, 1)).all():
            raise InputError(
                f"labels must be 0 and 1, [texts, {len(self.names)}]. "
                f"Received: shape {rows.shape}, values from {rows.min()} to {rows.max()}"
            )
        return rows

    def tensor(self, labels: Any) -> tf.Tensor:
        expected = "0 and 1"
        check_numbers(labels, expected)
        check_width(labels, len(self.names), expected)
        labels = tf.cast(labels, tf.float32)
        is_right = tf.reduce_all((labels == 0) | (labels == 1), axis=-1)
        check_labels(is_right, labels, f"labels must be {expected}.")
        return labels


class NumberLabels(LabelCodec):
    """Codec for regression: `width` finite numbers per text."""

    has_classes = True

    def __init__(self, width: int) -> None:
        self.width, self.what = width, f"{width} finite number(s) for each text"

    def factors(self, class_weight: Any, labels: Any) -> list[float]:
        raise InputError(
            f"class_weight supports only {SINGLE}, not {REGRESSION}. Pass sample_weight, a number "
            "for each text."
        )

    def encode(self, labels: Any, count: int) -> np.ndarray:
        labels = label_values(labels, count)
        numbers = _read_numbers(labels, "a number").astype("float32").reshape(count, -1)
        wrong = np.argwhere(~np.isfinite(numbers))
        if numbers.shape[1] != self.width or len(wrong):
            received: Any = numbers.shape
            if len(wrong):
                received = f"{labels[wrong[0][0]]} (text {wrong[0][0]})"
            raise InputError(f"labels must be {self.what}. Received: {received}")
        return numbers

    def tensor(self, labels: Any) -> tf.Tensor:
        check_numbers(labels, self.what)
        if self.width > 1 or labels.shape.rank not in (None, 1):
            check_width(labels, self.width, self.what)
        labels = tf.reshape(tf.cast(labels, tf.float32), [-1, self.width])
        check_labels(tf.math.is_finite(labels), labels, f"labels must be {self.what}.")
        return labels


class ScoreLabels(LabelCodec):
    """Codec for similarity scores: one number per example, from `-limit` to `limit`."""

    def __init__(self, limit: float) -> None:
        self.limit = limit

    def encode(self, labels: Any, count: int) -> np.ndarray:
        labels = np.asarray(label_values(labels, count))
        if labels.dtype.kind not in "biuf" or labels.size != count or labels.shape[0] != count:
            raise InputError(
                f"labels must be a number for each of {count} examples. Received: shape "
                f"{labels.shape}, {labels.dtype}"
            )
        labels = labels.astype("float32").reshape(count)
        wrong = np.flatnonzero(~(np.abs(labels) <= self.limit))
        if wrong.size:
            limits = "from -1 to 1. Scale the labels" if self.limit == 1 else "finite"
            raise InputError(f"example {wrong[0]}: the label {labels[wrong[0]]} must be {limits}.")
        return labels

    def tensor(self, labels: Any) -> tf.Tensor:
        check_numbers(labels, "a number for each example")
        labels = tf.reshape(tf.cast(labels, tf.float32), [-1])
        limits = "cosines, from -1 to 1. Scale the labels" if self.limit == 1 else "finite"
        check_labels(tf.abs(labels) <= self.limit, labels, f"labels must be {limits}.")
        return labels


# === Labels of endings, words and answers ===


class ChoiceLabels(LabelCodec):
    """Codec for multiple choice: index of the correct ending, or one-hot labels."""

    what = "the numbers of the correct endings"

    def encode(self, labels: Any, count: int) -> np.ndarray:
        labels = label_values(labels, count)
        try:
            numbers = np.asarray(labels)
        except ValueError as error:  # the numbers of endings differ
            raise InputError(f"labels must be {self.what}, starting at 0.") from error
        if numbers.ndim == 2 and count:
            return one_hot_rows(numbers, "labels")
        if numbers.dtype.kind == "f" and (numbers == np.floor(numbers)).all():
            numbers = numbers.astype("int64")
        if numbers.shape != (count,) or numbers.dtype.kind not in "iu" or (numbers < 0).any():
            raise InputError(
                f"labels must be {self.what}, starting at 0. Received: {numbers.dtype}, shape "
                f"{numbers.shape}: {labels!r:.60}"
            )
        return numbers.astype("int32")

    def tensor(self, labels: Any) -> tf.Tensor:
        check_numbers(labels, self.what)
        if labels.shape.rank == 2 and labels.shape[1] != 1:
            return one_hot_tensor(labels)
        return tf.cast(tf.reshape(labels, [-1]), tf.int32)


class WordLabels(LabelCodec):
    """Codec for one class per word: names, class indices (negative for none), or one-hot labels."""

    has_classes = True

    def __init__(self, names: list[str]) -> None:
        self.names = names

    def factors(self, class_weight: Any, labels: Any) -> list[float]:
        if labels is not None:
            rows = [np.ravel(class_indices(row)) for row in labels]
            labels = np.concatenate(rows or [np.zeros(0, "int32")])
            labels = labels[labels >= 0]
        return list(class_weights(class_weight, self.names, labels).values())

    def encode(self, labels: Any, count: int) -> np.ndarray | list[np.ndarray]:
        labels = label_values(labels, count)
        if isinstance(labels, np.ndarray) and labels.ndim > 1:
            return self._encode_row(labels, "labels", num_dimensions=2)
        return [self._encode_row(row, f"text {position}") for position, row in enumerate(labels)]

    def tensor(self, labels: Any) -> tf.Tensor:
        check_numbers(labels, "class indices or one-hot rows")
        if labels.shape.rank == 3:
            return one_hot_tensor(labels)
        return class_numbers(labels, len(self.names), least=-np.inf)

    def _encode_row(self, labels, where, num_dimensions=1):
        """Returns int32 class indices, or one-hot labels as float32."""
        if not isinstance(labels, (list, tuple, np.ndarray)):
            raise InputError(f"{where} requires a label for each word. Received: {labels!r:.60}")
        names = self.names
        if len(labels) and all(isinstance(label, str) for label in labels):
            indices = index_of_name(names)
            for word, label in enumerate(labels):
                if label not in indices:
                    raise InputError(
                        f"{where}, word {word}: label {label!r} is not one of {listed(names)}."
                    )
            return np.array([indices[label] for label in labels], "int32")
        numbers = np.asarray(labels, None if len(labels) else "int32")
        if numbers.ndim == num_dimensions + 1 and numbers.shape[-1] == len(names):
            return one_hot_rows(numbers, where, with_zeros=True)
        if numbers.dtype.kind not in "iu":
            raise InputError(f"{where} requires label names or integers. Received: {labels!r:.60}")
        if numbers.size and numbers.max() >= len(names):
            raise InputError(
                f"{where}: class indices must be below {len(names)}. Received: {numbers.max()}"
            )
        return numbers.astype("int32")


# === Helper functions ===


def _order_columns(labels, count, label_names):
    """Converts a table of 0 and 1 to an array with the columns in the order of the labels."""
    names = column_names(labels)
    if names is None or len(names) < 2:
        return labels
    if sorted(names, key=str) != sorted(label_names):
        raise InputError(
            f"a table of labels must have the columns {listed(label_names)}. Received: {listed(names)}"
        )
    columns = [_read_numbers(label_values(labels[name], count), "0 or 1") for name in label_names]
    return np.stack(columns, axis=1)


def _is_list_of_names(row):
    is_list = isinstance(row, (list, tuple, set)) or getattr(row, "dtype", None) == object  # noqa: E721
    return is_list and all(isinstance(name, (str, bytes)) for name in row)


def _parse_number(name):
    if name.lower() in ("true", "false"):
        return float(name.lower() == "true")
    try:
        number = float(name)
    except ValueError:
        return None
    return number if np.isfinite(number) else None


def _is_number(label):
    return np.asarray(label).dtype.kind in "biuf"


def _read_numbers(labels, kind):
    try:
        array = np.asarray(labels)
    except ValueError as error:
        raise InputError(f"labels must be {kind} for each text; rows differ in length.") from error
    if array.dtype.kind not in "biuf":
        wrong = next((i for i, x in enumerate(labels) if not _is_number(x)), 0)
        raise InputError(
            f"labels must be {kind} for each text. Received: {labels[wrong]!r:.60} (text {wrong})"
        )
    return array
