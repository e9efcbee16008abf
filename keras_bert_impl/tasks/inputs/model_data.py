"""Converts what a user gives to `fit`, `evaluate` and `predict` to rows and data sets for a model."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.tasks.data import user_input
from keras_bert_impl.tasks.data.labels import check_weights
from keras_bert_impl.tasks.inputs import batching, streams
from keras_bert_impl.tasks.inputs.feature_rows import FeatureRows, complete
from keras_bert_impl.tasks.inputs.fit_arguments import first_batches
from keras_bert_impl.tasks.inputs.text_datasets import encode_dataset


def read(model: Any, x: Any, shuffle: bool = False) -> Any:
    """Reads tables to texts and batch streams to a dataset of features; else returns `x`."""
    if not streams.gives_batches(x):
        return user_input.from_columns(x, model.text_columns, model.most_columns)

    def features(x, y, sample_weight):
        return batching.batch_of(*rows_of(model, *examples_of(model, x, y, sample_weight)))

    seed = model.compile_arguments().get("seed", 0)
    return streams.features_of_batches(features, model.input, x, seed, shuffle)


def examples_of(model: Any, x: Any, y: Any, sample_weight: Any) -> tuple:
    """Returns texts as a list or `FeatureRows`, labels for `rows`, and weights or None."""
    x = user_input.from_columns(x, model.text_columns, model.most_columns)
    if isinstance(x, dict):
        x = completed_features(model, x)
        texts = FeatureRows(x)
    else:
        texts = model.as_texts(x)
    if not len(texts):
        raise InputError("there are no texts to train or evaluate on.")
    labels = _labels(model, y, len(texts))
    if isinstance(x, dict) and labels is not None:
        model.check_labels(labels, x, sample_weight)
        labels = np.asarray(labels)
    if sample_weight is None:
        return texts, labels, None
    per_token = model.has_token_labels and isinstance(x, dict)
    return texts, labels, check_weights(sample_weight, len(texts), per_token)


def completed_features(model: Any, features: dict[str, Any]) -> dict[str, Any]:
    """Returns features given by a user, with those that were left out."""
    return complete(features, model.tokenizer.pad_id, model.feature_names, model.config)


def _labels(model, y, count):
    if y is not None:
        return model.encode_labels(y, count)
    if model.needs_labels:
        raise InputError("labels are missing: give y, or a tf.data.Dataset of (texts, labels).")
    return None


def rows_of(model: Any, texts: Any, labels: Any = None, weights: Any = None) -> tuple:
    """Same as `model.rows`; also accepts `FeatureRows`."""
    if not isinstance(texts, FeatureRows):
        return model.rows(texts, labels, weights)
    return texts, tuple(target for target in (labels, weights) if target is not None)


def validation_data(
    model: Any, data: Any, batch_size: int, steps: int | None = None
) -> tf.data.Dataset:
    """Converts a user's validation data to a dataset of features and labels.

    Args:
        model: `RawTextTrainer`.
        data: texts or features with labels, or batches.
        batch_size: texts per batch.
        steps: for texts and features, the number of batches to keep. Default: all.
    """
    if streams.gives_batches(data):
        data = read(model, data)
    if isinstance(data, tf.data.Dataset):
        return encode_dataset(model, model.completed_dataset(data, is_training=False))
    examples = examples_of(model, *_validation_parts(model, data))
    kept = [first_batches(part, batch_size, steps) for part in examples]
    return sorted_data(model, kept, batch_size)


def _validation_parts(model, data):
    """Unpacks validation data to (x, labels or None, weights or None)."""
    if isinstance(data, list) and not model.needs_labels:
        data = (data,)  # examples; a tuple may also contain labels
    if isinstance(data, (list, tuple)) and (
        not 1 <= len(data) <= 3 or user_input.is_one_text(data[0])
    ):
        raise InputError(
            "validation_data must be (texts, labels) or (texts, labels, sample_weight), or "
            f"batches of those. Received: a {type(data).__name__} of {len(data)}"
        )
    return keras.utils.unpack_x_y_sample_weight(data)


def sorted_data(model: Any, examples: Any, batch_size: int) -> tf.data.Dataset:
    """Returns the data set of examples from `examples_of`, sorted by length."""
    return model.completed(batching.sorted_batches(*rows_of(model, *examples), batch_size)[0])


def one_batch(model: Any, x: Any, y: Any, sample_weight: Any) -> tuple:
    """Returns (features, labels, weights) of a user's batch."""
    examples = examples_of(model, x, y, sample_weight)
    data = sorted_data(model, examples, len(examples[0]))
    return keras.utils.unpack_x_y_sample_weight(next(iter(data)))


def scores_of_nothing(model: Any) -> Any:
    """Returns the scores of no texts, arrays with 0 rows."""
    # Not every layer accepts a batch of 0 rows.
    one = {
        name: tf.zeros([1, *(size or 2 for size in symbol.shape[1:])], symbol.dtype)
        for name, symbol in model.input.items()
    }
    outputs = model.scores(model(one, training=False))
    return keras.tree.map_structure(lambda scores: np.asarray(scores)[:0], outputs)
