"""Reading tables of labelled text: CSV, TSV and JSON lines."""

import codecs
import csv
import functools
import re
from pathlib import Path

from keras_bert_impl.errors import InputError, listed, shown
from keras_bert_impl.reading import parse_json_line
from keras_bert_impl.tasks.examples import Layout, examples_of

_HALF_A_CHARACTER = re.compile("[\ud800-\udfff]")  # JSON can escape it, UTF-8 cannot say it
FORMATS = {".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".json": "jsonl", ".ndjson": "jsonl"}
_LONGEST_ROW = 4 << 20  # bytes; a long novel. What has more is a file in a cell, or a lost quote


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
):
    """Reads texts and labels from a file with named columns.

    The suffix decides: `.csv` has commas and quotes, `.tsv` has tabs and no quoting at all, and
    `.jsonl` or `.json` holds a JSON object on each line. All are UTF-8, with or without a byte
    order mark, with LF or CRLF.

    Args:
        path: str or `Path`.
        text: str, the column of the text.
        pair: str, the column of the second segment; None for single texts.
        label: str, the column of the label; None for texts alone.
        labels: list of str, the labels that may occur; None for any.
        numeric: bool. Whether labels are numbers to be learned, for a regression.
        allow_empty: bool. Whether a text may be empty.
        id: str, a column whose values must differ from row to row; None for none.
        label_separator: str, such as `","`. A text has any number of labels, and this stands
            between their names; an empty cell is none. In JSON lines labels may be a list.
        skip_bad_rows: bool. Whether rows that cannot be used are left out; they are counted in a
            warning and listed in `skipped`.
        negative: str, the column of a third text, behind a pair; see `AnchorExamples`.

    Returns:
        `Examples`; the labels are names, lists of names with a `label_separator`, or floats where
        `numeric`.

    Raises:
        InputError: a missing column, or one of two of a name; a row of another length or of more
            than 4 MiB, a label that is not in the set, an empty text, a second row with an id,
            wrong encoding or a NUL byte; with file and line.

    Example:
        read_table("reviews.csv", text="review", label="stars", numeric=True)
    """
    path = Path(path)
    layout = Layout(text, pair, label, labels, numeric, allow_empty, id, label_separator, negative)
    return examples_of(path, table_rows(path, layout), layout, skip_bad_rows)


def table_rows(path, layout):
    """The rows of a table, read one after the other.

    Args:
        path: `Path`; see `read_table`.
        layout: `Layout`.

    Returns:
        Iterator of (line number, function): the function returns the row as a dict of column to
        str, or raises an `InputError`.
    """
    if path.suffix.lower() not in FORMATS:
        raise InputError(f"{path}: the name must end in {', '.join(FORMATS)} to say what it holds.")
    return _READERS[FORMATS[path.suffix.lower()]](path, layout)


# === Lines ===


def read_lines(path):
    """Yields (line number from 1, text without line end) of a UTF-8 file.

    Raises:
        InputError: no such file, bytes that are no UTF-8, or a NUL; with the line.
    """
    for number, line in raw_lines(path):
        yield number, decoded(line, path, number)


def raw_lines(path):
    """Yields (line number from 1, bytes with the line end) of a file, without byte order mark."""
    try:
        with open(path, "rb") as file:
            for number, line in enumerate(file, 1):
                if number == 1 and line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                    raise InputError(f"{path} is in UTF-16; convert it to UTF-8.")
                yield number, line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
    except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from error


def decoded(line, path, number):
    """str of a line's bytes, without line end; errors as of `read_lines`."""
    try:
        return _text_of(line)
    except InputError as error:
        raise InputError(f"{path}, line {number}: {error}") from error


def _text_of(line):
    if b"\0" in line:
        raise InputError("a NUL byte; this is no text file.")
    try:
        return line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-8 (byte {error.start}); convert the file to UTF-8.") from error


# === Rows: pairs of (line number, function that returns a dict of column to str) ===


def tsv_rows(path, layout, columns=None):
    """The rows of a file with tabs and no quoting, as `examples_of` takes them.

    Args:
        path: str or `Path`.
        layout: `Layout`.
        columns: list of str; None where the first line has the names.
    """
    for line, raw in raw_lines(path):
        if columns is None:
            columns = decoded(raw, path, line).split("\t")
            _check_columns(path, columns, layout)
        else:
            yield line, functools.partial(_tsv_row, columns, raw)


def _tsv_row(columns, raw):
    _check_size(raw)
    return _row(columns, _text_of(raw).split("\t"))


def _csv_rows(path, layout):
    columns = None
    for lines in csv_records(path):
        last, _ = lines[-1]
        if columns is None:
            try:
                columns = csv_cells(lines)
            except InputError as error:
                raise InputError(f"{path}, line {last}: {error}") from error
            _check_columns(path, columns, layout)
        elif len(lines) > 1 or lines[0][1].strip(b"\r\n"):
            yield last, functools.partial(_csv_row, columns, lines)


def csv_records(path):
    """Yields lists of (line number, bytes): one, and those into which a quoted cell goes on."""
    lines, is_open = [], False
    for line in raw_lines(path):
        lines.append(line)
        is_open = _ends_in_quotes(line[1], is_open)
        if not is_open:
            yield lines
            lines = []
    if lines:
        yield lines


def _ends_in_quotes(line, is_open):
    """bool. Whether a quoted cell goes on behind this line; `is_open`: whether one did before."""
    place, closed_at = line.find(b'"'), -1
    while place >= 0:
        if is_open:
            is_open, closed_at = False, place
        else:
            # At the beginning of a cell, or the second of two that stand for one.
            is_open = place == 0 or line[place - 1 : place] == b"," or closed_at == place - 1
        place = line.find(b'"', place + 1)
    return is_open


def _csv_row(columns, lines):
    try:
        return _row(columns, csv_cells(lines))
    except InputError as error:
        if len(lines) == 1:
            raise
        begins = f"(The row begins in line {lines[0][0]}.)"
        raise InputError(f"{error} {begins}") from error


def csv_cells(lines):
    """List of str, the cells of one of the `csv_records`."""
    raw = [line for _, line in lines]
    _check_size(*raw)
    before = csv.field_size_limit(_LONGEST_ROW)
    try:
        rows = list(csv.reader((_text_of(line) + "\n" for line in raw), strict=True))
    except csv.Error as error:
        raise InputError(f"not valid CSV: {error}.") from error
    finally:
        csv.field_size_limit(before)
    if len(rows) != 1:
        raise InputError("not valid CSV: a quote in the middle of a cell.")
    return rows[0]


def _json_rows(path, layout):
    for line, raw in raw_lines(path):
        yield line, functools.partial(_json_row, raw, layout)


def _json_row(raw, layout):
    _check_size(raw)
    row = parse_json_line(_text_of(raw), finite=True)
    if not isinstance(row, dict):
        raise InputError("expected a JSON object.")
    values = {}
    for name in layout.columns:
        if name not in row:
            raise InputError(f"there is no column {name!r}; there is {listed(row)}.")
        value, separator = row[name], layout.label_separator
        if name == layout.label and separator and isinstance(value, list):
            value = _joined(value, separator)
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            raise InputError(f"{name!r} must be a string or a number. Received: {shown(value)}")
        if _HALF_A_CHARACTER.search(str(value)):
            raise InputError(f"half of a surrogate pair in {name!r}.")
        values[name] = str(value)
    return values


def _joined(names, separator):
    for name in names:
        if not isinstance(name, str) or separator in name:
            raise InputError(f"labels must be names without {separator!r}. Received: {shown(name)}")
    return separator.join(names)


_READERS = {"csv": _csv_rows, "tsv": tsv_rows, "jsonl": _json_rows}


def _check_columns(path, columns, layout):
    for name in layout.columns:
        if columns.count(name) != 1:
            what = f"are {columns.count(name)} columns" if name in columns else "is no column"
            raise InputError(f"{path}: there {what} {name!r}; there is {listed(columns)}.")


def _check_size(*lines):
    size = sum(map(len, lines))
    if size > _LONGEST_ROW:
        raise InputError(f"a row of {size:,} bytes; up to {_LONGEST_ROW:,} can be a text.")


def _row(columns, cells):
    if len(cells) != len(columns):
        raise InputError(f"{len(cells)} columns, expected {len(columns)} ({listed(columns)}).")
    return dict(zip(columns, cells))
