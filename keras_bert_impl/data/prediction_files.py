"""Prediction files: tables of tab-separated values."""

import csv
import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from keras_bert_impl.data.tables.examples import TRUE_LABEL, LabeledExamples
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.io.files import replace_file


def write_predictions_table(
    path: str | Path,
    columns: Sequence[str],
    rows: Iterable[Iterable[Any]],
    examples: LabeledExamples | None = None,
    indices: Iterable[int] | None = None,
) -> None:
    """Writes a `.tsv` file of predictions.

    The first column is the 0-based index of the example. The last columns describe the example,
    such as its true label, id and text; see `LabeledExamples.described`.

    Args:
        indices: example index of each row; required if examples have several rows.
    """
    described = {} if examples is None else examples.described()
    numbers = itertools.count() if indices is None else indices
    described_rows = zip(*described.values()) if described else itertools.repeat(())
    table = ([number, *row, *cells] for number, row, cells in zip(numbers, rows, described_rows))
    _write_table(path, ["index", *columns, *described], table)


def _write_table(path, headings, rows):
    with (
        replace_file(path) as temporary,
        # Unpaired surrogates have no UTF-8 encoding.
        open(temporary, "w", encoding="utf-8", errors="replace") as file,
    ):
        for row in itertools.chain([headings], rows):
            write_cells(file, row, "\t")


def join_predictions(path: Path, parts: Iterable[tuple[Path, Sequence[int] | np.ndarray]]) -> None:
    """Joins prediction files, such as the files of cross-validation folds.

    Args:
        parts: (file, indices) tuples. `indices[i]` is the index in the joined file of the example
            with index i in the part.
    """
    joined_rows = []
    for part, numbers in parts:
        headings, *rows = _read_table(part)
        joined_rows += [[numbers[int(index)], *cells] for index, *cells in rows]
    _write_table(path, headings, sorted(joined_rows, key=lambda row: row[0]))


def read_predictions_table(path: Path) -> tuple[list[str], list[list[str]]]:
    """Returns (headings, rows) of a file written by `write_predictions_table`.

    Raises:
        InputError: the file is missing or damaged.
    """
    headings, *rows = _read_table(path)
    end = len(headings)
    if TRUE_LABEL in headings:
        # A class may also have this name; the last column contains the labels.
        end -= headings[::-1].index(TRUE_LABEL) + 1
    return headings[1:end], [row[1:end] for row in rows]


def are_for(path: Path, examples: LabeledExamples) -> bool:
    """Returns whether the rows of a prediction file are for these examples, in the same order.

    Compares the columns of `LabeledExamples.described` that the file must contain, such as labels
    and texts. Names of files and line numbers may differ.

    Raises:
        InputError: the file is missing or damaged.
    """
    headings, *rows = _read_table(path)
    described = {n: c for n, c in examples.described().items() if n not in ("file", "line")}
    # If a class is named like one of these columns, the column of the class comes first.
    places = {name: place for place, name in enumerate(headings)}
    if not described.keys() <= places.keys():
        return False
    expected = [list(map(_format_cell, cells)) for cells in described.values()]
    return expected == [[row[places[name]] for row in rows] for name in described]


def _format_cell(cell):
    return "" if cell is None else str(cell).encode("utf-8", "replace").decode("utf-8")


def read_column(path: Path, name: str) -> list[tuple[int, str]]:
    headings, *rows = _read_table(path)
    if name not in headings:
        raise InputError(f"{path} has no column {name!r}.")
    place = headings.index(name)
    return [(int(row[0]), row[place]) for row in rows]


def _read_table(path):
    try:
        with open(path, encoding="utf-8", newline="") as file:
            lines = list(csv.reader(file, delimiter="\t"))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}.") from error
    except (csv.Error, UnicodeDecodeError) as error:
        raise InputError(f"{path}: {error}") from error
    headings, *rows = lines or [[]]
    if headings[:1] != ["index"] or not all(
        len(row) == len(headings) and row[0].isdecimal() and len(row[0]) < 20 for row in rows
    ):
        raise InputError(f"{path} is not a table of predictions.")
    return lines


def write_cells(file: TextIO, cells: Sequence[Any], delimiter: str = ",") -> None:
    """Writes a row of a CSV file; cells are quoted if necessary."""
    # Python 3.12 and earlier do not quote "\r", so they could not read the file.
    has_return = any("\r" in cell for cell in cells if isinstance(cell, str))
    csv.writer(
        file,
        delimiter=delimiter,
        lineterminator="\n",
        quoting=csv.QUOTE_ALL if has_return else csv.QUOTE_MINIMAL,
    ).writerow(cells)


def cells(values: Iterable[float]) -> list[str]:
    """Formats float32 values without loss of precision (nine significant digits)."""
    return [f"{value:.9g}" for value in values]
