"""Labelled texts, and where each one came from."""

import dataclasses
import hashlib
import json

import numpy as np

from keras_bert_impl.errors import InputError, listed


@dataclasses.dataclass(frozen=True)
class Examples:
    """Texts with their labels.

    Args:
        texts: list of str, or of (first, second) tuples for pairs.
        labels: list of class numbers, label names or floats, one a text; None if there are none.
        label_names: list of str, the names of the classes; None where the file has no fixed set,
            or labels are floats.
        metrics: tuple of str, keys of `metrics.METRICS`; None for those of the kind of task.
        source: str, the file.
        lines: list of int, the line that each text ended on.
    """

    texts: list
    labels: list | None = None
    label_names: list | None = None
    metrics: tuple | None = None
    source: str = "examples"
    lines: list | None = None

    def __len__(self):
        return len(self.texts)

    @property
    def is_numeric(self):
        """Whether the labels are floats, of a regression."""
        return bool(self.labels) and isinstance(self.labels[0], float)

    def where(self, position):
        """str. File and line of a text, for messages."""
        if self.lines is None:
            return f"{self.source}, example {position}"
        return f"{self.source}, line {self.lines[position]}"

    def class_numbers(self, names):
        """int array of the labels' places among `names`.

        Raises:
            InputError: a label is not among them; says where.
        """
        places = {name: number for number, name in enumerate(names)}
        numbers = []
        for position, label in enumerate(self.labels):
            label = names[label] if isinstance(label, (int, np.integer)) else label
            if label not in places:
                raise InputError(
                    f"{self.where(position)}: the label {label!r} is none of {listed(names)}."
                )
            numbers.append(places[label])
        return np.array(numbers, "int32")

    @property
    def fingerprint(self):
        """sha256, in hex, of texts and labels."""
        content = json.dumps([self.texts, self.labels, self.label_names], default=str)
        return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()
