"""Readers of rows in CSV files, and checks of the quotes in CSV and TSV files."""

import collections
import contextlib
import csv
import functools
import io
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from keras_bert_impl.data.tables.table_rows import CHUNK, LONGEST_ROW, check_size
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.io.lines import open_bytes, raw_lines, suffix_of, text_of
from keras_bert_impl.utils.io.paths import local_path

_DELIMITERS = (",", ";", "\t", "|")  # in order of preference
_SEPARATOR = re.compile(rb'"?sep=([^\r\n"])"?[\r\n]*', re.IGNORECASE)
_QUOTED = re.compile(rb'(?:\A|(?<=\t))"((?:[^"]|"")*)"(?=[\t\r\n]|\Z)')  # whole cell in a TSV file
_SAMPLE = 10_000  # rows that show which cells a column usually has
_NUMBER = re.compile(r"[+-]?\d+([.,]\d+)?")


def column_names(cells: Sequence[str], header: bool) -> list[str]:
    return [cell.strip() for cell in cells] if header else list(map(str, range(len(cells))))


def csv_header(
    path: Path, delimiter: str | None = None, needed: Sequence[str] = (), header: bool = True
) -> tuple[list[str], str]:
    """Returns the column names and the delimiter, which is detected if it is None."""
    headers, errors = [], []
    possible = "\t" if suffix_of(path) == ".tsv" else _read_stated_delimiter(path) or _DELIMITERS
    for each in delimiter or possible:
        record = next(csv_records(path, each), None)
        try:
            columns = column_names(csv_cells(record, each), header) if record else []
        except InputError as error:
            errors.append(f"{path}, line {record.last}: {error}")
            continue
        if needed and set(needed) <= set(columns):
            return columns, each
        headers.append((columns, each))
    if not headers:
        raise InputError(errors[0])
    return max(headers, key=lambda header: len(header[0]))


def _read_stated_delimiter(path):
    """Returns the delimiter in a first line such as `sep=;` (Excel)."""
    stated = _SEPARATOR.fullmatch(next(raw_lines(path), (1, b""))[1])
    return stated and stated[1].decode("ascii", "replace")


class Record(NamedTuple):
    """A row of a CSV file.

    Attributes:
        first, last: 1-based line numbers.
        raw: the bytes of the row with line ends; truncated if longer than `LONGEST_ROW`.
        error: message if the row is part of a quoted cell that looks like several rows.
    """

    first: int
    last: int
    raw: bytes
    error: str | None = None


def csv_records(path: str | Path, delimiter: str = ",") -> Iterator[Record]:
    """Yields the rows that are not blank; quoted cells may span several lines.

    A stray quote joins the rows up to the next quote. If the lines of a record look like rows, each
    line is yielded as a record with an `error`.
    """
    usual_cells = functools.cache(functools.partial(_collect_usual_cells, path, delimiter))
    for record in _read_records(path, delimiter):
        if record.first < record.last and _has_rows(record, delimiter, usual_cells):
            yield from _split_into_lines(record)
        else:
            yield record


def _read_records(path, delimiter):
    raw, first, number = bytearray(), 1, 0
    is_open, before = False, delimiter.encode("utf-8")[-1:]
    for number, line in raw_lines(path):
        if number == 1 and _SEPARATOR.fullmatch(line):
            continue
        if not raw:
            first = number
        if len(raw) <= LONGEST_ROW:
            raw += line
        is_open = _has_open_quote(line, is_open, before)
        if not is_open:
            if raw.strip(b" \r\n"):
                yield Record(first, number, bytes(raw))
            raw = bytearray()
    if raw:
        yield Record(first, number, bytes(raw))


def _has_open_quote(line, is_open, before):
    """Whether a quoted cell continues after this line."""
    place, closed_at = line.find(b'"'), -1
    while place >= 0:
        if is_open:
            is_open, closed_at = False, place
        else:
            # The quote starts a cell or completes an escaped quote.
            is_open = place == 0 or line[place - 1 : place] == before or closed_at == place - 1
        place = line.find(b'"', place + 1)
    return is_open


def csv_cells(record: Record, delimiter: str = ",") -> list[str]:
    if record.error:
        raise InputError(record.error)
    check_size(record.raw)
    before = csv.field_size_limit(LONGEST_ROW)
    try:
        texts = (text_of(line) + "\n" for line in io.BytesIO(record.raw))
        rows = list(csv.reader(texts, strict=True, delimiter=delimiter))
    except csv.Error as error:
        raise InputError(f"not valid CSV: {error}.{_explain_quotes(delimiter)}") from error
    finally:
        csv.field_size_limit(before)
    if len(rows) != 1:
        raise InputError(
            f"not valid CSV: a quote in the middle of a cell.{_explain_quotes(delimiter)}"
        )
    return rows[0]


def _explain_quotes(delimiter):
    is_tab = delimiter == "\t"
    return " If quotes are part of the texts, rename the file to .tsv." if is_tab else ""


# === Stray quotes ===


def _split_into_lines(record):
    message = (
        f"lines {record.first} to {record.last} are one quoted cell, but look like rows. Remove "
        f"the stray quote on line {record.first} or {record.last}, or write it twice inside of a "
        'quoted cell (""). If the lines are one cell, save the table as .jsonl.'
    )
    numbers = range(record.first, record.last + 1)
    for number, line in itertools.zip_longest(numbers, io.BytesIO(record.raw), fillvalue=b"?"):
        if line.strip():
            yield Record(number, number, line, message)


def _has_rows(record: Record, delimiter: str, usual_cells: Callable[[], list]) -> bool:
    """Whether the lines of a record look like rows that a stray quote has joined.

    Most lines must have as many cells as the other rows. In a valid record, which may be a text
    with line breaks, the cells must also be like the cells of the other rows.
    """
    beginning = record.raw[:CHUNK]
    if len(record.raw) > CHUNK:
        beginning = beginning.rpartition(b"\n")[0]
    lines = [line for line in beginning.decode("utf-8", "replace").split("\n") if line.strip()]
    if len(lines) < 2:
        return False
    # The last quote of the first line starts the cell.
    before, _, after = lines[0].rpartition('"')
    whole_cells = _split(before, delimiter)[:-1]
    rows = [whole_cells + after.split(delimiter)]
    width = len(rows[0])
    if width < 2 or len(_split(lines[-1], delimiter)) != width:
        return False
    later_rows = (_split(line, delimiter) for line in lines[1:])
    rows += [cells for cells in later_rows if len(cells) == width]
    share = len(rows) / len(lines)
    columns = usual_cells()
    if share < 0.5 or (columns and len(columns) != width):
        return False
    if share >= 0.9 and _are_like(rows, columns, len(whole_cells)):
        return True
    try:
        csv_cells(record, delimiter)
    except InputError:
        return True
    return False


def _split(line, delimiter):
    """Splits a line at each delimiter outside of quotes."""
    line = line.rstrip("\r\n")
    if '"' in line:
        with contextlib.suppress(csv.Error):  # a cell may be too long for the library
            return next(csv.reader([line], delimiter=delimiter), [""])
    return line.split(delimiter)


def _collect_usual_cells(path, delimiter):
    """Returns the cells of each column in the rows that have one line; [] for a pipe."""
    if not local_path(path).is_file():
        return []
    records = itertools.islice(_read_records(path, delimiter), 1, _SAMPLE)
    rows = [
        _split(record.raw.decode("utf-8", "replace"), delimiter)
        for record in records
        if record.first == record.last
    ]
    widths = collections.Counter(map(len, rows)).most_common(1)
    return list(zip(*(row for row in rows if len(row) == widths[0][0])))


def _are_like(rows, columns, column_of_text):
    """Whether rows have cells such as those in other rows: numbers, or the same few values."""
    pairs = list(itertools.zip_longest(zip(*rows), columns, fillvalue=()))
    pairs = [([cell.strip('"\r') for cell in cells], usual) for cells, usual in pairs]
    del pairs[column_of_text]
    verdicts = {_is_like(cells, usual) for cells, usual in pairs}
    if verdicts != {None}:
        return False not in verdicts
    # All columns are texts. In prose, a space follows a comma.
    return (
        bool(columns)
        and len(rows) > 2
        and not any(
            set(cells) & set(usual) or any(cell[:1] in ("", " ") for cell in cells)
            for cells, usual in pairs
        )
    )


def _is_like(cells, usual):
    """Returns None if the usual cells of a column are too few or differ too much to tell."""
    values, usual_values = set(cells), set(usual)
    if "" in values and "" not in usual_values:
        return False
    if usual and all(map(_NUMBER.fullmatch, usual_values)):
        return all(map(_NUMBER.fullmatch, values))
    if values <= usual_values or 2 * len(values) <= len(cells):
        return True if any(cells) else None
    return False if len(usual) > 9 and 2 * len(usual_values) <= len(usual) else None


# === Quotes in TSV files ===


def has_quoted_cells(path: str | Path) -> bool:
    """Whether the cells of a TSV file are quoted, as pandas and Excel write them.

    This requires that all quotes of the file enclose whole cells or are doubled inside of such
    cells, and that a header, a doubled quote, or a tab or line break in a cell shows it.
    """
    with open_bytes(path) as file:
        if not any(b'"' in part for part in iter(functools.partial(file.read, CHUNK), b"")):
            return False
    is_shown = False
    for number, record in enumerate(_read_records(path, "\t")):
        if b'"' not in record.raw:
            continue
        if b'"' in _QUOTED.sub(b"", record.raw):
            return False
        cells = _QUOTED.findall(record.raw)
        is_quoted_header = not number and len(cells) == record.raw.count(b"\t") + 1 > 1
        is_shown |= is_quoted_header or any(
            mark in cell for cell in cells for mark in (b'""', b"\t", b"\n")
        )
    return is_shown
