"""Tables of predictions: the input columns, then the columns of the prediction.

If the input already has a column NAME, the prediction column is `predicted_NAME`.
"""

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TextIO

import pyarrow
import pyarrow.parquet

from keras_bert_impl.data.prediction_files import write_cells
from keras_bert_impl.data.tables import csv_rows, table_rows
from keras_bert_impl.data.tables.layout import Layout, cells
from keras_bert_impl.data.tables.tables import open_table, table_format
from keras_bert_impl.utils.errors import InputError, listed
from keras_bert_impl.utils.io.files import replace_file
from keras_bert_impl.utils.io.lines import read_lines, suffix_of
from keras_bert_impl.utils.io.paths import local_path

Row = dict[str, Any]
# (columns of the input row, prediction as a dict, prediction as table cells)
Predicted = tuple[Row, Row, list[str]]
_CLASH = "predicted_"

# === Reading ===


def read_rows(
    path: str | Path, layout: Layout, delimiter: str | None = None
) -> Iterator[tuple[str | tuple[str, ...], Row]]:
    """Yields (text or pair, row) for each row of a table. The row contains all columns."""
    table = open_table(path, layout, delimiter, whole=True)
    for number, read in table.rows:
        try:
            row = read()
            yield layout.text_of(cells(row, layout)), row
        except InputError as error:
            raise InputError(f"{path}, {table.unit} {number}: {error}") from error


def count_rows(path: str | Path, layout: Layout | None, delimiter: str | None = None) -> int | None:
    """Returns the number of rows of a file. Returns None for pipes and files of other formats."""
    if not local_path(path).is_file():  # a pipe can be read only once
        return None
    if layout is None:
        return sum(1 for _ in read_lines(path))
    if local_path(path).suffix.lower() in table_rows.PARQUET:
        with table_rows.readable_errors(path):
            return pyarrow.parquet.read_metadata(local_path(path)).num_rows
    if table_format(path, delimiter) in ("csv", "tsv", "jsonl"):
        return sum(1 for _ in open_table(path, layout, delimiter, whole=True).rows)
    return None


# === Predictions ===


def joined(row: Row, answer: Row) -> Row:
    """Appends the columns of a prediction to an input row."""
    names = {name: f"{_CLASH}{name}" if name in row else name for name in answer}
    clashes = [name for name in names.values() if name in row]
    if clashes:
        raise InputError(
            f"the input has the columns {listed(clashes)}, which are reserved for predictions. "
            "Rename these columns, or select one column to keep with --id."
        )
    return row | {names[name]: value for name, value in answer.items()}


# === Writing ===


@contextlib.contextmanager
def table_writer(
    path: str | Path, like: str | Path | None = None, delimiter: str | None = None
) -> Iterator[Callable[[Iterable[Predicted]], None]]:
    """Context manager that writes a table. Yields a function that appends predictions.

    If the `with` block raises, the file is not created.

    Args:
        like: the input file. A CSV file is written with the delimiter of `like`, and a Parquet file
            with the column types of `like`.
        delimiter: delimiter of `like`. None detects the delimiter.
    """
    path = local_path(path)
    as_written = dict if path.suffix == ".jsonl" else _convert_to_columns
    with replace_file(path) as temporary, contextlib.ExitStack() as stack:
        if path.suffix == ".parquet":
            is_parquet = like is not None and local_path(like).suffix in table_rows.PARQUET
            input_schema = pyarrow.parquet.read_schema(like) if is_parquet else None
            write = stack.enter_context(_Parquet(temporary, input_schema)).write
        else:
            file = stack.enter_context(open(temporary, "w", encoding="utf-8", newline=""))
            write = _JsonLines(file).write
            if path.suffix != ".jsonl":
                between = _find_delimiter(like, delimiter) if path.suffix == ".csv" else None
                write = _Delimited(file, between).write
        yield lambda predicted: write(
            [joined(row, as_written(answer)) for row, answer, _ in predicted]
        )


def _find_delimiter(like, delimiter):
    """Returns the delimiter of a CSV file; a comma for other files."""
    if delimiter is not None or like is None or suffix_of(like) != ".csv":
        return delimiter or ","
    return csv_rows.csv_header(local_path(like))[1]


def _convert_to_columns(answer):
    """Converts a prediction to columns, with a `score_CLASS` column for each class."""
    columns: Row = {}
    for name, value in answer.items():
        is_per_class = isinstance(value, dict)
        columns |= (
            {f"score_{label}": value[label] for label in value} if is_per_class else {name: value}
        )
    return {
        # Nine digits are exact for float32.
        name: float(f"{value:.9g}") if isinstance(value, float) else value
        for name, value in columns.items()
    }


def check_output(path: str | Path) -> None:
    if local_path(path).suffix not in (".csv", ".tsv", ".jsonl", ".parquet"):
        raise InputError(f"{path}: the name must end in .csv, .tsv, .jsonl or .parquet.")


def as_json(value: Any) -> str:
    """Converts a row or a value to JSON on one line. Types without JSON equivalent become strings."""
    return json.dumps(value, ensure_ascii=False, default=str)


class _JsonLines:
    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, rows: list[Row]) -> None:
        self._file.writelines(f"{as_json(row)}\n" for row in rows)


class _Delimited:
    """Writes a CSV file with quotes. If `delimiter` is None, writes a TSV file without quotes."""

    def __init__(self, file: TextIO, delimiter: str | None) -> None:
        self._file, self._delimiter = file, delimiter
        self._columns: list[str] | None = None

    def write(self, rows: list[Row]) -> None:
        if self._columns is None:
            self._columns = list(rows[0])
            self._write_cells(self._columns)
        for row in rows:
            _check_columns(row, self._columns)
            self._write_cells([_format_cell(row.get(name)) for name in self._columns])

    def _write_cells(self, cells):
        if self._delimiter:
            write_cells(self._file, cells, self._delimiter)
        else:
            plain = (" ".join(cell.splitlines()).replace("\t", " ") for cell in cells)
            self._file.write("\t".join(plain) + "\n")


class _Parquet:
    """Writes a Parquet file. Without `input_schema`, infers column types from the first rows."""

    def __init__(self, path: Path, input_schema: pyarrow.Schema | None) -> None:
        self._path, self._known = path, input_schema
        self._writer: pyarrow.parquet.ParquetWriter | None = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._writer is not None:
            self._writer.close()

    def write(self, rows: list[Row]) -> None:
        flat = [{name: _serialize_nested(value) for name, value in row.items()} for row in rows]
        if self._writer is None:
            self._schema = pyarrow.schema(map(self._infer_field, _build_arrow_table(flat).schema))
            self._writer = pyarrow.parquet.ParquetWriter(self._path, self._schema)
        for row in flat:
            _check_columns(row, self._schema.names)
        self._writer.write_table(_build_arrow_table(flat, self._schema))

    def _infer_field(self, field):
        if self._known is not None and field.name in self._known.names:
            column_type = self._known.field(field.name).type
            if not pyarrow.types.is_nested(column_type):
                return field.name, column_type
        is_empty = pyarrow.types.is_null(field.type)
        return field.name, pyarrow.string() if is_empty else field.type


def _build_arrow_table(rows, schema=None):
    try:
        return pyarrow.Table.from_pylist(rows, schema=schema)
    except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError) as error:
        raise InputError(
            f"a column has values of different types, which Parquet does not support ({error}). "
            "Write a .csv or .jsonl file."
        ) from error


def _serialize_nested(value):
    return as_json(value) if isinstance(value, (list, dict)) else value


def _check_columns(row, columns):
    extra = [name for name in row if name not in columns]
    if extra:
        raise InputError(
            f"a row has the columns {listed(extra)}, which the first row lacks. Write a .jsonl file."
        )


def _format_cell(value):
    return "" if value is None else str(_serialize_nested(value))
