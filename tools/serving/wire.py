"""Reads and writes protocol buffers by field number, without message definitions."""

from collections.abc import Iterator
from pathlib import Path


def read_fields(message: bytes) -> dict[int, list]:
    """Returns the values in a message, keyed by field number."""
    fields: dict[int, list] = {}
    start = 0
    while start < len(message):
        key, start = _read_number(message, start)
        if key & 7 == 0:
            value, start = _read_number(message, start)
        else:
            size = {1: 8, 5: 4}.get(key & 7)
            if size is None:
                size, start = _read_number(message, start)
            value, start = message[start : start + size], start + size
        fields.setdefault(key >> 3, []).append(value)
    return fields


def read_numbers(message: bytes) -> list[int]:
    """Returns the numbers in the bytes of a packed field."""
    numbers, start = [], 0
    while start < len(message):
        number, start = _read_number(message, start)
        numbers.append(number)
    return numbers


def _read_number(message, start):
    """Returns a varint, and the position after it."""
    value = shift = 0
    while True:
        byte = message[start]
        start += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, start


def read_records(path: Path) -> Iterator[bytes]:
    """Yields the records of a TFRecord file. Yields nothing if the file does not exist."""
    data, start = path.read_bytes() if path.is_file() else b"", 0
    while start < len(data):
        size = int.from_bytes(data[start : start + 8], "little")
        start += 12  # after the length and its checksum
        yield data[start : start + size]
        start += size + 4


def write_field(number: int, content: bytes) -> bytes:
    """Returns the bytes of a length-delimited field."""
    return write_number(number << 3 | 2) + write_number(len(content)) + content


def write_number(number: int) -> bytes:
    """Returns the bytes of a varint for a non-negative number."""
    written = b""
    while number > 127:
        written += bytes([number & 127 | 128])
        number >>= 7
    return written + bytes([number])
