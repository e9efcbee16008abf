"""Multiple-choice examples, scores and prediction files."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.tasks.base.prediction_files import cells, write_predictions_table
from keras_bert_impl.tasks.data.examples import LabeledExamples, most_common
from keras_bert_impl.tasks.scores.decisions import likeliest
from keras_bert_impl.tasks.scores.metrics import accuracy


@dataclasses.dataclass(frozen=True)
class ChoiceExamples(LabeledExamples):
    """Prompts with candidate endings and the number of the correct one.

    Args:
        texts: list of (prompt, list of endings).
        labels: list of int, number of the correct ending, from 0; None if unlabeled.
        source: file name.
        lines: list of int, last line of each example, or its row; None if not from a file.
        skipped: tuple of str: location and reason for each skipped row.
        read_with: how a file was read; see `LabeledExamples`.
        unit: `"line"` or `"row"`, what `lines` counts.
    """

    texts: list
    labels: list | None = None
    source: str = "examples"
    lines: list | None = None
    skipped: tuple = ()
    read_with: dict[str, Any] | None = None
    unit: str = "line"

    def label_counts(self) -> tuple[str | None, dict[str, float]]:
        return "endings", most_common(f"{len(endings)} each" for _, endings in self.texts)


def score_choices(
    examples: ChoiceExamples, probabilities: Sequence[np.ndarray]
) -> dict[str, float]:
    """Computes the standard score of multiple choice.

    Args:
        examples: `ChoiceExamples` with labels.
        probabilities: list of arrays `[endings]`, from `MultipleChoice.predict`.

    Returns:
        dict of float: `accuracy`; NaN if a probability is NaN.

    Raises:
        InputError: the examples have no labels, or the numbers of examples and predictions differ.

    Example:
        from keras_bert_impl.tasks import score_choices
        score_choices(examples, model.predict(examples.texts))["accuracy"]
    """
    if examples.labels is None:
        raise InputError(f"{examples.source} has no labels to compare predictions with.")
    if len(probabilities) != len(examples):
        raise InputError(f"{len(examples)} examples, but predictions for {len(probabilities)}.")
    return {"accuracy": accuracy(examples.labels, likeliest(probabilities))}


def write_choice_predictions(path: str | Path, probabilities: Sequence[np.ndarray]) -> None:
    """Writes one line per example: its index, the most likely ending and all probabilities.

    Args:
        path: the `.tsv` file.
        probabilities: list of float32 arrays `[endings]`, from `MultipleChoice.predict`. If an
            example has fewer endings than another, its last cells are empty.
    """
    most = max(map(len, probabilities), default=0)

    def line(row):
        choice = "" if np.isnan(row).any() else row.argmax()
        return [choice, *cells(row), *[""] * (most - len(row))]

    columns = ["choice", *(f"ending{number}" for number in range(most))]
    write_predictions_table(path, columns, map(line, probabilities))
