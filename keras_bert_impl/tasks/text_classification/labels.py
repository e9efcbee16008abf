"""Label encoding and checks of `TextClassifier`."""

import itertools
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert_impl.io.errors import InputError, listed
from keras_bert_impl.tasks.base.options import ABOUT_SEVERAL, MULTI, REGRESSION, SINGLE
from keras_bert_impl.tasks.data.class_weights import class_weights
from keras_bert_impl.tasks.data.examples import index_of_name
from keras_bert_impl.tasks.data.label_checks import (
    check_labels,
    check_numbers,
    check_width,
    class_numbers,
)
from keras_bert_impl.tasks.data.labels import label_values, number_of
from keras_bert_impl.tasks.data.user_input import column_names

_PROBABILITIES = "labels must be probabilities that add up to 1."


class TextLabels:
    """Encodes the labels of a `TextClassifier`."""

    def __init__(self, labels: list[str], problem_type: str) -> None:
        self.labels = labels
        self.problem_type = problem_type
        self.num_classes = len(labels)

    def check_texts(self, texts: list) -> None:
        """Raises `InputError` if texts are pairs of a text and its label."""
        names = frozenset(self.labels)
        if texts and all(isinstance(text, tuple) and text[1] in names for text in texts):
            raise InputError(
                "the second segments are all labels of this model: pass texts and labels "
                "separately, fit(texts, labels)."
            )

    def factors(self, class_weight: Any, labels: Any) -> list[float]:
        """See `RawTextTrainer.class_factors`."""
        if self.problem_type != SINGLE:
            raise InputError(f"class_weight is for {SINGLE}, not {self.problem_type}.")
        return list(class_weights(class_weight, self.labels, labels).values())

    def encode(self, labels: Any, count: int, allow_soft: bool = False) -> np.ndarray:
        """See `RawTextTrainer.encode_labels`."""
        labels = label_values(self._named_columns(labels, count), count)
        if self.problem_type == SINGLE:
            return self._class_numbers(labels, allow_soft)
        if self.problem_type == MULTI:
            return self._multi_hot(labels)
        values = _numeric(labels, "a number").astype("float32").reshape(count, -1)
        wrong = np.argwhere(~np.isfinite(values))
        if values.shape[1] != self.num_classes or len(wrong):
            received = f"{labels[wrong[0][0]]} (text {wrong[0][0]})" if len(wrong) else values.shape
            raise InputError(
                f"labels must be {self.num_classes} finite number(s) for each text. "
                f"Received: {received}"
            )
        return values

    def _named_columns(self, labels, count):
        """Returns the columns of a multi-label table, stacked in the order of `labels`."""
        names = None if self.problem_type == REGRESSION else column_names(labels)
        if names is None or len(names) < 2:
            return labels
        if sorted(names, key=str) != sorted(self.labels):
            raise InputError(
                f"a table of labels must have the columns {listed(self.labels)}. "
                f"Received: {listed(names)}"
            )
        columns = [label_values(labels[name], count) for name in self.labels]
        return np.stack([_numeric(column, "0 or 1") for column in columns], axis=1)

    def _class_numbers(self, labels, allow_soft):
        if len(labels) and all(map(_is_list_of_names, labels)):
            for position, row in enumerate(labels):
                if len(row) != 1:
                    raise InputError(f"text {position} has {len(row)} labels.{ABOUT_SEVERAL}")
            labels = [*itertools.chain(*labels)]  # a column of names
        if any(isinstance(label, (str, bytes)) for label in labels):
            places = index_of_name(self.labels)
            return np.array(
                [number_of(label, i, places) for i, label in enumerate(labels)], "int32"
            )
        numbers = _numeric(labels, "a class number or a label name")
        if numbers.ndim == 2 and numbers.shape[1] == 1:
            numbers = numbers[:, 0]
        if numbers.ndim == 1:
            self._check_are_no_names()
        if numbers.ndim == 2 and numbers.shape[1] == self.num_classes:
            return self._distributions(numbers.astype("float32"), allow_soft)
        wrong = (numbers != np.floor(numbers)) | (numbers < 0) | (numbers >= self.num_classes)
        if numbers.ndim != 1 or wrong.any():
            received = f"shape {numbers.shape}"
            if numbers.ndim == 1:
                received = f"{numbers[wrong][0]} (text {np.flatnonzero(wrong)[0]})"
            raise InputError(
                f"labels must be class numbers from 0 to {self.num_classes - 1}. "
                f"Received: {received}"
            )
        return numbers.astype("int32")

    def _check_are_no_names(self):
        """Raises if labels that are numbers may mean the name of another class."""
        if all(_as_number(name) in (None, place) for place, name in enumerate(self.labels)):
            return
        raise InputError(
            f"the labels of this model are {listed(self.labels)}, and numbers may be such names or "
            "class numbers: pass names, [str(label) for label in labels]."
        )

    def _distributions(self, rows, allow_soft):
        """Checks one-hot rows, or soft ones if the loss takes them; a user's loss sees them so."""
        wrong = ~np.isfinite(rows).all(axis=1) | (rows < 0).any(axis=1)
        wrong |= ~np.isclose(rows.sum(axis=1), 1, atol=1e-4)
        if wrong.any():
            raise InputError(
                f"text {wrong.argmax()}: the {self.num_classes} numbers of a label must be "
                f"probabilities that add up to 1. Received: {rows[wrong.argmax()].tolist()}"
                f"{ABOUT_SEVERAL if np.isin(rows, (0, 1)).all() else ''}"
            )
        is_soft = rows.max(axis=1) < 1
        if is_soft.any() and not allow_soft:
            raise InputError(
                f"text {is_soft.argmax()} has a soft label, {rows[is_soft.argmax()].tolist()}, "
                "which this loss does not take: write compile(loss='categorical_crossentropy')."
            )
        return rows

    def _multi_hot(self, labels):
        if all(_is_list_of_names(row) for row in labels):
            rows = np.zeros((len(labels), self.num_classes), "float32")
            places = index_of_name(self.labels)
            for position, names in enumerate(labels):
                rows[position, [number_of(name, position, places) for name in names]] = 1
            return rows
        rows = _numeric(labels, "a row of 0 and 1, or a list of label names").astype("float32")
        if rows.shape != (len(labels), self.num_classes) or not np.isin(rows, (0, 1)).all():
            raise InputError(
                f"labels must be 0 and 1, [texts, {self.num_classes}]. "
                f"Received: shape {rows.shape}, values from {rows.min()} to {rows.max()}"
            )
        return rows

    def tensor(self, labels: tf.Tensor, allow_soft: bool = False) -> tf.Tensor:
        """Same as `encode`, in the graph."""
        if self.problem_type == SINGLE:
            return self._class_tensor(labels, allow_soft)
        if self.problem_type == MULTI:
            what = "0 and 1"
            check_numbers(labels, what)
            check_width(labels, self.num_classes, what)
            labels = tf.cast(labels, tf.float32)
            is_right = tf.reduce_all((labels == 0) | (labels == 1), axis=-1)
            check_labels(is_right, labels, f"labels must be {what}.")
            return labels
        what = f"{self.num_classes} finite number(s) for each text"
        check_numbers(labels, what)
        if self.num_classes > 1 or labels.shape.rank not in (None, 1):
            check_width(labels, self.num_classes, what)
        labels = tf.reshape(tf.cast(labels, tf.float32), [-1, self.num_classes])
        check_labels(tf.math.is_finite(labels), labels, f"labels must be {what}.")
        return labels

    def _class_tensor(self, labels, allow_soft):
        if not isinstance(labels, tf.Tensor) or labels.dtype != tf.string:
            check_numbers(labels, "class numbers or label names")
        if labels.shape.rank == 2 and labels.shape[1] == 1:
            labels = labels[:, 0]
        if labels.dtype == tf.string:
            matches = labels[:, tf.newaxis] == tf.constant(self.labels)[tf.newaxis, :]
            message = f"labels must be among {listed(self.labels)}."
            check_labels(tf.reduce_any(matches, axis=1), labels, message)
            return tf.argmax(matches, axis=1, output_type=tf.int32)
        if labels.shape.rank != 2:
            self._check_are_no_names()
            return class_numbers(labels, self.num_classes)
        check_width(labels, self.num_classes, "one-hot rows")
        labels = tf.cast(labels, tf.float32)
        if allow_soft:
            total = tf.reduce_sum(labels, axis=1)
            is_right = tf.reduce_all(labels >= 0, axis=1) & (tf.abs(total - 1) <= 1e-4)
            check_labels(is_right, labels, f"{_PROBABILITIES}{ABOUT_SEVERAL}")
            return labels
        is_right = tf.reduce_max(labels, axis=1) == 1
        is_right &= tf.reduce_sum(tf.abs(labels), axis=1) == 1
        message = (
            "labels are not one-hot: for probabilities, write "
            f"compile(loss='categorical_crossentropy').{ABOUT_SEVERAL}"
        )
        check_labels(is_right, labels, message)
        return labels


def _is_list_of_names(row):
    is_list = isinstance(row, (list, tuple, set)) or getattr(row, "dtype", None) == object  # noqa: E721
    return is_list and all(isinstance(name, (str, bytes)) for name in row)


def _as_number(name):
    """Returns the number or bool that a label name stands for as a float, None for other names."""
    if name.lower() in ("true", "false"):
        return float(name.lower() == "true")
    try:
        number = float(name)
    except ValueError:
        return None
    return number if np.isfinite(number) else None


def _is_number(label):
    return np.asarray(label).dtype.kind in "biuf"


def _numeric(labels, what):
    try:
        array = np.asarray(labels)
    except ValueError as error:
        raise InputError(f"labels must be {what} for each text; rows differ in length.") from error
    if array.dtype.kind not in "biuf":
        wrong = next((i for i, x in enumerate(labels) if not _is_number(x)), 0)
        raise InputError(
            f"labels must be {what} for each text. Received: {labels[wrong]!r:.60} (text {wrong})"
        )
    return array
