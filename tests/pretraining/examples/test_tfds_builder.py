"""TensorFlow Datasets reads the records."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow_datasets as tfds

from keras_bert_impl.pretraining.examples import records
from keras_bert_impl.pretraining.examples.tfds_builder import PretrainingRecords
from keras_bert_impl.utils.errors import InputError
from tests.pretraining.corpus.test_preparation import each, read_rows


def by_id(rows):
    return {int(row["row_id"]): row for row in rows}


@pytest.fixture(scope="module")
def builder(records_directory, tmp_path_factory):
    builder = PretrainingRecords(
        records=records_directory, data_dir=tmp_path_factory.mktemp("tfds")
    )
    builder.download_and_prepare()
    return builder


def test_every_row_once(builder, records_directory):
    manifest = records.read_manifest(records_directory)
    # Also reads from the directory alone, as a program without this class does.
    of_directory = tfds.builder_from_directory(builder.data_dir)
    for split in records.SPLITS:
        expected = by_id(each(read_rows(records_directory, split)))
        for reader in (builder, of_directory):
            assert reader.info.splits[split].num_examples == manifest["splits"][split]["rows"]
            rows = list(tfds.as_numpy(reader.as_dataset(split=split)))
            assert len(rows) == len(expected) == len(by_id(rows))
            for number, row in by_id(rows).items():
                assert row.keys() == expected[number].keys()
                for name, value in row.items():
                    assert value.dtype == expected[number][name].dtype
                    np.testing.assert_array_equal(value, expected[number][name])


def test_by_name(builder, records_directory):
    rows = tfds.load(
        "pretraining_records",
        split="held_out",
        data_dir=Path(builder.data_dir).parents[2],
        builder_kwargs={"records": records_directory},
    )
    assert len(rows) == records.read_manifest(records_directory)["splits"]["held_out"]["rows"]


def test_damaged_records(records_directory, tmp_path):
    copy = shutil.copytree(records_directory, tmp_path / "records")
    path = copy / "train-00001.tfrecord.gz"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(InputError, match="train-00001.tfrecord.gz is damaged"):
        PretrainingRecords(records=copy, data_dir=tmp_path / "tfds").download_and_prepare()
    path.unlink()
    with pytest.raises(InputError, match="train-00001.tfrecord.gz is missing"):
        PretrainingRecords(records=copy, data_dir=tmp_path / "tfds")
