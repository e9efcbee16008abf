"""Records written to a bucket: the same as in a folder, and complete once the manifest is there."""

import getpass
import stat
import tempfile
from pathlib import Path

import pytest
import tensorflow as tf

from keras_bert_impl.pretraining.corpus import blocks, preparation
from keras_bert_impl.pretraining.corpus.preparation import prepare
from keras_bert_impl.pretraining.examples import records
from keras_bert_impl.utils.errors import InputError

ARGUMENTS = {
    "length": 32,
    "held_out": 0.1,
    "block_characters": 4000,
    "num_open_shards": 4,
    "rows_per_shard": 64,
    "seed": 3,
}  # same as `records_directory`
NAME = "ram://written/records"


@pytest.fixture
def scratch(tmp_path, monkeypatch):
    """The folder for temporary files; files that a test writes to the bucket are removed."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield tmp_path
    if tf.io.gfile.exists("ram://written"):
        tf.io.gfile.rmtree("ram://written")


def files_in(scratch):
    """All but the private folder, which stays."""
    (private,) = scratch.iterdir()
    assert stat.S_IMODE(private.stat().st_mode) == 0o700
    return list(private.iterdir())


def assert_same(name, expected):
    files = sorted(path.name for path in expected.iterdir())
    assert sorted(tf.io.gfile.listdir(name)) == files
    for file in files:
        with tf.io.gfile.GFile(f"{name}/{file}", "rb") as copy:
            assert copy.read() == (expected / file).read_bytes()


@pytest.mark.parametrize("num_workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_the_same_bytes(scratch, corpus, tokenizer, records_directory, monkeypatch, num_workers):
    monkeypatch.setattr(preparation, "_SECONDS_ALONE", 0)
    manifest = prepare(corpus, NAME, tokenizer, num_workers=num_workers, **ARGUMENTS)
    assert manifest == records.read_manifest(records_directory) == records.read_manifest(NAME)
    assert_same(NAME, records_directory)
    assert not files_in(scratch)
    for name in NAME, f"{NAME}/":
        with pytest.raises(InputError, match=f"{name} contains records. Name another folder"):
            prepare(corpus, name, tokenizer, num_workers=1, **ARGUMENTS)
    assert_same(NAME, records_directory)


def test_interrupted_upload_resumes(
    scratch, tmp_path_factory, corpus, tokenizer, records_directory, monkeypatch
):
    # TensorFlow's in-memory file system appends when a file is written again.
    name = f"file://{tmp_path_factory.mktemp('bucket')}/records"
    copy, copied = tf.io.gfile.copy, []

    def break_off(source, target, overwrite):
        if len(copied) == 5:
            raise tf.errors.UnavailableError(None, None, "no connection")
        copied.append(target)
        copy(source, target, overwrite)

    monkeypatch.setattr(tf.io.gfile, "copy", break_off)
    message = rf"cannot write {name}/\S+: no connection. Finished blocks are kept"
    with pytest.raises(InputError, match=message):
        prepare(corpus, name, tokenizer, num_workers=1, **ARGUMENTS)
    with pytest.raises(InputError, match="contains no records"):
        records.read_manifest(name)
    monkeypatch.setattr(tf.io.gfile, "copy", copy)
    monkeypatch.setattr(blocks, "build_block", None)  # must not build again
    prepare(corpus, name, tokenizer, num_workers=1, **ARGUMENTS)
    assert_same(name, records_directory)
    assert not files_in(scratch)


def test_rejects_an_unwritable_bucket_before_reading(scratch, tokenizer):
    with pytest.raises(InputError, match="cannot write nowhere://records: File system"):
        prepare("no text", "nowhere://records", tokenizer)
    with pytest.raises(InputError, match="gs:/bucket/records is not on this machine"):
        prepare("no text", Path("gs://bucket/records"), tokenizer)  # `Path` drops a slash
    assert not list(scratch.iterdir())


@pytest.mark.parametrize("how", ["link", "open"])
def test_rejects_a_folder_for_temporary_files_that_others_made(scratch, tokenizer, corpus, how):
    place = scratch / f"keras-bert-{getpass.getuser()}"
    (scratch / "home").mkdir(mode=0o777)
    place.symlink_to(scratch / "home") if how == "link" else place.mkdir(mode=0o755)
    with pytest.raises(InputError, match="does not belong to you or is writable by others"):
        prepare(corpus, NAME, tokenizer, num_workers=1, **ARGUMENTS)
    assert not any((scratch / "home").iterdir())


def test_bad_text_leaves_nothing(scratch, corpus, tokenizer):
    text = corpus.parent / "broken.txt"
    text.write_bytes(corpus.read_bytes() + b"\n\xff\n")
    with pytest.raises(InputError, match="is not UTF-8"):
        prepare(text, NAME, tokenizer, num_workers=1, **ARGUMENTS)
    assert not tf.io.gfile.listdir(NAME) and not files_in(scratch)


def test_keeps_a_folder_with_another_manifest(tmp_path, corpus, tokenizer):
    """A `manifest.json` is also what a web application has."""
    folder = tmp_path / "application"
    folder.mkdir()
    for name, content in (("manifest.json", '{"name": "app"}'), ("vocab.txt", "mine")):
        (folder / name).write_text(content)
    with pytest.raises(InputError, match="contains other files. Name a new or empty folder"):
        prepare(corpus, folder, tokenizer, num_workers=1, **ARGUMENTS)
    assert (folder / "vocab.txt").read_text() == "mine"
