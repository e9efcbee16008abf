"""Converts arguments of `fit`, `evaluate` and `predict` to examples or datasets of features."""

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_bert_impl.data.batches.batching import batch_of
from keras_bert_impl.data.tables import user_input
from keras_bert_impl.data.tables.label_checks import check_ids
from keras_bert_impl.data.tables.labels import MOST_WEIGHT, check_weights
from keras_bert_impl.tasks.base.feature_rows import CheckedExamples, FeatureRows, complete
from keras_bert_impl.utils.errors import InputError, listed
from keras_bert_impl.utils.one_graph import check_labels, without_autotuner
from keras_bert_impl.utils.settings import PositiveInt, check

DEFAULT_BATCH_SIZE = 32


def checked_sizes(batch_size: int | None, steps: int | None = None) -> tuple[int, int | None]:
    """Validates the sizes of batches, and names the arguments that are easily mistaken for them."""
    if hasattr(batch_size, "__len__"):
        raise InputError(
            f"batch_size must be an integer. Received: a {type(batch_size).__name__} of length "
            f"{len(batch_size)}. Pass text pairs as one argument, (first_texts, second_texts), and "
            "weights as sample_weight=..."
        )
    batch_size = check("batch_size", batch_size, PositiveInt | None)
    return batch_size or DEFAULT_BATCH_SIZE, check("steps", steps, PositiveInt | None)


def first_batches(x: Any, batch_size: int, steps: int | None) -> Any:
    return x if x is None or steps is None else x[: steps * batch_size]


# === Entry points ===


def read(
    model: Any,
    x: Any,
    y: Any = None,
    sample_weight: Any = None,
    is_training: bool = False,
    shuffle: bool = False,
    has_begun: Callable[[], bool] = lambda: True,
) -> CheckedExamples | tf.data.Dataset:
    """Reads data with labels.

    Args:
        shuffle, has_begun: see `_create_dataset`.

    Returns:
        `CheckedExamples` if `x` is in memory; a dataset of features and targets if `x` yields
        batches.
    """
    if not is_batched(x):
        return _make_examples(model, x, y, sample_weight)
    check_batches_alone(x, y=y, sample_weight=sample_weight)
    if gives_batches(x):
        x = _create_dataset(model, x, shuffle, has_begun)
    return encode_dataset(model, model.completed_dataset(x, is_training))


def read_texts(model: Any, x: Any) -> list | FeatureRows | tf.data.Dataset:
    if isinstance(x, tf.data.Dataset):
        return encode_dataset(model, x, with_labels=False)
    return _read_in_memory(model, x)


def _read_in_memory(model, x):
    x = user_input.from_columns(x, model.text_columns, model.most_columns)
    if isinstance(x, dict):
        return FeatureRows(completed_features(model, x))
    return model.checked_texts(x)


def read_validation(
    model: Any,
    data: Any,
    batch_size: int,
    steps: int | None = None,
    has_begun: Callable[[], bool] = lambda: True,
) -> tf.data.Dataset:
    x, y, weights = (data, None, None) if is_batched(data) else _unpack_validation(model, data)
    data = read(model, x, y, weights, has_begun=has_begun)
    is_in_memory = isinstance(data, CheckedExamples)
    return data.for_evaluation(model, batch_size, steps) if is_in_memory else data


def one_batch(model: Any, x: Any, y: Any, sample_weight: Any) -> tuple:
    batch = batch_of(*_make_examples(model, x, y, sample_weight).rows(model))
    data = model.completed(tf.data.Dataset.from_tensors(batch))
    batch = keras.tree.map_structure(np.asarray, next(iter(data)))
    return keras.utils.unpack_x_y_sample_weight(batch)


def completed_features(model: Any, features: dict[str, Any]) -> dict[str, Any]:
    return complete(features, model.tokenizer.pad_id, model.feature_names, model.config)


def _make_examples(model, x, y, sample_weight):
    texts = _read_in_memory(model, x)
    are_features = isinstance(texts, FeatureRows)
    if not len(texts):
        raise InputError("there are no texts to train or evaluate on.")
    if y is None and model.needs_labels:
        raise InputError("labels are missing. Pass y, or a tf.data.Dataset of (texts, labels).")
    labels = None if y is None else model.label_codec.encode(y, len(texts))
    if are_features and labels is not None:
        model.check_labels(labels, texts.arrays, sample_weight)
        labels = np.asarray(labels)
    if sample_weight is None:
        return CheckedExamples(texts, labels)
    if labels is None and not model.draws_labels:  # `fit` would use the weights as labels
        labels = np.zeros(len(texts), "float32")
    per_token = model.has_token_labels and are_features
    return CheckedExamples(texts, labels, check_weights(sample_weight, len(texts), per_token))


def _unpack_validation(model, data):
    """Unpacks validation data to (x, labels or None, weights or None)."""
    if isinstance(data, list) and not model.needs_labels:
        data = (data,)  # (x,), without labels
    if isinstance(data, (list, tuple)) and (
        not 1 <= len(data) <= 3 or user_input.is_one_text(data[0])
    ):
        raise InputError(
            "validation_data must be (texts, labels) or (texts, labels, sample_weight), or "
            f"batches of such tuples. Received: a {type(data).__name__} of length {len(data)}"
        )
    return keras.utils.unpack_x_y_sample_weight(data)


# === Datasets of batches ===


def encode_dataset(
    model: Any, dataset: tf.data.Dataset, with_labels: bool = True
) -> tf.data.Dataset:
    """Converts the texts and labels of a dataset to features and targets.

    Args:
        dataset: dataset of batches `(x, labels)` or `(x, labels, sample_weight)`, where x is a
            string tensor `[batch]`, a tuple of two string tensors, or a dict of features.
    """
    x, y, _ = _split_spec(dataset.element_spec)
    with_labels = with_labels and (model.needs_labels or y is not None)
    _check_texts(model, x)
    _check_has_labels(model, x, y, with_labels)

    @tf.autograph.experimental.do_not_convert
    def encode(x, y=None, *weights):
        if isinstance(x, dict):
            x = completed_features(model, x)
            check_ids(x, model.config)
        else:
            x = model.features_in_graph(x)
        if not with_labels:
            return x
        for weight in filter(tf.is_tensor, tf.nest.flatten(weights)):
            weight = tf.reshape(tf.cast(weight, tf.float32), [-1])
            is_right = (weight >= 0) & (weight <= MOST_WEIGHT)
            check_labels(is_right, weight, f"sample_weight must be from 0 to {MOST_WEIGHT:g}.")
        return (x, model.label_codec.tensor(y), *weights)

    encoded = dataset.map(encode, num_parallel_calls=tf.data.AUTOTUNE)
    return without_autotuner(encoded.prefetch(tf.data.AUTOTUNE))


def _split_spec(spec):
    """Splits a batch spec into (x, y or None, sample_weight or None)."""
    if isinstance(spec, tuple) and len(spec) > 3:
        raise InputError(
            "a dataset must yield (texts, labels) or (texts, labels, sample_weight). Received: "
            f"{len(spec)} elements"
        )
    x, y, weights = keras.utils.unpack_x_y_sample_weight(spec)
    if isinstance(x, dict) and any(part.dtype == tf.string for part in tf.nest.flatten(x)):
        strings = [name for name, part in x.items() if _is_string(part)]
        texts = [name for name in strings if user_input.names_texts(name)] or strings or ["text"]
        labels = next((name for name in user_input.LABELS if name in x), "label")
        parts = [f"row[{name!r}]" for name in texts[:2]]
        part = parts[0] if len(parts) == 1 else f"({', '.join(parts)})"
        line = f"lambda row, y: ({part}, y)"
        if y is None:
            line = f"lambda row: ({part}, row[{labels!r}])"
        raise InputError(
            f"the dataset yields rows with the columns {listed(x)}. Write data.map({line}), or "
            f"to predict data.map(lambda row: {part})."
        )
    return x, y, weights


def _check_texts(model, x):
    if model.has_several_rows and not isinstance(x, dict):
        raise InputError(
            "a dataset of strings has one row per text, but windows and choices require several "
            "rows. Pass a list of texts, or a dataset of features."
        )
    for part in tf.nest.flatten(x):
        if isinstance(part, tf.RaggedTensorSpec):
            raise InputError("the dataset yields ragged tensors. Pad their rows with to_tensor().")
        if part.dtype == tf.string and part.shape.rank != model.text_rank:
            shape = "[batch]" if model.text_rank == 1 else "[batch, group]"
            raise InputError(
                f"a dataset must yield batches of texts, string {shape}. Received: {part}"
            )


def _check_has_labels(model, x, y, with_labels):
    if with_labels and y is None:
        raise InputError("the dataset has no labels; it must yield (texts, labels).")
    if with_labels and model.has_token_labels and isinstance(x, dict):
        lengths = x["token_ids"].shape[-1], y.shape[1] if y.shape.rank else None
        if None not in lengths and lengths[0] != lengths[1]:
            raise InputError(
                f"labels must have the length of token_ids, {lengths[0]}. Received: {lengths[1]}"
            )
    if not with_labels and _is_string(x) and _is_string(y):
        raise InputError(
            "the dataset yields (string, string), a text and a label. For text pairs, yield "
            "((first, second),)."
        )


def _is_string(spec):
    return isinstance(spec, tf.TensorSpec) and spec.dtype == tf.string


# === Generators and data loaders ===


def is_batched(x: Any) -> bool:
    return isinstance(x, tf.data.Dataset) or gives_batches(x)


def gives_batches(x: Any) -> bool:
    return user_input.is_stream(x) or isinstance(x, keras.utils.PyDataset) or _is_loader(x)


def _is_loader(x):
    return any(base.__module__.startswith("torch.utils.data.") for base in type(x).__mro__)


def check_batches_alone(x: Any, **arguments: Any) -> None:
    """Raises if labels or weights are passed in addition to batches."""
    names = [name for name, value in arguments.items() if value is not None]
    if names:
        raise InputError(
            f"x is a {type(x).__name__}, whose batches contain labels and weights. Leave out "
            f"{listed(names)}, and yield batches of (texts, labels) or (texts, labels, "
            "sample_weight)."
        )


def check_ends(x: Any, steps: int | None, name: str) -> None:
    """Raises if `x` may yield infinitely many batches and `steps` is None."""
    is_endless = name == "validation_steps" and user_input.is_stream(x)
    if isinstance(x, tf.data.Dataset):
        is_endless = int(x.cardinality()) == tf.data.INFINITE_CARDINALITY
    if isinstance(x, keras.utils.PyDataset):
        is_endless = x.num_batches is None
    if steps is None and is_endless:
        raise InputError(
            f"the {type(x).__name__} may yield infinitely many batches. Pass {name}=..."
        )


def text_batches(x: Any, steps: int | None = None, labels: Iterable[str] = ()) -> Iterator:
    labels = set(labels)
    for batch in itertools.islice(_iterate_epoch(x), steps):
        texts, second, _ = _split_batch(batch)
        are_texts = _are_texts(texts) and _are_texts(second)
        if are_texts and not set(user_input.values(second)) <= labels:
            raise InputError(
                "a batch (texts, texts) is read as texts and labels. For text pairs, yield "
                "((first, second),)."
            )
        yield texts


def _create_dataset(model, x, shuffle, has_begun):
    """Creates a dataset of features, labels and weights from batches of texts.

    The first batch is read before training, to determine shapes. `has_begun` returns whether
    training has begun.
    """
    epochs, seed = itertools.count(), model.compile_arguments().get("seed", 0)
    is_stream = user_input.is_stream(x)
    first = next(x if is_stream else _iterate_epoch(x), None)
    if first is None:
        raise InputError(f"the {type(x).__name__} yields no batches.")
    count = len(x) if _is_loader(x) and hasattr(x.dataset, "__len__") else None
    count = getattr(x, "num_batches", count)
    if is_stream:
        x = itertools.chain([first], x)

    def start_epoch():
        if has_begun():
            draw = np.random.default_rng((seed, next(epochs)))
            return _iterate_epoch(x, draw if shuffle else None)
        return [first] if count is None else _iterate_epoch(x)

    def generate_batches():
        for number, batch in enumerate(start_epoch()):
            encoded = _encode_batch(model, batch, number)
            if len(encoded) != len(spec):
                raise InputError(
                    f"batch {number} has {len(encoded)} elements, but the first one has "
                    f"{len(spec)}: yield labels and sample_weight in all batches, or in none."
                )
            yield encoded

    def make_spec(array):
        shape = [None] * min(array.ndim, 2) + list(array.shape[2:])
        return tf.TensorSpec(shape, array.dtype)

    spec = tf.nest.map_structure(make_spec, _encode_batch(model, first, 0))
    for name in spec[0]:
        spec[0][name] = tf.TensorSpec(model.input[name].shape, model.input[name].dtype)
    data = tf.data.Dataset.from_generator(generate_batches, output_signature=spec)
    if count is not None:
        data = data.apply(tf.data.experimental.assert_cardinality(count))
    return without_autotuner(data.prefetch(tf.data.AUTOTUNE))


def _iterate_epoch(x, draw=None):
    """Yields the batches of an epoch; `draw` shuffles the batches of a `PyDataset`."""
    if user_input.is_stream(x):
        yield from x
        return
    if _is_loader(x):
        yield from map(_convert_loader_batch, x)
        return
    x.on_epoch_begin()
    numbers = itertools.count()
    if x.num_batches is not None:
        numbers = range(x.num_batches) if draw is None else draw.permutation(x.num_batches)
    for number in numbers:
        yield x[int(number)]
    x.on_epoch_end()


def _convert_loader_batch(batch):
    """Converts lists and tuples of str in a PyTorch batch to tuples of lists."""
    if not isinstance(batch, (list, tuple)):
        return batch
    if all(isinstance(part, (str, bytes)) for part in batch):
        return list(batch)
    return tuple(map(_convert_loader_batch, batch))


def _split_batch(batch):
    """Splits a batch into (texts, labels or None, weights or None)."""
    if user_input.is_one_text(batch) and not isinstance(batch, tuple):
        raise InputError(
            f"expected batches. Received: one text, {batch!r:.40}. A generator must yield "
            "(texts, labels), two lists; pass single texts as a list."
        )
    if isinstance(batch, tuple):
        if not 1 <= len(batch) <= 3 or isinstance(batch[0], (str, bytes)):
            raise InputError(
                "a batch must be (texts, labels) or (texts, labels, sample_weight), with lists. "
                f"Received: {batch!r:.60}"
            )
        return (*batch, None, None)[:3]
    return batch, None, None


def _are_texts(x):
    try:
        return all(isinstance(text, (str, bytes)) for text in user_input.as_list(x))
    except InputError:
        return False


def _encode_batch(model, batch, number):
    try:
        encoded = batch_of(*_make_examples(model, *_split_batch(batch)).rows(model))
    except InputError as error:
        raise InputError(f"batch {number}: {error}") from error
    return tf.nest.map_structure(np.asarray, encoded)
