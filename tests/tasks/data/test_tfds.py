"""Datasets in the format of TensorFlow Datasets, created locally and read offline."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.tasks import read_tfds

ROWS = [
    {"text": "a good film", "other": "x", "label": 1, "score": 0.1},
    {"text": "d\u00fcll", "other": "y", "label": 0, "score": 2.5},
    {"text": " ", "other": "z", "label": 1, "score": 1.0},
    {"text": b"\xe9t\xe9", "other": "v", "label": 0, "score": 1.0},
    {"text": "unlabeled", "other": "w", "label": -1, "score": np.nan},
]


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    directory = tmp_path_factory.mktemp("tfds") / "reviews" / "1.0.0"
    directory.mkdir(parents=True)
    features = tfds.features.FeaturesDict(
        {
            "text": tfds.features.Text(),
            "other": tfds.features.Text(),
            "label": tfds.features.ClassLabel(names=["bad", "good"]),
            "score": tfds.features.Scalar(tf.float32),
        }
    )
    infos = []
    for split, rows in (("train", ROWS[:2]), ("test", ROWS)):
        path = directory / f"reviews-{split}.tfrecord-00000-of-00001"
        records = [features.serialize_example(row) for row in rows]
        with tf.io.TFRecordWriter(str(path)) as writer:
            for record in records:
                writer.write(record)
        infos.append(
            tfds.core.SplitInfo(
                name=split, shard_lengths=[len(rows)], num_bytes=sum(map(len, records))
            )
        )
    tfds.folder_dataset.write_metadata(
        data_dir=str(directory),
        features=features,
        split_infos=infos,
        filename_template="{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}",
    )
    return directory


def test_reads_classes_pairs_and_numbers(directory):
    examples = read_tfds(directory, "train", "text", "other", "label")
    assert examples.texts == [("a good film", "x"), ("d\u00fcll", "y")]
    assert examples.labels == [1, 0] and examples.label_names == ["bad", "good"]
    numbers = read_tfds(directory, "train", "text", label="score")
    assert numbers.is_numeric and numbers.labels == [float(np.float32(0.1)), 2.5]
    assert read_tfds(str(directory), "train[:1]", "text").texts == ["a good film"]


def test_errors_give_the_number_of_the_example(directory):
    with pytest.raises(InputError, match="split test, example 2: the text in column 'text' is emp"):
        read_tfds(directory, "test", "text", label="label")
    examples = read_tfds(directory, "test", "text", label="label", skip_bad_rows=True)
    assert examples.labels == [1, 0] and len(examples.skipped) == 3
    assert "example 3: feature 'text' is not UTF-8 (byte 0)" in examples.skipped[1]
    assert "example 4: the label is -1, so the example is unlabeled" in examples.skipped[2]


@pytest.mark.parametrize(
    "split, text, label, message",
    [
        ("train", "review", None, "no feature 'review'. Found: "),
        ("dev", "text", None, "split 'dev': TensorFlow Datasets cannot load this"),
        ("train", "score", None, "example 0: feature 'score' is not text"),
        ("train", "text", "other", "example 0: the label is neither a class nor a number"),
    ],
)
def test_rejects_unknown_splits_and_features(directory, split, text, label, message):
    with pytest.raises(InputError, match=message):
        read_tfds(directory, split, text, label=label)


def test_rejects_unknown_datasets(tmp_path):
    with pytest.raises(InputError, match="has no dataset_info.json"):
        read_tfds(tmp_path, "train", "text")
    with pytest.raises(InputError, match="no_such_reviews: TensorFlow Datasets cannot load this"):
        read_tfds("no_such_reviews", "train", "text", data_dir=tmp_path)
