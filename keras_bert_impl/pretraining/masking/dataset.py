"""Reads records and creates masked, packed batches, starting at any step of a run.

B is the batch size, L the sequence length, E the number of examples per row, P the number of
prediction slots per row.
"""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tensorflow as tf

from keras_bert_impl.pretraining.examples import records
from keras_bert_impl.pretraining.masking.masking import (
    Masking,
    mask_rows,
    per_token,
    replacement_ids,
)
from keras_bert_impl.pretraining.masking.units import permutation, row_keys
from keras_bert_impl.pretraining.objectives.base import ENCODER_FEATURES
from keras_bert_impl.pretraining.settings import (
    MASKED_OBJECTIVES,
    OBJECTIVES,
    PAIR_OBJECTIVES,
    RECORDS_OBJECTIVES,
)
from keras_bert_impl.tokenizers import Tokenizer
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.one_graph import without_autotuner
from keras_bert_impl.utils.settings import OneOf, PositiveInt, Range, check

_SHARD_ORDER, _ROW_ORDER, _MASKS = 1, 2, 3  # names of the random streams
# Number of rows that are shuffled together, equal to eight shards of the default size. See
# docs/decisions/reading-order.md.
SHUFFLED_ROWS = 262_144
Tensors = dict[str, tf.Tensor]
_OF_PAIRS = set(PAIR_OBJECTIVES)


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
    language_ids: bool = True,
) -> tf.data.Dataset:
    """Creates a dataset of pre-training batches, `(features, labels, weights)` with static shapes.

    | features, int32 | |
    |---|---|
    | token_ids, segment_ids, position_ids | [B, L]; positions restart at each example |
    | example_ids | [B, L], from 1; 0 at padding |
    | masked_positions | [B, P], for all objectives with masked tokens |
    | span_starts, span_ends | [B, P], first and last token of each masking unit, for \
    `span_boundary` |
    | replacement_draws | [B, P], random numbers for `replaced_token` |
    | cls_positions | [B, E], start of each example, for segment pairs |

    `labels` and `weights` are dicts from objective names to tensors. Labels are int32.
    Weights are float32, with 0 in unused slots. The shapes are [B, P] for `masked_lm` and
    `span_boundary`, [B, E] for `next_sentence` and `sentence_order`, and [B, L] for
    `left_to_right`, which masks no tokens. `replaced_token` uses the key `masked_lm`.

    The dataset of the train split is infinite. Each epoch shuffles the order of the shards, then
    262,144 rows at a time, and draws new masks. A batch may contain rows from two epochs, so no row
    is dropped. To continue an interrupted run at step k, pass `start_row=k * batch_size`. The
    held-out split is read once, in order, with fixed masks. The last batch of the held-out split is
    padded with empty rows.

    Args:
        directory: Folder of records from `prepare`. For a bucket, a str such as
            `gs://bucket/records`.
        batch_size: Global batch size in rows.
        split: `"train"` or `"held_out"`.
        start_row: Number of rows already read; only for the train split.
        shard_index, num_shards: Index and number of input pipelines. Each pipeline returns B =
            batch_size / num_shards rows of each global batch.
        objectives: Names of the pre-training objectives. None means the objectives for which the
            records were prepared.
        tokenizer: The tokenizer of the records. None loads it from the folder of the records.
        language_ids: Whether the segment ids of `"tlm"` records are the indices of the languages.
            If False, all segment ids are 0, as required by models with only one segment id.
        input_workers: Machines running `keras-bert input-worker`, such as `"grpc://host:5050"`, for
            the train split. The batches are the same as without input workers. Every machine must
            have the records at the same path.

    Returns:
        A `tf.data.Dataset` with automatic sharding turned off. To train on several replicas, pass
        `shard_index` and `num_shards`, and use `strategy.distribute_datasets_from_function`.

    Raises:
        InputError: Arguments are invalid, records are missing or have the wrong size, the split is
            empty, the tokenizer does not match the records, the records have no labels for an
            objective, or an input worker does not respond.
        tf.errors.OpError: While iterating: a shard is damaged, but has the expected size.

    Example:
        from keras_bert_impl.pretraining import pretraining_dataset
        dataset = pretraining_dataset("records", batch_size=256, start_row=256 * steps)
        features, labels, weights = next(iter(dataset))
    """
    split = check("split", split, Annotated[str, OneOf(*records.SPLITS)])
    num_shards = check("num_shards", num_shards, PositiveInt)
    shard_index = check(
        "shard_index", shard_index, Annotated[int, Range(least=0, below=num_shards)]
    )
    batch_size = check("batch_size", batch_size, PositiveInt)
    start_row = check("start_row", start_row, Annotated[int, Range(least=0, most=1 << 62)])
    if batch_size % num_shards:
        raise InputError(
            "batch_size must be a multiple of num_shards. "
            f"Received: batch_size={batch_size}, num_shards={num_shards}"
        )
    if split == "held_out" and (start_row or input_workers):
        raise InputError("start_row and input_workers are only for the train split.")
    manifest = records.read_manifest(directory)
    if not manifest["splits"][split]["rows"]:
        raise InputError(f"{directory} has no {split} rows; run prepare with held_out > 0.")
    if tokenizer is None:
        tokenizer = records.read_tokenizer(directory)
    records.check_tokenizer(manifest, tokenizer)
    objectives = checked_objectives(manifest, objectives)
    key = row_keys(seed, _MASKS)
    batcher = Batcher(manifest, tokenizer, key, objectives, masking, language_ids)
    shards = _Shards(directory, manifest["splits"][split]["shards"], seed)
    rows = shards.rows_from(start_row) if split == "train" else shards.rows_once()
    local = batch_size // num_shards

    @tf.autograph.experimental.do_not_convert
    def slice_batch(serialized, epochs):
        serialized, epochs = _fill_up(serialized, epochs, batch_size, batcher.empty_row)
        mine = slice(shard_index * local, (shard_index + 1) * local)
        return batcher(tf.ensure_shape(serialized[mine], [local]), epochs[mine])

    def take_every(count, first):
        """Returns every `count`-th batch, starting with batch number `first`."""
        batches = rows.rebatch(batch_size).shard(count, first)
        return batches.map(slice_batch, num_parallel_calls=tf.data.AUTOTUNE)

    if input_workers:
        from keras_bert_impl.pretraining.input_workers import from_input_workers

        dataset = from_input_workers(take_every, input_workers)
    else:
        dataset = take_every(1, 0)
    num_batches = tf.data.INFINITE_CARDINALITY
    if split == "held_out":
        num_batches = num_held_out_batches(manifest, batch_size)
    dataset = dataset.apply(tf.data.experimental.assert_cardinality(num_batches))
    options = tf.data.Options()
    options.deterministic = True
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return without_autotuner(dataset.with_options(options).prefetch(tf.data.AUTOTUNE))


def num_held_out_batches(manifest: dict[str, Any], batch_size: int) -> int:
    """Returns the number of batches of the held-out split, including a padded last batch."""
    return -(-manifest["splits"]["held_out"]["rows"] // batch_size)


def _fill_up(serialized, epochs, batch_size, empty_row):
    missing = batch_size - tf.shape(serialized)[0]
    serialized = tf.concat([serialized, tf.fill([missing], empty_row)], axis=0)
    return serialized, tf.pad(epochs, [[0, missing]])


class _Shards:
    """Creates datasets of (serialized rows [n], epoch of each row [n]) from shards."""

    def __init__(self, directory: str | Path, shards: Sequence[dict[str, Any]], seed: int) -> None:
        directory = records.absolute(directory)  # for input workers in other folders
        self._files = tf.constant([os.path.join(directory, shard["file"]) for shard in shards])
        self._rows = np.array([shard["rows"] for shard in shards], np.int64)
        self._group = max(1, SHUFFLED_ROWS // int(self._rows.max(initial=1)))  # shards
        self._seed = seed

    def rows_from(self, row: int) -> tf.data.Dataset:
        """Returns an infinite dataset of shuffled rows that skips the first `row` rows."""
        epoch, row = divmod(row, int(self._rows.sum()))
        starts = np.arange(0, len(self._rows), self._group)
        ends = np.cumsum(np.add.reduceat(self._rows[self._order(epoch).numpy()], starts))
        whole_groups = int(np.searchsorted(ends, row, side="right"))
        offset = row - (int(ends[whole_groups - 1]) if whole_groups else 0)

        @tf.autograph.experimental.do_not_convert
        def list_groups(epoch):
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

        dataset = tf.data.Dataset.range(epoch, np.iinfo(np.int64).max).flat_map(list_groups)
        return dataset.skip(whole_groups).enumerate().map(load).prefetch(1)

    def rows_once(self) -> tf.data.Dataset:
        """Returns a dataset that reads each row once, in the order on disk. The epoch is 0."""

        @tf.autograph.experimental.do_not_convert
        def load(shard):
            serialized = self._load(shard[tf.newaxis])
            return serialized, tf.zeros([tf.size(serialized)], tf.int64)

        return tf.data.Dataset.range(len(self._rows)).map(load).prefetch(1)

    def _order(self, epoch):
        return permutation(row_keys(self._seed, _SHARD_ORDER, epoch), len(self._rows))

    def _load(self, shards):
        """Reads all rows of several shards: string [n]."""
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


def checked_objectives(
    manifest: dict[str, Any], objectives: Sequence[str] | None = None
) -> tuple[str, ...]:
    """Validates the names of objectives against the labels in the records; returns the names."""
    made_for = RECORDS_OBJECTIVES[manifest["settings"]["objective"]]
    if objectives is None:
        objectives = made_for
    if not objectives or not set(objectives) <= set(OBJECTIVES):
        names = ", ".join(sorted(OBJECTIVES))
        raise InputError(f"objectives must be among {names}. Received: {list(objectives)}")
    missing = sorted((set(objectives) & _OF_PAIRS) - set(made_for))
    if missing:
        raise InputError(
            f"the records have no labels for {', '.join(missing)}, only for "
            f"{', '.join(made_for)}. Run prepare with another --objective."
        )
    if set(objectives) & _OF_PAIRS:
        records.check_pair_labels(manifest, "train")
    return tuple(objectives)


class Batcher:
    """Converts serialized rows to (features, labels, weights) in a graph."""

    def __init__(
        self,
        manifest: dict[str, Any],
        tokenizer: Tokenizer,
        key: tf.Tensor,
        objectives: Iterable[str],
        masking: Masking,
        language_ids: bool = True,
    ) -> None:
        settings = manifest["settings"]
        self._num_languages = len(settings.get("languages", ()))
        self._language_ids = language_ids
        self._length = settings["length"]
        self._manifest = manifest
        self._objectives = set(objectives)
        self._num_examples = max(
            manifest["splits"][split]["examples_in_fullest_row"] for split in records.SPLITS
        )
        self._tokenizer = tokenizer
        replacements = replacement_ids(tokenizer)
        if not replacements:
            raise InputError("the vocabulary has only special tokens, so nothing can be masked.")
        self._masking = {
            "seed": key,
            "masking": masking,
            "mask_id": tokenizer.mask_id,
            "replacements": replacements,
            "slots": masking.num_slots(self._length, self._num_examples),
        }
        none = np.zeros((1, settings["max_examples_per_row"]), np.int32)
        empty = dict.fromkeys(records.PER_EXAMPLE, none)
        empty["token_ids"] = np.full((1, self._length), tokenizer.pad_id, np.int32)
        num_ids = records.num_ids(tokenizer.vocabulary_size, settings.get("segmented", False))
        (self.empty_row,) = records.serialize_rows(empty, num_ids, first_id=0)

    def __call__(
        self, serialized: tf.Tensor, epochs: tf.Tensor
    ) -> tuple[Tensors, Tensors, Tensors]:
        rows = records.parse_rows(serialized, self._manifest)
        for name in records.PER_EXAMPLE:
            rows[name] = rows[name][:, : self._num_examples]  # [B, E]
        rows |= layout(
            rows["example_lengths"],
            rows["first_lengths"],
            self._length,
            self._tokenizer.segment_of_second,
        )
        features = {name: rows[name] for name in ENCODER_FEATURES}
        if self._num_languages:
            features |= self._build_translation_features(rows)
        labeled: dict[str, tuple] = {}  # objective -> (labels, whether each label is used)
        if self._objectives & set(MASKED_OBJECTIVES):
            self._mask(rows, epochs, features, labeled)
        for name in self._objectives & _OF_PAIRS:
            is_example = rows["example_lengths"] > 0
            features["cls_positions"] = tf.where(is_example, rows["starts"], 0)
            labeled[name] = rows["pair_labels"], is_example
        if "left_to_right" in self._objectives:
            labeled["left_to_right"] = _label_next_tokens(rows)
        labels = {name: ids for name, (ids, _) in labeled.items()}
        weights = {name: tf.cast(there, tf.float32) for name, (_, there) in labeled.items()}
        return features, labels, weights

    def _build_translation_features(self, rows):
        """Returns position ids that restart at each sentence, and languages as segment ids."""
        example_ids, position_ids = rows["example_ids"], rows["position_ids"]
        first_lengths = per_token(rows["first_lengths"], example_ids)
        languages = per_token(rows["pair_labels"], example_ids)
        is_first = position_ids < first_lengths
        features = {"position_ids": position_ids - tf.where(is_first, 0, first_lengths)}
        count = self._num_languages
        languages = tf.where(is_first, languages // count, languages % count)
        return features | {"segment_ids": languages * int(self._language_ids)}

    def _mask(self, rows, epochs, features, labeled):
        is_word_start = None
        if self._masking["masking"].unit != "token":
            is_word_start = self._tokenizer.word_starts(rows["token_ids"])
            if "inside_word" in rows:
                is_word_start &= ~rows["inside_word"]
        masked = mask_rows(rows, epochs, is_word_start=is_word_start, **self._masking)
        features |= {"token_ids": masked.token_ids, "masked_positions": masked.positions}
        hidden = masked.ids, masked.weights
        if self._objectives & {"masked_lm", "replaced_token", "distillation"}:
            labeled["masked_lm"] = hidden
        if "span_boundary" in self._objectives:
            labeled["span_boundary"] = hidden
            features |= {"span_starts": masked.span_starts, "span_ends": masked.span_ends}
        if "replaced_token" in self._objectives:
            features["replacement_draws"] = masked.draws


def _label_next_tokens(rows):
    """Returns the labels of `left_to_right` and whether each label is used."""

    def move_left(values):
        return tf.pad(values[:, 1:], [[0, 0], [0, 1]])

    example_ids = rows["example_ids"]
    there = (example_ids > 0) & (move_left(example_ids) == example_ids)
    return tf.where(there, move_left(rows["token_ids"]), 0), there


def layout(
    example_lengths: tf.Tensor, first_lengths: tf.Tensor, length: int, segment_of_second: int = 1
) -> Tensors:
    """Computes the example, position and segment of each token of packed rows."""
    ends = tf.cumsum(example_lengths, axis=1)  # [B, E]
    starts = ends - example_lengths
    place = tf.range(length)[tf.newaxis, :, tf.newaxis]  # [1, L, 1]
    index = tf.reduce_sum(tf.cast(place >= ends[:, tf.newaxis], tf.int32), axis=2)  # [B, L]
    is_real = tf.cast(index < example_lengths.shape[1], tf.int32)
    example_ids = (index + 1) * is_real
    position_ids = (tf.range(length) - per_token(starts, example_ids)) * is_real
    is_second = tf.cast(position_ids >= per_token(first_lengths, example_ids), tf.int32)
    return {
        "example_ids": example_ids,
        "position_ids": position_ids,
        "segment_ids": segment_of_second * is_second * is_real,
        "starts": starts,
    }
