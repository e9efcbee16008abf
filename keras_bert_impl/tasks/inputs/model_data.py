"""Converts a user's data for `fit`, `evaluate` and `predict` to rows and data sets."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_bert_impl.io.errors import InputError, listed
from keras_bert_impl.io.settings import PositiveInt, check
from keras_bert_impl.tasks.data import user_input
from keras_bert_impl.tasks.data.label_checks import check_ids, check_labels
from keras_bert_impl.tasks.data.labels import MOST_WEIGHT, check_weights
from keras_bert_impl.tasks.data.user_input import NO_TEXTS
from keras_bert_impl.tasks.inputs import streams
from keras_bert_impl.tasks.inputs.batching import batch_of, sorted_batches, takes_any_shape
from keras_bert_impl.tasks.inputs.feature_rows import FeatureRows, complete
from keras_bert_impl.training.steps.data_options import without_autotuner

DEFAULT_BATCH_SIZE = 32

# === Sizes and kinds of input ===


def checked_sizes(batch_size: int | None, steps: int | None = None) -> tuple[int, int | None]:
    """Checks `batch_size` and `steps` of `evaluate` and `predict`; applies the default size."""
    batch_size = check("batch_size", batch_size, PositiveInt | None)
    return batch_size or DEFAULT_BATCH_SIZE, check("steps", steps, PositiveInt | None)


def first_batches(x: Any, batch_size: int, steps: int | None) -> Any:
    """Returns the part of a sequence in the first `steps` batches; all of it for None."""
    return x if x is None or steps is None else x[: steps * batch_size]


def is_batched(x: Any) -> bool:
    """Whether `x` is a dataset, a generator or a `PyDataset`, whose items are batches."""
    return isinstance(x, tf.data.Dataset) or streams.gives_batches(x)


def check_batches_alone(x: Any, **beside: Any) -> None:
    """Checks that batches, which contain labels and weights, are the only data argument."""
    given = [name for name, value in beside.items() if value is not None]
    if not given:
        return
    raise InputError(
        f"x is a {type(x).__name__}, whose batches contain labels and weights: leave out "
        f"{listed(given)}, and yield batches of (texts, labels) or (texts, labels, sample_weight)."
    )


# === Rows and data sets ===


def check_ends(x: Any, steps: int | None, name: str) -> None:
    """Raises `InputError` if `x` yields batches without end and `steps` does not limit them."""
    is_generator = name == "validation_steps" and user_input.is_stream(x)
    if steps is None and (is_generator or streams.is_endless(x)):
        raise InputError(f"the {type(x).__name__} may yield batches without end: pass {name}=...")


def read(
    model: Any, x: Any, shuffle: bool = False, has_begun: Callable[[], bool] = lambda: True
) -> Any:
    """Reads tables to texts and batch streams to a dataset of features; else returns `x`."""
    if not streams.gives_batches(x):
        return user_input.from_columns(x, model.text_columns, model.most_columns)

    def features(x, y, sample_weight):
        return batch_of(*rows_of(model, *examples_of(model, x, y, sample_weight)))

    seed = model.compile_arguments().get("seed", 0)
    return streams.features_of_batches(features, model.input, x, seed, shuffle, has_begun)


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
    if labels is None and not model.draws_labels:  # weights would stand in their place
        labels = np.zeros(len(texts), "float32")
    per_token = model.has_token_labels and isinstance(x, dict)
    return texts, labels, check_weights(sample_weight, len(texts), per_token)


def completed_features(model: Any, features: dict[str, Any]) -> dict[str, Any]:
    """Returns features given by a user, with those that were left out."""
    return complete(features, model.tokenizer.pad_id, model.feature_names, model.config)


def _labels(model, y, count):
    if y is not None:
        return model.encode_labels(y, count)
    if model.needs_labels:
        raise InputError("labels are missing: pass y, or a tf.data.Dataset of (texts, labels).")
    return None


def rows_of(model: Any, texts: Any, labels: Any = None, weights: Any = None) -> tuple:
    """Same as `model.rows`; also accepts `FeatureRows`."""
    if not isinstance(texts, FeatureRows):
        return model.rows(texts, labels, weights)
    return texts, tuple(target for target in (labels, weights) if target is not None)


def validation_data(
    model: Any,
    data: Any,
    batch_size: int,
    steps: int | None = None,
    has_begun: Callable[[], bool] = lambda: True,
) -> tf.data.Dataset:
    """Converts a user's validation data to a dataset of features and labels."""
    if streams.gives_batches(data):
        data = read(model, data, has_begun=has_begun)
    if isinstance(data, tf.data.Dataset):
        return encode_dataset(model, model.completed_dataset(data, is_training=False))
    examples = examples_of(model, *_validation_parts(model, data))
    return evaluation_data(model, examples, batch_size, steps)


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


def evaluation_data(
    model: Any, examples: Any, batch_size: int, steps: int | None = None
) -> tf.data.Dataset:
    """Returns the data set to evaluate examples from `examples_of`, sorted by length."""
    examples = [first_batches(part, batch_size, steps) for part in examples]
    # A loss that compares the examples of a batch depends on their number.
    any_shape = takes_any_shape(model) and not getattr(model, "compares_examples", False)
    rows, targets = rows_of(model, *examples)
    return model.completed(sorted_batches(rows, targets, batch_size, any_shape)[0])


def one_batch(model: Any, x: Any, y: Any, sample_weight: Any) -> tuple:
    """Returns (features, labels, weights) of a user's batch."""
    batch = batch_of(*rows_of(model, *examples_of(model, x, y, sample_weight)))
    data = model.completed(tf.data.Dataset.from_tensors(batch))
    batch = keras.tree.map_structure(np.asarray, next(iter(data)))
    return keras.utils.unpack_x_y_sample_weight(batch)


def are_symbolic_texts(model: Any, inputs: Any) -> bool:
    """Whether `inputs` are string tensors in a TensorFlow graph."""
    parts = tf.nest.flatten(inputs)
    is_input = any(isinstance(part, keras.KerasTensor) and part.dtype == "string" for part in parts)
    if not is_input and (tf.executing_eagerly() or not all(map(_is_string_tensor, parts))):
        return False
    if is_input or model.has_several_rows or keras.backend.backend() != "tensorflow":
        raise InputError(
            "the model cannot tokenize strings here: tokenize before, features = "
            f"model.tokenizer(texts, length={model.max_length}), and call model(features)."
        )
    return True


def _is_string_tensor(part):
    return tf.is_tensor(part) and part.dtype == tf.string


def scores_of_nothing(model: Any) -> Any:
    """Returns the scores of no texts, arrays with 0 rows."""
    # Not every layer accepts a batch of 0 rows.
    one = {
        name: tf.zeros([1, *(size or 2 for size in symbol.shape[1:])], symbol.dtype)
        for name, symbol in model.input.items()
    }
    outputs = model.scores(model(one, training=False))
    return keras.tree.map_structure(lambda scores: np.asarray(scores)[:0], outputs)


# === Data sets of texts ===


def encode_dataset(
    model: Any, dataset: tf.data.Dataset, with_labels: bool = True
) -> tf.data.Dataset:
    """Encodes the batches of a dataset for the model's network.

    Args:
        dataset: dataset of batches `(x, labels)` or `(x, labels, sample_weight)`, where x is a
            string tensor `[batch]`, a tuple of two, or a dict of features.
    """
    x, y, _ = _parts_of_batch(dataset.element_spec)
    with_labels = with_labels and (model.needs_labels or y is not None)
    _check_dataset(model, x, y, with_labels)

    @tf.autograph.experimental.do_not_convert
    def encode(x, y=None, *weights):
        if isinstance(x, dict):
            x = complete(x, model.tokenizer.pad_id, model.feature_names, model.config)
            check_ids(x, model.config)
        else:
            x = model.features_in_graph(x)
        if not with_labels:
            return x
        for weight in filter(tf.is_tensor, tf.nest.flatten(weights)):
            weight = tf.reshape(tf.cast(weight, tf.float32), [-1])
            is_right = (weight >= 0) & (weight <= MOST_WEIGHT)
            check_labels(is_right, weight, f"sample_weight must be from 0 to {MOST_WEIGHT:g}.")
        return (x, model.label_tensor(y), *weights)

    encoded = dataset.map(encode, num_parallel_calls=tf.data.AUTOTUNE)
    return without_autotuner(encoded.prefetch(tf.data.AUTOTUNE))


def _parts_of_batch(spec):
    """Splits a batch spec into (x, y or None, sample_weight or None)."""
    if isinstance(spec, tuple) and len(spec) > 3:
        raise InputError(
            f"a data set must yield (texts, labels) or (texts, labels, sample_weight). Received: "
            f"{len(spec)} parts"
        )
    x, y, weights = keras.utils.unpack_x_y_sample_weight(spec)
    if isinstance(x, dict) and any(part.dtype == tf.string for part in tf.nest.flatten(x)):
        texts = next((name for name, part in x.items() if _is_string(part)), "text")
        labels = next((name for name in x if str(name).lower() in NO_TEXTS), "label")
        part = f"row[{texts!r}]"
        line = f"lambda row, y: ({part}, y)"
        if y is None:
            line = f"lambda row: ({part}, row[{labels!r}])"
        raise InputError(
            f"the data set yields rows with the columns {listed(x)}: write data.map({line}), or "
            f"to predict data.map(lambda row: {part})."
        )
    return x, y, weights


def _check_dataset(model, x, y, with_labels):
    if model.has_several_rows and not isinstance(x, dict):
        raise InputError(
            "a data set of strings has one row per text, but windows and choices need several: "
            "pass a list of texts, or a data set of features."
        )
    for part in tf.nest.flatten(x):
        if isinstance(part, tf.RaggedTensorSpec):
            raise InputError("the data set yields ragged tensors: pad their rows with to_tensor().")
        if part.dtype == tf.string and part.shape.rank != model.text_rank:
            shape = "[batch]" if model.text_rank == 1 else "[batch, group]"
            raise InputError(
                f"a data set must yield batches of texts, string {shape}. Received: {part}"
            )
    if model.has_token_labels and isinstance(x, dict) and with_labels and y is not None:
        lengths = x["token_ids"].shape[-1], y.shape[1] if y.shape.rank else None
        if None not in lengths and lengths[0] != lengths[1]:
            raise InputError(
                f"labels must be as long as token_ids, {lengths[0]}. Received: {lengths[1]}"
            )
    if with_labels and y is None:
        raise InputError("the data set has no labels; it must yield (texts, labels).")
    if not with_labels and _is_string(x) and _is_string(y):
        raise InputError(
            "the data set yields (string, string), which is a text and its label; for pairs of "
            "segments it must yield ((first, second),)."
        )


def _is_string(spec):
    return isinstance(spec, tf.TensorSpec) and spec.dtype == tf.string
