"""Checks of labels and token ids, and conversion of class weights."""

import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert_impl.checkpoints.config import EncoderConfig
from keras_bert_impl.data.tables.examples import index_of_name
from keras_bert_impl.data.tables.labels import MOST_WEIGHT
from keras_bert_impl.data.tables.user_input import values
from keras_bert_impl.utils.errors import InputError, listed
from keras_bert_impl.utils.one_graph import check_labels


def check_ids(features: dict[str, tf.Tensor], config: EncoderConfig) -> None:
    limits = {"token_ids": config.vocabulary_size, "segment_ids": config.num_segments}
    for name, limit in limits.items():
        if limit and name in features:  # without segment embeddings, segment ids are ignored
            ids = features[name]
            is_right = (ids >= 0) & (ids < limit)
            check_labels(is_right, ids, f"{name} must be in [0, {limit}).")


def check_numbers(labels: tf.Tensor, what: str) -> None:
    if not isinstance(labels, tf.Tensor):
        raise InputError(f"labels must be {what}. Received: {type(labels).__name__} {labels!r:.80}")
    if not (labels.dtype.is_floating or labels.dtype.is_integer or labels.dtype.is_bool):
        raise InputError(f"labels must be {what}. Received: {labels.dtype.name}")


def check_width(labels: tf.Tensor, width: int, what: str) -> None:
    if labels.shape.rank is not None and (
        labels.shape.rank != 2 or labels.shape[1] not in (None, width)
    ):
        raise InputError(f"labels must be {what}, [batch, {width}]. Received: {labels.shape}")


def class_numbers(labels: Any, num_classes: int, least: float = 0) -> tf.Tensor:
    """Checks label tensors and converts them to int32 class indices."""
    check_numbers(labels, f"class indices from 0 to {num_classes - 1}")
    if labels.dtype.is_bool:
        labels = tf.cast(labels, tf.int32)
    values = tf.cast(labels, tf.float64)
    is_right = (values == tf.floor(values)) & (values >= least) & (values < num_classes)
    check_labels(is_right, labels, f"labels must be class indices from 0 to {num_classes - 1}.")
    return tf.cast(labels, tf.int32)


def one_hot_tensor(labels: tf.Tensor) -> tf.Tensor:
    """Checks one-hot labels `[..., classes]`. For words without a label, all values must be 0."""
    labels = tf.cast(labels, tf.float32)
    is_right = tf.reduce_all((labels == 0) | (labels == 1), axis=-1)
    is_right &= tf.reduce_sum(labels, axis=-1) <= 1
    check_labels(is_right, labels, "labels must be one-hot rows.")
    return labels


def one_hot_rows(rows: np.ndarray, where: str, with_zeros: bool = False) -> np.ndarray:
    count = rows.sum(axis=-1)
    is_one_hot = np.isin(rows, (0, 1)).all(axis=-1) & ((count == 1) | (with_zeros & (count == 0)))
    if not is_one_hot.all():
        place = np.argwhere(~is_one_hot)[0]
        raise InputError(
            f"{where}: one-hot labels must contain exactly one 1. Received: "
            f"{rows[tuple(place)].tolist()} at {place.tolist()}"
        )
    return rows.astype("float32")


# === Class weights: `fit(class_weight=...)` ===


def class_weights(weights: Any, names: list[str], classes: Any = None) -> dict[int, float]:
    """Converts class weights to a dict of class index to weight.

    Args:
        classes: classes of the texts, int `[texts]`, or one-hot or soft labels; required for
            `"balanced"`.
    """
    if isinstance(weights, str) and weights == "balanced":
        if classes is None:
            raise InputError("class_weight='balanced' requires labels. Pass them with the texts.")
        classes = np.asarray(classes)
        classes = classes.argmax(axis=1) if classes.ndim == 2 else classes
        counts = np.bincount(classes, minlength=len(names))
        if not counts.all():
            raise InputError(
                f"class_weight='balanced': no text has the label {names[counts.argmin()]!r}."
            )
        return dict(enumerate((len(classes) / (len(names) * counts)).tolist()))
    if not isinstance(weights, dict):
        if isinstance(weights, (str, bytes)) or not hasattr(weights, "__len__"):
            raise InputError(
                "class_weight must be 'balanced', a dict, or one number per class. "
                f"Received: {weights!r:.60}"
            )
        if len(weights) != len(names):
            raise InputError(
                f"class_weight has {len(weights)} numbers, but there are {len(names)} classes."
            )
        weights = dict(enumerate(values(weights)))
    factors, indices = dict.fromkeys(range(len(names)), 1.0), index_of_name(names)
    for label, weight in weights.items():
        number = indices.get(label, label)
        if isinstance(number, (bool, np.bool_)) or number not in factors:
            raise InputError(f"class_weight: label {label!r} is not one of {listed(names)}.")
        factors[number] = _check_weight(label, weight)
    return factors


def _check_weight(label, weight):
    if isinstance(weight, np.ndarray) and weight.ndim == 0:
        weight = weight.item()
    is_number = isinstance(weight, numbers.Real) and not isinstance(weight, bool)
    if not is_number or not 0 <= weight <= MOST_WEIGHT:
        raise InputError(
            f"class_weight of {label!r} must be from 0 to {MOST_WEIGHT:g}. Received: {weight!r:.60}"
        )
    return float(weight)


def weighted(y: Any, sample_weight: Any, factors: Sequence[float]) -> tf.Tensor:
    """Multiplies the sample weights of examples or words by class weights.

    Args:
        y: class indices, int `[batch]` or `[batch, length]` (negative for words without a label);
            or one-hot or soft labels, float `[..., classes]`. For soft labels, the most likely
            class is used.
        sample_weight: float `[batch]` or the shape of `y`; None for weights of 1.
    """
    y = tf.convert_to_tensor(y)
    numbers = tf.argmax(y, axis=-1) if y.dtype.is_floating else y
    weights = tf.gather(tf.constant(factors, tf.float32), tf.maximum(tf.cast(numbers, tf.int32), 0))
    if sample_weight is None:
        return weights
    sample_weight = tf.cast(sample_weight, tf.float32)
    if sample_weight.shape.rank < weights.shape.rank:
        sample_weight = sample_weight[:, tf.newaxis]
    return weights * sample_weight


def with_class_weights(data: tf.data.Dataset, factors: Sequence[float]) -> tf.data.Dataset:
    """Multiplies the weights in batches `(x, y)` or `(x, y, sample_weight)` by class weights."""

    @tf.autograph.experimental.do_not_convert
    def batch(x, y, sample_weight=None):
        return x, y, weighted(y, sample_weight, factors)

    return data.map(batch, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
