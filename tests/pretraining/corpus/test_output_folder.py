"""The output folder of `prepare` is replaced as a whole or not at all."""

import errno

import pytest
import tensorflow as tf

from keras_bert_impl.pretraining.corpus.preparation import prepare
from keras_bert_impl.tokenizers import WordPieceTokenizer
from keras_bert_impl.utils.errors import InputError
from tests.helpers import small_disk


def test_replaced_records_leave_no_old_shard(tmp_path, corpus, tokenizer):
    for rows_per_shard in (8, 1000):
        keywords = {"num_workers": 1, "num_open_shards": 2, "rows_per_shard": rows_per_shard}
        manifest = prepare(corpus, tmp_path / "records", tokenizer, **keywords)
        (tmp_path / "records" / "mine.tfrecord.gz").touch()
    shards = [shard["file"] for shard in manifest["splits"]["train"]["shards"]]
    file_names = sorted(path.name for path in (tmp_path / "records").glob("*.gz"))
    assert file_names == ["mine.tfrecord.gz", *sorted(shards)]
    assert len(shards) == 2


def test_rejects_a_folder_with_other_files(tmp_path, corpus, tokenizer):
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(InputError, match="contains other files"):
        prepare(corpus, tmp_path, tokenizer, num_workers=1)
    assert (tmp_path / "thesis.txt").read_text() == "precious"


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        tf.errors.ResourceExhaustedError(None, None, "shard: No space left on device"),
    ],
)
def test_full_disk_keeps_the_old_records(tmp_path, write_corpus, tokenizer, monkeypatch, error):
    corpus = write_corpus(tmp_path / "corpus.txt", 60)
    prepare(corpus, tmp_path / "records", tokenizer, num_workers=1)
    before = (tmp_path / "records" / "manifest.json").read_bytes()

    class FullDisk:
        def __init__(self, path, options=None):
            open(path, "w").close()

        def __enter__(self):
            return self

        def __exit__(self, *error):
            pass

        def write(self, record):
            raise error

        def close(self):
            pass

    monkeypatch.setattr(tf.io, "TFRecordWriter", FullDisk)
    with pytest.raises(InputError, match="cannot write .*records: No space left on device"):
        prepare(corpus, tmp_path / "records", tokenizer, num_workers=1)
    assert (tmp_path / "records" / "manifest.json").read_bytes() == before
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["corpus.txt", "records"]


@pytest.mark.slow
def test_full_file_system_raises_an_input_error(tmp_path, write_corpus, tokenizer):
    # 1.4 million tokens of 7.6 bits each.
    corpus = write_corpus(tmp_path / "corpus.txt", 27_000)
    with small_disk(tmp_path / "disk"):
        with pytest.raises(InputError, match="cannot write .*records: (No space|File too large)"):
            prepare(
                corpus, tmp_path / "disk" / "records", tokenizer, num_open_shards=1, num_workers=1
            )
        assert not list((tmp_path / "disk").iterdir())


def test_rejects_to_replace_records_with_other_settings(tmp_path, corpus, tokenizer):
    prepare(corpus, tmp_path / "records", tokenizer, num_workers=1, length=32)
    before = (tmp_path / "records/manifest.json").read_bytes()
    for changes, message in (
        ({"length": 64}, "length=32, not 64"),
        ({"held_out": 0.2}, "held_out="),
    ):
        with pytest.raises(
            InputError, match=f"contains records with {message}.*; name another folder"
        ):
            prepare(
                corpus, tmp_path / "records", tokenizer, num_workers=1, **{"length": 32} | changes
            )
    other_tokenizer = WordPieceTokenizer([*tokenizer.vocabulary, "another"])
    with pytest.raises(
        InputError, match="contains records of another tokenizer; name another folder"
    ):
        prepare(corpus, tmp_path / "records", other_tokenizer, num_workers=1, length=32)
    assert (tmp_path / "records/manifest.json").read_bytes() == before
    (tmp_path / "records/manifest.json").write_text("{}")  # damaged records may be replaced
    prepare(corpus, tmp_path / "records", tokenizer, num_workers=1, length=64)


def test_rejects_to_read_the_records_as_text(tmp_path, write_corpus, tokenizer):
    write_corpus(tmp_path / "corpus.txt", 25)
    prepare(tmp_path, tmp_path / "records", tokenizer, num_workers=1, objective="mlm")
    with pytest.raises(InputError, match="records is inside the input .*would be read as text"):
        prepare(tmp_path, tmp_path / "records", tokenizer, num_workers=1, objective="mlm")
