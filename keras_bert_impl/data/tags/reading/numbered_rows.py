"""Reads the rows of tables, with row or line numbers, from files and from memory."""

import functools
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from keras_bert_impl.data.tables import table_rows
from keras_bert_impl.data.tables.csv_rows import (
    csv_cells,
    csv_header,
    csv_records,
    has_quoted_cells,
)
from keras_bert_impl.data.tables.table_rows import Table as Rows
from keras_bert_impl.data.tags.reading.forms import ARROW_ROWS, TABLE
from keras_bert_impl.data.tags.reading.names import TEXTS, WORDS, find_name
from keras_bert_impl.utils.errors import InputError, listed
from keras_bert_impl.utils.io.lines import open_bytes, raw_lines, suffix_of, text_of
from keras_bert_impl.utils.io.paths import local_path
from keras_bert_impl.utils.io.reading import parse_json, parse_json_line

_LARGEST_OBJECT = 256 << 20  # maximum bytes of a JSON object


def open_rows(path: str | Path, form: str, delimiter: str | None, has_header: bool) -> Rows:
    if form == ARROW_ROWS:
        return Rows(table_rows.arrow_rows(path), "row", table_rows.arrow_classes(path))
    if form == TABLE:
        suffix = suffix_of(path)
        is_quoted = delimiter is not None or suffix == ".csv"
        is_quoted = is_quoted or suffix == ".tsv" and has_quoted_cells(path)
        read = _read_quoted_rows if is_quoted else _read_plain_rows
        return Rows(read(local_path(path), delimiter, has_header), "line")
    if table_rows.is_json_array(path) and not _has_lists_in_lines(path):
        items = enumerate(table_rows.array_items(path), 1)
        return Rows(
            ((number, functools.partial(_parse_text, text)) for number, text in items), "row"
        )
    return _open_json_rows(path)


# === Tables ===


def _read_quoted_rows(path, delimiter, has_header):
    header, delimiter = csv_header(path, delimiter, header=has_header)
    last = 0
    for number, record in enumerate(csv_records(path, delimiter)):
        if record.first > last + 1:  # there is a blank line between them
            yield last + 1, lambda: None
        last = record.last
        if number or not has_header:
            cells = functools.partial(csv_cells, record, delimiter)
            yield last, functools.partial(_read_dict, header, cells)


def _read_plain_rows(path, delimiter, has_header):
    """Yields rows of cells without quotes, which are separated by tabs or spaces."""
    header, split = None, None
    for number, line in raw_lines(path):
        is_blank = not line.strip() or line.startswith(b"-DOCSTART-")
        if header is None and not is_blank:
            split = "\t" if b"\t" in line else None
            header = [name.strip() for name in text_of(line).split(split)]
            if has_header:
                continue
            header = [str(column) for column in range(len(header))]
        cells = functools.partial(_split, line, split)
        yield number, functools.partial(_read_dict, header, None if is_blank else cells)


def _split(line, mark):
    return text_of(line).split(mark)


def _read_dict(header, read):
    """Reads a row as a dict. Returns None if the row is blank."""
    cells = [] if read is None else read()
    if not any(cell.strip() for cell in cells):
        return None
    if len(cells) != len(header):
        raise InputError(f"{len(cells)} columns, expected {len(header)} ({listed(header)}).")
    return dict(zip(header, cells))


# === JSON ===


def _open_json_rows(path):
    lines = (
        (number, functools.partial(_parse_line, line))
        for number, line in raw_lines(path)
        if line.strip()
    )
    whole = None if _has_lists_in_lines(path) else _read_whole_object(path)
    if whole is None:
        return Rows(lines, "line")
    rows = _transpose_columns(whole) or _find_inner_rows(whole)
    if rows is None:
        return Rows(iter([(1, lambda: whole)]), "row")
    numbered = ((number, lambda row=row: row) for number, row in enumerate(rows, 1) if row)
    return Rows(numbered, "row")


def _has_lists_in_lines(path):
    """Returns whether the first line is a list, such as ["text", {"entities": []}]."""
    first = next((line for _, line in raw_lines(path) if line.strip()), b"")
    return bool(re.fullmatch(rb'\s*\[\s*".*\]\s*', first, re.DOTALL))


def _read_whole_object(path):
    """Returns the JSON object in a file if the whole file is a single JSON object, else None."""
    filled = (line for _, line in raw_lines(path) if line.strip())
    first, second = next(filled, b""), next(filled, None)
    if second is not None and re.fullmatch(rb"\s*\{.*\}\s*", first, re.DOTALL):
        return None
    with open_bytes(path) as file:
        content = file.read(_LARGEST_OBJECT + 1)
    if len(content) > _LARGEST_OBJECT:
        raise InputError(f"{path} is one JSON object of more than 256 MiB. Write one row per line.")
    value = parse_json(content, path)
    return value if isinstance(value, dict) else None


def _transpose_columns(table):
    columns = [
        list(column.values()) if isinstance(column, dict) else column for column in table.values()
    ]
    are_long = all(
        isinstance(column, list) and len(column) == len(columns[0]) for column in columns
    )
    if not columns or not are_long or not find_name(table, (*WORDS, *TEXTS)):
        return None
    words = columns[list(table).index(find_name(table, (*WORDS, *TEXTS)))]
    has_lists = any(isinstance(row, list) for column in columns for row in column[:1])
    if not words or not has_lists or not isinstance(words[0], (list, str)):
        return None
    return [dict(zip(table, row)) for row in zip(*columns)]


def _find_inner_rows(value):
    """Returns the list of rows in an object such as {"annotations": [...]}."""
    if find_name(value, (*WORDS, *TEXTS)) or "data" in value and isinstance(value["data"], dict):
        return None
    names, rows = value.get("columns"), value.get("data")
    if isinstance(names, list) and isinstance(rows, list):  # pandas, orient="split"
        return [dict(zip(map(str, names), row)) if isinstance(row, list) else row for row in rows]
    lists = [*_find_lists(value)]
    with_words = (rows for rows in lists if _is_known(next(filter(None, rows))))
    return next(with_words, lists[0] if lists else None)


def _find_lists(value):
    """Yields the nonempty lists of rows in a dict and in its nested dicts."""
    for inner in value.values():
        if isinstance(inner, dict):
            yield from _find_lists(inner)
        elif isinstance(inner, list) and any(
            isinstance(row, (dict, list)) and row for row in inner
        ):
            yield inner


def _is_known(row):
    return isinstance(row, dict) and find_name(row, (*WORDS, *TEXTS, "data")) is not None


def _parse_line(line):
    table_rows.check_size(line)
    return parse_json_line(text_of(line), finite=True)


def _parse_text(text):
    return _parse_line(text.encode("utf-8"))


def as_numbered(rows: Iterable[tuple[int, Callable[[], Any]]]) -> Iterator[tuple[int, Any]]:
    """Reads the rows, and yields (number, row) tuples, or (number, `InputError`) if invalid."""
    for number, read in rows:
        try:
            yield number, read()
        except InputError as error:
            yield number, error
