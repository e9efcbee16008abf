"""Masked, packed batches from records, at any step of a run.

B is the batch, L the length of a row, E the examples of a row, P its prediction slots.
"""

from pathlib import Path

import numpy as np
import tensorflow as tf

from keras_bert_impl.errors import InputError
from keras_bert_impl.pretraining import masking, records
from keras_bert_impl.pretraining.random_bits import permutation, row_keys

_SHARD_ORDER, _ROW_ORDER, _MASKS = 1, 2, 3  # names of the random streams


def pretraining_dataset(
    directory,
    batch_size,
    seed=0,
    split="train",
    start_step=0,
    shard_index=0,
    num_shards=1,
    mask_rate=0.15,
    max_predictions=None,
    tokenizer=None,
):
    """Batches for pre-training, as `(features, labels, weights)` of static shape.

    | features, int32 | |
    |---|---|
    | token_ids, segment_ids, position_ids | [B, L]; positions restart with each example |
    | example_ids | [B, L], from 1; 0 is padding |
    | masked_positions | [B, P] |
    | cls_positions | [B, E], where each example begins |

    Labels are int32, weights float32 (0 at slots that are not used): `masked_lm` [B, P] and
    `next_sentence` [B, E]. With the objective "mlm" there is no `cls_positions` and no
    `next_sentence`.

    The train split has no end. In each epoch the shards come in a new order and the rows of each
    shard are shuffled, and the masks are new; epoch follows epoch without a gap, so a batch may
    hold the last rows of one and the first of the next, and no row is dropped. Where a run is
    depends on the number of its step alone: `start_step=k` gives the batches that a run from the
    start would see from step k on, at the cost of reading one shard. The held-out split is read
    once, in order, with the same masks each time; its last batch is filled with empty rows.

    Args:
        directory: str or `Path` of records that `prepare` has made.
        batch_size: int, rows of the global batch.
        seed: int.
        split: "train" or "held_out".
        start_step: int, steps done, for the train split.
        shard_index, num_shards: ints; input worker `shard_index` of `num_shards` gets its slice,
            of B = batch_size / num_shards rows, of each global batch.
        mask_rate: float, part of the tokens to predict.
        max_predictions: int, the most predictions of an example, or None for no limit.
        tokenizer: the tokenizer of the records; None takes the copy beside them.

    Returns:
        `tf.data.Dataset`. It shards itself: distribute it with
        `strategy.distribute_datasets_from_function`.

    Raises:
        InputError: records missing or damaged in size, an empty split, another tokenizer.
            Damage that only reading finds: see `records.clear_read_errors`.
        ValueError: arguments that do not go together.

    Example:
        dataset = pretraining_dataset("records", batch_size=256, start_step=checkpoint.step)
        features, labels, weights = next(iter(dataset))
    """
    if split not in records.SPLITS:
        raise ValueError(f"`split` must be one of {records.SPLITS}. Received: split={split!r}")
    if batch_size < 1 or batch_size % num_shards or not 0 <= shard_index < num_shards:
        raise ValueError(
            "`batch_size` must be a multiple of `num_shards`, and `shard_index` below that. "
            f"Received: batch_size={batch_size}, num_shards={num_shards}, shard_index={shard_index}"
        )
    if start_step < 0 or (start_step and split == "held_out"):
        raise ValueError(
            f"`start_step` is for the train split, from 0. Received: {start_step}, split={split!r}"
        )
    if not 0 < mask_rate < 1 or (max_predictions is not None and max_predictions < 1):
        raise ValueError(
            "`mask_rate` must be in (0, 1) and `max_predictions` at least 1. Received: "
            f"mask_rate={mask_rate}, max_predictions={max_predictions}"
        )
    manifest = records.read_manifest(directory)
    if not manifest["splits"][split]["rows"]:
        raise InputError(f"{directory} has no {split} rows; run prepare with held_out > 0.")
    tokenizer = _tokenizer(directory, manifest, tokenizer)
    batcher = _Batcher(manifest, tokenizer, seed, mask_rate, max_predictions)
    shards = _Shards(directory, manifest["splits"][split]["shards"], seed)
    if split == "train":
        rows = shards.rows_from(start_step * batch_size)
    else:
        rows = shards.rows_once()
    local = batch_size // num_shards

    @tf.autograph.experimental.do_not_convert
    def local_slice(serialized, epochs):
        serialized, epochs = _fill_up(serialized, epochs, batch_size, batcher.empty_row)
        mine = slice(shard_index * local, (shard_index + 1) * local)
        return batcher(tf.ensure_shape(serialized[mine], [local]), epochs[mine])

    dataset = rows.rebatch(batch_size).map(local_slice, num_parallel_calls=tf.data.AUTOTUNE)
    num_batches = tf.data.INFINITE_CARDINALITY
    if split == "held_out":
        num_batches = num_held_out_batches(manifest, batch_size)
    dataset = dataset.apply(tf.data.experimental.assert_cardinality(num_batches))
    options = tf.data.Options()
    options.deterministic = True
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return dataset.with_options(options).prefetch(tf.data.AUTOTUNE)


def num_held_out_batches(manifest, batch_size):
    """int. Batches of one pass over the held-out rows, the last of them filled up."""
    return -(-manifest["splits"]["held_out"]["rows"] // batch_size)


def _tokenizer(directory, manifest, tokenizer):
    if tokenizer is None:
        from keras_bert_impl.tokenizers import Tokenizer

        tokenizer = Tokenizer.from_pretrained(directory)
    records.check_tokenizer(manifest, tokenizer)
    return tokenizer


def _fill_up(serialized, epochs, batch_size, empty_row):
    """The last batch of a split that is read once has fewer rows: empty ones are added."""
    missing = batch_size - tf.shape(serialized)[0]
    serialized = tf.concat([serialized, tf.fill([missing], empty_row)], axis=0)
    return serialized, tf.pad(epochs, [[0, missing]])


class _Shards:
    """The shards of a split as one stream of (serialized rows [n], epochs [n]), a shard a time."""

    def __init__(self, directory, shards, seed):
        self._files = tf.constant([str(Path(directory) / shard["file"]) for shard in shards])
        self._rows = np.array([shard["rows"] for shard in shards], np.int64)
        self._seed = seed

    def rows_from(self, row):
        """Epoch after epoch for ever, from the `row`-th row of the whole stream on."""
        epoch, row = divmod(row, int(self._rows.sum()))
        ends = np.cumsum(self._rows[self._order(epoch).numpy()])
        whole_shards = int(np.searchsorted(ends, row, side="right"))
        offset = row - (int(ends[whole_shards - 1]) if whole_shards else 0)

        @tf.autograph.experimental.do_not_convert
        def visits(epoch):
            return tf.data.Dataset.from_tensor_slices(self._order(epoch)).map(
                lambda shard: (epoch, shard)
            )

        @tf.autograph.experimental.do_not_convert
        def load(visit, epoch_and_shard):
            epoch, shard = epoch_and_shard
            serialized = self._load(shard)
            order = permutation(
                row_keys(self._seed, _ROW_ORDER, epoch, shard), tf.size(serialized)
            )
            order = order[tf.where(visit == 0, offset, 0) :]
            return tf.gather(serialized, order), tf.fill([tf.size(order)], epoch)

        dataset = tf.data.Dataset.range(epoch, np.iinfo(np.int64).max).flat_map(visits)
        return dataset.skip(whole_shards).enumerate().map(load).prefetch(1)

    def rows_once(self):
        """Once, in the order in which they were written; the epoch is 0."""

        @tf.autograph.experimental.do_not_convert
        def load(shard):
            serialized = self._load(shard)
            return serialized, tf.zeros([tf.size(serialized)], tf.int64)

        return tf.data.Dataset.range(len(self._rows)).map(load).prefetch(1)

    def _order(self, epoch):
        return permutation(row_keys(self._seed, _SHARD_ORDER, epoch), len(self._rows))

    def _load(self, shard):
        """string [n]: a shard is small enough to be shuffled as a whole."""
        file, rows = self._files[shard], tf.constant(self._rows)[shard]
        dataset = tf.data.TFRecordDataset(file, compression_type="GZIP", buffer_size=1 << 20)
        serialized = dataset.batch(rows).get_single_element()
        with tf.control_dependencies(
            [tf.debugging.assert_equal(tf.size(serialized, tf.int64), rows, "rows are missing")]
        ):
            return tf.identity(serialized)


class _Batcher:
    """Serialized rows → (features, labels, weights), in graph."""

    def __init__(self, manifest, tokenizer, seed, mask_rate, max_predictions):
        settings = manifest["settings"]
        self._length = settings["length"]
        self._max_examples_per_row = settings["max_examples_per_row"]
        self._has_pairs = settings["objective"] == "mlm_nsp"
        self._num_examples = max(
            manifest["splits"][split]["examples_in_fullest_row"] for split in records.SPLITS
        )
        self._masking = {
            "seed": row_keys(seed, _MASKS),
            "mask_id": tokenizer.mask_id,
            "replacements": masking.replacement_ids(tokenizer),
            "slots": masking.num_slots(
                self._length, self._num_examples, mask_rate, max_predictions
            ),
            "mask_rate": mask_rate,
            "max_predictions": max_predictions,
        }
        none = [0] * self._max_examples_per_row
        self.empty_row = records.serialize_row(
            [tokenizer.pad_id] * self._length, none, none, none, row_id=0
        )

    def __call__(self, serialized, epochs):
        rows = records.parse_rows(serialized, self._length, self._max_examples_per_row)
        for name in ("example_lengths", "first_lengths", "next_sentence_labels"):
            rows[name] = rows[name][:, : self._num_examples]  # [B, E]
        rows |= _layout(rows["example_lengths"], rows["first_lengths"], self._length)
        token_ids, positions, masked_ids, weights = masking.mask_tokens(
            rows, epochs, **self._masking
        )
        features = {
            "token_ids": token_ids,
            "segment_ids": rows["segment_ids"],
            "position_ids": rows["position_ids"],
            "example_ids": rows["example_ids"],
            "masked_positions": positions,
        }
        labels, sample_weights = {"masked_lm": masked_ids}, {"masked_lm": weights}
        if self._has_pairs:
            is_example = rows["example_lengths"] > 0
            features["cls_positions"] = tf.where(is_example, rows["starts"], 0)
            labels["next_sentence"] = rows["next_sentence_labels"]
            sample_weights["next_sentence"] = tf.cast(is_example, tf.float32)
        return features, labels, sample_weights


def _layout(example_lengths, first_lengths, length):
    """Which example, position and segment each token of a packed row is: int32 [B, L] each, 0 at
    padding; and `starts`, [B, E]."""
    ends = tf.cumsum(example_lengths, axis=1)  # [B, E]
    starts = ends - example_lengths
    place = tf.range(length)[tf.newaxis, :, tf.newaxis]  # [1, L, 1]
    index = tf.reduce_sum(tf.cast(place >= ends[:, tf.newaxis], tf.int32), axis=2)  # [B, L]
    is_real = tf.cast(index < example_lengths.shape[1], tf.int32)

    def per_token(per_example):
        return tf.gather(tf.pad(per_example, [[0, 0], [0, 1]]), index, batch_dims=1)

    position_ids = (tf.range(length) - per_token(starts)) * is_real
    in_second = tf.cast(position_ids >= per_token(first_lengths), tf.int32)
    return {
        "example_ids": (index + 1) * is_real,
        "position_ids": position_ids,
        "segment_ids": in_second * is_real,
        "starts": starts,
    }
