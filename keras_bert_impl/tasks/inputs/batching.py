"""Raw texts to batches of features whose rows are about equally long.

Shape legend: texts = examples of the whole set; rows = examples of one batch; length = tokens of a
row, padding included.
"""

import dataclasses
import functools

import numpy as np
import tensorflow as tf

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.tasks.data import user_input
from keras_bert_impl.tokenizers.texts import beginning
from keras_bert_impl.training.steps.data_options import without_autotuner

CHUNK = 1024  # texts tokenized at once, or as many as have
CHARACTERS = 1 << 20
# Batches in a window that is sorted by length: at most this number, and a share of an epoch, so
# that other texts are together in the next one; see docs/decisions/batches.md.
_MOST_IN_WINDOW, _LEAST_WINDOWS = 16, 4


@dataclasses.dataclass(frozen=True)
class FlatRows:
    """Rows of different lengths, one after the other, in as little memory as they need.

    Attributes:
        row_splits: int64 [texts + 1]: row i is from `row_splits[i]` to `row_splits[i + 1]`.
        widths: tuple of int, ascending: the lengths that a batch may be padded to.
    """

    row_splits: tf.Tensor
    widths: tuple

    @property
    def num_texts(self):
        """int."""
        return self.row_splits.shape[0] - 1

    @property
    def longest(self):
        """int. No row is longer."""
        return self.widths[-1]

    @property
    def lengths(self):
        """int32 [texts]: the length of each row."""
        return tf.cast(self.row_splits[1:] - self.row_splits[:-1], tf.int32)

    def places(self, rows):
        """Where the rows of a batch stand, in eager mode and in any graph.

        Args:
            rows: int64 [rows], numbers of texts.

        Returns:
            (flat, place, lengths): int64 [rows, length], places among all rows, 0 for padding;
            int32 [1, length], those in a row; int32 [rows, 1]. The length is the least of `widths`
            that holds the longest of these rows.
        """
        starts = tf.gather(self.row_splits, rows)[:, tf.newaxis]  # [rows, 1]
        lengths = tf.cast(tf.gather(self.row_splits, rows + 1)[:, tf.newaxis] - starts, tf.int32)
        place = tf.range(least_of(self.widths, tf.reduce_max(lengths)))[tf.newaxis, :]
        flat = tf.where(place < lengths, starts + tf.cast(place, tf.int64), 0)
        return flat, place, lengths


@dataclasses.dataclass(frozen=True)
class TokenizedTexts(FlatRows):
    """Texts as token ids, without padding.

    Attributes:
        token_ids: int32 [tokens], with the special tokens.
        second_starts: int32 [texts]: where in its row the second segment begins.
        pad_id: int.
    """

    token_ids: tf.Tensor
    second_starts: tf.Tensor
    pad_id: int

    def features(self, rows):
        """The features of a batch, in eager mode and in any graph.

        Args:
            rows: int64 [rows], numbers of texts.

        Returns:
            dict of int32 [rows, length]: `token_ids`, `segment_ids`, `padding_mask`; length is the
            least of `widths` that holds the longest of these texts.
        """
        flat, place, lengths = self.places(rows)
        is_real = place < lengths  # [rows, length]
        is_second = is_real & (place >= tf.gather(self.second_starts, rows)[:, tf.newaxis])
        features = {
            "token_ids": tf.where(is_real, tf.gather(self.token_ids, flat), self.pad_id),
            "segment_ids": tf.cast(is_second, tf.int32),
            "padding_mask": tf.cast(is_real, tf.int32),
        }
        shape = [None, static_size(self.widths)]
        return {name: tf.ensure_shape(f, shape) for name, f in features.items()}


def tokenize_texts(texts, tokenizer, max_length, widths=None, pack=None):
    """Tokenizes texts once, in graph, a chunk at a time.

    Args:
        texts: as `inputs.as_list` takes them.
        tokenizer: `Tokenizer`.
        max_length: int. Longer rows are cut, the longer segment first.
        widths: list of int, ascending: the lengths to pad batches to; default any up to
            `max_length`.
        pack: function of a list of texts that returns their features. Default: the tokenizer, with
            rows of `max_length`.

    Returns:
        `TokenizedTexts`.
    """
    texts = user_input.as_list(texts)
    pack = pack or functools.partial(_beginnings, tokenizer, max_length)
    chunks = [flat_rows(pack(chunk)) for _, chunk in chunks_of(texts)]
    return TokenizedTexts(**in_one(chunks), **padding(tokenizer, max_length, widths))


def chunks_of(texts, chunk=CHUNK, characters=CHARACTERS):
    """Splits texts into parts that are tokenized at once.

    Args:
        texts: list of str, bytes and pairs of those.
        chunk, characters: ints: a part ends with this many texts, or with the text with which it
            has this many characters.

    Yields:
        (int, list): the number of the first text; some texts. One empty list if there are none.
    """
    part, size, first = [], 0, 0
    for text in texts:
        part.append(text)
        size += sum(map(len, text)) if isinstance(text, tuple) else len(text)
        if len(part) == chunk or size >= characters:
            yield first, part
            first += len(part)
            part, size = [], 0
    if part or not first:
        yield first, part


def _beginnings(tokenizer, max_length, texts):
    """Features of texts; of a long one only the beginning is tokenized if that fills its row."""
    if not tokenizer.can_be_cut:
        return tokenizer(texts, length=max_length)
    cut = [beginning(text, max_length) if isinstance(text, str) else text for text in texts]
    features = tokenizer(cut, length=max_length)
    lengths = features["padding_mask"].numpy().sum(axis=1)
    for number, length in enumerate(lengths):
        if length < max_length and len(cut[number]) < len(texts[number]):
            return tokenizer(texts, length=max_length)
    return features


def flat_rows(features):
    """dict of numpy arrays of the rows of features: `token_ids` without padding, int32 [tokens];
    `lengths` and `second_starts`, int32 [rows]."""
    ids, segments, mask = (
        features[name].numpy() for name in ("token_ids", "segment_ids", "padding_mask")
    )
    lengths = mask.sum(axis=1, dtype=np.int32)
    second_starts = lengths - segments.sum(axis=1, dtype=np.int32)
    return {"token_ids": ids[mask == 1], "lengths": lengths, "second_starts": second_starts}


def in_one(chunks):
    """The fields of `TokenizedTexts` that hold rows, of a list of what `flat_rows` returned."""
    parts = {name: np.concatenate([chunk[name] for chunk in chunks]) for name in chunks[0]}
    parts["row_splits"] = splits_of(parts.pop("lengths"))
    # On the host: a pipeline reads them, whatever the device of the model.
    with tf.device("CPU:0"):
        return {name: tf.constant(part) for name, part in parts.items()}


def splits_of(lengths):
    """int64 array [rows + 1]: where each row begins, and the end."""
    return np.cumsum(np.concatenate([[0], lengths]), dtype=np.int64)


def padding(tokenizer, max_length, widths=None):
    """The fields of `TokenizedTexts` that say how rows are padded."""
    return {"pad_id": tokenizer.pad_id, "widths": tuple(widths or multiples(max_length, 1))}


def least_of(sizes, needed):
    """The least of some sizes, a list of int in ascending order, that is not below a number.

    Args:
        sizes: list of int.
        needed: int scalar tensor, of no more than the last.

    Returns:
        int32 scalar tensor.
    """
    sizes = tf.constant(sizes, tf.int32)
    return sizes[tf.searchsorted(sizes, tf.cast(needed, tf.int32)[tf.newaxis])[0]]


def static_size(sizes):
    """int of one size alone, which is a static shape, as a TPU needs it; else None."""
    return sizes[0] if len(sizes) == 1 else None


def multiples(max_length, of):
    """`[of, 2 * of, ..., max_length]`: little padding, many shapes."""
    return [*range(of, max_length, of), max_length]


def doublings(max_length, first=32):
    """`[32, 64, 128, ..., max_length]`: few shapes, for what compiles a program for each."""
    widths = [first << power for power in range(max_length) if first << power < max_length]
    return [*widths, max_length]


def training_batches(tokenized, targets, batch_size, seed, shuffle=True, first_batch=0):
    """An endless data set of batches, epoch after epoch, each a function of (seed, epoch).

    An epoch permutes the texts, cuts them into windows of a quarter of its batches, 16 at most,
    sorts each window by length, cuts it into batches and shuffles the batches: rows of a batch are
    about equally long, every text is seen once, and few texts are together again in the next epoch.

    Args:
        tokenized: `TokenizedTexts`.
        targets: tuple of arrays [texts, ...]: labels, and weights where there are any; or
            `tf.RaggedTensor`s [texts, (tokens)].
        batch_size: int. The last batch of an epoch's permutation may be smaller.
        seed: int.
        shuffle: bool. False keeps the given order.
        first_batch: int, or an int64 variable that is read when the data set is iterated. How many
            batches a resumed run has done.

    Returns:
        `tf.data.Dataset` of `(features, *targets)`, `num_batches(...)` of them an epoch.
    """
    per_epoch = num_batches(tokenized, batch_size)

    @tf.autograph.experimental.do_not_convert
    def epoch_of_batches(epoch):
        order = tf.range(tf.size(tokenized.lengths, tf.int64))
        batches = tf.range(per_epoch, dtype=tf.int64)
        if shuffle:
            order_seed, batches_seed = tf.unstack(_seeds(seed, epoch, 2))
            order = tf.random.experimental.stateless_shuffle(order, order_seed)
            window = batch_size * window_batches(per_epoch)
            order = _sorted_in_windows(order, tokenized.lengths, window)
            batches = tf.random.experimental.stateless_shuffle(batches, batches_seed)
        rows = tf.data.Dataset.from_tensor_slices(batches)
        return rows.map(lambda batch: order[batch * batch_size : (batch + 1) * batch_size])

    @tf.autograph.experimental.do_not_convert
    def batches(_):
        first = tf.cast(first_batch, tf.int64)
        epochs = tf.data.Dataset.range(first // per_epoch, np.iinfo(np.int64).max)
        return epochs.flat_map(epoch_of_batches).skip(first % per_epoch)

    rows = tf.data.Dataset.range(1).flat_map(batches)
    return _with_features(rows, tokenized, targets)


def sorted_batches(tokenized, targets, batch_size):
    """Batches of all texts, shortest first: hardly any padding.

    Args:
        tokenized: `TokenizedTexts`.
        targets: tuple of arrays [texts, ...], which may be empty.
        batch_size: int.

    Returns:
        (data set, order): batches of `(features, *targets)`; int64 array [texts], where row i of
        all batches came from.
    """
    order = np.argsort(tokenized.lengths.numpy(), kind="stable")
    rows = tf.data.Dataset.from_tensor_slices(order).batch(batch_size)
    return _with_features(rows, tokenized, targets), order


def split(examples, share):
    """The last `share` of the examples held out, as Keras's `validation_split` does it.

    Args:
        examples: tuple of sequences, or None, all of one length.
        share: float.

    Returns:
        (list of the parts that are kept, list of the parts that are held out).

    Raises:
        InputError: one of the two would be empty.
    """
    count = len(examples[0])
    kept = int(count * (1 - share))
    if not 0 < kept < count:
        raise InputError(f"validation_split={share} of {count} texts leaves a part without any.")
    return (
        [None if part is None else part[:kept] for part in examples],
        [None if part is None else part[kept:] for part in examples],
    )


def window_batches(per_epoch):
    """int. Batches of a window that is sorted by length.

    Args:
        per_epoch: int, batches of an epoch.
    """
    return max(1, min(_MOST_IN_WINDOW, per_epoch // _LEAST_WINDOWS))


def num_batches(tokenized, batch_size):
    """int. Batches of one pass over the texts."""
    return -(-tokenized.num_texts // batch_size)


def _seeds(seed, epoch, count):
    seeds = tf.stack([tf.constant(seed, tf.int64), epoch])
    return tf.random.experimental.stateless_split(seeds, count)  # [count, 2]


def _sorted_in_windows(order, lengths, window):
    # One sort by (window, length): the permutation has made a stable order a random one.
    longest = tf.cast(tf.reduce_max(lengths), tf.int64) + 1
    windows = tf.range(tf.size(order, tf.int64)) // window
    keys = windows * longest + tf.cast(tf.gather(lengths, order), tf.int64)
    return tf.gather(order, tf.argsort(keys, stable=True))


def _with_features(rows, tokenized, targets):
    with tf.device("CPU:0"):
        targets = tuple(tf.identity(target) for target in targets)

    @tf.autograph.experimental.do_not_convert
    def batch(numbers):
        return batch_of(tokenized, targets, numbers)

    # The order of batches is part of what a seed fixes.
    batches = rows.map(batch, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    return without_autotuner(batches.prefetch(tf.data.AUTOTUNE))


def batch_of(tokenized, targets, numbers=None):
    """(features, *targets) of a batch, in eager mode and in any graph.

    Args:
        tokenized, targets: as of `training_batches`.
        numbers: int64 [rows], numbers of texts; None for all.
    """
    if numbers is None:
        numbers = tf.range(tokenized.num_texts, dtype=tf.int64)
    features = tokenized.features(numbers)
    width = tf.shape(tf.nest.flatten(features)[0])[1]
    return (features, *(_rows_of(target, numbers, width) for target in targets))


def _rows_of(target, numbers, width):
    """The target of each row; one with a value for each token is padded with 0, as its row is."""
    rows = tf.gather(target, numbers)
    if isinstance(rows, tf.RaggedTensor):
        rows = rows.to_tensor(shape=tf.stack([-1, tf.cast(width, tf.int64)]))
    return rows
