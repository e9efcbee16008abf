"""Model directories: what belongs to them and what only seems to."""

import math
import os

import pytest

from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.io.reading import (
    Document,
    check_links,
    file_within,
    parse_json_line,
    path_within,
    read_json,
    read_text,
    read_yaml,
)


@pytest.mark.parametrize(
    "name", ["", ".", "/etc/passwd", "../x", "a/../../x", "a/..", "..", "a\\..\\x", "a\0b"]
)
def test_rejects_names_out_of_the_directory(tmp_path, name):
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
        with pytest.raises(InputError, match="out links to a file outside its directory"):
            file_within(directory, "out")
        (directory / "out").unlink()
    (directory / "folder").symlink_to(tmp_path)
    with pytest.raises(InputError, match="links to a file outside"):
        file_within(directory, "folder/secret")
    with pytest.raises(InputError, match="folder links to a folder outside its directory"):
        path_within(directory, "folder")
    check_links(directory, tmp_path)
    with pytest.raises(InputError, match="folder links to a folder outside"):
        check_links(directory, directory)


def test_links_in_a_circle(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(
        InputError,
        match=r"a is a link that cannot be resolved|a cannot be read|links to a file outside|cannot read",
    ):
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
    check_links(snapshot, snapshot)
    (snapshot / "model").mkdir()
    (snapshot / "model" / "config.json").symlink_to("../../../blobs/f00")
    assert read_json(file_within(snapshot / "model", "config.json")) == {}
    (tmp_path / "models--a--b" / "refs").write_text("{}")
    (snapshot / "refs").symlink_to("../../refs")
    with pytest.raises(InputError, match="links to a file outside"):
        file_within(snapshot, "refs")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("config.json", '{"a": [' + "[[[]]]," * 200_000 + "0]}", "500,000 values"),
        ("config.json", '{"a": ' + "0" * (5 << 20) + "}", "larger than 4 MiB"),
        ("tokenizer.json", '{"a": [' + "[]," * 2_000_000 + "0]}", "4,000,000 values"),
        ("tokenizer.json", '{"a": [' + '"token", ' * 600_000 + "0]}", None),
        ("config.json", '{"a": "' + "[" * 400_000 + '"}', None),
    ],
)
def test_small_files_cannot_take_gigabytes(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    if message is None:
        assert read_json(tmp_path / name)["a"]
        return
    with pytest.raises(InputError, match=f"{name} .*{message}"):
        read_json(tmp_path / name)


def test_rejects_other_than_regular_files(tmp_path):
    os.mkfifo(tmp_path / "pipe")  # reading it would block forever
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
        ("[1]", "must contain one JSON object, not list"),
        ("[" * 100_000, "is nested too deeply"),
        ("", "line 1, is not valid JSON"),
        ('{"a":\n\0', "line 2: not UTF-8 text"),
        ('{"a": ' + "9" * 5_000 + "}", "a number with too many digits"),
        ('{"a": ' + "[" * 150 + "]" * 150 + "}", "is nested too deeply"),
        # Comparing each key with all others would take minutes.
        ("{" + "".join(f'"{n}": 1, ' for n in range(100_000)) + '"99999": 1}', "'99999' twice"),
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
        file.truncate((4 << 20) + 1)
    with pytest.raises(InputError, match="larger than 4 MiB"):
        read_json(path)


def test_json_may_begin_with_a_byte_order_mark(tmp_path):
    (tmp_path / "a.json").write_bytes(b'\xef\xbb\xbf{"a": 1}')
    assert read_json(tmp_path / "a.json") == {"a": 1}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: {b: 1, b: 2}", "has the key 'b' twice"),
        ("a: b\n  c: [", "a.yaml, line 2: not valid YAML"),
        ("- 1", "must contain a YAML mapping of keys to values, not list"),
        ("a: 2024-99-99", "not valid YAML: .*month"),
        ("a: !!int ''", "not valid YAML"),
        ("a: !!python/object:os.x {}", "could not determine a constructor"),
        ("a: " + "9" * 5_000, "a number with too many digits"),
        ("a: 0x" + "f" * 5_000, "a number with too many digits"),
        ("a: " + ":".join("1" * 10_000), "a number with too many digits"),
        ("a: " + "{a: " * 2_000, "is nested too deeply"),
        ("a: " + "{a: " * 110 + "1" + "}" * 110, "nested too deeply"),
        ("a: &a [*a]", "contains too many aliases|nested too deeply"),
        ("b: {<<: {a: 1}}", r"YAML merge keys \(<<\) are not supported"),
        ("a: " + "x" * (1 << 20), "larger than 256 KiB"),
    ],
)
def test_damaged_yaml(tmp_path, text, message):
    (tmp_path / "a.yaml").write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        read_yaml(tmp_path / "a.yaml")
    assert str(tmp_path / "a.yaml") in str(caught.value) and len(str(caught.value)) < 500


def test_rejects_yaml_aliases_that_expand(tmp_path):
    """A kilobyte expands to a tree of 2**40 leaves when it is traversed."""
    lines = ["a0: &a0 [x]", *(f"a{n + 1}: &a{n + 1} [*a{n}, *a{n}]" for n in range(40))]
    (tmp_path / "a.yaml").write_text("\n".join(lines))
    with pytest.raises(InputError, match="contains too many aliases"):
        read_yaml(tmp_path / "a.yaml")
    (tmp_path / "a.yaml").write_text("\n".join(lines[:3]))
    assert read_yaml(tmp_path / "a.yaml")["a2"] == [[["x"], ["x"]]] * 2


def test_an_empty_yaml_file(tmp_path):
    (tmp_path / "a.yaml").write_text("# nothing\n")
    assert read_yaml(tmp_path / "a.yaml") == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": ]', r"^x: not valid JSON: Expecting value \(character 6\)"),
        ('{"a": ' + "1" * 5_000 + "}", "^x: the line .*a number with too many digits"),
        ('{"a": NaN}', "^x: the line has NaN, which is not valid JSON"),
        ("[" * 100_000, "^x: the line .*nested too deeply"),
        (b"\xff", "^x: the line is not valid JSON"),
    ],
)
def test_damaged_lines(text, message):
    with pytest.raises(InputError, match=message):
        parse_json_line(text, "x", finite=True)
    assert math.isnan(parse_json_line('{"a": NaN}')["a"])


# === Values by type ===

VALUES = {
    "size": 3,
    "rate": 0.5,
    "name": "x",
    "on": True,
    "nothing": None,
    "inner": {"deep": {"n": "1"}},
}
VALUES |= {"names": ["a", "b"], "parts": [{"n": 1}, {"n": 1.5}], "nan": math.nan, "half": "\ud800"}


@pytest.fixture
def document():
    return Document(VALUES, "config.json")


def test_returns_values_of_the_right_types(document):
    assert document.integer("size", least=1, most=3) == 3
    assert document.number("size") == 3 and document.number("rate", least=0, below=1) == 0.5
    assert document.text("name", choices=("x", "y")) == "x" and document.flag("on") is True
    assert document.list_of("names", str) == ["a", "b"]
    assert document.mapping("inner").mapping("deep").text("n") == "1"
    assert document.list_of("parts", dict)[0].integer("n") == 1
    for key in ("nothing", "missing"):
        assert document.integer(key, 7) == 7 and document.text(key, None) is None
        assert document.mapping(key) == {} and document.mapping(key, None) is None
    assert document["size"] == 3 and set(document) == set(VALUES)


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda d: d.integer("missing"), "config.json: missing is missing; it must be an integer"),
        (lambda d: d.integer("nothing"), "config.json: nothing is missing"),
        (lambda d: d.integer("on"), "config.json: on must be an integer, got True"),
        (lambda d: d.integer("rate"), "rate must be an integer, got 0.5"),
        (lambda d: d.integer("size", least=4), "size must be an integer, at least 4"),
        (lambda d: d.integer("size", most=2), "size must be an integer, at most 2"),
        (lambda d: d.number("nan"), "nan must be a number, got nan"),
        (lambda d: d.number("on"), "on must be a number, got True"),
        (lambda d: d.number("rate", above=0.5), "rate must be a number, above 0.5"),
        (lambda d: d.flag("size"), "size must be True or False, got 3"),
        (lambda d: d.text("size"), "size must be a string, got 3"),
        (lambda d: d.text("half"), "half must be a string"),
        (lambda d: d.text("name", choices=("y", "z")), "name must be one of y, z, got 'x'"),
        (lambda d: d.mapping("names"), "names must be a dict, got .'a', 'b'."),
        (lambda d: d.list_of("name", str), "name must be a list of values, each a string, got 'x'"),
        (lambda d: d.list_of("names", int), "names must be a list of values, each an integer"),
        (lambda d: d.list_of("parts", dict)[1].integer("n"), r"config.json: parts\[1\].n must be"),
        (
            lambda d: d.mapping("inner").mapping("deep").integer("n"),
            "config.json: inner.deep.n must",
        ),
    ],
)
def test_rejects_values_of_other_types(document, read, message):
    with pytest.raises(InputError, match=message):
        read(document)


def test_messages_show_little_of_large_values():
    tree = [1]
    for _ in range(40):
        tree = [tree, tree]
    for value in (
        "x" * 1_000_000,
        list(range(100_000)),
        tree,
        {str(n): n for n in range(10_000)},
        1 << 99_999,
    ):
        with pytest.raises(InputError) as caught:
            Document({"a": value}, "f").flag("a")
        assert len(str(caught.value)) < 150


def test_rejects_web_pages_in_place_of_files(tmp_path):
    for name, text in {
        "config.json": "\n<!DOCTYPE html>\n<p>",
        "vocab.txt": "\ufeff<HTML>",
    }.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        with pytest.raises(InputError, match=rf"{name} is an HTML page.*/resolve/"):
            file_within(tmp_path, name)


def test_rejects_git_lfs_pointers(tmp_path):
    text = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab\nsize 12345\n"
    for name in ("model.safetensors", "pytorch_model.bin", "spiece.model"):
        (tmp_path / name).write_text(text)
        with pytest.raises(InputError, match=f"{name} is a Git LFS pointer.*git lfs pull"):
            file_within(tmp_path, name)
