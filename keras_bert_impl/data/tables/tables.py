"""Readers for tables of labeled texts: CSV, TSV, JSON, Arrow and Parquet."""

import csv
import dataclasses
import functools
import itertools
import logging
import os
import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

from keras_bert_impl.data.tables import table_rows
from keras_bert_impl.data.tables.csv_rows import (
    column_names,
    csv_cells,
    csv_header,
    csv_records,
    has_quoted_cells,
)
from keras_bert_impl.data.tables.examples import Examples, join_names
from keras_bert_impl.data.tables.layout import DECISIONS, Layout, examples_of
from keras_bert_impl.data.tables.table_rows import Rows, Table, table_in_memory
from keras_bert_impl.utils.errors import InputError, listed
from keras_bert_impl.utils.io.lines import (
    STANDARD_INPUT,
    decoded,
    encoded_as,
    open_bytes,
    raw_lines,
    read_lines,
    suffix_of,
    text_of,
)
from keras_bert_impl.utils.io.paths import local_path

_LOG = logging.getLogger(__name__)
JSON = (".jsonl", ".ndjson", ".json")
WITHOUT_DELIMITER = (*JSON, *table_rows.PARQUET, *table_rows.ARROW)
FORMATS = (".csv", ".tsv", *WITHOUT_DELIMITER)
WORD_FILES = (".conll", ".conllu", ".iob", ".iob2", ".bio")  # suffixes of files for `read_tags`
_COLUMNS = ("text", "pair", "negative", "id", "groups", "dates", "label_separator", "single_label")
_ABOUT_QUOTES = (
    "all quotes enclose whole cells, as pandas and Excel write them, and are removed. To keep them, "
    "save the table as .jsonl."
)
# Column names that indicate a header.
_USUAL_COLUMNS = {"text", "label", "sentence"}


def read_table(
    path: Any,
    text: str | int,
    pair: str | int | None = None,
    label: str | int | list[str] | None = None,
    labels: list[str] | None = None,
    numeric: bool = False,
    allow_empty: bool = False,
    id: str | None = None,
    label_separator: str | None = None,
    skip_bad_rows: bool = False,
    negative: str | None = None,
    delimiter: str | None = None,
    header: bool = True,
    single_label: bool = False,
    encoding: str | None = None,
    groups: str | None = None,
    dates: str | None = None,
) -> Examples:
    """Reads texts and labels from a table, in a file or in memory.

    The suffix of a file determines the format:

    - `.csv`: cells may be quoted. A first line such as `sep=;` sets the delimiter. Otherwise, the
      delimiter (comma, semicolon, tab or `|`) is detected from the header;
    - `.tsv`: tabs. Quotes are part of the texts, unless all quotes in the file enclose whole cells,
      as pandas and Excel write them;
    - `.jsonl`, `.ndjson`: a JSON object on each line;
    - `.json`: a JSON object on each line, or an array of objects;
    - `.parquet`, `.arrow`, `.feather`.

    Text files may be compressed, with `.gz`, `.xz` or `.bz2` appended to the suffix. The encoding
    is UTF-8, or UTF-16 with a byte order mark; see `lines.raw_lines`. Blank lines are skipped.

    Args:
        path: file to read; or a table in memory: a `datasets.Dataset`, a `DataFrame`, an Arrow
            table or a list of dicts.
        text: column of the text. In JSON, Arrow and Parquet, `a.b` is field `b` of column `a`.
        pair: column of the second segment; None for single texts.
        label: column of the label; None for unlabeled texts. For multi-label data, may be a list of
            columns of 0 and 1, one for each label, or their names in a string, `"A,B"`. Class
            indices of `datasets` are replaced by the class names that the table states.
        labels: allowed labels; None allows any.
        numeric: whether labels are numbers, for regression.
        allow_empty: whether a text may be empty.
        id: column whose values must be unique.
        label_separator: for multi-label data: separator of the label names in a cell, such as
            `","`. An empty cell means no label. Names that contain the separator must be quoted.
            Not needed for lists, or for dicts of label name to 0 or 1. In CSV and TSV, lists are
            written in JSON or pandas format.
        skip_bad_rows: whether to skip invalid rows. A warning reports the number of skipped rows,
            and the attribute `skipped` lists them. Rows that were rejected in Prodigy, discarded in
            Argilla or cancelled in Label Studio are always skipped.
        negative: column of the negative of a text pair; see `AnchorExamples`.
        delimiter: character between cells. If given, the file is read as CSV; not supported for
            JSON, Arrow and Parquet. Default: the delimiter of the format.
        header: whether the first line of a CSV or TSV file contains column names. If False, columns
            are named by their 0-based index.
        single_label: whether each list of labels contains exactly one label, used as the class.
        encoding: encoding of text files without a byte order mark, such as `"cp1252"` (also for
            Latin-1). Default: UTF-8.
        groups: column of group names, such as customers. `hold_out` keeps each group in one set.
        dates: column of ISO dates or numbers. `hold_out` holds out the latest examples.

    Returns:
        `Examples`. The labels are names, lists of names for multi-label data, or floats if
        `numeric`.

    Raises:
        InputError: a column is missing or occurs twice; a row has the wrong number of cells or more
            than 4 MiB; a label is not allowed; a text is empty; an id occurs twice; the encoding is
            wrong; or the file contains a NUL byte.

    Example:
        from keras_bert_impl.tasks import read_table
        read_table("reviews.csv", text="review", label="stars", numeric=True)
    """
    is_file = isinstance(path, (str, os.PathLike))
    path = local_path(path) if is_file else path
    with encoded_as(encoding):
        layout = Layout(
            str(text),
            _normalize_column(pair),
            label_columns(path, label, delimiter, header) if is_file else _normalize_column(label),
            labels,
            numeric,
            allow_empty,
            _normalize_column(id),
            label_separator,
            _normalize_column(negative),
            header,
            single_label,
            _normalize_column(groups),
            _normalize_column(dates),
        )
        layout.check_labels()
        table = open_table(path, layout, delimiter) if is_file else table_in_memory(path)
        examples = examples_of(path if is_file else "table", table, layout, skip_bad_rows)
    if not is_file:
        return examples
    read_with = {name: getattr(layout, name) for name in _COLUMNS}
    read_with["label"] = join_names(label) if isinstance(label, list) else _normalize_column(label)
    read_with |= {"dev": str(path), "labels": labels, "delimiter": delimiter}
    read_with |= {
        "encoding": encoding,
        "skip_bad_rows": skip_bad_rows,
        "regression": numeric,
        "no_header": not header,
    }
    return dataclasses.replace(examples, read_with=read_with)


def _normalize_column(name):
    if isinstance(name, (list, tuple)):
        return list(map(str, name))
    return None if name is None else str(name)


def label_columns(
    path: str | Path, label: Any, delimiter: str | None = None, header: bool = True
) -> Any:
    """Returns the column of the labels, or a list of columns if `label` is a string `A,B`."""
    if not isinstance(label, str) or "," not in label:
        return _normalize_column(label)
    if label in table_columns(path, delimiter, header):
        return label
    return [name.strip() for name in next(csv.reader([label], skipinitialspace=True))]


def open_table(
    path: str | Path, layout: Layout, delimiter: str | None = None, whole: bool = False
) -> Table:
    """Opens a table. `layout.cells` converts its rows.

    Args:
        whole: whether to read all columns of Parquet and Arrow files, not only the columns of `layout`.
    """
    path, kind = local_path(path), table_format(path, delimiter)
    if kind == "csv":
        if delimiter is None and suffix_of(path) == ".tsv":
            _LOG.warning("%s: %s", path, _ABOUT_QUOTES)
        return Table(_read_csv_rows(path, layout, delimiter), "line")
    if kind == "tsv":
        return Table(tsv_rows(path, layout), "line")
    if kind == "arrow" and not whole:
        names = table_rows.arrow_schema(path).names
        _check_header(path, names, layout, are_nested=True)
        if "status" in names:  # `check_accepted` also needs the other columns
            return typed_rows(path)
        outer = {name.partition(".")[0] for name in layout.columns}
        return typed_rows(path, {*layout.columns, *outer, *DECISIONS})
    return typed_rows(path)


def typed_rows(path: str | Path, columns: Collection[str] | None = None) -> Table:
    """Opens a JSON, Parquet or Arrow file; `columns` selects the columns of Parquet and Arrow."""
    if suffix_of(path) not in JSON:
        return Table(table_rows.arrow_rows(path, columns), "row", table_rows.arrow_classes(path))
    if suffix_of(path) == ".json" and table_rows.is_json_array(path):
        return Table(table_rows.json_array(path), "row")
    return Table(table_rows.json_lines(path), "line")


def table_format(path: str | Path, delimiter: str | None = None) -> str:
    """Returns `"csv"` (also for a TSV file with quoted cells), `"tsv"`, `"jsonl"`, `"json"` or `"arrow"`."""
    suffix = suffix_of(path)
    if delimiter is not None:
        if not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in '"\r\n':
            raise InputError(f"the delimiter must be one character. Received: {delimiter!r}")
        if suffix in WITHOUT_DELIMITER:
            raise InputError(f"{path} is not a CSV or TSV file, so it has no delimiter.")
        return "csv"
    if suffix in WORD_FILES:
        raise InputError(
            f"{path} is not a table. Pass --task tagging, or call read_tags, to read its words."
        )
    if suffix not in FORMATS:
        with open_bytes(path):  # it raises for archives
            pass
        raise InputError(
            f"{path}: unknown format. The name must end in {', '.join(FORMATS)}, or pass "
            "--delimiter, such as --delimiter tab."
        )
    if suffix in (*table_rows.PARQUET, *table_rows.ARROW):
        return "arrow"
    if suffix == ".tsv" and has_quoted_cells(path):
        return "csv"
    return {".ndjson": "jsonl"}.get(suffix, suffix[1:])


def table_form(
    path: str | Path, delimiter: str | None = None, header: bool = True
) -> tuple[list[str], str | None]:
    kind = table_format(path, delimiter)
    if kind == "csv":
        return csv_header(local_path(path), delimiter, header=header)
    return table_columns(path, delimiter, header), "\t" if kind == "tsv" else None


def table_columns(path: str | Path, delimiter: str | None = None, header: bool = True) -> list[str]:
    path, kind = local_path(path), table_format(path, delimiter)
    if kind == "csv":
        return csv_header(path, delimiter, header=header)[0]
    if kind == "arrow":
        return table_rows.arrow_schema(path).names
    if kind == "tsv":
        first = (decoded(raw, path, line).split("\t") for line, raw in raw_lines(path))
        return column_names(next(first, []), header)
    table = typed_rows(path)
    for number, read in table.rows:
        try:
            return list(read())
        except InputError as error:
            raise InputError(f"{path}, {table.unit} {number}: {error}") from error
    return []


def check_columns(path: str | Path, layout: Layout, delimiter: str | None = None) -> None:
    kind = table_format(path, delimiter)
    if kind == "csv":
        columns = csv_header(local_path(path), delimiter, layout.columns, layout.header)[0]
    else:
        columns = table_columns(path, header=layout.header) if kind in ("tsv", "arrow") else []
    if columns:
        _check_header(path, columns, layout, are_nested=kind == "arrow")


def text_lines(path: str | Path, columns: Iterable[str | None] = ()) -> Iterator[tuple[int, str]]:
    """Yields the number and text of each line of a text file."""
    lines = read_lines(path)
    first = list(itertools.islice(lines, 2))
    suffix = _guess_suffix([text for _, text in first], {*_USUAL_COLUMNS, *columns})
    if suffix:
        name = "standard input" if str(path) == STANDARD_INPUT else path
        raise InputError(
            f"{name} is a table, not a file with one text per line. Save it to a file that ends in "
            f"{suffix}, and pass the text column as --text COLUMN."
        )
    yield from itertools.chain(first, lines)


def _guess_suffix(lines, names):
    if lines and re.match(r'\s*(\{\s*"|\[\s*\{\s*")', lines[0]):
        return ".json" if lines[0].lstrip().startswith("[") else ".jsonl"
    if len(lines) < 2:
        return None
    if lines[0].count("\t") == lines[1].count("\t") > 0:
        return ".tsv"
    for delimiter in ",;|":
        cells = {cell.strip(' "') for cell in lines[0].split(delimiter)}
        if len(cells) > 1 and cells & names and lines[1].count(delimiter) + 1 >= len(cells):
            return ".csv"
    return None


# === Rows ===


def tsv_rows(path: str | Path, layout: Layout, columns: list[str] | None = None) -> Rows:
    for line, raw in raw_lines(path):
        if columns is None:
            columns = column_names(decoded(raw, path, line).split("\t"), layout.header)
            _check_header(path, columns, layout)
            if layout.header:
                continue
        if raw.strip(b" \r\n"):
            yield line, functools.partial(_parse_tsv_row, columns, raw)


def _parse_tsv_row(columns, raw):
    return _build_row(columns, text_of(raw).split("\t"))


def _read_csv_rows(path, layout, delimiter):
    columns, delimiter = csv_header(path, delimiter, layout.columns, layout.header)
    if columns:
        _check_header(path, columns, layout)
    for record in itertools.islice(csv_records(path, delimiter), int(layout.header), None):
        yield record.last, functools.partial(_parse_csv_row, columns, delimiter, record)


def _parse_csv_row(columns, delimiter, record):
    try:
        cells = csv_cells(record, delimiter)
        if len(cells) > 1 and [cell.strip() for cell in cells] == columns:
            raise InputError("the row repeats the header; remove it if files were concatenated.")
        return _build_row(columns, cells)
    except InputError as error:
        if record.first == record.last:
            raise
        raise InputError(f"{error} (The row starts on line {record.first}.)") from error


def _check_header(path, columns, layout, are_nested=False):
    for name in layout.columns:
        if columns.count(name) == 1 or (are_nested and name.partition(".")[0] in columns):
            continue
        count = f"{columns.count(name)} columns" if name in columns else "no column"
        hint = ""
        if layout.header and not are_nested:
            hint = (
                " If the first line is not a header, pass --no-header and 0-based column numbers."
            )
        raise InputError(f"{path}: {count} named {name!r}. Found: {listed(columns)}.{hint}")


def _build_row(columns, cells):
    if len(cells) != len(columns):
        raise InputError(f"{len(cells)} columns, expected {len(columns)} ({listed(columns)}).")
    return dict(zip(columns, cells))
