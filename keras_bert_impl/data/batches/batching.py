"""Batches of features from raw texts; the texts of a batch have similar lengths.

Shape legend: texts = number of texts in the data; rows = number of texts in a batch; length =
sequence length, including padding.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_bert_impl.data.batches.blocks import blocks
from keras_bert_impl.tokenizers import Tokenizer
from keras_bert_impl.tokenizers.inputs import beginning
from keras_bert_impl.utils.one_graph import in_one_graph, without_autotuner

# Texts are sorted by length within windows. These are the maximum number of batches per window and
# the minimum number of windows per epoch; see docs/decisions/batches.md.
_MOST_IN_WINDOW, _LEAST_WINDOWS = 16, 4
# Overhead of a batch on a CPU, in tokens; see docs/decisions/mixed-lengths.md.
_TOKENS_OF_A_BATCH = 128


@dataclasses.dataclass(frozen=True)
class FlatRows:
    """Concatenated sequences of different lengths, without padding.

    Attributes:
        row_splits: int64 [texts + 1]. Text i has the tokens `row_splits[i]` to `row_splits[i + 1]`.
        widths: sequence lengths to which batches are padded, ascending.
    """

    row_splits: tf.Tensor
    widths: tuple

    @property
    def num_texts(self) -> int:
        return self.row_splits.shape[0] - 1

    @property
    def longest(self) -> int:
        """Upper limit of the lengths."""
        return self.widths[-1]

    @property
    def lengths(self) -> tf.Tensor:
        """Length of each text, int32 [texts]."""
        return tf.cast(self.row_splits[1:] - self.row_splits[:-1], tf.int32)

    def positions(self, rows: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Returns the token positions and the lengths of the texts in a batch.

        Args:
            rows: int64 [rows]. Indices of texts.

        Returns:
            `flat`, int64 [rows, length]: positions in the concatenated texts, 0 for padding;
            `place`, int32 [1, length]: positions in the sequence; `lengths`, int32 [rows, 1].
            `length` is the smallest value in `widths` that is at least the longest text length.
        """
        starts = tf.gather(self.row_splits, rows)[:, tf.newaxis]  # [rows, 1]
        lengths = tf.cast(tf.gather(self.row_splits, rows + 1)[:, tf.newaxis] - starts, tf.int32)
        place = tf.range(least_of(self.widths, tf.reduce_max(lengths)))[tf.newaxis, :]
        flat = tf.where(place < lengths, starts + tf.cast(place, tf.int64), 0)
        return flat, place, lengths


@dataclasses.dataclass(frozen=True)
class TokenizedTexts(FlatRows):
    """Token ids of texts, without padding.

    Attributes:
        token_ids: int32 [tokens], including the special tokens.
        second_starts: int32 [texts]. Position of the second segment in the sequence.
    """

    token_ids: tf.Tensor
    second_starts: tf.Tensor
    pad_id: int

    def features(self, rows: tf.Tensor) -> dict[str, tf.Tensor]:
        """Computes the features of a batch.

        Args:
            rows: int64 [rows]. Indices of texts.

        Returns:
            dict of int32 [rows, length]: `token_ids`, `segment_ids`, `padding_mask`.
        """
        tensors = self.row_splits, self.token_ids, self.second_starts, rows
        return _pad_rows(*tensors, widths=self.widths, pad_id=self.pad_id)


@in_one_graph
def _pad_rows(row_splits, token_ids, second_starts, rows, *, widths, pad_id):
    flat, place, lengths = FlatRows(row_splits, widths).positions(rows)
    is_real = place < lengths  # [rows, length]
    is_second = is_real & (place >= tf.gather(second_starts, rows)[:, tf.newaxis])
    features = {
        "token_ids": tf.where(is_real, tf.gather(token_ids, flat), pad_id),
        "segment_ids": tf.cast(is_second, tf.int32),
        "padding_mask": tf.cast(is_real, tf.int32),
    }
    shape = [None, static_size(widths)]
    return {name: tf.ensure_shape(f, shape) for name, f in features.items()}


def tokenize_texts(
    texts: list,
    tokenizer: Tokenizer,
    max_length: int,
    widths: list[int] | None = None,
    pack: Callable[[list], dict[str, tf.Tensor]] | None = None,
) -> TokenizedTexts:
    pack = pack or functools.partial(_tokenize_beginnings, tokenizer, max_length)
    chunks = [flat_rows(pack(block)) for block in blocks(texts)]
    return TokenizedTexts(**in_one(chunks), **padding(tokenizer, max_length, widths))


def _tokenize_beginnings(tokenizer, max_length, texts):
    if not tokenizer.can_be_cut:
        return tokenizer(texts, length=max_length)
    cut = [beginning(text, max_length) if isinstance(text, str) else text for text in texts]
    features = tokenizer(cut, length=max_length)
    lengths = features["padding_mask"].numpy().sum(axis=1)
    for number, length in enumerate(lengths):
        if length < max_length and len(cut[number]) < len(texts[number]):
            return tokenizer(texts, length=max_length)
    return features


def flat_rows(features: dict[str, tf.Tensor]) -> dict[str, np.ndarray]:
    """Removes the padding of features.

    Returns:
        dict of NumPy arrays: `token_ids`, int32 [tokens]; `lengths` and `second_starts`, int32
        [rows].
    """
    ids, segments, mask = (
        features[name].numpy() for name in ("token_ids", "segment_ids", "padding_mask")
    )
    lengths = mask.sum(axis=1, dtype=np.int32)
    second_starts = lengths - segments.sum(axis=1, dtype=np.int32)
    return {"token_ids": ids[mask == 1], "lengths": lengths, "second_starts": second_starts}


def in_one(chunks: list[dict[str, np.ndarray]]) -> dict[str, tf.Tensor]:
    """Concatenates dicts from `flat_rows`, and converts `lengths` to `row_splits`."""
    parts = {name: np.concatenate([chunk[name] for chunk in chunks]) for name in chunks[0]}
    parts["row_splits"] = splits_of(parts.pop("lengths"))
    # The input pipeline runs on the CPU.
    with tf.device("CPU:0"):
        return {name: tf.constant(part) for name, part in parts.items()}


def splits_of(lengths: Any) -> np.ndarray:
    return np.cumsum(np.concatenate([[0], lengths]), dtype=np.int64)


def padding(
    tokenizer: Tokenizer, max_length: int, widths: list[int] | None = None
) -> dict[str, Any]:
    return {"pad_id": tokenizer.pad_id, "widths": tuple(widths or multiples(max_length, 1))}


def least_of(sizes: Sequence[int], needed: tf.Tensor) -> tf.Tensor:
    """Returns the smallest of `sizes` that is at least `needed`."""
    sizes = tf.constant(sizes, tf.int32)
    return tf.gather(sizes, tf.math.count_nonzero(sizes < tf.cast(needed, tf.int32)))


def static_size(sizes: Sequence[int]) -> int | None:
    return sizes[0] if len(sizes) == 1 else None


def multiples(max_length: int, of: int) -> list[int]:
    return [*range(of, max_length, of), max_length]


def doublings(max_length: int, first: int = 32) -> list[int]:
    """Returns `[32, 64, 128, ..., max_length]`."""
    widths = [first << power for power in range(max_length) if first << power < max_length]
    return [*widths, max_length]


def widths(model: Any, longest: int) -> list[int]:
    if isinstance(model.distribute_strategy, tf.distribute.TPUStrategy):
        return [longest]
    if _is_compiled(model):
        return doublings(longest)
    # GPU tensor cores require multiples of 8.
    return multiples(longest, 1 if takes_any_shape(model) else 8)


def takes_any_shape(model: Any) -> bool:
    """Whether all batch shapes are efficient: only on a CPU without XLA compilation."""
    is_tpu = isinstance(model.distribute_strategy, tf.distribute.TPUStrategy)
    return not (_is_compiled(model) or is_tpu or tf.config.list_logical_devices("GPU"))


def _is_compiled(model):
    return keras.backend.backend() == "jax" or (model.compiled and model.jit_compile)


def training_batches(
    tokenized: Any,
    targets: tuple,
    batch_size: int,
    seed: int,
    shuffle: bool = True,
    first_batch: int | tf.Variable = 0,
    steps: int | None = None,
) -> tf.data.Dataset:
    """Creates a dataset of training batches; their order depends only on `seed` and the epoch.

    Args:
        targets: arrays or `tf.RaggedTensor`s [texts, ...]: labels and, if given, weights.
    """
    per_epoch = num_batches(tokenized, batch_size)
    steps = steps or per_epoch

    @tf.autograph.experimental.do_not_convert
    def build_epoch(epoch):
        order = tf.range(tf.size(tokenized.lengths, tf.int64))
        batches = tf.range(per_epoch, dtype=tf.int64)
        if shuffle:
            order_seed, batches_seed = tf.unstack(_split_seed(seed, epoch, 2))
            order = tf.random.experimental.stateless_shuffle(order, order_seed)
            window = batch_size * window_batches(per_epoch)
            order = _sort_in_windows(order, tokenized.lengths, window)
            batches = tf.random.experimental.stateless_shuffle(batches, batches_seed)
        rows = tf.data.Dataset.from_tensor_slices(batches)
        return rows.map(lambda batch: order[batch * batch_size : (batch + 1) * batch_size])

    @tf.autograph.experimental.do_not_convert
    def repeat_epochs(_):
        first = tf.cast(first_batch, tf.int64)
        epochs = tf.data.Dataset.range(first // per_epoch, np.iinfo(np.int64).max)
        return epochs.flat_map(build_epoch).skip(first % per_epoch)

    rows = tf.data.Dataset.range(1).flat_map(repeat_epochs).take(steps)
    rows = rows.apply(tf.data.experimental.assert_cardinality(steps))
    return with_features(rows, tokenized, targets)


def window_batches(per_epoch: int) -> int:
    """Returns the number of batches that are sorted together by length."""
    return max(1, min(_MOST_IN_WINDOW, per_epoch // _LEAST_WINDOWS))


def num_batches(tokenized: Any, batch_size: int) -> int:
    return -(-tokenized.num_texts // batch_size)


def _split_seed(seed, epoch, count):
    seeds = tf.stack([tf.constant(seed, tf.int64), epoch])
    return tf.random.experimental.stateless_split(seeds, count)  # [count, 2]


def _sort_in_windows(order, lengths, window):
    # Sort by (window, length). The sort is stable: equal lengths keep their random order.
    longest = tf.cast(tf.reduce_max(lengths), tf.int64) + 1
    windows = tf.range(tf.size(order, tf.int64)) // window
    keys = windows * longest + tf.cast(tf.gather(lengths, order), tf.int64)
    return tf.gather(order, tf.argsort(keys, stable=True))


def with_features(rows: tf.data.Dataset, tokenized: Any, targets: tuple) -> tf.data.Dataset:
    """Converts batches of text indices, int64 [rows], to batches of features and targets."""
    with tf.device("CPU:0"):
        targets = tuple(tf.identity(target) for target in targets)

    @tf.autograph.experimental.do_not_convert
    def batch(numbers):
        return batch_of(tokenized, targets, numbers)

    # Keeps the order that the seed determines.
    batches = rows.map(batch, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    return without_autotuner(batches.prefetch(tf.data.AUTOTUNE))


def batch_of(tokenized: Any, targets: tuple, numbers: tf.Tensor | None = None) -> tuple:
    """Returns the features and targets of a batch.

    Args:
        numbers: int64 [rows]. Indices of texts; None for all.
    """
    if numbers is None:
        numbers = tf.range(tokenized.num_texts, dtype=tf.int64)
    features = tokenized.features(numbers)
    width = tf.shape(tf.nest.flatten(features)[0])[1]
    return (features, *(_gather_rows(target, numbers, width) for target in targets))


def _gather_rows(target, numbers, width):
    rows = tf.gather(target, numbers)
    if isinstance(rows, tf.RaggedTensor):  # each token has a target; padding gets 0
        rows = rows.to_tensor(shape=tf.stack([-1, tf.cast(width, tf.int64), *rows.shape[2:]]))
    return rows


# === Batches sorted by length, for prediction and evaluation ===


def sorted_batches(
    tokenized: Any, targets: tuple, batch_size: int, any_shape: bool = False
) -> tuple[tf.data.Dataset, np.ndarray]:
    """Creates batches of all texts, sorted by length to reduce padding.

    Args:
        targets: tuple of arrays [texts, ...], may be empty.

    Returns:
        `dataset`, batches of `(features, *targets)`; and `order`, int64 array [texts]: the index of
        each text before sorting.
    """
    batches, order = _split_by_length(tokenized, batch_size, any_shape)
    sizes = np.array([len(batch) for batch in batches], "int64")
    ragged = tf.RaggedTensor.from_row_lengths(order, sizes)
    rows = tf.data.Dataset.from_tensor_slices(ragged)
    return with_features(rows, tokenized, targets), order


def list_of_batches(
    tokenized: Any, batch_size: int, any_shape: bool = False
) -> tuple[list[tuple], np.ndarray]:
    batches, order = _split_by_length(tokenized, batch_size, any_shape)
    return [batch_of(tokenized, (), tf.constant(batch)) for batch in batches], order


def _split_by_length(tokenized, batch_size, any_shape):
    lengths = tokenized.lengths.numpy()
    order = np.argsort(lengths, kind="stable")
    ends = np.arange(batch_size, len(order), batch_size)
    if any_shape:
        ends = _choose_ends(lengths[order], batch_size)
    return np.split(order, ends) if len(order) else [], order


def _choose_ends(lengths, batch_size):
    """Returns the indices at which texts, sorted by length, are split into batches.

    A text starts a new batch if the batch is full, or if padding the batch to the length of the
    text would take longer than another batch.
    """
    ends, start, total = [], 0, 0
    for end, length in enumerate(lengths.tolist()):
        size = end - start
        if size and (size == batch_size or size * length - total > _TOKENS_OF_A_BATCH):
            ends.append(end)
            start, total = end, 0
        total += length
    return ends
