"""Converts table rows to labeled texts, with one or several labels per cell."""

import ast
import contextlib
import csv
import dataclasses
import datetime
import functools
import logging
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from keras_bert_impl.data.tables.examples import Examples, not_one_of
from keras_bert_impl.data.tables.table_rows import SURROGATE, Table, value_of
from keras_bert_impl.data.tables.user_input import is_missing
from keras_bert_impl.utils.errors import InputError, listed, shown
from keras_bert_impl.utils.io.reading import parse_json_line
from keras_bert_impl.utils.progress import Progress

_LOG = logging.getLogger(__name__)
_MOST_SKIPPED, _SHOWN_SKIPPED, _SHOWN_REASONS = 100_000, 3, 10
_PLACE = re.compile(r"^.*?, (?:line|row|example|question) [^:]*: ")  # location in a message
_BYTE = re.compile(r" \(byte \d+\)")
_VALUES = re.compile(r"""'[^']*'|"[^"]*"|\d+""")
SKIP_HINT = " To skip such rows, pass --skip-bad-rows."  # end of a message about a row
_STRING = r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
_PYTHON_LIST = re.compile(rf"[\[(]\s*(?:{_STRING}\s*(?:,\s*{_STRING}\s*)*,?\s*)?[\])]", re.DOTALL)
# Matches lists and dicts, but not label names such as `[other]`.
_STRUCTURE = re.compile(
    r"""array\(.*|[\[({]\s*['"].*|[\[{].*,.*[\]}]|[\[{][\s\d.+-]+[\]}]""", re.DOTALL
)
_LONGEST = 10_000  # maximum characters of a list of labels
_SET = {"1": True, "1.0": True, "true": True, "0": False, "0.0": False, "false": False}


@dataclasses.dataclass(frozen=True)
class Layout:
    """Columns of a table and their allowed values; see `read_table`."""

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
    groups: str | None = None
    dates: str | None = None

    @functools.cached_property
    def texts(self) -> list[str]:
        names = (self.text, self.pair, self.negative)
        return [name for name in names if name is not None]

    @functools.cached_property
    def columns(self) -> list[str]:
        return self.texts + self.label_columns + list(self.described.values())

    @functools.cached_property
    def described(self) -> dict[str, str]:
        """Names of the columns of ids, groups and dates, by field of `Examples`."""
        columns = {"ids": self.id, "groups": self.groups, "dates": self.dates}
        return {name: column for name, column in columns.items() if column is not None}

    @functools.cached_property
    def label_columns(self) -> list[str]:
        """Names of the columns with labels: one column, or one column for each label."""
        if self.label is None:
            return []
        return [self.label] if isinstance(self.label, str) else self.label

    def class_names(self, classes: dict[str, list[str]]) -> list[str] | None:
        """Returns the names of the classes in their order, if the table states them."""
        if isinstance(self.label, list):
            return self.label
        return None if self.numeric or self.labels or not self.label else classes.get(self.label)

    def check_labels(self) -> None:
        if isinstance(self.labels, str) or isinstance(self.label_separator, int):
            raise InputError(
                f"labels must be a list of names, and label_separator a string. Received: "
                f"labels={self.labels!r:.60}, label_separator={self.label_separator!r:.20}"
            )
        if isinstance(self.label, list):
            if not self.label or len(set(self.label)) < len(self.label):
                raise InputError(f"label columns must be unique names. Received: {self.label}")
            if self.numeric or self.label_separator is not None:
                raise InputError(
                    "several label columns contain 0 and 1. Leave out --regression and "
                    "--label-separator."
                )

    def text_of(self, row: dict[str, Any]) -> str | tuple[str, ...]:
        segments = tuple(row[name] for name in self.texts)
        for name, segment in zip(self.texts, segments):
            if not self.allow_empty and not segment.strip():
                raise InputError(f"the text in column {name!r} is empty.")
        return segments[0] if self.pair is None else segments

    def label_of(self, row: dict[str, Any]) -> str | float | list[str] | None:
        if self.label is None:
            return None
        if isinstance(self.label, list):
            names = names_of_set((name, row[name]) for name in self.label)
        elif self.numeric:
            return _parse_number(row[self.label])
        else:
            names = self._parse_names(row[self.label])
            if not isinstance(names, list):
                return self._name(names)
        names = [self._name(name) for name in names]
        if len(set(names)) < len(names):
            raise InputError(f"duplicate label in {shown(row[self.label_columns[0]])}.")
        if not self.single_label:
            return names
        if len(names) != 1:
            raise InputError(f"{len(names)} labels; --single-label requires one in every row.")
        return names[0]

    def _parse_names(self, value):
        if isinstance(value, str) and value.strip() not in self._known:
            value = parsed(value)
        if isinstance(value, dict):
            return names_of_set(value.items())
        if isinstance(value, list) or self.label_separator is None:
            return value
        return self._split_cell(value)

    def _split_cell(self, value):
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
                f"a list of labels must contain names. Received: {value!r:.40}. For 0 and 1, write "
                "a column for each label, and pass --label A,B. From Label Studio, export CSV; from "
                "Argilla, records.to_list(flatten=True)."
            )
        value = value.strip()
        if not value:
            raise InputError("the label is empty.")
        if self.labels is not None and value not in self._known:
            raise InputError(not_one_of(value, self.labels))
        return value

    @functools.cached_property
    def _known(self):
        return frozenset(label.strip() for label in self.labels or ())


def _parse_number(value):
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise InputError(f"label {value!r:.80} is not a number.") from error
    if not np.isfinite(number):
        raise InputError(f"label {value!r:.80} is not finite.")
    return number


# === Rows ===


def cells(row: Any, layout: Layout, classes: dict[str, list[str]] | None = None) -> dict[str, Any]:
    """Returns the values of the columns in `layout`: str; for labels, also lists and dicts.

    Args:
        classes: class names of columns of class indices; see `Table`.
    """
    if not isinstance(row, dict):
        raise InputError(f"expected a row with the columns {listed(layout.columns)}: a dict.")
    values: dict[str, Any] = {}
    for name in layout.columns:
        value = value_of(row, name)
        if not (type(value) is str and value.isascii()):
            value = _convert_cell(name, value, name in layout.label_columns)
        if classes and name == layout.label and name in classes and not layout.numeric:
            value = _convert_class_index(value, classes[name])
        values[name] = value
    return values


def _convert_cell(name, value, is_label):
    if is_label and isinstance(value, (list, dict)):
        return value
    if is_label and isinstance(value, bool):
        return str(value).lower()  # JSON writes true and false
    if is_label and isinstance(value, float) and value.is_integer():
        value = int(value)  # 1 and 1.0 are the same number
    if is_missing(value):
        raise InputError(f"{name!r} is missing.")
    value = value.isoformat() if hasattr(value, "isoformat") else value
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        is_nested = isinstance(value, dict) and value
        nested = f" Use a nested column, such as {name}.{next(iter(value))}." if is_nested else ""
        raise InputError(f"{name!r} must be a string or a number. Received: {shown(value)}{nested}")
    text = str(value)
    if SURROGATE.search(text):
        raise InputError(f"{name!r} contains an unpaired surrogate.")
    return text


def _convert_class_index(value, names):
    if isinstance(value, list):
        return [_convert_class_index(str(index), names) for index in value]
    if value in names or not re.fullmatch("-?[0-9]{1,9}", value):
        return value
    if not 0 <= int(value) < len(names):
        raise InputError(f"the label is {value}, so the row is unlabeled.")
    return names[int(value)]


_ANSWERS = ("reject", "ignore")  # of Prodigy
_STATUSES = ("response_status", "annotation_status")
DECISIONS = ("answer", "was_cancelled", *_STATUSES)  # columns of `check_accepted`, and "status"
_UNFINISHED = ("discarded", "draft", "ignored", "pending", "rejected", "skipped")
_ARGILLA = {  # columns of Argilla
    *("annotation", "prediction", "inputs", "metadata", "vectors", "fields", "responses"),
    *("suggestions", "_server_id", "external_id", "record_id", "annotation_agent"),
}


class SkippedRowError(InputError):
    """The row has no complete annotation, so it is always skipped, and counted."""


def check_accepted(row: Any, columns: Collection[str] = ()) -> None:
    """Raises `SkippedRowError` if an annotation tool does not count a row as annotated.

    Args:
        columns: columns with texts and labels, which contain no decisions.
    """
    if not isinstance(row, dict):
        return
    if row.get("answer") in _ANSWERS and "answer" not in columns:
        raise SkippedRowError(f"the annotator's answer is {row['answer']!r}.")
    if row.get("was_cancelled") in (True, "True", "true"):  # Label Studio
        raise SkippedRowError("the annotation was cancelled.")
    for column in _STATUSES:
        if str(row.get(column)).lower() in _UNFINISHED and column not in columns:
            raise SkippedRowError(f"the {column.replace('_', ' ')} is {row[column]!r}.")
    status = row.get("status")
    if not isinstance(status, str) or "status" in columns:
        return
    # "pending" is also a common status of orders and tickets.
    is_pending = status.lower() == "pending" and any(
        name in _ARGILLA or name.endswith(".responses") for name in row
    )
    if is_pending or status.lower() == "discarded":
        raise SkippedRowError(f"the status is {status!r}.")
    # The column of statuses of responses in Argilla 2 contains lists, also as text.
    responses = [row[name] for name in row if name.endswith(".responses.status") and row[name]]
    if responses and "submitted" not in str(responses):
        raise SkippedRowError("no response was submitted.")


def examples_of(
    source: str | Path, table: Table, layout: Layout, skip_bad_rows: bool = False
) -> Examples:
    """Reads the rows of a table. Rows that an annotator rejected are always skipped."""
    ids: dict[str, int] = {}
    skipped: list[str] = []

    def read_example(numbered):
        number, read = numbered
        try:
            row = read()
            check_accepted(row, layout.columns)
            row = cells(row, layout, table.classes)
            text, label = layout.text_of(row), layout.label_of(row)
            if layout.id is not None:
                _check_id(row[layout.id], number, ids, table.unit)
            described = [row[column] for column in layout.described.values()]
            if layout.dates is not None:
                described[-1] = date_number(described[-1])
        except InputError as error:
            raise type(error)(f"{source}, {table.unit} {number}: {error}") from error
        return text, label, number, described

    rows = usable(read_example, table.rows, skipped, skip_bad_rows)
    warn_of_skipped(source, skipped)
    if not rows:
        raise InputError(f"{source} has no {'usable ' if skipped else ''}rows.")
    texts, labels, lines, described = map(list, zip(*rows))
    are_lists = [isinstance(label, list) for label in labels]
    if any(are_lists) and not all(are_lists):
        raise InputError(
            f"{source}, {table.unit} {lines[are_lists.index(False)]}: this row has a single label, "
            "but other rows have a list of labels. Use a list in every row."
        )
    return Examples(
        texts,
        None if layout.label is None else labels,
        layout.class_names(table.classes),
        source=str(source),
        lines=lines,
        unit=table.unit,
        skipped=tuple(skipped),
        **dict(zip(layout.described, map(list, zip(*described)))),  # type: ignore[arg-type]
    )


def date_number(cell: str) -> float:
    """Converts an ISO date to seconds since 1970; numbers stay unchanged."""
    with contextlib.suppress(ValueError):
        if np.isfinite(number := float(cell)):
            return number
    text = cell.strip()
    with contextlib.suppress(ValueError):
        moment = datetime.datetime.fromisoformat(text.removesuffix("Z"))
        has_zone = moment.tzinfo is not None
        return (moment if has_zone else moment.replace(tzinfo=datetime.UTC)).timestamp()
    raise InputError(f"{shown(text)} is not a number or a date such as 2024-12-31.")


def usable(function: Callable, items: Iterable, skipped: list[str], skip_bad_rows: bool) -> list:
    """Calls `function` for each item and returns the results.

    If an item is invalid, the error is raised. If it has no complete annotation, or with
    `skip_bad_rows`, the error message is added to `skipped` instead.
    """
    results = []
    with Progress("reading", unit="rows", at_once=False) as progress:
        for count, item in enumerate(items, start=1):
            try:
                results.append(function(item))
            except SkippedRowError as error:
                skipped.append(str(error))
            except InputError as error:
                if not skip_bad_rows:
                    raise InputError(f"{error}{SKIP_HINT}") from error
                skipped.append(str(error))
                if len(skipped) > max(_MOST_SKIPPED, len(results)):
                    raise InputError(
                        f"{len(skipped):,} rows, more than half, are invalid. The first one: "
                        f"{skipped[0]}"
                    ) from error
            progress.update(count)
    return results


def warn_of_skipped(source: str | Path, skipped: list[str], unit: str = "rows") -> None:
    """Logs a warning with the number of skipped rows and the reasons."""
    if skipped:
        summary = " ".join(skipped)
        if len(skipped) > _SHOWN_SKIPPED:
            reasons = list(count_reasons(skipped).items())
            parts = [f"{reason.rstrip('.')} ({count:,})" for reason, count in reasons]
            parts = [*parts[:_SHOWN_REASONS], *["others"] * (len(parts) > _SHOWN_REASONS)]
            summary = f"{'; '.join(parts)}. The first: {skipped[0]}"
        _LOG.warning("%s: %s skipped: %d. %s", source, unit, len(skipped), summary)


def count_reasons(skipped: Iterable[str]) -> dict[str, int]:
    """Counts the reasons of skipped rows, most common first.

    If there are more than ten different reasons, quoted values and numbers in the reasons are
    replaced by `...`.
    """
    reasons = [_BYTE.sub("", _PLACE.sub("", reason, count=1)) for reason in skipped]
    if len(set(reasons)) > _SHOWN_REASONS:
        reasons = [_VALUES.sub("...", reason) for reason in reasons]
    return dict(Counter(reasons).most_common())


def _check_id(value, number, ids, unit):
    if not value:
        raise InputError("the id is empty.")
    if value in ids:
        raise InputError(f"id {value!r:.80} is already used in {unit} {ids[value]}.")
    ids[value] = number


# === Cells with several labels ===


def parsed(cell: str) -> str | list | dict:
    """Parses a list or dict in a cell (JSON or pandas format); other cells stay unchanged."""
    text = cell.strip()
    if not _STRUCTURE.fullmatch(text) and text not in ("[]", "{}"):
        return cell
    if len(text) <= _LONGEST:
        with contextlib.suppress(InputError):
            value = parse_json_line(text)
            if isinstance(value, (list, dict)):
                return value
        if _PYTHON_LIST.fullmatch(text):
            # The cell may contain invalid escape sequences.
            with contextlib.suppress(SyntaxError, ValueError):
                return [ast.literal_eval(name) for name in re.findall(_STRING, text, re.DOTALL)]
    raise InputError(
        f"label {shown(text)} is a list or dict, not a name. Write names with a separator, such as "
        "a|b, and pass --label-separator '|', or write a column of 0 and 1 for each label, and "
        "pass --label A,B. If it is a name, add it to --labels."
    )


def names_of_set(flags: Iterable[tuple[str, Any]]) -> list[str]:
    """Returns the label names whose value is 1 or true."""
    names = []
    for name, value in flags:
        is_set = _SET.get(str(value).strip().lower())
        if is_set is None:
            raise InputError(f"{name!r} must be 0 or 1. Received: {shown(value)}")
        if is_set:
            names.append(name)
    return names
