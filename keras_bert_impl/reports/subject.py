"""What the sections of a report are made of: a run, its model and examples."""

from typing import Any, NamedTuple

import numpy as np

from keras_bert_impl.attribution import attribute
from keras_bert_impl.io.errors import InputError
from keras_bert_impl.reports.page import details, paragraph, shaded_words, table
from keras_bert_impl.reports.run_files import Run
from keras_bert_impl.reports.text import Html

MOST_EXPLAINED = 5  # errors with attributions


class Subject(NamedTuple):
    """A run with what the caller has of it.

    Attributes:
        examples: labeled examples that the model is scored on, or None.
        model: the model of the run, or None.
    """

    run: Run
    examples: Any = None
    model: Any = None


def check_count(subject: Subject, count: int) -> None:
    """Raises an `InputError` if the run's predictions are of other examples."""
    if count != len(subject.examples):
        raise InputError(
            f"{subject.run.path} has predictions for {count:,} examples, but "
            f"{subject.examples.source} has {len(subject.examples):,}: give those it was scored on."
        )


def explanation(model: Any, text: Any, target: Any = None) -> Html:
    """Returns the words of a text shaded by integrated gradients, and the largest as a table."""
    try:
        found = attribute(model, text, target)
    except InputError as error:
        return Html(paragraph(f"no attribution: {error}"))
    largest = sorted(found.words, key=lambda word: -abs(word.score))[:8]
    rows = [[word.text[:80], float(np.round(word.score, 4))] for word in largest]
    numbers = table(["word", "share of the log-odds"], rows)
    return Html(shaded_words(found.words) + details(f"largest shares for {found.target}", numbers))
