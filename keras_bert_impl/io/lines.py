"""Lines of text files: line ends, encodings, compression, standard input."""

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
from pathlib import Path

from keras_bert_impl.io.errors import InputError

STANDARD_INPUT = "-"
_LONGEST_LINE = 1 << 28  # bytes; compressed, a line without end has a thousandth of its length
COMPRESSED = (".gz", ".xz", ".bz2")
_DECOMPRESSORS = {b"\x1f\x8b": gzip.open, b"\xfd7zXZ\x00": lzma.open, b"BZh": bz2.open}
_WIDE = {  # the longer marks first: one begins with the other
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


def suffix_of(path):
    """str. The suffix of a file in lower case, without one of compression."""
    path = Path(path)
    if path.suffix.lower() in COMPRESSED:
        path = path.with_suffix("")
    return path.suffix.lower()


def read_lines(path):
    """Yields (line number from 1, text without line end) of a text file.

    Args:
        path: str or `Path`; `"-"` for standard input. See `raw_lines`.

    Raises:
        InputError: no such file, wrong encoding, or a NUL; with the line.
    """
    for number, line in raw_lines(path):
        yield number, decoded(line, path, number)


def raw_lines(path):
    """Yields (line number from 1, bytes with the line end) of a text file.

    Lines end in LF or CRLF; in a file without any LF, in CR. Other characters, such as U+2028 or a
    form feed, end no line. The bytes are UTF-8 without byte order mark: a file in UTF-16 or UTF-32
    with its mark is converted, and one compressed by gzip, xz or bzip2 is decompressed.

    Args:
        path: str or `Path`; `"-"` for standard input.

    Raises:
        InputError: the file cannot be read, is damaged, or has a line of more than 256 MiB.
    """
    with open_bytes(path) as file:
        lines = _bounded_lines(file, path)
        first, second = next(lines, b""), next(lines, None)
        if second is None and b"\r" in first.removesuffix(b"\n").removesuffix(b"\r"):
            ended = first.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
            lines = io.BytesIO(ended)
        else:
            lines = itertools.chain(filter(None, (first, second)), lines)
        yield from enumerate(lines, 1)


def _bounded_lines(file, path):
    readline = functools.partial(file.readline, _LONGEST_LINE + 1)
    for number, line in enumerate(iter(readline, b""), 1):
        if len(line) > _LONGEST_LINE:
            raise InputError(f"{path}, line {number} has more than {_LONGEST_LINE >> 20} MiB.")
        yield line


@contextlib.contextmanager
def open_bytes(path):
    """A buffered binary file to read: decompressed, UTF-8 without byte order mark.

    Args:
        path: str or `Path`; `"-"` for standard input.

    Raises:
        InputError: it cannot be read, or is damaged.
    """
    try:
        with contextlib.ExitStack() as stack:
            yield _converted(_opened(path, stack), stack)
    except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from error
    except (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{path} is damaged: {error}. Copy or compress it again.") from error
    except UnicodeError as error:
        raise InputError(f"{path} is not the text that its byte order mark says: {error}.") from error


def _opened(path, stack):
    if str(path) == STANDARD_INPUT:
        buffer = getattr(sys.stdin, "buffer", None)
        return buffer or io.BytesIO(sys.stdin.read().encode("utf-8"))
    file = stack.enter_context(open(path, "rb"))
    beginning = file.peek(8)[:8]
    for mark, decompress in _DECOMPRESSORS.items():
        if beginning.startswith(mark):
            return stack.enter_context(decompress(file, "rb"))
    return file


def _converted(file, stack):
    """The file behind its byte order mark, in UTF-8."""
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
    """The UTF-8 of a text file."""

    def __init__(self, text):
        self._text, self._left = text, b""

    def readable(self):
        return True

    def readinto(self, buffer):
        if not self._left:
            self._left = self._text.read(len(buffer)).encode("utf-8", "surrogatepass")
        size = min(len(buffer), len(self._left))
        buffer[:size], self._left = self._left[:size], self._left[size:]
        return size


def decoded(line, path, number):
    """str of a line's bytes, without line end; errors as of `read_lines`."""
    try:
        return text_of(line)
    except InputError as error:
        raise InputError(f"{path}, line {number}: {error}") from error


def text_of(line):
    """str of a line's bytes, without line end.

    Raises:
        InputError: a NUL byte, or bytes that are not UTF-8.
    """
    if b"\0" in line:
        raise InputError("a NUL byte; this is no text file, or UTF-16 without its mark.")
    try:
        return line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-8 (byte {error.start}); convert the file to UTF-8.") from error
