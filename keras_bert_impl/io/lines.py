"""Lines of text files: line endings, encodings, compression and standard input."""

import bz2
import codecs
import contextlib
import functools
import gzip
import io
import itertools
import lzma
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from keras_bert_impl.io.errors import InputError

STANDARD_INPUT = "-"
_LONGEST_LINE = 1 << 28  # bytes; compressed, an endless line takes a thousandth of its length
COMPRESSED = (".gz", ".xz", ".bz2")
_DECOMPRESSORS: dict[bytes, Any] = {
    b"\x1f\x8b": gzip.open,
    b"\xfd7zXZ\x00": lzma.open,
    b"BZh": bz2.open,
}
_WIDE = {  # longer marks first: the UTF-32 mark begins with the UTF-16 one
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


def suffix_of(path: str | Path) -> str:
    """Returns a file's suffix in lower case, ignoring a compression suffix."""
    path = Path(path)
    if path.suffix.lower() in COMPRESSED:
        path = path.with_suffix("")
    return path.suffix.lower()


def read_lines(path: str | Path) -> Iterator[tuple[int, str]]:
    """Yields (line number from 1, text without line ending) as `raw_lines` does; rejects NUL bytes."""
    for number, line in raw_lines(path):
        yield number, decoded(line, path, number)


def raw_lines(path: str | Path) -> Iterator[tuple[int, bytes]]:
    """Yields (line number from 1, bytes with line ending) for each line of a text file.

    Lines end in LF or CRLF, or in CR if the file has no LF. Other characters, such as U+2028 or a
    form feed, do not end a line. The bytes are UTF-8 without a byte order mark. UTF-16 and UTF-32
    files with a byte order mark are converted; gzip, xz and bzip2 files are decompressed.

    Args:
        path: str or `Path`; `"-"` for standard input.

    Raises:
        InputError: the file cannot be read, is damaged, or has a line longer than 256 MiB.
    """
    with open_bytes(path) as file:
        lines = _bounded_lines(file, path)
        first, second = next(lines, b""), next(lines, b"")
        if not second and b"\r" in first.removesuffix(b"\n").removesuffix(b"\r"):
            lines = io.BytesIO(first.replace(b"\r\n", b"\n").replace(b"\r", b"\n"))
        else:
            lines = itertools.chain(filter(None, (first, second)), lines)
        yield from enumerate(lines, 1)


def _bounded_lines(file, path):
    readline = functools.partial(file.readline, _LONGEST_LINE + 1)
    for number, line in enumerate(iter(readline, b""), 1):
        if len(line) > _LONGEST_LINE:
            raise InputError(f"{path}, line {number} is longer than {_LONGEST_LINE >> 20} MiB.")
        yield line


@contextlib.contextmanager
def open_bytes(path: str | Path) -> Iterator[BinaryIO]:
    """Opens a buffered binary file for reading: decompressed, UTF-8, without a byte order mark."""
    try:
        with contextlib.ExitStack() as stack:
            yield _converted(_opened(path, stack), stack)
    except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from error
    except (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{path} is damaged: {error}. Copy or compress it again.") from error
    except UnicodeError as error:
        name = "standard input" if str(path) == STANDARD_INPUT else path
        raise InputError(f"{name} does not match its byte order mark: {error}.") from error


def _opened(path, stack):
    if str(path) == STANDARD_INPUT:
        if sys.stdin is None:
            raise InputError("standard input is closed; give the path of a file.")
        buffer = getattr(sys.stdin, "buffer", None)
        return buffer or io.BytesIO(sys.stdin.read().encode("utf-8"))
    file = stack.enter_context(open(path, "rb"))
    return stack.enter_context(decompressed(file))


def decompressed(file: io.BufferedReader) -> Any:
    """Returns a file that reads what a gzip, xz or bzip2 file contains; any other file as it is."""
    beginning = file.peek(8)[:8]
    for mark, decompress in _DECOMPRESSORS.items():
        if beginning.startswith(mark):
            return decompress(file, "rb")
    return file


def _converted(file, stack):
    """Returns the file as UTF-8, positioned after any byte order mark."""
    if not hasattr(file, "peek"):
        file = io.BufferedReader(file)
    beginning = file.peek(4)[:4]
    if beginning.startswith(codecs.BOM_UTF8):
        file.read(len(codecs.BOM_UTF8))
    for mark, encoding in _WIDE.items():
        if beginning.startswith(mark):
            text = io.TextIOWrapper(file, encoding, newline="\n")
            stack.callback(text.detach)
            return io.BufferedReader(_AsUtf8(text))
    return file


class _AsUtf8(io.RawIOBase):
    """Raw stream that encodes a text file as UTF-8."""

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


def decoded(line: bytes, path: str | Path, number: int) -> str:
    """Decodes the bytes of a line to a str without line ending; raises as `read_lines` does."""
    try:
        return text_of(line)
    except InputError as error:
        raise InputError(f"{path}, line {number}: {error}") from error


def text_of(line: bytes) -> str:
    """Decodes the bytes of a line to a str without line ending."""
    if b"\0" in line:
        raise InputError(
            "a NUL byte; the file is not text, or is UTF-16 without a byte order mark."
        )
    try:
        return line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-8 (byte {error.start}); convert the file to UTF-8.") from error
