"""Examples in memory: texts or features."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from keras_bert_impl.checkpoints.config import EncoderConfig
from keras_bert_impl.data.batches.batching import sorted_batches, takes_any_shape
from keras_bert_impl.models.encoder_layers import check_not_ragged, check_values, renamed
from keras_bert_impl.utils.errors import InputError, listed

FEATURES = ("token_ids", "segment_ids", "padding_mask")
_INTEGERS = (*FEATURES, "masked_positions")


def task_inputs(rank: int = 2) -> dict[str, keras.KerasTensor]:
    """Creates the inputs of a task model's network.

    Args:
        rank: 2 for int32 `[batch, length]`; more for group dimensions, `[batch, ..., length]`.
    """
    shape = (None,) * (rank - 1)
    return {name: keras.Input(shape, dtype="int32", name=name) for name in FEATURES}


class FeatureRows:
    """Features in memory, with the interface of `TokenizedTexts`.

    Args:
        features: dict of int arrays `[rows, ...]`.
    """

    def __init__(self, features: Mapping[str, Any]) -> None:
        self.arrays = {name: np.asarray(value) for name, value in features.items()}
        sizes = {name: len(value) for name, value in self.arrays.items()}
        if len(set(sizes.values())) > 1:
            raise InputError(f"features differ in their number of rows: {sizes}.")

    def __len__(self):
        return len(next(iter(self.arrays.values())))

    def __getitem__(self, rows: slice) -> "FeatureRows":
        return FeatureRows({name: value[rows] for name, value in self.arrays.items()})

    @property
    def num_texts(self) -> int:
        return len(self)

    @property
    def lengths(self) -> tf.Tensor:
        """Zeros, int32 `[rows]`. Rows of equal length keep their order when they are sorted."""
        return tf.zeros(len(self), tf.int32)

    def features(self, rows: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns the features at the indices `rows`, int64 `[batch]`."""
        return {name: tf.gather(value, rows) for name, value in self.arrays.items()}


class CheckedExamples(NamedTuple):
    """Validated texts, labels and weights in memory.

    Attributes:
        texts: list of texts, or `FeatureRows`.
        labels: labels converted by `label_codec.encode`; None without labels.
        weights: float32 `[texts]`; None without weights.
    """

    texts: list | FeatureRows
    labels: Any = None
    weights: np.ndarray | None = None

    def part(self, begin: int | None, end: int | None) -> "CheckedExamples":
        parts: Any = (None if part is None else part[begin:end] for part in self)
        return CheckedExamples(*parts)

    def split(self, fraction: float) -> tuple["CheckedExamples", "CheckedExamples"]:
        """Splits off the last examples, like `validation_split` of Keras."""
        count = len(self.texts)
        num_training = int(count * (1 - fraction))
        if not 0 < num_training < count:
            raise InputError(f"validation_split={fraction} of {count} texts leaves one set empty.")
        return self.part(None, num_training), self.part(num_training, None)

    def rows(self, model: Any) -> tuple[Any, tuple]:
        if not isinstance(self.texts, FeatureRows):
            return model.rows(*self)
        return self.texts, tuple(target for target in self[1:] if target is not None)

    def for_evaluation(
        self, model: Any, batch_size: int, steps: int | None = None
    ) -> tf.data.Dataset:
        """Returns a dataset for evaluation, sorted by length."""
        examples = self.part(None, None if steps is None else steps * batch_size)
        # Losses that compare the examples of a batch depend on the batch size.
        any_shape = takes_any_shape(model) and not getattr(model, "compares_examples", False)
        rows, targets = examples.rows(model)
        return model.completed(sorted_batches(rows, targets, batch_size, any_shape)[0])


def complete(
    features: Mapping[str, Any],
    pad_id: int,
    names: tuple = FEATURES,
    config: EncoderConfig | None = None,
) -> dict[str, Any]:
    unknown = [name for name in features if name not in names]
    if unknown:
        raise InputError(
            f"features must be among {listed(names)}. "
            f"Received: {listed(unknown)}.{renamed(features)}"
        )
    features = {name: _convert_to_array(name, value) for name, value in features.items()}
    if config is not None:
        check_values(features, config)
        _check_length(features.get("token_ids"), config.max_length)
    features = {name: _clip_to_int32(value) for name, value in features.items()}
    if "token_ids" in names and "token_ids" not in features:
        raise InputError(f"features must contain token_ids. Received: {listed(list(features))}")
    if "segment_ids" in names and "segment_ids" not in features:
        features["segment_ids"] = features["token_ids"] * 0
    if "padding_mask" in names and "padding_mask" not in features:
        is_real = features["token_ids"] != pad_id
        if isinstance(is_real, np.ndarray):
            cast = np.ndarray.astype
        else:  # on JAX, features may be TensorFlow tensors
            cast = tf.cast if tf.is_tensor(is_real) else keras.ops.cast
        features["padding_mask"] = cast(is_real, "int32")
    missing = [name for name in names if name not in features]
    if missing:
        raise InputError(f"features must contain {listed(missing)}. Received: {listed(features)}")
    return features


def is_symbolic(features: dict[str, Any]) -> bool:
    return any(isinstance(feature, keras.KerasTensor) for feature in features.values())


def are_symbolic_texts(model: Any, inputs: Any) -> bool:
    parts = tf.nest.flatten(inputs)
    is_input = any(isinstance(part, keras.KerasTensor) and part.dtype == "string" for part in parts)
    are_strings = all(tf.is_tensor(part) and part.dtype == tf.string for part in parts)
    if not is_input and (tf.executing_eagerly() or not are_strings):
        return False
    if is_input or model.has_several_rows or keras.backend.backend() != "tensorflow":
        raise InputError(
            "the model cannot tokenize strings in this graph. Tokenize them first, features = "
            f"model.tokenizer(texts, length={model.max_length}), and call model(features)."
        )
    return True


def _convert_to_array(name, feature):
    check_not_ragged(name, feature)
    if isinstance(feature, keras.KerasTensor) or _is_tensor(feature):
        return feature
    try:
        array = np.asarray(feature)
    except ValueError as error:
        raise InputError(
            f"{name}: rows differ in length; pad them, as the tokenizer does."
        ) from error
    if name not in _INTEGERS:
        return array
    if array.ndim < 2 or array.dtype.kind not in "biuf":
        raise InputError(
            f"{name} must be integers [rows, length]. Received: {array.dtype}, shape {array.shape}"
        )
    if name == "padding_mask":
        is_right, expected = (array == 0) | (array == 1), "0 or 1"
    else:
        is_right, expected = array == np.floor(array), "integers"
    if not is_right.all():
        place = tuple(np.argwhere(~is_right)[0].tolist())
        raise InputError(f"{name} must be {expected}. Received: {array[place]} at {list(place)}")
    return array if array.dtype.kind in "iu" else array.astype("int64")


def _is_tensor(feature):
    return tf.is_tensor(feature) or keras.ops.is_tensor(feature)


def _check_length(token_ids, limit):
    length = None if token_ids is None else token_ids.shape[-1]
    if length is not None and length > limit:
        raise InputError(f"token_ids must have at most {limit} columns. Received: {length}")


def _clip_to_int32(feature):
    # A cast alone would drop the upper bits: 2 ** 33 + 5 would become token 5.
    if isinstance(feature, np.ndarray) and feature.dtype.kind in "iu":
        return np.clip(feature, -1, np.iinfo("int32").max).astype("int32")
    if not tf.is_tensor(feature) or feature.dtype != tf.int64:
        return feature
    return tf.cast(tf.clip_by_value(feature, -1, tf.int32.max), tf.int32)
