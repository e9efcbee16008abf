"""Labeled sentences, scores of taggers, and files with predicted labels."""

import collections
import dataclasses
import functools
import itertools
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_bert_impl.data.prediction_files import (
    cells,
    read_column,
    write_predictions_table,
)
from keras_bert_impl.data.scores.metrics import accuracy, macro_f1
from keras_bert_impl.data.tables.examples import (
    TRUE_LABEL,
    LabeledExamples,
    content_hash,
    index_of_name,
    most_common,
)
from keras_bert_impl.data.tags.spans import (
    entity_scores,
    invalid_spans,
    misfits,
    outside_candidates,
    possible_prefixes,
    read_labels,
    runs_of,
    spans_of,
)
from keras_bert_impl.data.tags.word_check import word_remarks
from keras_bert_impl.utils.errors import InputError, listed

_MANY_LABELS = 100
_MOST_ONCE = 0.45  # fraction of the labels, as of the words in a text
_LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class TaggedExamples(LabeledExamples):
    """Sentences, which are lists of words, with a label for each word.

    Args:
        texts: words of each sentence.
        labels: word labels of each sentence; None if unlabeled.
        label_names: list of all labels; None if unlabeled.
        source: name of the file.
        lines: line number of each word; None if not from a file.
        skipped: location of each skipped sentence and the reason.
        read_with: see `LabeledExamples`.
        unit: whether `lines` contains line numbers (`"line"`) or row numbers (`"row"`).
        files: file of each sentence, if there are several files.
        groups: group of each sentence, such as its document; see `read_tags`.
    """

    texts: list[list[str]]
    labels: list[list[str]] | None = None
    label_names: list[str] | None = None
    source: str = "examples"
    lines: list[list[int]] | None = None
    skipped: tuple[str, ...] = ()
    read_with: dict[str, Any] | None = None
    unit: str = "line"
    files: list[str] | None = None
    groups: list[str] | None = None

    def where(self, position: int, word: int = 0) -> str:
        """Returns the file name and the line number of a word as text."""
        if self.lines is None:
            return f"{self.source}, sentence {position}, word {word}"
        return f"{self.file_of(position)}, {self.unit} {self.lines[position][word]}"

    def class_numbers(self, names: list[str]) -> list[np.ndarray]:
        """Converts the labels of each sentence to class indices, int32, the positions in `names`.

        Raises:
            InputError: a label is not in `names`.
        """
        indices = index_of_name(names)
        for position, labels in enumerate(self.labels):
            for word, label in enumerate(labels):
                if label not in indices:
                    where = self.where(position, word)
                    raise InputError(f"{where}: label {label!r} is not one of {listed(names)}.")
        return [np.array([indices[label] for label in labels], "int32") for labels in self.labels]

    def label_counts(self) -> tuple[str | None, dict[str, float]]:
        return self._label_counts

    @functools.cached_property
    def _label_counts(self):
        entity_labels = read_labels(self.label_names)
        if entity_labels is None:
            return "tags", most_common(label for row in self.labels for label in row)
        parts, types = entity_labels.parts, collections.Counter[str]()
        runs = collections.Counter(labels for *_, labels in runs_of(self.labels, parts))
        for labels, count in runs.items():
            for span in spans_of(labels, parts=parts):
                types[span.type] += count
        return "entities", dict(types.most_common())

    def facts(self) -> dict[str, Any]:
        scheme, invalid = invalid_spans(self.labels, self.label_names)
        if scheme is None:
            return {}
        scheme_facts: dict[str, Any] = {"label_scheme": scheme, "invalid_entities": len(invalid)}
        return scheme_facts | ({"first_invalid_entity": self.where(*invalid[0])} if invalid else {})

    def remarks(self) -> list[str]:
        """Returns a sentence about each property that may be a mistake in the data."""
        remarks = word_remarks(self.source, self.texts)
        if self.labels is None:
            return remarks
        if prefixed := possible_prefixes(self.label_names):
            remarks.append(
                f"{self.source}: labels such as {prefixed[0]!r} are read as entity types. If they "
                "have a prefix, write them like 'B-PER'."
            )
        if len(self.label_names) <= _MANY_LABELS:
            return remarks
        counts = collections.Counter(itertools.chain.from_iterable(self.labels))
        once = sum(count == 1 for count in counts.values())
        if len(counts) > _MANY_LABELS and once > _MOST_ONCE * len(counts):
            remarks.append(
                f"{self.source} has {len(counts):,} labels, and {once:,} of them occur only once. If "
                "they are words, pass another column as label=... (--label COLUMN)."
            )
        return remarks

    def described(self) -> dict[str, list]:
        """Returns columns for a file of predictions: label, file, line and text of each word."""
        labels = [[""] * len(words) for words in self.texts] if self.labels is None else self.labels
        columns = {TRUE_LABEL: _join_rows(labels)}
        if self.files is not None:
            columns["file"] = [file for file, words in zip(self.files, self.texts) for _ in words]
        if self.lines is not None:
            columns["line"] = _join_rows(self.lines)
        return columns | {"word": _join_rows(self.texts)}

    @property
    def fingerprint(self) -> str:
        """Hexadecimal SHA-256 hash of words, labels and label names."""
        return content_hash(self.texts, self.labels, self.label_names)


def score_tags(examples: TaggedExamples, predictions: list[list[str]]) -> dict[str, float]:
    """Computes the standard scores of predicted word labels.

    Args:
        examples: sentences with labels.
        predictions: predicted label of each word, such as the result of `TokenClassifier.tag`.

    Returns:
        dict of scores. Entity labels have the scores `f1`, `precision`, `recall` and `macro_f1` of
        entities as in `seqeval`, `f1/TYPE` for each entity type, and the `accuracy` of words. Other
        labels, such as parts of speech, have the `accuracy` and `macro_f1` of words.

    Raises:
        InputError: the sentences have no labels or no words, or the number of predictions is wrong.

    Example:
        from keras_bert_impl.tasks import score_tags
        score_tags(examples, tagger.tag(examples.texts))["f1"]
    """
    if examples.labels is None:
        raise InputError(f"{examples.source} has no labels, which are required for scores.")
    _check_lengths(examples, predictions)
    true_labels, predicted = (
        np.array([label for sentence in labels for label in sentence], object)
        for labels in (examples.labels, predictions)
    )
    if not len(true_labels):
        raise InputError(f"{examples.source} has no words.")
    names = {*true_labels, *predicted, *(examples.label_names or [])}
    if read_labels(names) is None:
        if misfit_labels := misfits(names) or outside_candidates(names):
            _LOG.warning(
                "%s: entity F1 is not computed, because %s is not in the format of the entity "
                "labels.",
                examples.source,
                listed(misfit_labels),
            )
        return {
            "accuracy": accuracy(true_labels, predicted),
            "macro_f1": macro_f1(true_labels, predicted),
        }
    scores = entity_scores(examples.labels, predictions, labels=names)
    return {
        **{name: scores[name] for name in ("f1", "precision", "recall", "macro_f1")},
        "accuracy": accuracy(true_labels, predicted),
        **{f"f1/{name}": type_scores["f1"] for name, type_scores in scores["types"].items()},
    }


def write_tag_predictions(
    path: str | Path,
    examples: TaggedExamples,
    predictions: list[list[str]],
    scores: Sequence[Any] | None = None,
) -> None:
    """Writes predicted labels to a tab-separated file with one line per word.

    The columns are the index of the sentence, the predicted label, the probability of the predicted
    label, the true label, the line number in the file that was read, and the word.

    Args:
        path: file to write.
        examples: sentences.
        predictions: a label for each word.
        scores: probabilities of the predicted labels of each sentence. None writes no
            probabilities.

    Raises:
        InputError: predictions differ in length.
    """
    _check_lengths(examples, predictions)
    indices = [number for number, words in enumerate(examples.texts) for _ in words]
    columns = {"label": _join_rows(predictions)}
    if scores is not None:
        columns["score"] = cells(_join_rows(scores))
    write_predictions_table(path, list(columns), zip(*columns.values()), examples, indices)


def read_tag_predictions(path: Path) -> list[list[str]]:
    """Reads the predicted labels from a file that `write_tag_predictions` has written."""
    column = read_column(path, "label")
    rows: list[list[str]] = [[] for _ in range(column[-1][0] + 1 if column else 0)]
    for number, label in column:
        rows[number].append(label)
    return rows


def _join_rows(rows):
    return [value for row in rows for value in row]


def _check_lengths(examples, predictions):
    if len(predictions) != len(examples):
        raise InputError(f"{len(examples)} sentences, but predictions for {len(predictions)}.")
    for position, (words, labels) in enumerate(zip(examples.texts, predictions)):
        if len(words) != len(labels):
            raise InputError(
                f"{examples.where(position)}: {len(words)} words, but {len(labels)} predictions."
            )
