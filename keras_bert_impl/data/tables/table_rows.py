"""Readers of table rows in JSON, Arrow and Parquet files, and in memory."""

import codecs
import contextlib
import functools
import json
import os
import re
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from keras_bert_impl.utils.errors import InputError, listed, shown
from keras_bert_impl.utils.io.lines import (
    FREE_BYTES,
    LONGEST_LINE,
    MOST_RATIO,
    open_bytes,
    raw_lines,
    text_of,
)
from keras_bert_impl.utils.io.paths import local_path
from keras_bert_impl.utils.io.reading import parse_json, parse_json_line

LONGEST_ROW = LONGEST_LINE  # in longer rows, a closing quote is usually missing
_TOO_LONG = f"the row has more than {LONGEST_ROW:,} bytes. Divide its text into several rows."
SURROGATE = re.compile("[\ud800-\udfff]")  # allowed in JSON escapes, but not in UTF-8
CHUNK = 1 << 16  # bytes read at once
_ROWS = 1024  # Arrow rows read at once
_BATCH_BYTES = 64 << 20  # bytes of rows converted to Python at once
_DELTA = "DELTA_BYTE_ARRAY"
PARQUET, ARROW = (".parquet", ".pq"), (".arrow", ".feather", ".ipc")
_ITEM = re.compile(r"\s*([\[,\]]?)\s*")
# Pairs of a number (1-based) and a function that returns the row or raises `InputError`.
Rows = Iterator[tuple[int, Callable[[], Any]]]


class Table(NamedTuple):
    """A table that is read row by row.

    Attributes:
        rows: pairs of a 1-based number and a function. The function returns the row, or raises
            `InputError` if the row is invalid.
        unit: `"line"` or `"row"`: whether the numbers are line or row numbers.
        classes: {column: class names} for columns of class indices.
    """

    rows: Rows
    unit: str
    classes: dict[str, list[str]] = {}


def check_size(row: bytes) -> None:
    if len(row) > LONGEST_ROW:
        raise InputError(_TOO_LONG)


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
        parts = iter(functools.partial(file.read, CHUNK), b"")
        return next((part.lstrip()[:1] == b"[" for part in parts if part.strip()), False)


def json_lines(path: str | Path) -> Rows:
    for line, raw in raw_lines(path):
        if raw.strip():
            yield line, functools.partial(_parse_json_row, raw)


def json_array(path: str | Path) -> Rows:
    for number, text in enumerate(array_items(path), 1):
        yield number, functools.partial(_parse_json_row, text.encode("utf-8"))


def _parse_json_row(raw):
    check_size(raw)
    row = parse_json_line(text_of(raw), finite=True)
    if not isinstance(row, dict):
        raise InputError("expected a JSON object.")
    return row


def array_items(path: str | Path) -> Iterator[str]:
    """Yields the JSON text of each item of an array; reads the file in chunks."""
    decode = codecs.getincrementaldecoder("utf-8")().decode
    # The caller parses numbers and reports errors.
    decoder = json.JSONDecoder(parse_int=float)
    with open_bytes(path) as file:
        parts = iter(functools.partial(file.read, CHUNK), b"")
        text, place, number = "", 0, 0
        while True:
            start, kind = _find_next_item(text, place, number)
            if kind == "end":
                if text[start:].strip() or any(part.strip() for part in parts):
                    raise InputError(
                        f"{path}: unexpected content after the array of {number} rows. Write one "
                        "array, or one object per line."
                    )
                return
            try:
                if kind != "item":
                    raise InputError("expected a JSON object.")
                _, place = decoder.raw_decode(text, start)
            except (ValueError, RecursionError) as error:
                is_over = kind != "item" and bool(text[start:]) or len(text) - place > LONGEST_ROW
                part = None if is_over else next(parts, None)
                if part is None:
                    is_long = len(text) - place > LONGEST_ROW
                    reason = _TOO_LONG if is_long else _describe_error(error)
                    raise InputError(f"{path}, row {number + 1}: {reason}") from error
                text, place = text[place:] + _decode_part(decode, part, path, number + 1), 0
                continue
            number += 1
            yield text[start:place]


def _find_next_item(text, place, number):
    """Returns the start of the next item and its kind: "item", "end" or "other"."""
    match = _ITEM.match(text, place)  # a bracket or comma precedes the next value
    before, start = match[1], match.end()
    if before == "[" and not number and text[start : start + 1] == "]":
        return start + 1, "end"
    if before == "]" and number:
        return start, "end"
    is_item = before == ("," if number else "[") and text[start : start + 1] in ("{", "[")
    return start, "item" if is_item else "other"


def _decode_part(decode, part, path, number):
    try:
        return decode(part)
    except UnicodeDecodeError as error:
        raise InputError(f"{path}, row {number}: not UTF-8; convert the file to UTF-8.") from error


def _describe_error(error):
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


def arrow_rows(path: str | Path, columns: Collection[str] | None = None) -> Rows:
    """Reads the given columns, if the file has them; default: all columns."""
    number = 0
    with open_arrow(path) as (schema, batches):
        names = [name for name in schema.names if columns is None or name in columns]
        for batch in batches(names):
            batch.validate(full=True)  # a damaged file may have offsets out of range
            for row in _convert_batch(batch):
                number += 1
                yield number, functools.partial(dict, row)


def arrow_classes(path: str | Path) -> dict[str, list[str]]:
    """Returns the class names of columns of class indices, which `datasets` stores in the schema."""
    stored = (arrow_schema(path).metadata or {}).get(b"huggingface", b"{}")
    information = parse_json(stored, path)
    return class_names((information.get("info") or {}).get("features") or {})


def class_names(features: Any) -> dict[str, list[str]]:
    """Returns {column: class names} for the features of `datasets`, as objects or as JSON."""
    classes = {}
    for column, feature in features.items():
        while getattr(feature, "feature", None) is not None:
            feature = feature.feature
        while isinstance(feature, dict) and isinstance(feature.get("feature"), dict):
            feature = feature["feature"]
        feature = feature[0] if isinstance(feature, list) and feature else feature
        names = feature.get("names") if isinstance(feature, dict) else None
        names = names or getattr(feature, "names", None)
        if names:
            classes[column] = list(names)
    return classes


def _convert_batch(batch):
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
            file = pyarrow.parquet.ParquetFile(path)
            _check_parquet(path, file.metadata)
            yield file.schema_arrow, functools.partial(_read_parquet_batches, path, file)
            return
        with pyarrow.memory_map(str(path)) as source:
            try:
                file = pyarrow.ipc.open_file(source)
                batches = map(file.get_batch, range(file.num_record_batches))
            except pyarrow.ArrowInvalid:
                source.seek(0)
                file = batches = pyarrow.ipc.open_stream(source)
            yield file.schema, functools.partial(_slice_batches, batches)


def _check_is_no_other(path):
    """Raises if the file has a different format, such as HTML."""
    with open(path, "rb") as file:
        beginning = file.read(4)
    if beginning not in (b"PAR1", b"ARRO"):
        with open_bytes(path):
            pass


def _read_parquet_batches(path, file, columns):
    """Yields batches of about 64 MiB, also if a file stores a long value once for many rows."""
    import pyarrow.compute
    import pyarrow.parquet

    paths = [file.schema.column(number).path for number in range(len(file.schema))]
    numbers = [n for n, p in enumerate(paths) if p in columns or p.split(".")[0] in columns]
    for group in range(file.num_row_groups):
        # Raises if the metadata of the columns are damaged, for which `column` ends the process.
        next(file.iter_batches(1, row_groups=[group], columns=columns), None)
        chunks = file.metadata.row_group(group)
        parts = [chunks.column(number) for number in numbers]
        strings = [
            part.path_in_schema
            for part in parts
            if part.physical_type == "BYTE_ARRAY"
            and part.has_dictionary_page
            and part.path_in_schema in columns  # not nested
        ]
        # A value is stored once for many rows in a dictionary, which the first row shows, or if
        # only its difference from the value before is stored.
        encoded = pyarrow.parquet.ParquetFile(path, read_dictionary=strings, metadata=file.metadata)
        first = next(encoded.iter_batches(1, row_groups=[group], columns=strings), None)
        sizes = [part.total_uncompressed_size // 16 for part in parts if _DELTA in part.encodings]
        for column in first.columns if first else ():
            if pyarrow.types.is_dictionary(column.type):  # decimals are not
                lengths = pyarrow.compute.binary_length(column.dictionary)
                sizes.append(pyarrow.compute.max(lengths).as_py() or 1)
        num_rows = max(1, min(_ROWS, _BATCH_BYTES // max([1, *sizes])))
        yield from file.iter_batches(num_rows, row_groups=[group], columns=columns)


def _check_parquet(path, metadata):
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        size = max(group.total_byte_size, 8 * group.num_rows)
        if size > max(FREE_BYTES, MOST_RATIO * os.path.getsize(path)):
            raise InputError(
                f"{path} has {size:,} bytes of rows, more than {MOST_RATIO} times the file size. If "
                "you trust the file, convert it to text, such as .jsonl."
            )


def _slice_batches(batches, columns):
    for batch in batches:
        batch = batch.select(columns)
        for start in range(0, batch.num_rows, _ROWS):
            yield batch.slice(start, _ROWS)


# === In memory ===


def table_in_memory(table: Any) -> Table:
    """Opens a `datasets.Dataset`, a `DataFrame`, an Arrow table, a list of dicts or columns."""
    features = getattr(table, "features", None) or {}
    for name in ("to_dicts", "to_pylist"):  # polars; Arrow
        if hasattr(table, name):
            table = getattr(table, name)()
    if hasattr(table, "to_dict") and hasattr(table, "columns"):
        table = table.rename(columns=str).to_dict("records")
    if isinstance(table, dict):
        columns = [
            list(column.values()) if isinstance(column, dict) else column
            for column in table.values()
        ]
        are_columns = all(isinstance(column, list) for column in columns) and not all(
            isinstance(row, dict) for column in columns for row in column[:1]
        )
        if not are_columns or len(set(map(len, columns))) > 1:
            raise InputError(
                f"expected one table. Received: a dict of {listed(table)}; pass one of them."
            )
        table = [dict(zip(table, row)) for row in zip(*columns)]
    if isinstance(table, (str, bytes)) or not hasattr(table, "__iter__"):
        raise InputError(f"expected a table or the path of a file. Received: {shown(table)}")
    rows = ((number, functools.partial(_convert_row, row)) for number, row in enumerate(table, 1))
    return Table(rows, "row", class_names(features))


def _convert_row(value):
    """Converts the arrays and numbers of NumPy in a row to values of Python."""
    if isinstance(value, dict):
        return {name: _convert_row(inner) for name, inner in value.items()}
    return value.tolist() if hasattr(value, "tolist") else value
