"""Readers of table rows in JSON, Arrow, Parquet and CSV files."""

import codecs
import contextlib
import csv
import functools
import io
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from keras_bert_impl.io.errors import InputError, listed, shown
from keras_bert_impl.io.lines import (
    FREE_BYTES,
    LONGEST_LINE,
    MOST_RATIO,
    open_bytes,
    raw_lines,
    text_of,
)
from keras_bert_impl.io.paths import local_path
from keras_bert_impl.io.reading import parse_json_line
from keras_bert_impl.tasks.data.layout import Layout

LONGEST_ROW = LONGEST_LINE  # in longer rows, a closing quote is usually missing
SURROGATE = re.compile("[\ud800-\udfff]")  # allowed in JSON escapes, but not in UTF-8
_CHUNK = 1 << 16  # bytes read at once
_ROWS = 1024  # Arrow rows read at once
_BATCH_BYTES = 64 << 20  # bytes of rows converted to Python at once
PARQUET, ARROW = (".parquet", ".pq"), (".arrow", ".feather", ".ipc")
_ITEM = re.compile(r"\s*([\[,\]]?)\s*")
_DELIMITERS = (",", ";", "\t", "|")  # in order of preference
_SEPARATOR = re.compile(rb'"?sep=([^\r\n"])"?[\r\n]*', re.IGNORECASE)
# Pairs of a number (1-based) and a function that returns the row or raises `InputError`.
Rows = Iterator[tuple[int, Callable[[], dict[str, Any]]]]


def check_size(row: bytes) -> None:
    if len(row) > LONGEST_ROW:
        raise InputError(f"the row has more than {LONGEST_ROW:,} bytes.")


def cells(row: dict[str, Any], layout: Layout) -> dict[str, Any]:
    """Returns the values of the columns in `layout`: str; for labels, also lists and dicts."""
    found: dict[str, Any] = {}
    for name in layout.columns:
        value, is_label = value_of(row, name), name in layout.label_columns
        if is_label and isinstance(value, (list, dict)):
            found[name] = value
            continue
        if is_label and isinstance(value, bool):
            value = str(value).lower()  # JSON writes true and false
        if is_label and isinstance(value, float) and value.is_integer():
            value = int(value)  # 1 and 1.0 are the same number
        if value is None or value != value:  # Arrow and pandas have missing values
            raise InputError(f"{name!r} is missing.")
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            nested = (
                f" Use a nested column, such as {name}.{next(iter(value))}."
                if (isinstance(value, dict) and value)
                else ""
            )
            raise InputError(
                f"{name!r} must be a string or a number. Received: {shown(value)}{nested}"
            )
        if SURROGATE.search(str(value)):
            raise InputError(f"{name!r} contains an unpaired surrogate.")
        found[name] = str(value)
    return found


def value_of(row: dict[str, Any], column: str) -> Any:
    """Returns the value of a column. The column `a.b` is the field `b` of the column `a`."""
    if column in row:
        return row[column]
    outer, _, inner = column.partition(".")
    if inner and isinstance(row.get(outer), dict):
        return value_of(row[outer], inner)
    raise InputError(f"no column named {column!r}. Found: {listed(row)}.")


# === JSON ===


def is_json_array(path: str | Path) -> bool:
    """Whether a file starts with a JSON array instead of an object on each line."""
    with open_bytes(path) as file:
        parts = iter(functools.partial(file.read, _CHUNK), b"")
        return next((part.lstrip()[:1] == b"[" for part in parts if part.strip()), False)


def json_lines(path: str | Path, layout: Layout | None = None) -> Rows:
    for line, raw in raw_lines(path):
        if raw.strip():
            yield line, functools.partial(_json_row, raw, layout)


def json_array(path: str | Path, layout: Layout | None = None) -> Rows:
    for number, text in enumerate(array_items(path), 1):
        yield number, functools.partial(_json_row, text.encode("utf-8"), layout)


def _json_row(raw, layout):
    check_size(raw)
    return _object(parse_json_line(text_of(raw), finite=True), layout)


def _object(row, layout):
    if not isinstance(row, dict):
        raise InputError("expected a JSON object.")
    return row if layout is None else cells(row, layout)


def array_items(path: str | Path) -> Iterator[str]:
    """Yields the JSON text of each item of an array; reads the file in chunks."""
    decode = codecs.getincrementaldecoder("utf-8")().decode
    # The caller parses numbers and reports errors.
    decoder = json.JSONDecoder(parse_int=float)
    with open_bytes(path) as file:
        parts = iter(functools.partial(file.read, _CHUNK), b"")
        text, place, number = "", 0, 0
        while True:
            start, what = _next_item(text, place, number)
            if what == "end":
                if text[start:].strip() or any(part.strip() for part in parts):
                    raise InputError(
                        f"{path}: unexpected content after the array of {number} rows. Write one "
                        "array, or one object per line."
                    )
                return
            try:
                if what != "item":
                    raise InputError("expected a JSON object.")
                _, place = decoder.raw_decode(text, start)
            except (ValueError, RecursionError) as error:
                is_over = what != "item" and bool(text[start:]) or len(text) - place > LONGEST_ROW
                part = None if is_over else next(parts, None)
                if part is None:
                    raise InputError(f"{path}, row {number + 1}: {_reason(error)}") from error
                text, place = text[place:] + _decoded(decode, part, path, number + 1), 0
                continue
            number += 1
            yield text[start:place]


def _next_item(text, place, number):
    """Returns the start of the next item and its kind: "item", "end" or "other"."""
    found = _ITEM.match(text, place)  # a bracket or comma precedes the next value
    before, start = found[1], found.end()
    if before == "[" and not number and text[start : start + 1] == "]":
        return start + 1, "end"
    if before == "]" and number:
        return start, "end"
    is_item = before == ("," if number else "[") and text[start : start + 1] in ("{", "[")
    return start, "item" if is_item else "other"


def _decoded(decode, part, path, number):
    try:
        return decode(part)
    except UnicodeDecodeError as error:
        raise InputError(f"{path}, row {number}: not UTF-8; convert the file to UTF-8.") from error


def _reason(error):
    if isinstance(error, InputError):
        return str(error)
    is_json = isinstance(error, json.JSONDecodeError)
    reason = f"{error.msg} (character {error.pos})" if is_json else str(error)[:200]
    return f"not valid JSON: {reason}."


# === Arrow and Parquet ===


def arrow_schema(path: str | Path) -> Any:
    with open_arrow(path) as (schema, _):
        _ = schema.names  # raises an error if names are not UTF-8
        return schema


def arrow_rows(path: str | Path, layout: Layout | None = None) -> Rows:
    number = 0
    with open_arrow(path) as (schema, batches):
        columns = schema.names
        if layout is not None:
            names = (n if n in columns else n.partition(".")[0] for n in layout.columns)
            columns = list(dict.fromkeys(names))
        for batch in batches(columns):
            batch.validate(full=True)  # a damaged file may have offsets out of range
            for row in _python_rows(batch):
                number += 1
                yield number, functools.partial(_object, row, layout)


def _python_rows(batch):
    import pyarrow

    longest = 1
    for column in batch.columns:
        size = column.nbytes // max(1, len(column))
        if pyarrow.types.is_dictionary(column.type) and len(column.dictionary):
            size = column.dictionary.nbytes  # each row may contain the longest value
        longest = max(longest, size)
    step = max(1, min(_ROWS, _BATCH_BYTES // longest))
    for start in range(0, batch.num_rows, step):
        yield from batch.slice(start, step).to_pylist()


@contextlib.contextmanager
def readable_errors(path: str | Path) -> Iterator[None]:
    import pyarrow

    try:
        yield
    except FileNotFoundError as error:
        raise InputError(f"{path} cannot be read: No such file or directory.") from error
    except InputError:
        raise
    except (pyarrow.ArrowException, OSError, ValueError, MemoryError) as error:
        _check_is_no_other(path)
        reason = " ".join(str(error).split())
        raise InputError(f"{path} is not a valid Arrow or Parquet file: {reason}.") from error


@contextlib.contextmanager
def open_arrow(path: str | Path) -> Iterator[tuple[Any, Callable[[list[str]], Iterator]]]:
    """Opens a file; yields its schema and a function that reads record batches of given columns."""
    import pyarrow
    import pyarrow.parquet

    path = local_path(path)
    with readable_errors(path):
        if path.suffix.lower() in PARQUET:
            # Repeated values stay dictionary-encoded until rows are read.
            metadata = pyarrow.parquet.read_metadata(path)
            file = pyarrow.parquet.ParquetFile(path, read_dictionary=_columns_of_bytes(metadata))
            _check_parquet(path, metadata)
            yield file.schema_arrow, lambda columns: file.iter_batches(_ROWS, columns=columns)
            return
        with pyarrow.memory_map(str(path)) as source:
            try:
                file = pyarrow.ipc.open_file(source)
                batches = map(file.get_batch, range(file.num_record_batches))
            except pyarrow.ArrowInvalid:
                source.seek(0)
                file = batches = pyarrow.ipc.open_stream(source)
            yield file.schema, functools.partial(_slices, batches)


def _check_is_no_other(path):
    """Raises if the file has a different format, such as HTML."""
    with open(path, "rb") as file:
        beginning = file.read(4)
    if beginning not in (b"PAR1", b"ARRO"):
        with open_bytes(path):
            pass


def _columns_of_bytes(metadata):
    """Returns the names of string columns; nested columns are not included."""
    columns = map(metadata.schema.column, range(metadata.num_columns))
    return [
        one.path for one in columns if one.physical_type == "BYTE_ARRAY" and "." not in one.path
    ]


def _check_parquet(path, metadata):
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        size = max(group.total_byte_size, 8 * group.num_rows)
        if size > max(FREE_BYTES, MOST_RATIO * os.path.getsize(path)):
            raise InputError(
                f"{path} has {size:,} bytes of rows, more than {MOST_RATIO} times the file size. If "
                "you trust the file, convert it to text, such as .jsonl."
            )


def _slices(batches, columns):
    for batch in batches:
        batch = batch.select(columns)
        for start in range(0, batch.num_rows, _ROWS):
            yield batch.slice(start, _ROWS)


# === CSV ===


def column_names(cells, header):
    return [cell.strip() for cell in cells] if header else list(map(str, range(len(cells))))


def csv_header(
    path: Path, delimiter: str | None = None, needed: Sequence[str] = (), header: bool = True
) -> tuple[list[str], str]:
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
    """Returns the delimiter in a first line such as `sep=;` (Excel)."""
    stated = _SEPARATOR.fullmatch(next(raw_lines(path), (1, b""))[1])
    return stated and stated[1].decode("ascii", "replace")


class Record(NamedTuple):
    """A row of a CSV file.

    Attributes:
        first, last: 1-based line numbers.
        raw: the bytes of the row with line ends; truncated if longer than `LONGEST_ROW`.
    """

    first: int
    last: int
    raw: bytes


def csv_records(path: str | Path, delimiter: str = ",") -> Iterator[Record]:
    """Yields the rows that are not blank; quoted cells may span several lines."""
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


def csv_cells(raw: bytes, delimiter: str = ",") -> list[str]:
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
