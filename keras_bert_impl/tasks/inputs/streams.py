"""Converts batches from generators and other loaders to datasets of features."""

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.tasks.data import user_input
from keras_bert_impl.training.steps.data_options import without_autotuner


def gives_batches(x: Any) -> bool:
    """Whether `x` is an iterator, a `keras.utils.PyDataset` or PyTorch's `DataLoader`."""
    return user_input.is_stream(x) or isinstance(x, keras.utils.PyDataset) or _is_loader(x)


def is_endless(x: Any) -> bool:
    """Whether `x`, as `evaluate` and `predict` take it, is known to yield batches without end."""
    if isinstance(x, tf.data.Dataset):
        return int(x.cardinality()) == tf.data.INFINITE_CARDINALITY
    return isinstance(x, keras.utils.PyDataset) and x.num_batches is None


def _is_loader(x):
    return any(base.__module__.startswith("torch.utils.data.") for base in type(x).__mro__)


def text_batches(x: Any, steps: int | None = None, labels: Iterable[str] = ()) -> Iterator:
    """Yields the texts of each batch of `x`; labels are ignored."""
    labels = set(labels)
    for batch in itertools.islice(_epoch(x), steps):
        texts, second, _ = _parts(batch)
        are_texts = _are_texts(texts) and _are_texts(second)
        if are_texts and not set(user_input.values(second)) <= labels:
            raise InputError(
                "a batch is (texts, texts), which means texts and labels; pairs of segments must "
                "be ((first, second),)."
            )
        yield texts


def joined(parts: Iterable) -> Any:
    """Joins the return values of `predict` for each batch to one array or list."""
    parts = list(parts)
    if not parts:
        raise InputError("there are no batches to predict.")
    return np.concatenate(parts) if isinstance(parts[0], np.ndarray) else sum(parts, [])


def features_of_batches(
    encode: Callable[..., tuple],
    inputs: dict[str, Any],
    x: Any,
    seed: int = 0,
    shuffle: bool = False,
    has_begun: Callable[[], bool] = lambda: True,
) -> tf.data.Dataset:
    """Creates a `tf.data.Dataset` of features, labels and weights for the model's network."""
    epochs = itertools.count()
    if user_input.is_stream(x):
        first = next(x, None)
        if first is None:
            raise InputError(f"the {type(x).__name__} yields no batches.")
        x = itertools.chain([first], x)
    else:
        first = next(_epoch(x), None)
        if first is None:
            raise InputError(f"the {type(x).__name__} yields no batches.")

    def epoch():
        if has_begun():
            draw = np.random.default_rng((seed, next(epochs)))
            return _epoch(x, draw if shuffle else None)
        return [first] if count is None else _epoch(x)

    def batches():
        for number, batch in enumerate(epoch()):
            made = _encoded(encode, batch, number)
            if len(made) != len(spec):
                raise InputError(
                    f"batch {number} has {len(made)} parts, and the first one has {len(spec)}: "
                    "give all of them labels and sample_weight, or none."
                )
            yield made

    spec = tf.nest.map_structure(_spec, _encoded(encode, first, 0))
    spec[0].update({name: _shape_of(inputs[name]) for name in spec[0]})
    data = tf.data.Dataset.from_generator(batches, output_signature=spec)
    count = len(x) if _is_loader(x) and hasattr(x.dataset, "__len__") else None
    count = getattr(x, "num_batches", count)
    if count is not None:
        data = data.apply(tf.data.experimental.assert_cardinality(count))
    return without_autotuner(data.prefetch(tf.data.AUTOTUNE))


def _epoch(x, draw=None):
    """Iterates over the batches of `x`; `draw` is a numpy generator for a random order."""
    if user_input.is_stream(x):
        yield from x
        return
    if _is_loader(x):
        yield from map(_of_loader, x)
        return
    x.on_epoch_begin()
    numbers = itertools.count()
    if x.num_batches is not None:
        numbers = range(x.num_batches) if draw is None else draw.permutation(x.num_batches)
    for number in numbers:
        yield x[int(number)]
    x.on_epoch_end()


def _of_loader(batch):
    """Converts what PyTorch collates, tuples of str in lists, to lists of str in tuples."""
    if not isinstance(batch, (list, tuple)):
        return batch
    if all(isinstance(part, (str, bytes)) for part in batch):
        return list(batch)
    return tuple(map(_of_loader, batch))


def _parts(batch):
    """Splits a batch into (texts, labels or None, weights or None)."""
    if user_input.is_one_text(batch) and not isinstance(batch, tuple):
        raise InputError(
            f"expected batches. Received: one text, {batch!r:.40}. A generator must yield "
            "(texts, labels), two lists; pass single texts as a list."
        )
    if isinstance(batch, tuple):
        if not 1 <= len(batch) <= 3 or isinstance(batch[0], (str, bytes)):
            raise InputError(
                f"a batch must be (texts, labels) or (texts, labels, sample_weight), with lists. "
                f"Received: {batch!r:.60}"
            )
        return (*batch, None, None)[:3]
    return batch, None, None


def _are_texts(x):
    """bool. Whether `x` is a list of single texts."""
    try:
        return all(isinstance(text, (str, bytes)) for text in user_input.as_list(x))
    except InputError:
        return False


def _encoded(encode, batch, number):
    """Encodes a batch as (dict of features, targets ...) of numpy arrays."""
    try:
        made = encode(*_parts(batch))
    except InputError as error:
        raise InputError(f"batch {number}: {error}") from error
    return tf.nest.map_structure(np.asarray, made)


def _spec(array):
    shape = [None] * min(array.ndim, 2) + list(array.shape[2:])
    return tf.TensorSpec(shape, array.dtype)


def _shape_of(symbol):
    return tf.TensorSpec(symbol.shape, symbol.dtype)
