"""Prompts with endings to choose from: where each came from, scores, and files of predictions."""

import csv
import dataclasses

import numpy as np

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.io.files import replace_file
from keras_bert_impl.tasks.data.examples import content_hash
from keras_bert_impl.tasks.scores.decisions import likeliest
from keras_bert_impl.tasks.scores.metrics import accuracy


@dataclasses.dataclass(frozen=True)
class ChoiceExamples:
    """Prompts, their endings, and which of these is right.

    Args:
        texts: list of (prompt, list of endings).
        labels: list of int, the number of the right ending of each, from 0; None if there are
            none.
        source: str, the file.
        lines: list of int, the line that each example ended on; None where they come from no file.
        skipped: tuple of str: of each row that was left out, where and why.
    """

    texts: list
    labels: list | None = None
    source: str = "examples"
    lines: list | None = None
    skipped: tuple = ()

    def __len__(self):
        return len(self.texts)

    @property
    def fingerprint(self):
        """sha256, in hex, of texts and labels."""
        return content_hash(self.texts, self.labels)


def score_choices(examples, probabilities):
    """The score by which models are compared.

    Args:
        examples: `ChoiceExamples` with labels.
        probabilities: list of arrays `[endings]`, from `MultipleChoice.predict`.

    Returns:
        dict of float: `accuracy`; NaN if a probability is.

    Raises:
        InputError: there are no labels, or probabilities of another number of examples.

    Example:
        score_choices(examples, model.predict(examples.texts))["accuracy"]
    """
    if examples.labels is None:
        raise InputError(f"{examples.source} has no labels to score predictions by.")
    if len(probabilities) != len(examples):
        raise InputError(f"{len(examples)} examples, but predictions for {len(probabilities)}.")
    return {"accuracy": accuracy(examples.labels, likeliest(probabilities))}


def write_choice_predictions(path, probabilities):
    """Writes a line for each example: its number, that of the likeliest ending, all probabilities.

    Args:
        path: str or `Path` of the `.tsv` file.
        probabilities: list of float32 arrays `[endings]`, from `MultipleChoice.predict`. Of an
            example with fewer endings than another the last cells are empty.
    """
    most = max(map(len, probabilities), default=0)
    with replace_file(path) as temporary, open(temporary, "w", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        writer.writerow(["index", "choice", *(f"ending{number}" for number in range(most))])
        for number, row in enumerate(probabilities):
            choice = "" if np.isnan(row).any() else row.argmax()
            # Nine digits give a float32 back exactly.
            cells = [f"{probability:.9g}" for probability in row]
            writer.writerow([number, choice, *cells, *[""] * (most - len(cells))])
