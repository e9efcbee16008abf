"""Labeled texts, with the file and line that each one came from."""

import collections
import csv
import dataclasses
import functools
import hashlib
import json
import logging
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from keras_bert_impl.io.errors import InputError, listed, shown
from keras_bert_impl.io.progress import Progress
from keras_bert_impl.tasks.data.label_cells import names_of_set, parsed

_LOG = logging.getLogger(__name__)
_MOST_SKIPPED, _SHOWN_SKIPPED = 100_000, 10  # rows
SKIP_HINT = " To leave out such rows, pass --skip-bad-rows."  # ends the error of a row


def content_hash(*columns: Any) -> str:
    """Returns the SHA-256, in hex, of columns such as texts and labels, converted to JSON."""
    content = json.dumps(columns, default=str)  # ASCII only, whatever the texts
    return hashlib.sha256(content.encode("ascii")).hexdigest()


def index_of_name(names: Iterable[str]) -> dict[str, int]:
    """Maps each name to its index."""
    return {name: number for number, name in enumerate(names)}


def made_names(num_classes: int) -> list[str]:
    """Returns the default names of unnamed classes."""
    return [f"LABEL_{number}" for number in range(num_classes)]


def most_common(names: Iterable[str]) -> dict[str, float]:
    """Counts names; the most common come first."""
    return dict(collections.Counter(names).most_common())


class LabeledExamples:
    """Base class of the labeled examples of all tasks.

    A subclass is a frozen dataclass. `labels` is None for unlabeled examples, `source` the name of
    the data in messages, `skipped` the location and reason of each skipped row, `read_with` the
    fields of `ExampleSource` that a reader was given, its file as `dev`, or None for other data.
    """

    texts: list
    labels: list | None
    source: str
    skipped: tuple[str, ...]
    read_with: dict[str, Any] | None

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def has_labels(self) -> bool:
        """Whether a model can be scored on the examples."""
        return self.labels is not None

    @property
    def inputs(self) -> list:
        """What the model of the task takes for each example."""
        return self.texts

    def label_counts(self) -> tuple[str | None, dict[str, float]]:
        """Returns what is counted, such as `"classes"`, and name -> count; (None, {}) for nothing."""
        return None, {}

    @property
    def fingerprint(self) -> str:
        """SHA-256, in hex, of texts and labels."""
        return content_hash(self.texts, self.labels)


@dataclasses.dataclass(frozen=True)
class Examples(LabeledExamples):
    """Texts with their labels.

    Args:
        texts: strings, or (first, second) tuples for pairs; for embeddings also of three.
        labels: class indices, label names, floats, or, for multi-label data, lists of label names;
            None if there are none.
        label_names: names of the classes; None if the file has no fixed set or labels are floats.
        metrics: keys of `metrics.METRICS`; None for the metrics of the task.
        source: the file.
        lines: number of the line that each text ended on, or of its row or example.
        skipped: location and reason for each skipped row.
        read_with: how a file was read; see `LabeledExamples`.
        unit: `"line"`, `"row"` or `"example"`, what `lines` counts.
    """

    texts: list
    labels: list | None = None
    label_names: list[str] | None = None
    metrics: tuple[str, ...] | None = None
    source: str = "examples"
    lines: list[int] | None = None
    skipped: tuple[str, ...] = ()
    read_with: dict[str, Any] | None = None
    unit: str = "line"

    @property
    def is_numeric(self) -> bool:
        """Whether the labels are floats, for regression."""
        return bool(self.labels) and isinstance(self.labels[0], float)

    @property
    def is_multi_label(self) -> bool:
        """Whether a text may have any number of labels, including none."""
        return bool(self.labels) and isinstance(self.labels[0], list)

    def label_counts(self) -> tuple[str | None, dict[str, float]]:
        if self.labels is None:
            return None, {}
        if self.is_numeric:
            values = np.array(self.labels)
            numbers = {"min": values.min(), "mean": values.mean(), "max": values.max()}
            return "numbers", {name: float(value) for name, value in numbers.items()}
        names = dict.fromkeys(self.label_names or (), 0)
        rows = self.labels if self.is_multi_label else [[label] for label in self.labels]
        return "classes", names | most_common(self._name(label) for row in rows for label in row)

    def _name(self, label):
        if isinstance(label, str) or not self.label_names:
            return str(label)
        return self.label_names[label]

    def where(self, position: int) -> str:
        """File and line of a text, for messages."""
        if self.lines is None:
            return f"{self.source}, example {position}"
        return f"{self.source}, {self.unit} {self.lines[position]}"

    def class_numbers(self, names: list[str]) -> np.ndarray:
        """Converts the labels to int32 indices into `names`.

        Raises:
            InputError: a label is not in `names`; the message says where.
        """
        places = self._places(names, self.labels)
        labels = [self._index(places, *numbered) for numbered in enumerate(self.labels)]
        return np.array(labels, "int32")

    def multi_hot(self, names: list[str]) -> np.ndarray:
        """Converts labels to float32 [texts, names], 1 for each label; see `class_numbers`."""
        places = self._places(names, (name for labels in self.labels for name in labels))
        rows = np.zeros((len(self), len(names)), "float32")
        for position, labels in enumerate(self.labels):
            rows[position, [self._index(places, position, label) for label in labels]] = 1
        return rows

    def _places(self, names, labels):
        """Maps each label to its index; numbers are those of classes without names."""
        numbers = index_of_name(map(str, range(len(names))))
        if list(names) != made_names(len(names)) or not all(
            isinstance(label, str) and label in numbers for label in labels
        ):
            return index_of_name(names)
        _LOG.warning(
            "%s: the labels are numbers, and the classes of the model have no names: 0 is read as "
            "LABEL_0, and so on.",
            self.source,
        )
        return numbers

    def _index(self, places, position, label):
        if isinstance(label, (int, np.integer)):
            names = self.label_names or list(places)
            if not 0 <= label < len(names):
                raise InputError(
                    f"{self.where(position)}: the label must be an index into the {len(names)} "
                    f"classes, from 0. Received: {label}"
                )
            if not self.label_names and places.get(str(int(label)), label) != label:
                raise InputError(
                    f"{self.where(position)}: label {label} may be the class '{label}' or the class "
                    f"of that number, {names[label]!r}: give the labels as names."
                )
            label = names[label]
        if label not in places:
            where = self.where(position)
            raise InputError(f"{where}: label {label!r} is not one of {listed(places)}.")
        return places[label]

    @property
    def fingerprint(self) -> str:
        """SHA-256, in hex, of texts, labels and label names."""
        return content_hash(self.texts, self.labels, self.label_names)


@dataclasses.dataclass(frozen=True)
class Layout:
    """The columns of a table to read, and their allowed values; see `read_table`."""

    text: str
    pair: str | None = None
    label: str | list[str] | None = None
    labels: list[str] | None = None
    numeric: bool = False
    allow_empty: bool = False
    id: str | None = None
    label_separator: str | None = None
    negative: str | None = None
    header: bool = True
    single_label: bool = False

    @property
    def texts(self) -> list[str]:
        """Columns of texts."""
        names = (self.text, self.pair, self.negative)
        return [name for name in names if name is not None]

    @property
    def columns(self) -> list[str]:
        """All columns to read."""
        return self.texts + self.label_columns + [self.id] * (self.id is not None)

    @property
    def label_columns(self) -> list[str]:
        """The columns of labels: none, one, or one of 0 and 1 for each label."""
        if self.label is None:
            return []
        return [self.label] if isinstance(self.label, str) else self.label

    def check_labels(self) -> None:
        """Raises `InputError` if what is said about labels is contradictory."""
        if isinstance(self.label, list):
            if not self.label or len(set(self.label)) < len(self.label):
                raise InputError(f"label columns must be unique names. Received: {self.label}")
            if self.numeric or self.label_separator is not None:
                raise InputError(
                    "several label columns contain 0 and 1: leave out --regression and "
                    "--label-separator."
                )

    def text_of(self, row: dict[str, Any]) -> str | tuple[str, ...]:
        """Returns the text of a row, or its (first, second, ...) segments."""
        segments = tuple(row[name] for name in self.texts)
        for name, segment in zip(self.texts, segments):
            if not self.allow_empty and not segment.strip():
                raise InputError(f"the text in column {name!r} is empty.")
        return segments[0] if self.pair is None else segments

    def label_of(self, row: dict[str, Any]) -> str | float | list[str] | None:
        """Returns the label of a row; None without a label column."""
        if self.label is None:
            return None
        if isinstance(self.label, list):
            names = names_of_set((name, row[name]) for name in self.label)
        elif self.numeric:
            return _number(row[self.label])
        else:
            names = self._names(row[self.label])
            if not isinstance(names, list):
                return self._name(names)
        names = [self._name(name) for name in names]
        if len(set(names)) < len(names):
            raise InputError(f"duplicate label in {shown(row[self.label_columns[0]])}.")
        if not self.single_label:
            return names
        if len(names) != 1:
            raise InputError(f"{len(names)} labels; --single-label needs one in every row.")
        return names[0]

    def _names(self, value):
        """Returns the name in a cell, or the list of names."""
        if isinstance(value, str) and value.strip() not in self._known:
            value = parsed(value)
        if isinstance(value, dict):
            return names_of_set(value.items())
        if isinstance(value, list) or self.label_separator is None:
            return value
        return self._parts(value)

    def _parts(self, value):
        """Splits a cell into label names; names that contain the separator are quoted."""
        separator = self.label_separator
        if len(separator) == 1 and '"' in value:
            parts = next(csv.reader([value], delimiter=separator, skipinitialspace=True))
        else:
            parts = value.split(separator)
        parts = [part.strip() for part in parts]
        return [] if parts == [""] else parts

    def _name(self, value):
        if not isinstance(value, str):
            raise InputError(
                f"a list of labels must have names. Received: {value!r:.40}. For 0 and 1, write a "
                "column for each label, and pass --label A,B."
            )
        value = value.strip()
        if not value:
            raise InputError("the label is empty.")
        if self.labels is not None and value not in self._known:
            raise InputError(f"label {value!r:.80} is not one of {listed(self.labels)}.")
        return value

    @functools.cached_property
    def _known(self):
        return frozenset(label.strip() for label in self.labels or ())


def _number(value):
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise InputError(f"label {value!r:.80} is not a number.") from error
    if not np.isfinite(number):
        raise InputError(f"label {value!r:.80} is not finite.")
    return number


def examples_of(
    source: str | Path,
    rows: Iterable[tuple[int, Callable[[], dict]]],
    layout: Layout,
    skip_bad_rows: bool = False,
    unit: str = "line",
) -> Examples:
    """Converts the rows of a table to `Examples`."""
    ids: dict[str, int] = {}
    skipped: list[str] = []

    def example(numbered):
        number, read = numbered
        try:
            row = read()
            text, label = layout.text_of(row), layout.label_of(row)
            if layout.id is not None:
                _check_id(row[layout.id], number, ids, unit)
        except InputError as error:
            raise InputError(f"{source}, {unit} {number}: {error}") from error
        return text, label, number

    found = usable(example, rows, skipped if skip_bad_rows else None)
    warn_of_skipped(source, skipped)
    if not found:
        raise InputError(f"{source} has no {'usable ' if skipped else ''}rows.")
    texts, labels, lines = map(list, zip(*found))
    kinds = [isinstance(label, list) for label in labels]
    if any(kinds) and not all(kinds):
        raise InputError(
            f"{source}, {unit} {lines[kinds.index(False)]}: a single label, but other rows have a "
            "list of labels. Use a list in every row."
        )
    return Examples(
        texts,
        None if layout.label is None else labels,
        layout.label_columns if isinstance(layout.label, list) else None,
        source=str(source),
        lines=lines,
        unit=unit,
        skipped=tuple(skipped),
    )


def usable(function: Callable, items: Iterable, skipped: list[str] | None) -> list:
    """Applies a function to each row and returns the valid results; shows the progress."""
    results = []
    with Progress("reading", unit="rows", at_once=False) as progress:
        for count, item in enumerate(items, start=1):
            try:
                results.append(function(item))
            except InputError as error:
                if skipped is None:
                    raise InputError(f"{error}{SKIP_HINT}") from error
                skipped.append(str(error))
                if len(skipped) > max(_MOST_SKIPPED, len(results)):
                    raise InputError(
                        f"{len(skipped):,} rows, more than half, cannot be used. The first: "
                        f"{skipped[0]}"
                    ) from error
            progress.update(count)
    return results


def warn_of_skipped(source: str | Path, skipped: list[str] | None, unit: str = "rows") -> None:
    """Logs a warning with the number of skipped rows of a file and the first messages."""
    if skipped:
        shown = " ".join(skipped[:_SHOWN_SKIPPED])
        more = len(skipped) - _SHOWN_SKIPPED
        shown += f" And {more:,} more." if more > 0 else ""
        _LOG.warning("%s: %s skipped: %d. %s", source, unit, len(skipped), shown)


def _check_id(value, number, seen, unit):
    """Adds an id to the dict `seen`, with its row number; raises if it is empty or repeated."""
    if not value:
        raise InputError("the id is empty.")
    if value in seen:
        raise InputError(f"id {value!r:.80} is already used in {unit} {seen[value]}.")
    seen[value] = number
