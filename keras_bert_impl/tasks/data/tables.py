"""Readers of tables of labelled text: CSV, TSV, JSON, Arrow and Parquet."""

import csv
import functools
import itertools
from pathlib import Path
from typing import NamedTuple

from keras_bert_impl.io.errors import InputError, listed
from keras_bert_impl.io.lines import decoded, raw_lines, suffix_of, text_of
from keras_bert_impl.tasks.data import typed_rows
from keras_bert_impl.tasks.data.examples import Layout, examples_of
from keras_bert_impl.tasks.data.typed_rows import LONGEST_ROW, check_size

_JSON = (".jsonl", ".ndjson", ".json")
FORMATS = (".csv", ".tsv", *_JSON, *typed_rows.PARQUET, *typed_rows.ARROW)
_DELIMITERS = (",", ";", "\t", "|")  # for .csv files, tried in this order


def read_table(
    path,
    text,
    pair=None,
    label=None,
    labels=None,
    numeric=False,
    allow_empty=False,
    id=None,
    label_separator=None,
    skip_bad_rows=False,
    negative=None,
    delimiter=None,
):
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
        path: str or `Path`.
        text: str. Column of the text.
        pair: str. Column of the second segment; None for single texts.
        label: str. Column of the label; None for texts without labels.
        labels: list of str. Allowed labels; None for any.
        numeric: bool. Whether labels are numbers, for regression. Default False.
        allow_empty: bool. Whether a text may be empty. Default False.
        id: str. A column whose values must be unique; None for none.
        label_separator: str, such as `","`. Separates the label names of a text, which may have any
            number of them; an empty cell means no label. A name that contains the separator is
            quoted. Lists of labels in JSON, Arrow and Parquet are read without it.
        skip_bad_rows: bool. Whether to leave out invalid rows; they are counted in a warning and
            listed in `skipped`. Default False.
        negative: str. Column of a third text, after a pair; see `AnchorExamples`.
        delimiter: str. One character that separates the cells of a file with quoting, whatever its
            suffix. Default: determined by the suffix.

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
    return examples_of(path, table.rows, layout, skip_bad_rows, table.unit)


def read_texts_of(path, text, pair=None, delimiter=None):
    """Yields the texts of a table one by one, for files of any size.

    Args:
        path, text, pair, delimiter: see `read_table`. Texts may be empty.

    Returns:
        Iterator of str, or with `pair` of (first, second) tuples.

    Raises:
        InputError: see `read_table`; raised while iterating.
    """
    layout = Layout(text, pair, allow_empty=True)
    table = open_table(path, layout, delimiter)
    for number, read in table.rows:
        try:
            yield layout.text_of(read())
        except InputError as error:
            raise InputError(f"{path}, {table.unit} {number}: {error}") from error


def in_blocks(texts, most=1024, most_characters=1 << 20):
    """Yields lists of texts, so that only one block of a long iterable is in memory at once.

    Args:
        texts: iterable of str, or of (first, second) tuples.
        most: int. Maximum number of texts per block. Default 1,024.
        most_characters: int. A block ends with the text that reaches this number of characters.
            Default 1,048,576.
    """
    block, characters = [], 0
    for text in texts:
        block.append(text)
        characters += len(text) if isinstance(text, str) else sum(map(len, text))
        if len(block) == most or characters >= most_characters:
            yield block
            block, characters = [], 0
    if block:
        yield block


class Table(NamedTuple):
    """A table that is read row by row.

    Attributes:
        rows: iterator of (number, function). The function returns the row as a dict of column to
            str, or raises `InputError`.
        unit: `"line"` or `"row"`, what the numbers count, from 1.
    """

    rows: object
    unit: str


def open_table(path, layout, delimiter=None):
    """Opens a table to read the columns of a layout.

    Args:
        path: str or `Path`; see `read_table`.
        layout: `Layout`.
        delimiter: str or None; see `read_table`.

    Returns:
        `Table`.
    """
    path, kind = Path(path), table_format(path, delimiter)
    if kind == "csv":
        return Table(_csv_rows(path, layout, delimiter), "line")
    if kind == "tsv":
        return Table(tsv_rows(path, layout), "line")
    if kind == "arrow":
        _check_columns(path, typed_rows.arrow_columns(path), layout)
        return Table(typed_rows.arrow_rows(path, layout), "row")
    if kind == "json" and typed_rows.is_json_array(path):
        return Table(typed_rows.json_array(path, layout), "row")
    return Table(typed_rows.json_lines(path, layout), "line")


def table_format(path, delimiter=None):
    """Returns the format of a file: `"csv"`, `"tsv"`, `"jsonl"`, `"json"` or `"arrow"`.

    Raises:
        InputError: the suffix is unknown, or the delimiter is not valid.
    """
    suffix = suffix_of(path)
    if delimiter is not None:
        if len(delimiter) != 1 or delimiter in '"\r\n':
            raise InputError(f"the delimiter must be one character. Received: {delimiter!r}")
        if suffix in FORMATS[2:]:
            raise InputError(f"{path} has no delimiter: it is no CSV or TSV file.")
        return "csv"
    if suffix not in FORMATS:
        raise InputError(
            f"{path}: the name must end in {', '.join(FORMATS)} to say what it holds, or a "
            "delimiter must be given."
        )
    if suffix in (*typed_rows.PARQUET, *typed_rows.ARROW):
        return "arrow"
    return {".ndjson": "jsonl"}.get(suffix, suffix[1:])


def table_columns(path, delimiter=None):
    """Returns the column names of a table as a list; for JSON, the keys of the first row."""
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


# === Rows: pairs of (line number, function that returns a dict of column to str) ===


def tsv_rows(path, layout, columns=None):
    """Yields the rows of a file with tabs and no quoting, for `examples_of`.

    Args:
        path: str or `Path`.
        layout: `Layout`.
        columns: list of str; None if the first line has the names.
    """
    for line, raw in raw_lines(path):
        if columns is None:
            columns = decoded(raw, path, line).split("\t")
            _check_columns(path, columns, layout)
        elif raw.strip(b" \r\n"):
            yield line, functools.partial(_tsv_row, columns, raw)


def _tsv_row(columns, raw):
    check_size(raw)
    return _row(columns, text_of(raw).split("\t"))


def _csv_rows(path, layout, delimiter):
    columns, delimiter = csv_header(path, delimiter, layout.columns)
    if columns:
        _check_columns(path, columns, layout)
    for lines in itertools.islice(csv_records(path, delimiter), 1, None):
        if len(lines) > 1 or lines[0][1].strip(b" \r\n"):
            yield lines[-1][0], functools.partial(_csv_row, columns, delimiter, lines)


def csv_header(path, delimiter=None, needed=()):
    """Returns (list of column names, delimiter) of a CSV file.

    Args:
        path: `Path`.
        delimiter: str; None for the first one that yields the needed columns, else the one that
            yields the most columns.
        needed: list of str.
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


def csv_records(path, delimiter=","):
    """Yields records as lists of (line number, bytes); quoted cells may span several lines."""
    lines, is_open, before = [], False, delimiter.encode("utf-8")[-1:]
    for line in raw_lines(path):
        lines.append(line)
        is_open = _ends_in_quotes(line[1], is_open, before)
        if not is_open:
            yield lines
            lines = []
    if lines:
        yield lines


def _ends_in_quotes(line, is_open, before):
    """bool. Whether a quoted cell continues after this line.

    Args:
        line: bytes.
        is_open: bool. Whether one is open before the line.
        before: bytes. The last byte of the delimiter.
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
        return _row(columns, csv_cells(lines, delimiter))
    except InputError as error:
        if len(lines) == 1:
            raise
        begins = f"(The row begins in line {lines[0][0]}.)"
        raise InputError(f"{error} {begins}") from error


def csv_cells(lines, delimiter=","):
    """Splits one of the `csv_records` into cells, a list of str."""
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


def _check_columns(path, columns, layout):
    for name in layout.columns:
        if columns.count(name) != 1:
            what = f"are {columns.count(name)} columns" if name in columns else "is no column"
            raise InputError(f"{path}: there {what} {name!r}; there is {listed(columns)}.")


def _row(columns, cells):
    if len(cells) != len(columns):
        raise InputError(f"{len(cells)} columns, expected {len(columns)} ({listed(columns)}).")
    return dict(zip(columns, cells))
