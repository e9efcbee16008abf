"""Prediction files: tables of tab-separated values."""

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TextIO

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.io.files import replace_file
from keras_bert_impl.tasks.data.examples import TRUE_LABEL, LabeledExamples


def write_predictions_table(
    path: str | Path,
    columns: Sequence[str],
    rows: Iterable[Iterable[Any]],
    examples: LabeledExamples | None = None,
) -> None:
    """Writes a `.tsv` file of predictions.

    Each row begins with its index, from 0, and ends with `LabeledExamples.described`: the true
    label, the line of the file, the id and the text.
    """
    described = {} if examples is None else examples.described()
    with replace_file(path) as temporary, open(temporary, "w", encoding="utf-8") as file:
        write_cells(file, ["index", *columns, *described], "\t")
        for index, row in enumerate(rows):
            more = (column[index] for column in described.values())
            write_cells(file, [index, *row, *more], "\t")


def read_predictions_table(path: Path) -> tuple[list[str], list[list[str]]]:
    """Returns (headings, rows) of the predictions in a file that `write_predictions_table` wrote.

    Raises:
        InputError: the file is missing or damaged.
    """
    try:
        with open(path, encoding="utf-8", newline="") as file:
            lines = list(csv.reader(file, delimiter="\t"))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}.") from error
    except (csv.Error, UnicodeDecodeError) as error:
        raise InputError(f"{path}: {error}") from error
    headings, *rows = lines or [[]]
    if headings[:1] != ["index"] or any(len(row) != len(headings) for row in rows):
        raise InputError(f"{path} is not a table of predictions.")
    end = len(headings)
    if TRUE_LABEL in headings:  # the last one, because a class may have any name
        end -= headings[::-1].index(TRUE_LABEL) + 1
    return headings[1:end], [row[1:end] for row in rows]


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
