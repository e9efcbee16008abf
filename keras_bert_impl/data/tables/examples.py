"""Labeled texts, with the file and line of each text."""

import collections
import csv
import dataclasses
import hashlib
import io
import itertools
import json
import logging
import re
import unicodedata
from collections.abc import Iterable
from decimal import Decimal
from typing import Any, Self

import numpy as np

from keras_bert_impl.utils.errors import InputError, listed

_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?", re.ASCII)
_LOG = logging.getLogger(__name__)


TRUE_LABEL = "true_label"  # column of the labels in prediction files
_MOST_SHOWN = 1000  # maximum characters of a text in prediction files
OF_ALL = ("label_names", "metrics", "skipped")  # fields without a value per example


def content_hash(*columns: Any) -> str:
    content = json.dumps(columns, default=str)  # JSON escapes non-ASCII characters
    return hashlib.sha256(content.encode("ascii")).hexdigest()


def index_of_name(names: Iterable[str]) -> dict[str, int]:
    return {name: number for number, name in enumerate(names)}


def not_one_of(label: Any, names: Iterable[str]) -> str:
    """Returns the message for an unknown label, with the name that is meant if it is similar."""
    names = list(names)
    similar = [name for name in names if plain_name(name) == plain_name(str(label))]
    hint = f" Did you mean {similar[0]!r}?" if similar else ""
    return f"label {label!r:.80} is not one of {listed(names)}.{hint}"


def plain_name(name: str) -> str:
    """Returns a name without differences in case, spaces, invisible characters and zeros."""
    number = number_in(name.strip())
    if number is not None:
        return f"{number.normalize():f}"
    characters = unicodedata.normalize("NFKC", name).casefold()
    return "".join(c for c in characters if not c.isspace() and unicodedata.category(c) != "Cf")


def number_in(name: str) -> Decimal | None:
    """Returns the number that is written in a name such as "10", "-1" or "2.0", or None."""
    return Decimal(name) if _NUMBER.fullmatch(name) else None


def made_names(num_classes: int) -> list[str]:
    return [f"LABEL_{number}" for number in range(num_classes)]


def most_common(names: Iterable[str]) -> dict[str, float]:
    return dict(collections.Counter(names).most_common())


def join_names(names: Iterable[str]) -> str:
    """Joins names with commas; quotes names that contain a comma or a quote."""
    file = io.StringIO()
    csv.writer(file, lineterminator="").writerow(names)
    return file.getvalue()


def segments_of(text: Any) -> tuple[str, ...]:
    """Returns the segments of an example; a list of endings is replaced by the longest ending."""
    if isinstance(text, tuple):
        return tuple(part if isinstance(part, str) else max(part, key=len) for part in text)
    return (" ".join(text) if isinstance(text, list) else str(text),)


class LabeledExamples:
    """Base class of the labeled examples of a task; subclasses are frozen dataclasses.

    Attributes:
        labels: None for unlabeled examples.
        source: name of the data in messages.
        files: file of each example, if there are several files.
        skipped: location of each skipped row, with the reason.
        read_with: arguments of an `ExampleSource` whose `dev` file contains these examples; None if
            the examples are not from a file.
    """

    texts: list
    labels: list | None
    source: str
    skipped: tuple[str, ...]
    read_with: dict[str, Any] | None
    files: list[str] | None
    lines: Any
    unit: str

    def __len__(self) -> int:
        return len(self.texts)

    def replace(self, **changes: Any) -> Self:
        return dataclasses.replace(self, **changes)  # type: ignore[type-var]

    @property
    def columns(self) -> dict[str, list]:
        """Fields that contain a list with one value per example, by name."""
        names = [field.name for field in dataclasses.fields(self)]  # type: ignore[arg-type]
        fields = {name: getattr(self, name) for name in names if name not in OF_ALL}
        return {name: values for name, values in fields.items() if isinstance(values, list)}

    def select(self, numbers: Iterable[int]) -> Self:
        numbers = list(numbers)
        return self.replace(
            **{name: [values[n] for n in numbers] for name, values in self.columns.items()}
        )

    def of_file(self, number: int) -> Self:
        """Called by `join_examples` with the 1-based index of the file; may change the ids."""
        return self

    def file_of(self, position: int) -> str:
        """Returns the file of an example, or `source` if `files` is None."""
        return self.source if self.files is None else self.files[position]

    def where(self, position: int) -> str:
        """Returns the file and line of an example, for messages."""
        if getattr(self, "lines", None) is None:
            return f"{self.file_of(position)}, example {position}"
        return f"{self.file_of(position)}, {self.unit} {self.lines[position]}"

    @property
    def has_labels(self) -> bool:
        return self.labels is not None

    @property
    def inputs(self) -> list:
        """The model input of each example."""
        return self.texts

    @property
    def undivided(self) -> list:
        """A value for each example. Examples with equal values stay in the same split."""
        return self.inputs

    @property
    def sequences(self) -> list[tuple[str, ...]]:
        """The segments of each model input."""
        return [segments_of(text) for text in self.inputs]

    def label_counts(self) -> tuple[str | None, dict[str, float]]:
        """Returns the kind of labels, such as `"classes"`, and the count of each label."""
        return None, {}

    def remarks(self) -> list[str]:
        """Returns a sentence for each odd property of the examples of this class."""
        return []

    def facts(self) -> dict[str, Any]:
        """Returns additional statistics for `keras-bert check`."""
        return {}

    def described(self) -> dict[str, list]:
        """Returns the columns that identify each example in a file of predictions.

        Returns:
            `true_label`; `file` if there are several; `line` for examples from a file; `id` if the
            file has an id column; `text` and `pair`, truncated to 1,000 characters.
        """
        labels = [""] * len(self) if self.labels is None else map(self.label_text, self.labels)
        columns = {TRUE_LABEL: list(labels)}
        for name, values in (("file", "files"), ("line", "lines"), ("id", "ids")):
            if getattr(self, values, None) is not None:
                columns[name] = getattr(self, values)
        parts = [(text,) if isinstance(text, str) else text for text in self.texts]
        for number, name in enumerate(("text", "pair")):
            if all(
                len(segments) > number and isinstance(segments[number], str) for segments in parts
            ):
                columns[name] = [segments[number][:_MOST_SHOWN] for segments in parts]
        return columns

    def label_text(self, label: Any) -> str:
        """Returns a label as text for a table."""
        return str(label)

    @property
    def fingerprint(self) -> str:
        """Hexadecimal SHA-256 hash of texts and labels."""
        return content_hash(self.texts, self.labels)


def check_read(examples: Any) -> None:
    if not isinstance(examples, LabeledExamples):
        raise InputError(
            "expected examples from a reader such as read_table, or Examples(texts, labels). "
            f"Received: {examples!r:.60}"
        )


@dataclasses.dataclass(frozen=True)
class Examples(LabeledExamples):
    """Texts with their labels.

    Args:
        texts: strings, or (first, second) tuples for pairs; for embeddings, also tuples of three.
        labels: class indices, label names, floats, or lists of label names for multi-label data;
            None if unlabeled.
        label_names: names of the classes; None if unknown or if labels are floats.
        metrics: keys of `metrics.METRICS`; None for the metrics of the task.
        source: name of the data in messages, such as the file.
        lines: 1-based number of the line, row or example of each text. If a text spans several
            lines, the number of the last line.
        skipped: location of each skipped row, with the reason.
        read_with: see `LabeledExamples`.
        unit: what `lines` counts: `"line"`, `"row"` or `"example"`.
        ids, groups, dates: values of these columns, if they were read; dates are numbers or
            seconds since 1970.
        files: file of each text, if there are several.
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
    ids: list[str] | None = None
    groups: list[str] | None = None
    dates: list[float] | None = None
    files: list[str] | None = None

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
        labels = itertools.chain(*self.labels) if self.is_multi_label else self.labels
        counts = collections.Counter(labels).most_common()
        return "classes", names | {self._name(label): count for label, count in counts}

    def label_text(self, label: Any) -> str:
        return join_names(map(self._name, label)) if self.is_multi_label else self._name(label)

    def _name(self, label):
        if isinstance(label, str) or not self.label_names:
            return str(label)
        return self.label_names[label]

    def class_numbers(self, names: list[str]) -> np.ndarray:
        """Converts the labels to int32 indices into `names`.

        Raises:
            InputError: a label is not in `names`.
        """
        indices = self._map_labels(names, self.labels)
        labels = [self._index(indices, *numbered) for numbered in enumerate(self.labels)]
        return np.array(labels, "int32")

    def multi_hot(self, names: list[str]) -> np.ndarray:
        """Converts labels to a multi-hot float32 array [texts, names]."""
        indices = self._map_labels(names, (name for labels in self.labels for name in labels))
        rows = np.zeros((len(self), len(names)), "float32")
        for position, labels in enumerate(self.labels):
            rows[position, [self._index(indices, position, label) for label in labels]] = 1
        return rows

    def _map_labels(self, names, labels):
        """Maps each label to its index; if classes have no names, labels may be indices."""
        numbers = index_of_name(map(str, range(len(names))))
        if list(names) != made_names(len(names)) or not all(
            isinstance(label, str) and label in numbers for label in labels
        ):
            return index_of_name(names)
        _LOG.warning(
            "%s: the labels are numbers, and the model's classes have no names: 0 is read as "
            "LABEL_0, 1 as LABEL_1, ...",
            self.source,
        )
        return numbers

    def _index(self, indices, position, label):
        if isinstance(label, (int, np.integer)):
            names = self.label_names or list(indices)
            if not 0 <= label < len(names):
                raise InputError(
                    f"{self.where(position)}: the label must be a class index from 0 to "
                    f"{len(names) - 1}. Received: {label}"
                )
            if not self.label_names and indices.get(str(int(label)), label) != label:
                raise InputError(
                    f"{self.where(position)}: label {label} may mean the class '{label}' or class "
                    f"index {label}, {names[label]!r}. Pass the labels as names."
                )
            label = names[label]
        if label not in indices:
            raise InputError(f"{self.where(position)}: {not_one_of(label, indices)}")
        return indices[label]

    @property
    def fingerprint(self) -> str:
        """Hexadecimal SHA-256 hash of texts, labels and label names."""
        return content_hash(self.texts, self.labels, self.label_names)
