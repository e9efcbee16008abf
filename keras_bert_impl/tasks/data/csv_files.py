"""CSV files: their delimiter, records and cells."""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.io.lines import raw_lines, text_of
from keras_bert_impl.tasks.data.typed_rows import LONGEST_ROW, check_size

_DELIMITERS = (",", ";", "\t", "|")  # tried in this order
_SEPARATOR = re.compile(rb'"?sep=([^\r\n"])"?[\r\n]*', re.IGNORECASE)


def column_names(cells, header):
    """Returns the names in a header, or the numbers of the columns of a table without one."""
    return [cell.strip() for cell in cells] if header else list(map(str, range(len(cells))))


def csv_header(
    path: Path, delimiter: str | None = None, needed: Sequence[str] = (), header: bool = True
) -> tuple[list[str], str]:
    """Returns (column names, delimiter) of a CSV file."""
    headers, errors = [], []
    for each in delimiter or _stated_delimiter(path) or _DELIMITERS:
        record = next(csv_records(path, each), None)
        try:
            columns = column_names(csv_cells(record.raw, each), header) if record else []
        except InputError as error:
            errors.append(f"{path}, line {record.last}: {error}")
            continue
        if needed and set(needed) <= set(columns):
            return columns, each
        headers.append((columns, each))
    if not headers:
        raise InputError(errors[0])
    return max(headers, key=lambda header: len(header[0]))


def _stated_delimiter(path):
    """Returns the delimiter in a first line such as `sep=;`, which Excel reads; None without."""
    stated = _SEPARATOR.fullmatch(next(raw_lines(path), (1, b""))[1])
    return stated and stated[1].decode("ascii", "replace")


class Record(NamedTuple):
    """A row of a CSV file.

    Attributes:
        first, last: numbers of its lines, from 1.
        raw: its bytes, with line ends. More than `LONGEST_ROW` if it is cut.
    """

    first: int
    last: int
    raw: bytes


def csv_records(path: str | Path, delimiter: str = ",") -> Iterator[Record]:
    """Yields the records that are not blank; quoted cells may span several lines."""
    raw, first, number = bytearray(), 1, 0
    is_open, before = False, delimiter.encode("utf-8")[-1:]
    for number, line in raw_lines(path):
        if number == 1 and _SEPARATOR.fullmatch(line):
            continue
        if not raw:
            first = number
        if len(raw) <= LONGEST_ROW:
            raw += line
        is_open = _ends_in_quotes(line, is_open, before)
        if not is_open:
            if raw.strip(b" \r\n"):
                yield Record(first, number, bytes(raw))
            raw = bytearray()
    if raw:
        yield Record(first, number, bytes(raw))


def _ends_in_quotes(line, is_open, before):
    """Returns whether a quoted cell continues after this line."""
    place, closed_at = line.find(b'"'), -1
    while place >= 0:
        if is_open:
            is_open, closed_at = False, place
        else:
            # At the beginning of a cell, or the second of two quotes that escape one.
            is_open = place == 0 or line[place - 1 : place] == before or closed_at == place - 1
        place = line.find(b'"', place + 1)
    return is_open


def csv_cells(raw: bytes, delimiter: str = ",") -> list[str]:
    """Splits one of the `csv_records` into cells."""
    check_size(raw)
    before = csv.field_size_limit(LONGEST_ROW)
    try:
        texts = (text_of(line) + "\n" for line in io.BytesIO(raw))
        rows = list(csv.reader(texts, strict=True, delimiter=delimiter))
    except csv.Error as error:
        raise InputError(f"not valid CSV: {error}.{_about_quotes(delimiter)}") from error
    finally:
        csv.field_size_limit(before)
    if len(rows) != 1:
        raise InputError(
            f"not valid CSV: a quote in the middle of a cell.{_about_quotes(delimiter)}"
        )
    return rows[0]


def _about_quotes(delimiter):
    is_tab = delimiter == "\t"
    return " If quotes are part of the texts, rename the file to .tsv." if is_tab else ""
