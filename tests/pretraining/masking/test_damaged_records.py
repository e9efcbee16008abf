"""Records that are missing, damaged or have an unsuitable tokenizer raise one clear error."""

import json
import shutil

import pytest
import tensorflow as tf

from keras_bert_impl.pretraining.corpus.preparation import prepare
from keras_bert_impl.pretraining.examples import records
from keras_bert_impl.pretraining.examples.records import FORMAT_VERSION
from keras_bert_impl.pretraining.masking.dataset import pretraining_dataset
from keras_bert_impl.tokenizers import WordPieceTokenizer
from keras_bert_impl.utils.errors import InputError
from tests.pretraining.masking.helpers import BATCH


@pytest.fixture
def copy(tmp_path, records_directory):
    return shutil.copytree(records_directory, tmp_path / "copy")


def test_missing_shard(copy):
    (copy / "train-00001.tfrecord.gz").unlink()
    with pytest.raises(InputError, match="train-00001.tfrecord.gz is missing"):
        pretraining_dataset(copy, BATCH)


def test_truncated_shard(copy):
    path = copy / "train-00001.tfrecord.gz"
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(InputError, match="train-00001.tfrecord.gz is truncated"):
        pretraining_dataset(copy, BATCH)


def test_damaged_shard_is_named_while_reading(copy):
    path = copy / "train-00001.tfrecord.gz"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
    dataset = pretraining_dataset(copy, BATCH)
    with pytest.raises(InputError, match="train-00001.tfrecord.gz is damaged"):
        with records.clear_read_errors(copy):
            for _ in dataset.take(100):
                pass


def test_fewer_rows_than_the_manifest(copy, records_directory):
    # A valid shard of the same size, but not the one in the manifest.
    manifest = json.loads((copy / "manifest.json").read_text())
    shards = manifest["splits"]["train"]["shards"]
    shards[1]["rows"] += 1
    manifest["splits"]["train"]["rows"] += 1
    (copy / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(InputError, match="do not match manifest.json"):
        with records.clear_read_errors(copy):
            for _ in pretraining_dataset(copy, BATCH).take(100):
                pass


def test_another_tokenizer(records_directory, tokenizer):
    other_tokenizer = WordPieceTokenizer(list(tokenizer.vocabulary) + ["extra"])
    with pytest.raises(InputError, match="prepared with another tokenizer"):
        pretraining_dataset(records_directory, BATCH, tokenizer=other_tokenizer)


def test_rejects_damaged_records_on_a_bucket(records_directory, bucket):
    name = "train-00001.tfrecord.gz"
    content = bytearray((records_directory / name).read_bytes())
    content[len(content) // 2] ^= 0xFF
    tf.io.gfile.remove(f"{bucket}/{name}")
    with tf.io.gfile.GFile(f"{bucket}/{name}", "wb") as file:
        file.write(bytes(content))
    with pytest.raises(InputError, match=f"the shard {bucket}/{name} is damaged"):
        records.check_shards(bucket)
    tf.io.gfile.remove(f"{bucket}/{name}")
    with pytest.raises(InputError, match=f"the shard {bucket}/{name} is missing"):
        pretraining_dataset(bucket, BATCH)
    with pytest.raises(InputError, match="ram://other contains no records"):
        pretraining_dataset("ram://other", BATCH)
    with pytest.raises(InputError, match="cannot read nowhere://bucket/manifest.json: File system"):
        pretraining_dataset("nowhere://bucket", BATCH)


@pytest.mark.parametrize(
    "text, message",
    [
        ("{", "manifest.json is damaged"),
        ('{"version": 1}', "format version 1"),
        (json.dumps({"version": FORMAT_VERSION}), "manifest.json is damaged"),
        (
            '{"version": 9, "splits": {"train": {"shards": []}, "held_out": {"shards": []}}}',
            "format version 9",
        ),
        (
            '{"version": 3, "splits": {"train": {"shards": [{"file": "../x", "rows": 1, "bytes": 1}]},'
            ' "held_out": {"shards": []}}}',
            "file must be the name of a file in the folder",
        ),
    ],
)
def test_bad_manifest(tmp_path, text, message):
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(InputError, match=message):
        records.read_manifest(tmp_path)


def test_no_records(tmp_path, corpus, tokenizer):
    with pytest.raises(InputError, match="contains no records"):
        pretraining_dataset(tmp_path, BATCH)
    prepare(corpus, tmp_path / "r", tokenizer, length=32, num_workers=1)
    with pytest.raises(InputError, match="no held_out rows"):
        pretraining_dataset(tmp_path / "r", BATCH, split="held_out")


def test_rejects_a_vocabulary_of_special_tokens(tmp_path, corpus):
    tokenizer = WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    prepare(corpus, tmp_path / "records", tokenizer, length=32, num_workers=1)
    with pytest.raises(InputError, match="only special tokens, so nothing can be masked"):
        pretraining_dataset(tmp_path / "records", BATCH)
