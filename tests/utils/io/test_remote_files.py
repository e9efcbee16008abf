"""Files in TensorFlow's file systems, read and written with Python's file interface."""

import pytest
import tensorflow as tf

from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.io import files, remote_files


@pytest.fixture
def folder():
    tf.io.gfile.makedirs("ram://files/a")
    yield "ram://files"
    tf.io.gfile.rmtree("ram://files")


def test_names():
    assert files.is_remote("gs://bucket/records")
    assert not files.is_remote("/data/records")


def test_reads_in_blocks_of_any_size(folder):
    content = bytes(range(256)) * 20_000  # larger than the buffer
    with tf.io.gfile.GFile(f"{folder}/content", "wb") as file:
        file.write(content)
    with remote_files.read_from(f"{folder}/content") as file:
        assert file.peek(6)[:6] == content[:6]
        assert file.read(100) + file.readline() + file.read() == content
        assert file.read() == b""
    with pytest.raises(OSError), remote_files.read_from(f"{folder}/none") as file:
        file.read()


def test_files_of_a_folder(folder, tmp_path):
    for name in "b", "a/c", "a/.hidden":
        with remote_files.replace_file(f"{folder}/{name}") as path:
            path.write_text(name)
    assert sorted(map(str, remote_files.files_in(folder))) == ["a/.hidden", "a/c", "b"]
    assert remote_files.files_in(f"{folder}/b") is None


def test_file_appears_when_it_is_complete(folder, tmp_path):
    for name in f"{folder}/scores", f"{tmp_path}/scores":
        with pytest.raises(ZeroDivisionError), remote_files.replace_file(name) as path:
            path.write_text("1")
            1 / 0
        assert not tf.io.gfile.exists(name)
        with remote_files.replace_file(name) as path:
            path.write_text("1")
        with tf.io.gfile.GFile(name) as file:
            assert file.read() == "1"
    with pytest.raises(InputError, match="cannot write nowhere://scores: File system"):
        with remote_files.replace_file("nowhere://scores") as path:
            path.write_text("1")


def test_uploads_the_last_file_last(folder, tmp_path, monkeypatch):
    for name in "ab", "c", "b":
        (tmp_path / name).write_text(name)
    copied, copy = [], tf.io.gfile.copy

    def counting(source, target, overwrite):
        copied.append(target)
        copy(source, target, overwrite)

    monkeypatch.setattr(tf.io.gfile, "copy", counting)
    remote_files.upload(tmp_path, f"{folder}/a", last="b")
    assert copied == [f"{folder}/a/{name}" for name in ("ab", "c", "b")]
