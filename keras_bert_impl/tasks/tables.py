"""Reading tables of labelled text: CSV, TSV and JSON lines."""

import codecs
import csv
import json
import re
from pathlib import Path

from keras_bert_impl.errors import InputError, listed
from keras_bert_impl.tasks.examples import Examples

_HALF_A_CHARACTER = re.compile("[\ud800-\udfff]")  # JSON can escape it, UTF-8 cannot say it
FORMATS = {".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".json": "jsonl", ".ndjson": "jsonl"}


def read_table(path, text, pair=None, label=None, labels=None, numeric=False, allow_empty=False):
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

    Returns:
        `Examples`; the labels are names, or floats where `numeric`.

    Raises:
        InputError: a missing column, a row of another length, a label that is not in the set, an
            empty text, wrong encoding or a NUL byte; with file and line.

    Example:
        read_table("reviews.csv", text="review", label="stars", numeric=True)
    """
    path = Path(path)
    rows = read_rows(path, [name for name in (text, pair, label) if name is not None])
    return examples_of(path, rows, text, pair, label, labels, numeric, allow_empty)


def read_rows(path, wanted):
    """Yields (line number, dict of column to str) of a table, a row at a time.

    Args:
        path: `Path`; see `read_table`.
        wanted: list of str, columns that it must have.
    """
    if path.suffix.lower() not in FORMATS:
        raise InputError(f"{path}: the name must end in {', '.join(FORMATS)} to say what it holds.")
    return _READERS[FORMATS[path.suffix.lower()]](path, wanted)


def examples_of(
    path, rows, text, pair=None, label=None, labels=None, numeric=False, allow_empty=False
):
    """`Examples` of `(line number, dict of column to str)` pairs; the rest is as `read_table`."""
    texts, values, lines = [], [], []
    for line, row in rows:
        segments = [row[name] for name in (text, pair) if name is not None]
        for name, segment in zip((text, pair), segments):
            if not allow_empty and not segment.strip():
                raise InputError(f"{path}, line {line}: the text in column {name!r} is empty.")
        texts.append(tuple(segments) if pair is not None else segments[0])
        lines.append(line)
        if label is not None:
            values.append(_label(row[label], labels, numeric, f"{path}, line {line}"))
    if not texts:
        raise InputError(f"{path} has no rows.")
    return Examples(texts, values if label is not None else None, source=str(path), lines=lines)


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
                yield number, line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
    except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from error


def decoded(line, path, number):
    """str of a line's bytes, without line end; errors as of `read_lines`."""
    if b"\0" in line:
        raise InputError(f"{path}, line {number}: a NUL byte; this is no text file.")
    try:
        return line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}, line {number}: not UTF-8 (byte {error.start}); convert the file to UTF-8."
        ) from error


def read_tsv(path, columns=None, wanted=()):
    """Yields (line number, dict of column to text) of a file with tabs and no quoting.

    Args:
        path: str or `Path`.
        columns: list of str; None where the first line has the names.
        wanted: names that must be among them.
    """
    for line, text in read_lines(path):
        cells = text.split("\t")
        if columns is None:
            columns = cells
            _check_columns(path, columns, wanted)
            continue
        yield line, _row(path, line, columns, cells)


def _read_csv(path, wanted):
    lines = (text + "\n" for _, text in read_lines(path))
    reader = csv.reader(lines, strict=True)
    columns = None
    try:
        for cells in reader:
            if columns is None:
                columns = cells
                _check_columns(path, columns, wanted)
            elif cells:
                yield reader.line_num, _row(path, reader.line_num, columns, cells)
    except csv.Error as error:
        raise InputError(f"{path}, line {reader.line_num}: not valid CSV: {error}.") from error


def _read_json_lines(path, wanted):
    for line, text in read_lines(path):
        try:
            row = json.loads(text)
        except (json.JSONDecodeError, RecursionError) as error:
            raise InputError(f"{path}, line {line}: not valid JSON: {error}.") from error
        if not isinstance(row, dict):
            raise InputError(f"{path}, line {line}: expected a JSON object.")
        _check_columns(f"{path}, line {line}", list(row), wanted)
        values = {name: row[name] for name in wanted}
        for name, value in values.items():
            if isinstance(value, bool) or not isinstance(value, (str, int, float)):
                raise InputError(
                    f"{path}, line {line}: {name!r} must be a string or a number. "
                    f"Received: {value!r:.40}"
                )
            if _HALF_A_CHARACTER.search(str(value)):
                raise InputError(f"{path}, line {line}: half of a surrogate pair in {name!r}.")
        yield line, {name: str(value) for name, value in values.items()}


_READERS = {
    "csv": _read_csv,
    "tsv": lambda path, wanted: read_tsv(path, wanted=wanted),
    "jsonl": _read_json_lines,
}


def _check_columns(where, columns, wanted):
    for name in wanted:
        if name not in columns:
            raise InputError(f"{where}: there is no column {name!r}; there is {listed(columns)}.")


def _row(path, line, columns, cells):
    if len(cells) != len(columns):
        raise InputError(
            f"{path}, line {line}: {len(cells)} columns, expected {len(columns)} "
            f"({listed(columns)})."
        )
    return dict(zip(columns, cells))


def _label(value, labels, numeric, where):
    if numeric:
        try:
            number = float(value)
        except ValueError as error:
            raise InputError(f"{where}: the label {value!r} is no number.") from error
        if abs(number) == float("inf") or number != number:
            raise InputError(f"{where}: the label {value!r} is not finite.")
        return number
    if not value or (labels is not None and value not in labels):
        raise InputError(f"{where}: the label {value!r} is none of {listed(labels or [])}.")
    return value
