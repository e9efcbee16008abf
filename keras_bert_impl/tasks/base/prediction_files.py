"""Prediction files: tables of tab-separated values."""

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from keras_bert_impl.io.files import replace_file


def write_predictions_table(
    path: str | Path, columns: Sequence[str], rows: Iterable[Iterable[Any]]
) -> None:
    """Writes a `.tsv` file of predictions; each row begins with its index, from 0."""
    with replace_file(path) as temporary, open(temporary, "w", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        writer.writerow(["index", *columns])
        writer.writerows([index, *row] for index, row in enumerate(rows))


def cells(values: Iterable[float]) -> list[str]:
    """Formats float32 values with the nine significant digits that round-trip them."""
    return [f"{value:.9g}" for value in values]
