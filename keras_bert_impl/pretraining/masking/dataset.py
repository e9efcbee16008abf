"""Masked, packed batches from records, starting at any step of a run.

B is the batch size, L the row length, E the examples per row, P the prediction slots per row.
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.pretraining.examples import records
from keras_bert_impl.pretraining.input_worker_watch import connect
from keras_bert_impl.pretraining.masking.batches import Batcher, checked_objectives
from keras_bert_impl.pretraining.masking.masking import Masking
from keras_bert_impl.pretraining.masking.random_bits import permutation, row_keys
from keras_bert_impl.tokenizers import Tokenizer
from keras_bert_impl.training.steps.data_options import without_autotuner

_SHARD_ORDER, _ROW_ORDER, _MASKS = 1, 2, 3  # names of the random streams
# Rows that are shuffled together, so that a batch has rows of several shards: eight of the default
# size. See docs/decisions/reading-order.md.
SHUFFLED_ROWS = 262_144


def pretraining_dataset(
    directory: str | Path,
    batch_size: int,
    seed: int = 0,
    split: str = "train",
    start_row: int = 0,
    shard_index: int = 0,
    num_shards: int = 1,
    objectives: Sequence[str] | None = None,
    masking: Masking = Masking(),
    tokenizer: Tokenizer | None = None,
    input_workers: Sequence[str] = (),
) -> tf.data.Dataset:
    """Creates a dataset of pre-training batches: `(features, labels, weights)` of static shape.

    | features, int32 | |
    |---|---|
    | token_ids, segment_ids, position_ids | [B, L]; positions restart with each example |
    | example_ids | [B, L], from 1; 0 is padding |
    | masked_positions | [B, P], for all objectives on masked tokens |
    | span_starts, span_ends | [B, P], first and last token of the masking unit, for \
    `span_boundary` |
    | replacement_draws | [B, P], random numbers for `replaced_token` |
    | cls_positions | [B, E], start of each example, for segment pairs |

    Labels are int32 and weights float32 (0 at unused slots), by objective name: `masked_lm` and
    `span_boundary` [B, P]; `next_sentence` or `sentence_order` [B, E]; `left_to_right` [B, L], for
    which nothing is masked. `replaced_token` uses those of `masked_lm`.

    The train split is infinite. In each epoch the shards are reordered, the rows of several shards
    are shuffled together, 262,144 at a time, and the masks are new. Epochs follow one another
    without a gap, so that a batch may span two epochs and no row is dropped. The state of a run is
    determined by the number of rows read: `start_row=k * batch_size` gives the batches of an
    uninterrupted run from step k on, at the cost of reading these shards. The held-out split is
    read once, in order, with the same masks each time; its last batch is padded with empty rows.

    Args:
        directory: Records written by `prepare`, or str of a copy on a bucket.
        batch_size: Rows of the global batch.
        split: `"train"` or `"held_out"`.
        start_row: Number of rows already read; train split only.
        shard_index, num_shards: Input worker `shard_index` of `num_shards` gets its slice of each
            global batch, B = batch_size / num_shards rows.
        objectives: names of the pre-training objectives; None for those that the records were
            prepared for.
        tokenizer: the tokenizer of the records; None loads the copy beside them.
        input_workers: Machines running `keras-bert input-worker`, such as `"grpc://host:5050"`, for
            the train split. They make the batches in turn, with the same content and order as
            without them, and need the records under the same path.

    Returns:
        It shards itself: distribute it with `strategy.distribute_datasets_from_function`.

    Raises:
        InputError: records are missing or have the wrong size, the split is empty, the tokenizer is
            another one, the records have no labels for an objective, or an input worker does not
            answer. For damage found only when reading, see `records.clear_read_errors`.
        ValueError: arguments are invalid or inconsistent.

    Example:
        from keras_bert_impl.pretraining import pretraining_dataset
        dataset = pretraining_dataset("records", batch_size=256, start_row=256 * steps)
        features, labels, weights = next(iter(dataset))
    """
    if split not in records.SPLITS:
        raise ValueError(f"`split` must be one of {records.SPLITS}. Received: split={split!r}")
    if batch_size < 1 or batch_size % num_shards or not 0 <= shard_index < num_shards:
        raise ValueError(
            "`batch_size` must be a multiple of `num_shards`, and `shard_index` less than it. "
            f"Received: batch_size={batch_size}, num_shards={num_shards}, shard_index={shard_index}"
        )
    if start_row < 0 or (start_row and split == "held_out"):
        raise ValueError(
            "`start_row` must not be negative, and must be 0 for the held-out split. "
            f"Received: start_row={start_row}, split={split!r}"
        )
    if input_workers and split == "held_out":
        raise ValueError("`input_workers` are only for the train split.")
    manifest = records.read_manifest(directory)
    if not manifest["splits"][split]["rows"]:
        raise InputError(f"{directory} has no {split} rows; run prepare with held_out > 0.")
    if tokenizer is None:
        tokenizer = records.read_tokenizer(directory)
    records.check_tokenizer(manifest, tokenizer)
    objectives = checked_objectives(manifest, objectives)
    batcher = Batcher(manifest, tokenizer, row_keys(seed, _MASKS), objectives, masking)
    shards = _Shards(directory, manifest["splits"][split]["shards"], seed)
    rows = shards.rows_from(start_row) if split == "train" else shards.rows_once()
    local = batch_size // num_shards

    @tf.autograph.experimental.do_not_convert
    def local_slice(serialized, epochs):
        serialized, epochs = _fill_up(serialized, epochs, batch_size, batcher.empty_row)
        mine = slice(shard_index * local, (shard_index + 1) * local)
        return batcher(tf.ensure_shape(serialized[mine], [local]), epochs[mine])

    def every(count, first):
        """Returns every `count`-th batch, starting at index `first`."""
        batches = rows.rebatch(batch_size).shard(count, first)
        return batches.map(local_slice, num_parallel_calls=tf.data.AUTOTUNE)

    dataset = from_input_workers(every, input_workers) if input_workers else every(1, 0)
    num_batches = tf.data.INFINITE_CARDINALITY
    if split == "held_out":
        num_batches = num_held_out_batches(manifest, batch_size)
    dataset = dataset.apply(tf.data.experimental.assert_cardinality(num_batches))
    options = tf.data.Options()
    options.deterministic = True
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return without_autotuner(dataset.with_options(options).prefetch(tf.data.AUTOTUNE))


def from_input_workers(
    every: Callable[[int, int], tf.data.Dataset], addresses: Sequence[str]
) -> tf.data.Dataset:
    """Returns the batches in order, made by the input workers in turn."""
    for address in addresses:
        try:
            connect(address, timeout=10)  # TensorFlow would wait for an hour
        except OSError as error:
            raise InputError(
                f"no input worker answers at {address} ({error}). Start it with `keras-bert "
                "input-worker`."
            ) from error
    parts = [
        every(len(addresses), index).apply(
            tf.data.experimental.service.distribute("parallel_epochs", service=address)
        )
        for index, address in enumerate(addresses)
    ]
    turns = tf.data.Dataset.range(len(parts)).repeat()
    return tf.data.Dataset.choose_from_datasets(parts, turns, stop_on_empty_dataset=True)


def num_held_out_batches(manifest: dict[str, Any], batch_size: int) -> int:
    """Returns the batches of one pass over the held-out rows, including a padded last batch."""
    return -(-manifest["splits"]["held_out"]["rows"] // batch_size)


def _fill_up(serialized, epochs, batch_size, empty_row):
    """Pads the last batch of the held-out split with empty rows."""
    missing = batch_size - tf.shape(serialized)[0]
    serialized = tf.concat([serialized, tf.fill([missing], empty_row)], axis=0)
    return serialized, tf.pad(epochs, [[0, missing]])


class _Shards:
    """Stream of a split's (serialized rows [n], epochs [n]), a group of shards at a time."""

    def __init__(self, directory: str | Path, shards: Sequence[dict[str, Any]], seed: int) -> None:
        directory = records.absolute(directory)  # an input worker may run in another folder
        self._files = tf.constant([os.path.join(directory, shard["file"]) for shard in shards])
        self._rows = np.array([shard["rows"] for shard in shards], np.int64)
        self._group = max(1, SHUFFLED_ROWS // int(self._rows.max(initial=1)))  # shards
        self._seed = seed

    def rows_from(self, row: int) -> tf.data.Dataset:
        """Returns all epochs, without end, starting at row `row` of the stream."""
        epoch, row = divmod(row, int(self._rows.sum()))
        starts = np.arange(0, len(self._rows), self._group)
        ends = np.cumsum(np.add.reduceat(self._rows[self._order(epoch).numpy()], starts))
        whole_groups = int(np.searchsorted(ends, row, side="right"))
        offset = row - (int(ends[whole_groups - 1]) if whole_groups else 0)

        @tf.autograph.experimental.do_not_convert
        def visits(epoch):
            shards = tf.data.Dataset.from_tensor_slices(self._order(epoch))
            return shards.batch(self._group).map(lambda group: (epoch, group))

        @tf.autograph.experimental.do_not_convert
        def load(visit, epoch_and_group):
            epoch, group = epoch_and_group
            serialized = self._load(group)
            keys = row_keys(self._seed, _ROW_ORDER, epoch, group[0])
            order = permutation(keys, tf.size(serialized))
            order = order[tf.where(visit == 0, offset, 0) :]
            return tf.gather(serialized, order), tf.fill([tf.size(order)], epoch)

        dataset = tf.data.Dataset.range(epoch, np.iinfo(np.int64).max).flat_map(visits)
        return dataset.skip(whole_groups).enumerate().map(load).prefetch(1)

    def rows_once(self) -> tf.data.Dataset:
        """Returns one pass in written order, with epoch 0."""

        @tf.autograph.experimental.do_not_convert
        def load(shard):
            serialized = self._load(shard[tf.newaxis])
            return serialized, tf.zeros([tf.size(serialized)], tf.int64)

        return tf.data.Dataset.range(len(self._rows)).map(load).prefetch(1)

    def _order(self, epoch):
        return permutation(row_keys(self._seed, _SHARD_ORDER, epoch), len(self._rows))

    def _load(self, shards):
        """Reads whole shards, few enough to be shuffled in memory: string [n]."""
        files = tf.gather(self._files, shards)
        rows = tf.reduce_sum(tf.gather(tf.constant(self._rows), shards))
        dataset = tf.data.TFRecordDataset(files, compression_type="GZIP", buffer_size=1 << 20)
        serialized = dataset.batch(rows).get_single_element()
        with tf.control_dependencies(
            [
                tf.debugging.assert_equal(
                    tf.size(serialized, tf.int64), rows, records.ROWS_ARE_MISSING
                )
            ]
        ):
            return tf.identity(serialized)
