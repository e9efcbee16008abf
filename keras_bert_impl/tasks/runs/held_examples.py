"""Labeled texts in memory, for `finetune`."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.tasks.data.examples import Examples, LabeledExamples
from keras_bert_impl.tasks.tagging.examples import TaggedExamples


def as_examples(data: Any, name: str) -> LabeledExamples:
    """Converts the data arguments of `finetune` to labeled examples."""
    if not isinstance(data, tuple):
        if not isinstance(data, LabeledExamples):
            raise InputError(
                f"{name} must be examples from a reader such as read_table, or (texts, labels). "
                f"Received: {data!r:.60}"
            )
        return data
    if len(data) != 2:
        raise InputError(f"{name} must be (texts, labels). Received: a tuple of length {len(data)}")
    texts, labels = (_as_list(part, name) for part in data)
    if len(texts) != len(labels) or not texts:
        raise InputError(f"{name} has {len(texts)} texts and {len(labels)} labels.")
    if isinstance(texts[0], list):
        names = sorted({label for row in labels for label in row})
        return TaggedExamples(texts, labels, names, source=name)
    kinds = {type(label) for label in labels}
    if kinds <= {int, bool}:
        return _named(Examples(texts, labels, source=name))
    if kinds <= {int, float}:
        return Examples(texts, [float(label) for label in labels], source=name)
    if kinds not in ({str}, {list}):
        raise InputError(
            f"{name}: labels must be all names, all numbers, or all lists of names. Received: "
            f"{', '.join(sorted(kind.__name__ for kind in kinds))}"
        )
    if kinds == {str}:
        labels = [label.strip() for label in labels]  # as in files
    elif not all(isinstance(label, str) for row in labels for label in row):
        raise InputError(
            f"{name}: a list of labels must have names. Received: {labels[0]!r:.60}. For rows of 0 "
            "and 1, pass [[name for name, is_set in zip(names, row) if is_set] for row in rows]."
        )
    return Examples(texts, labels, source=name)


def with_named_classes(*sets: LabeledExamples) -> tuple[LabeledExamples, ...]:
    """Names the classes by their numbers if the first set, the training set, has no names."""
    if not _has_numbers(sets[0]):
        return sets
    return tuple(_named(one) if _has_numbers(one) else one for one in sets)


def _has_numbers(examples):
    """Returns whether the labels are numbers of classes without names."""
    if not isinstance(examples, Examples) or examples.label_names or not examples.labels:
        return False
    return all(isinstance(label, (int, np.integer)) for label in examples.labels)


def _named(examples):
    numbers = [int(label) for label in examples.labels]  # a bool is 0 or 1
    names = [str(number) for number in sorted(set(numbers))]
    return dataclasses.replace(examples, labels=list(map(str, numbers)), label_names=names)


def read_options(
    train: LabeledExamples, dev: LabeledExamples, task: str | None
) -> dict[str, Any] | None:
    """Returns the options with which `keras-bert` reads the examples of a run again."""
    if dev.read_with is None:
        return None
    options = {"task": task, **dev.read_with, "train": (train.read_with or {}).get("dev")}
    if options.get("dev_split"):
        options["train"], options["dev"] = options["dev"], None
    places = ("data",) if options.get("tfds") else ("train", "dev", "data")  # else of splits
    for name in places:
        if options.get(name):
            options[name] = str(Path(options[name]).absolute())
    return options


def _as_list(values, name):
    if isinstance(values, (str, bytes)) or not hasattr(values, "__iter__"):
        raise InputError(
            f"{name} must be a list of texts and a list of labels. Received: {values!r:.60}"
        )
    values = values.tolist() if hasattr(values, "tolist") else list(values)
    return [value.item() if isinstance(value, np.generic) else value for value in values]
