"""Prediction files: tables of tab-separated values."""

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TextIO

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.io.files import replace_file
from keras_bert_impl.io.reading import read_text


def write_predictions_table(
    path: str | Path, columns: Sequence[str], rows: Iterable[Iterable[Any]]
) -> None:
    """Writes a `.tsv` file of predictions; each row begins with its index, from 0."""
    with replace_file(path) as temporary, open(temporary, "w", encoding="utf-8") as file:
        write_cells(file, ["index", *columns], "\t")
        for index, row in enumerate(rows):
            write_cells(file, [index, *row], "\t")


def read_predictions_table(path: Path) -> tuple[list[str], list[list[str]]]:
    """Reads a file of `write_predictions_table`; returns (column names, rows without the index).

    Raises:
        InputError: the file is missing or damaged.
    """
    try:
        lines = list(csv.reader(io.StringIO(read_text(path), newline=""), delimiter="\t"))
    except csv.Error as error:
        raise InputError(f"{path}: {error}") from error
    headings, *rows = lines or [[]]
    if headings[:1] != ["index"] or any(len(row) != len(headings) for row in rows):
        raise InputError(f"{path} is not a table of predictions.")
    return headings[1:], [row[1:] for row in rows]


def write_cells(file: TextIO, cells: Sequence[Any], delimiter: str = ",") -> None:
    """Writes a line of a CSV file, with quotes where needed."""
    # Python 3.12 and earlier do not quote "\r" and cannot read the file.
    has_return = any("\r" in cell for cell in cells if isinstance(cell, str))
    csv.writer(
        file,
        delimiter=delimiter,
        lineterminator="\n",
        quoting=csv.QUOTE_ALL if has_return else csv.QUOTE_MINIMAL,
    ).writerow(cells)


def cells(values: Iterable[float]) -> list[str]:
    """Formats float32 values with the nine significant digits that identify them."""
    return [f"{value:.9g}" for value in values]
