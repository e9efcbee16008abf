"""Records as a TensorFlow Datasets (TFDS) dataset."""

import functools
import hashlib
import json
import os
from pathlib import Path
from typing import Any

import tensorflow as tf
import tensorflow_datasets as tfds

from keras_bert_impl.pretraining.examples.records import (
    SPLITS,
    absolute,
    clear_read_errors,
    parse_rows,
    read_manifest,
)

_ROWS_AT_ONCE = 1024


class PretrainingRecords(tfds.core.GeneratorBasedBuilder):
    """TFDS builder for the unmasked rows of a `prepare` folder, stored as plain tensors."""

    VERSION = tfds.core.Version("1.0.0")
    # Otherwise TFDS 4.9.10 searches for checksums with importlib_resources, which TFDS does not
    # install.
    code_path = None

    def __init__(self, *, records: str | Path, **arguments: Any) -> None:
        self._records = absolute(records)
        self._manifest = read_manifest(self._records)
        # The name contains the manifest's hash, so TFDS does not reuse the data of other records.
        digest = hashlib.sha256(json.dumps(self._manifest).encode()).hexdigest()
        super().__init__(config=tfds.core.BuilderConfig(name=digest[:16]), **arguments)

    def _info(self):
        settings = self._manifest["settings"]
        per_example = tfds.features.Tensor(
            shape=(settings["max_examples_per_row"],), dtype=tf.int32
        )
        per_token = functools.partial(tfds.features.Tensor, shape=(settings["length"],))
        return tfds.core.DatasetInfo(
            builder=self,
            description=f"Rows for pre-training, prepared for {settings['objective']}.",
            features=tfds.features.FeaturesDict(
                {
                    "token_ids": per_token(dtype=tf.int32),
                    "example_lengths": per_example,
                    "first_lengths": per_example,
                    "pair_labels": per_example,
                    "row_id": tfds.features.Scalar(tf.int64),
                }
                | ({"inside_word": per_token(dtype=tf.bool)} if settings.get("segmented") else {})
            ),
        )

    def _split_generators(self, dl_manager):
        splits = (split for split in SPLITS if self._manifest["splits"][split]["rows"])
        return {split: self._generate_examples(split) for split in splits}

    def _generate_examples(self, split):
        shards = self._manifest["splits"][split]["shards"]
        files = [os.path.join(self._records, shard["file"]) for shard in shards]
        with clear_read_errors(self._records):
            for serialized in tf.data.TFRecordDataset(files, "GZIP").batch(_ROWS_AT_ONCE):
                rows = parse_rows(serialized, self._manifest)
                rows = {name: value.numpy() for name, value in rows.items()}
                for index, row_id in enumerate(rows["row_id"]):
                    yield int(row_id), {name: values[index] for name, values in rows.items()}
