"""Lines are bounded before they are gathered; what is not text is named."""

import bz2
import gzip
import lzma
import random
import tracemalloc

import pytest

from keras_bert_impl.tasks import read_table
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.io.lines import (
    LONGEST_LINE,
    encoded_as,
    is_utf8,
    raw_lines,
    read_document,
    read_lines,
    text_of,
)

LINES = b"".join(b"text %d, and more\n" % number for number in range(500))


def write(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("compression", [gzip, lzma, bz2])
def test_damaged_files_are_named_whatever_compressed_them(tmp_path, compression):
    data, draw = compression.compress(LINES), random.Random(0)
    assert b"".join(line for _, line in raw_lines(write(tmp_path, "a", data))) == LINES
    errors = 0
    for place in range(8, len(data), len(data) // 40):
        flipped = data[:place] + bytes([data[place] ^ (1 << draw.randrange(8))]) + data[place + 1 :]
        for damaged in (flipped, data[:place]):
            path = write(tmp_path, "a.csv", damaged)
            try:
                assert b"".join(line for _, line in raw_lines(path)) == LINES
            except InputError as error:
                assert f"{path} is damaged: " in str(error)
                errors += 1
    assert errors > 70


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("a.csv", b"\x28\xb5\x2f\xfd....", "a.csv is compressed with zstd. .* `zstd -d`"),
        ("a.csv", b"PK\x03\x04....", "a.csv is a zip archive"),
        ("a.txt", b"version https://git-lfs.github.com/spec/v1\noid", "a.txt is a Git LFS pointer"),
        ("a.csv", b"\n <!DOCTYPE html><html>", "a.csv is an HTML page"),
        ("a.jsonl", b"<html lang='en'>", "a.jsonl is an HTML page"),
    ],
)
def test_names_what_is_not_text(tmp_path, name, content, message):
    with pytest.raises(InputError, match=message):
        list(read_lines(write(tmp_path, name, content)))


def test_a_text_may_be_html(tmp_path):
    path = write(tmp_path, "a.txt", b"<html><p>hi</p>\n")
    assert list(read_lines(path)) == [(1, "<html><p>hi</p>")]


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_a_long_line_is_cut_and_rejected_but_not_those_around_it(tmp_path, end):
    parts = [b"short", b"x" * LONGEST_LINE, b"y" * 3 * LONGEST_LINE, b"last"]
    path = write(tmp_path, "a.txt", end.join(parts) + end)
    lines = [line for _, line in raw_lines(path)]
    assert len(lines) == 4 and max(map(len, lines)) <= 2 * LONGEST_LINE + 8
    assert [text_of(lines[place]) for place in (0, 1, 3)] == ["short", "x" * LONGEST_LINE, "last"]
    with pytest.raises(InputError, match="line 3: a line with more than 4,194,304 bytes"):
        list(read_lines(path))


def test_an_endless_line_takes_little_memory(tmp_path):
    path = write(tmp_path, "a.txt.gz", gzip.compress(b"x" * (15 << 20)))
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match="line 1: a line with more than"):
            list(read_lines(path))
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


def test_a_file_that_contains_out_of_proportion_is_rejected(tmp_path):
    path = write(tmp_path, "a.txt.gz", gzip.compress(b"a,b\n" * (10 << 20)))
    with pytest.raises(InputError, match="a.txt.gz decompresses to more than 100 times its size"):
        list(read_lines(path))
    content = random.Random(0).randbytes(1 << 20).hex().encode() + b"\n"
    path = write(tmp_path, "b.txt.gz", gzip.compress(content * 20, 1))
    assert sum(len(line) for _, line in raw_lines(path)) == 20 * len(content)


@pytest.mark.parametrize(
    "content, place", [(b'{\n"a": "\xe9"}', "line 2: not UTF-8 .byte 6"), (b"{\0", "line 1: a NUL")]
)
def test_a_document_that_is_not_text_is_rejected_with_its_line(tmp_path, content, place):
    with pytest.raises(InputError, match=place):
        read_document(write(tmp_path, "a.json", content))


def test_the_message_names_the_encoding_that_keeps_the_euro_sign(tmp_path):
    path = write(tmp_path, "a.csv", "text\n5 €\n".encode("cp1252"))
    with pytest.raises(InputError, match="line 2: .*pass --encoding cp1252"):
        read_table(path, "text")


def test_an_encoding_holds_for_files_without_a_mark(tmp_path):
    text = "5 \u20ac for caf\u00e9\u2019s\n"
    for encoding in ("cp1252", "utf-8-sig", "utf-16"):
        path = write(tmp_path, encoding, text.encode(encoding))
        with encoded_as("cp1252"):
            assert list(read_lines(path)) == [(1, text[:-1])]
    with pytest.raises(InputError, match="line 1: not UTF-8"):
        list(read_lines(tmp_path / "cp1252"))  # no longer
    with pytest.raises(InputError, match="unknown encoding 'cp12'. Files from Windows or Excel"):
        with encoded_as("cp12"):
            raise AssertionError
    with encoded_as("latin-1"):  # the euro sign is a control character there
        assert list(read_lines(tmp_path / "cp1252")) == [(1, text[:-1])]
    with pytest.raises(InputError, match="encoding must be a string or None, got 1252"):
        with encoded_as(1252):
            raise AssertionError
    (tmp_path / "bad").write_bytes(b"a\x81b\n")  # not a character of cp1252
    with encoded_as("cp1252"), pytest.raises(InputError, match="bad is not in cp1252"):
        list(read_lines(tmp_path / "bad"))


def test_a_table_is_read_in_its_encoding(tmp_path):
    path = write(tmp_path, "a.csv", 'text,label\n5 \u20ac,pos\n"a;\u201c",neg\n'.encode("cp1252"))
    examples = read_table(path, "text", label="label", encoding="cp1252")
    assert examples.texts == ["5 \u20ac", "a;\u201c"] and examples.read_with["encoding"] == "cp1252"


@pytest.mark.parametrize(
    ("content", "is_right"),
    [
        ("é €\n".encode(), True),
        ("é €\n".encode("cp1252"), False),
        ("a b\n".encode("utf-16-le"), False),  # NUL bytes
        ("é\n".encode("utf-16"), True),  # its byte order mark says it
        ("a" * 65535 + "é", True),  # across two parts
        (b"cut \xc3", False),
    ],
)
def test_is_utf8(content, is_right, tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert is_utf8(path) is is_right
