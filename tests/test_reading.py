"""What lies in a model directory, and what only seems to."""

import os

import pytest

from keras_bert_impl.errors import InputError
from keras_bert_impl.reading import file_within, read_json, read_text


@pytest.mark.parametrize(
    "name", ["", ".", "/etc/passwd", "../x", "a/../../x", "a/..", "..", "a\\..\\x", "a\0b"]
)
def test_names_that_lead_out(tmp_path, name):
    with pytest.raises(InputError, match="is not the name of a file in this directory"):
        file_within(tmp_path, name)


@pytest.mark.parametrize("name", ["a", "a/b.json", "..a", "a..b", "./a"])
def test_names_within(tmp_path, name):
    assert file_within(tmp_path, name) == tmp_path / name


def test_links_within_and_out(tmp_path):
    directory = tmp_path / "model"
    directory.mkdir()
    (tmp_path / "secret").write_text("s")
    (directory / "real").write_text("r")
    (directory / "within").symlink_to("real")
    assert read_text(file_within(directory, "within")) == "r"
    for target in ("../secret", tmp_path / "secret", "/dev/zero"):
        (directory / "out").symlink_to(target)
        with pytest.raises(InputError, match="out is a link that leads out of its directory"):
            file_within(directory, "out")
        (directory / "out").unlink()
    (directory / "folder").symlink_to(tmp_path)
    with pytest.raises(InputError, match="leads out"):
        file_within(directory, "folder/secret")


def test_links_in_a_circle(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(InputError, match=r"a cannot be (followed|read)|leads out|cannot read"):
        read_text(file_within(tmp_path, "a"))


def test_a_directory_that_is_a_link(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "x").write_text("x")
    (tmp_path / "link").symlink_to("real")
    assert read_text(file_within(tmp_path / "link", "x")) == "x"


def test_the_cache_of_the_hub(tmp_path):
    snapshot = tmp_path / "models--a--b" / "snapshots" / "0123"
    blobs = tmp_path / "models--a--b" / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    (blobs / "f00").write_text("{}")
    (snapshot / "config.json").symlink_to("../../blobs/f00")
    assert read_json(file_within(snapshot, "config.json")) == {}
    (tmp_path / "models--a--b" / "refs").write_text("{}")
    (snapshot / "refs").symlink_to("../../refs")
    with pytest.raises(InputError, match="leads out"):
        file_within(snapshot, "refs")


def test_what_is_no_regular_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")  # reading it would wait for ever
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "folder"):
        with pytest.raises(InputError, match=f"{name} is not a regular file"):
            file_within(tmp_path, name)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1,\n "a": 2}', "has the key 'a' twice"),
        ('{"b": {"a": 1, "a": 1}}', "has the key 'a' twice"),
        ('{"a": 1,\n "b": }', "line 2, is not valid JSON"),
        ("[1]", "must hold one JSON object, not list"),
        ("[" * 100_000, "is not valid JSON"),
        ("", "line 1, is not valid JSON"),
        ('{"a":\n\0', "line 2: not UTF-8 text"),
    ],
)
def test_damaged_json(tmp_path, text, message):
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        read_json(path)
    assert str(path) in str(caught.value)


def test_very_large_text(tmp_path):
    path = tmp_path / "config.json"
    with open(path, "wb") as file:
        file.truncate((64 << 20) + 1)
    with pytest.raises(InputError, match="more than 64 MiB"):
        read_json(path)
