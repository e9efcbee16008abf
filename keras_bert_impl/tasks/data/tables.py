"""Readers of tables of labeled text: CSV, TSV, JSON, Arrow and Parquet."""

import csv
import dataclasses
import functools
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from keras_bert_impl.io.errors import InputError, listed
from keras_bert_impl.io.lines import decoded, raw_lines, suffix_of, text_of
from keras_bert_impl.tasks.data import typed_rows
from keras_bert_impl.tasks.data.examples import Examples, Layout, examples_of
from keras_bert_impl.tasks.data.typed_rows import LONGEST_ROW, Rows, check_size

_JSON = (".jsonl", ".ndjson", ".json")
FORMATS = (".csv", ".tsv", *_JSON, *typed_rows.PARQUET, *typed_rows.ARROW)
_COLUMNS = ("text", "pair", "negative", "label", "id", "label_separator")
_DELIMITERS = (",", ";", "\t", "|")  # for .csv files, tried in this order


def read_table(
    path: str | Path,
    text: str,
    pair: str | None = None,
    label: str | None = None,
    labels: list[str] | None = None,
    numeric: bool = False,
    allow_empty: bool = False,
    id: str | None = None,
    label_separator: str | None = None,
    skip_bad_rows: bool = False,
    negative: str | None = None,
    delimiter: str | None = None,
) -> Examples:
    """Reads texts and labels from a file with named columns.

    The suffix determines the format:

    - `.csv`: with quoting. The delimiter is the first of comma, semicolon, tab and `|` for which
      the first line has the requested columns;
    - `.tsv`: tabs without any quoting;
    - `.jsonl`, `.ndjson`: a JSON object on each line; `.json`: the same, or an array of objects;
    - `.parquet`, `.arrow`, `.feather`.

    Text files may be compressed, with `.gz`, `.xz` or `.bz2` after these suffixes. They are encoded
    in UTF-8, or in UTF-16 with a byte order mark; see `lines.raw_lines`. Blank lines are skipped.

    Args:
        path: file to read.
        text: column of the text.
        pair: column of the second segment; None for single texts.
        label: column of the label; None for texts without labels.
        labels: allowed labels; None for any.
        numeric: whether labels are numbers, for regression.
        allow_empty: whether a text may be empty.
        id: a column whose values must be unique.
        label_separator: separator of the label names of a text, such as `","`. A text may have any
            number of them; an empty cell means no label. A name that contains the separator is
            quoted. Lists of labels in JSON, Arrow and Parquet are read without it.
        skip_bad_rows: whether to skip invalid rows; they are counted in a warning and listed in
            `skipped`.
        negative: column of a third text, after a pair; see `AnchorExamples`.
        delimiter: character that separates the cells of a file with quoting, whatever its suffix.
            Default: determined by the suffix.

    Returns:
        `Examples`. The labels are names, lists of names with a `label_separator`, or floats if
        `numeric`.

    Raises:
        InputError: a column is missing or occurs twice; a row has another length or more than
            4 MiB; a label is not allowed, a text is empty, an id is repeated, the encoding is wrong
            or there is a NUL byte. The message gives file and line.

    Example:
        from keras_bert_impl.tasks import read_table
        read_table("reviews.csv", text="review", label="stars", numeric=True)
    """
    path = Path(path)
    layout = Layout(text, pair, label, labels, numeric, allow_empty, id, label_separator, negative)
    table = open_table(path, layout, delimiter)
    examples = examples_of(path, table.rows, layout, skip_bad_rows, table.unit)
    read_with = {name: getattr(layout, name) for name in _COLUMNS}
    read_with |= {"dev": str(path), "labels": labels, "delimiter": delimiter}
    read_with |= {"skip_bad_rows": skip_bad_rows, "regression": numeric}
    return dataclasses.replace(examples, read_with=read_with)


class Table(NamedTuple):
    """A table that is read row by row.

    Attributes:
        rows: (number, function) pairs. The function returns the row, or raises `InputError`.
        unit: `"line"` or `"row"`, what the numbers count, from 1.
    """

    rows: Rows
    unit: str


def open_table(path: str | Path, layout: Layout, delimiter: str | None = None) -> Table:
    """Opens a table to read the columns of a layout; for arguments see `read_table`."""
    path, kind = Path(path), table_format(path, delimiter)
    if kind == "csv":
        return Table(_csv_rows(path, layout, delimiter), "line")
    if kind == "tsv":
        return Table(tsv_rows(path, layout), "line")
    if kind == "arrow":
        _check_header(path, typed_rows.arrow_columns(path), layout)
        return Table(typed_rows.arrow_rows(path, layout), "row")
    if kind == "json" and typed_rows.is_json_array(path):
        return Table(typed_rows.json_array(path, layout), "row")
    return Table(typed_rows.json_lines(path, layout), "line")


def table_format(path: str | Path, delimiter: str | None = None) -> str:
    """Returns the format of a file: `"csv"`, `"tsv"`, `"jsonl"`, `"json"` or `"arrow"`.

    Raises:
        InputError: the suffix is unknown, or the delimiter is not valid.
    """
    suffix = suffix_of(path)
    if delimiter is not None:
        if len(delimiter) != 1 or delimiter in '"\r\n':
            raise InputError(f"the delimiter must be one character. Received: {delimiter!r}")
        if suffix in FORMATS[2:]:
            raise InputError(f"{path} is not a CSV or TSV file, so it has no delimiter.")
        return "csv"
    if suffix not in FORMATS:
        raise InputError(
            f"{path}: unknown format. The name must end in {', '.join(FORMATS)}, or pass a "
            "delimiter."
        )
    if suffix in (*typed_rows.PARQUET, *typed_rows.ARROW):
        return "arrow"
    return {".ndjson": "jsonl"}.get(suffix, suffix[1:])


def table_columns(path: str | Path, delimiter: str | None = None) -> list[str]:
    """Returns the column names of a table; for JSON, the keys of the first row."""
    path, kind = Path(path), table_format(path, delimiter)
    if kind == "csv":
        return csv_header(path, delimiter)[0]
    if kind == "arrow":
        return typed_rows.arrow_columns(path)
    if kind == "tsv":
        return next((decoded(raw, path, line).split("\t") for line, raw in raw_lines(path)), [])
    is_array = kind == "json" and typed_rows.is_json_array(path)
    rows = typed_rows.json_array(path) if is_array else typed_rows.json_lines(path)
    return next((list(read()) for _, read in rows), [])


def check_columns(path: str | Path, layout: Layout, delimiter: str | None = None) -> None:
    """Checks that the header of a table has the columns of a layout; reads no rows.

    The rows of JSON files have names of their own, which are checked when they are read.

    Raises:
        InputError: the file is not a table, or has other columns.
    """
    kind = table_format(path, delimiter)
    if kind == "csv":
        columns = csv_header(Path(path), delimiter, layout.columns)[0]
    else:
        columns = table_columns(path) if kind in ("tsv", "arrow") else []
    if columns:
        _check_header(path, columns, layout)


# === Rows: pairs of (line number, function that returns a dict of column to str) ===


def tsv_rows(path: str | Path, layout: Layout, columns: list[str] | None = None) -> Rows:
    """Yields the rows of a file with tabs and no quoting, for `examples_of`.

    Args:
        path, layout: file and columns to read.
        columns: names of all columns; None if the first line has them.
    """
    for line, raw in raw_lines(path):
        if columns is None:
            columns = decoded(raw, path, line).split("\t")
            _check_header(path, columns, layout)
        elif raw.strip(b" \r\n"):
            yield line, functools.partial(_tsv_row, columns, raw)


def _tsv_row(columns, raw):
    check_size(raw)
    return _row(columns, text_of(raw).split("\t"))


def _csv_rows(path, layout, delimiter):
    columns, delimiter = csv_header(path, delimiter, layout.columns)
    if columns:
        _check_header(path, columns, layout)
    for lines in itertools.islice(csv_records(path, delimiter), 1, None):
        if len(lines) > 1 or lines[0][1].strip(b" \r\n"):
            yield lines[-1][0], functools.partial(_csv_row, columns, delimiter, lines)


def csv_header(
    path: Path, delimiter: str | None = None, needed: Sequence[str] = ()
) -> tuple[list[str], str]:
    """Returns (column names, delimiter) of a CSV file.

    Args:
        path: file to read.
        delimiter: None for the first one that yields the needed columns, else the one that yields
            the most columns.
        needed: columns that the file must have.
    """
    headers, errors = [], []
    for each in delimiter or _DELIMITERS:
        lines = next(csv_records(path, each), None)
        try:
            columns = [name.strip() for name in csv_cells(lines, each)] if lines else []
        except InputError as error:
            errors.append(f"{path}, line {lines[-1][0]}: {error}")
            continue
        if needed and set(needed) <= set(columns):
            return columns, each
        headers.append((columns, each))
    if not headers:
        raise InputError(errors[0])
    return max(headers, key=lambda header: len(header[0]))


def csv_records(path: str | Path, delimiter: str = ",") -> Iterator[list[tuple[int, bytes]]]:
    """Yields records as lists of (line number, bytes); quoted cells may span several lines."""
    lines: list[tuple[int, bytes]] = []
    is_open, before = False, delimiter.encode("utf-8")[-1:]
    for line in raw_lines(path):
        lines.append(line)
        is_open = _ends_in_quotes(line[1], is_open, before)
        if not is_open:
            yield lines
            lines = []
    if lines:
        yield lines


def _ends_in_quotes(line, is_open, before):
    """Returns whether a quoted cell continues after this line.

    Args:
        line: bytes.
        is_open: whether one is open before the line.
        before: the last byte of the delimiter.
    """
    place, closed_at = line.find(b'"'), -1
    while place >= 0:
        if is_open:
            is_open, closed_at = False, place
        else:
            # At the beginning of a cell, or the second of two quotes that escape one.
            is_open = place == 0 or line[place - 1 : place] == before or closed_at == place - 1
        place = line.find(b'"', place + 1)
    return is_open


def _csv_row(columns, delimiter, lines):
    try:
        cells = csv_cells(lines, delimiter)
        if len(cells) > 1 and [cell.strip() for cell in cells] == columns:
            raise InputError("the row repeats the header; if files were joined, remove it.")
        return _row(columns, cells)
    except InputError as error:
        if len(lines) == 1:
            raise
        raise InputError(f"{error} (The row starts on line {lines[0][0]}.)") from error


def csv_cells(lines: list[tuple[int, bytes]], delimiter: str = ",") -> list[str]:
    """Splits one of the `csv_records` into cells."""
    raw = [line for _, line in lines]
    check_size(*raw)
    before = csv.field_size_limit(LONGEST_ROW)
    try:
        texts = (text_of(line) + "\n" for line in raw)
        rows = list(csv.reader(texts, strict=True, delimiter=delimiter))
    except csv.Error as error:
        raise InputError(f"not valid CSV: {error}.") from error
    finally:
        csv.field_size_limit(before)
    if len(rows) != 1:
        raise InputError("not valid CSV: a quote in the middle of a cell.")
    return rows[0]


def _check_header(path, columns, layout):
    for name in layout.columns:
        if columns.count(name) != 1:
            count = f"{columns.count(name)} columns" if name in columns else "no column"
            raise InputError(f"{path}: {count} named {name!r}. Found: {listed(columns)}")


def _row(columns, cells):
    if len(cells) != len(columns):
        raise InputError(f"{len(cells)} columns, expected {len(columns)} ({listed(columns)}).")
    return dict(zip(columns, cells))
