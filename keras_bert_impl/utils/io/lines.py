"""Reads the lines of text files with any line ending, encoding or compression."""

import bz2
import codecs
import contextlib
import contextvars
import gzip
import io
import lzma
import re
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.io.paths import expanded, local_path
from keras_bert_impl.utils.settings import check

STANDARD_INPUT = "-"
LONGEST_LINE = 4 << 20  # maximum bytes in a line of text
# Limits for decompressed bytes: per file, and per compressed byte (for text, the ratio is about
# 10).
FREE_BYTES, MOST_RATIO = 16 << 20, 100
COMPRESSED = (".gz", ".xz", ".bz2")
_DECOMPRESSORS: dict[bytes, Any] = {
    b"\x1f\x8b": gzip.open,
    b"\xfd7zXZ\x00": lzma.open,
    b"BZh": bz2.open,
}
_OTHER_FORMATS = {  # first bytes -> file type, and a hint on how to convert the file
    b"\x28\xb5\x2f\xfd": "compressed with zstd. Decompress it with `zstd -d`",
    b"\x04\x22\x4d\x18": "compressed with lz4. Decompress it with `lz4 -d`",
    b"PK\x03\x04": "a zip archive. Unpack it with `unzip`, or save an Excel sheet as .csv",
    b"%PDF-": "a PDF file. Extract its text first",
    b"PAR1": "a Parquet file. Rename it to .parquet",
    b"ARROW1": "an Arrow file. Rename it to .arrow",
    b"\xd0\xcf\x11\xe0": "an old spreadsheet or document. Save it as .csv or text",
    b"SQLite format 3\0": "an SQLite database. Export the table as .csv",
    b"version https://git-lfs.github.com/spec/": "a Git LFS pointer instead of the file. Run `git lfs pull` in the clone, or download the "
    "file",
}
_HTML = re.compile(rb"\s*<(!doctype html|html)\b", re.IGNORECASE)
_MAY_BE_HTML = ("", ".txt", ".text", ".html", ".htm")
_WIDE = {  # Longer marks come first, because the UTF-32 mark starts with the UTF-16 mark.
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


def suffix_of(path: str | Path) -> str:
    """Returns a file's suffix in lowercase, without the suffix of a compression such as `.gz`."""
    path = local_path(path)
    if path.suffix.lower() in COMPRESSED:
        path = path.with_suffix("")
    return path.suffix.lower()


def read_lines(path: str | Path) -> Iterator[tuple[int, str]]:
    """Yields (1-based line number, text without line ending). Rejects NUL bytes."""
    for number, line in raw_lines(path):
        yield number, decoded(line, path, number)


def raw_lines(path: str | Path) -> Iterator[tuple[int, bytes]]:
    """Yields (1-based line number, bytes with line ending) for each line of a text file."""
    with open_bytes(path) as file:
        first = file.readline(_CUT)
        has_returns = b"\r" in first.removesuffix(b"\n").removesuffix(b"\r")
        if has_returns and (_is_cut(first) or not file.peek(1)):
            lines = _split_at_returns(first, file)
        else:
            lines = _cut_lines(first, file)
        yield from enumerate(lines, 1)


_CUT = LONGEST_LINE + 2  # maximum bytes read per line, enough to detect a line that is too long


def _is_cut(line):
    return len(line) >= _CUT and not line.endswith(b"\n")


def _cut_lines(line, file):
    while line:
        yield line
        while _is_cut(line):
            line = file.readline(_CUT)
        line = file.readline(_CUT)


def _split_at_returns(text, file):
    """Yields the lines of a file with classic Mac line endings. `text` is its beginning."""
    while True:
        *lines, text = re.split(rb"\r\n|\r|\n", text)
        for line in lines:
            yield line + b"\n"
        block = file.read(_CUT)
        if not block:
            break
        text = text[:_CUT] + block
    if text:
        yield text


@contextlib.contextmanager
def open_bytes(path: str | Path) -> Iterator[io.BufferedReader]:
    """Opens a text file as buffered bytes: decompressed, in UTF-8, without byte order mark."""
    try:
        with contextlib.ExitStack() as stack:
            yield _convert_to_utf8(_open_file(path, stack), stack)
    except IsADirectoryError as error:
        raise InputError(f"{path} is a directory.{files_in(path)}") from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}.") from error
    except UnicodeError as error:
        name = "standard input" if str(path) == STANDARD_INPUT else path
        encoding = _ENCODING.get()
        problem = f"is not in {encoding}" if encoding else "does not match its byte order mark"
        raise InputError(f"{name} {problem}: {error}.") from error


def files_in(directory: str | Path) -> str:
    """Returns a hint which file of a directory to pass, such as one written by `datasets`."""
    files = sorted(local_path(directory).glob("**/*.arrow"))
    datasets_hint = " `save_to_disk` of `datasets` has written it." if files else ""
    names = [str(file) for file in files if file.parent == files[0].parent]
    return f"{datasets_hint} Pass {' and '.join(names[:3]) if names else 'a file'}."


def _open_file(path, stack):
    if str(path) == STANDARD_INPUT:
        if sys.stdin is None:
            raise InputError("standard input is closed. Pass the path of a file.")
        buffer = getattr(sys.stdin, "buffer", None)
        return buffer or io.BytesIO(sys.stdin.read().encode("utf-8"))
    file = stack.enter_context(decompressed(stack.enter_context(open(expanded(path), "rb")), path))
    if suffix_of(path) not in _MAY_BE_HTML and _HTML.match(file.peek(200)[:200]):
        raise InputError(f"{path} is an HTML page. Download the raw file instead.")
    return file


def decompressed(file: io.BufferedReader, name: str | Path) -> io.BufferedReader:
    """Returns a file with the decompressed content of a gzip, xz or bzip2 file."""
    beginning = file.peek(50)[:50]
    for mark, decompress in _DECOMPRESSORS.items():
        if beginning.startswith(mark):
            return io.BufferedReader(_Decompressed(decompress(file, "rb"), file, name))
    for mark, description in _OTHER_FORMATS.items():
        if beginning.startswith(mark):
            raise InputError(f"{name} is {description}.")
    return file


class _Decompressed(io.RawIOBase):
    """Raw stream that decompresses a file."""

    def __init__(self, content: Any, file: io.BufferedReader, name: str | Path) -> None:
        self._content, self._file, self._name, self._count = content, file, name, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            size = self._content.readinto(buffer)
        except (EOFError, OSError, lzma.LZMAError, zlib.error) as error:
            if getattr(error, "errno", None):  # The file could not be read.
                raise
            raise InputError(
                f"{self._name} is damaged: {error}. Copy or compress the file again."
            ) from error
        self._count += size
        if self._count > FREE_BYTES and self._file.seekable():
            if self._count > MOST_RATIO * self._file.tell():
                raise InputError(
                    f"{self._name} decompresses to more than {MOST_RATIO} times its size. If you "
                    "trust the file, decompress it first."
                )
        return size


def _convert_to_utf8(file, stack):
    """Converts a file to UTF-8 and skips the byte order mark."""
    if not hasattr(file, "peek"):
        file = io.BufferedReader(file)
    beginning = file.peek(4)[:4]
    if beginning.startswith(codecs.BOM_UTF8):
        file.read(len(codecs.BOM_UTF8))
    marked = (encoding for mark, encoding in _WIDE.items() if beginning.startswith(mark))
    encoding = next(marked, None if beginning.startswith(codecs.BOM_UTF8) else _ENCODING.get())
    if encoding is None:
        return file
    text = io.TextIOWrapper(file, encoding, newline="\n")
    stack.callback(text.detach)
    return io.BufferedReader(_AsUtf8(text))


_ENCODING: contextvars.ContextVar[str | None] = contextvars.ContextVar("encoding", default=None)


@contextlib.contextmanager
def encoded_as(encoding: str | None) -> Iterator[None]:
    """Context that sets the encoding of text files without byte order mark. None means UTF-8."""
    if check("encoding", encoding, str | None) is not None:
        try:
            "".encode(encoding)
        except LookupError as error:
            raise InputError(
                f"unknown encoding {encoding!r}. Files from Windows or Excel often use cp1252."
            ) from error
        if codecs.lookup(encoding).name == "iso8859-1":
            encoding = "cp1252"  # As in browsers, Latin-1 is read as cp1252.
    before = _ENCODING.set(encoding)
    try:
        yield
    finally:
        _ENCODING.reset(before)


def is_utf8(path: str | Path) -> bool:
    """Returns whether a text file is in UTF-8 or starts with a byte order mark."""
    decode = codecs.getincrementaldecoder("utf-8")().decode
    with encoded_as(None), open_bytes(path) as file:
        try:
            while part := file.read(1 << 16):
                if b"\0" in part:
                    return False
                decode(part)
            decode(b"", final=True)
        except UnicodeDecodeError:
            return False
    return True


class _AsUtf8(io.RawIOBase):
    """Raw stream that converts a text file to UTF-8 bytes."""

    def __init__(self, text: TextIO) -> None:
        self._text, self._left = text, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._left:
            self._left = self._text.read(len(buffer)).encode("utf-8", "surrogatepass")
        size = min(len(buffer), len(self._left))
        buffer[:size], self._left = self._left[:size], self._left[size:]
        return size


def read_document(path: str | Path) -> str:
    """Returns the whole text of a file; see `raw_lines`."""
    with open_bytes(path) as file:
        data = file.read()
    try:
        if b"\0" not in data:
            return data.decode("utf-8")
        bad, error = data.find(b"\0"), InputError(_NUL)
    except UnicodeDecodeError as decode_error:
        bad = decode_error.start
        error = _make_utf8_error(bad - data.rfind(b"\n", 0, bad) - 1)
    line = data.count(b"\n", 0, bad) + 1
    raise InputError(f"{path}, line {line}: {error}")


def decoded(line: bytes, path: str | Path, number: int) -> str:
    """Like `text_of`; errors name the file and the line."""
    try:
        return text_of(line)
    except InputError as error:
        raise InputError(f"{path}, line {number}: {error}") from error


def text_of(line: bytes) -> str:
    """Removes the line ending and decodes the line; raises `InputError` for invalid bytes."""
    if b"\0" in line:
        raise InputError(_NUL)
    line = line.removesuffix(b"\n").removesuffix(b"\r")
    if len(line) > LONGEST_LINE:
        raise InputError(f"a line with more than {LONGEST_LINE:,} bytes is too long.")
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _make_utf8_error(error.start) from error


_NUL = "a NUL byte; the file is not text, or is UTF-16 without a byte order mark."


def _make_utf8_error(byte):
    return InputError(
        f"not UTF-8 (byte {byte}). If the file is from Windows or Excel, pass "
        '--encoding cp1252 (encoding="cp1252").'
    )
