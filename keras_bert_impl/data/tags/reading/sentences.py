"""Reads sentences from tables whose rows are words, sentences or annotated texts."""

import contextlib
import dataclasses
import itertools
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from keras_bert_impl.data.tables.layout import SkippedRowError, check_accepted
from keras_bert_impl.data.tables.table_rows import value_of
from keras_bert_impl.data.tags.reading.assembly import Row, row_of
from keras_bert_impl.data.tags.reading.cells import (
    are_entities,
    as_list,
    labels_of_text,
    name_of,
    of_argilla,
    of_label_studio,
    split_text,
    word_of,
)
from keras_bert_impl.data.tags.reading.names import (
    SENTENCES,
    TAGS,
    TEXTS,
    WORDS,
    chosen_name,
    find_name,
    plain,
)
from keras_bert_impl.data.tags.reading.numbered_rows import Rows, as_numbered
from keras_bert_impl.data.tags.reading.offsets import Alignment
from keras_bert_impl.data.tags.word_check import SAMPLE, check_words
from keras_bert_impl.utils.errors import InputError, listed

_NUMBERS = (int, float, np.integer)


@dataclasses.dataclass
class RowReader:
    """Reads the sentences of a table.

    Args:
        table: rows of the table.
        source: file name in messages.
        text, label, sentence: column names. None detects the column.
        labels: class names. Required if the labels in the table are class indices without names.
        has_labels: False reads only words.
        word_prefix: see `read_tags`.
    """

    table: Rows
    source: str
    text: str | None = None
    label: str | None = None
    sentence: str | None = None
    labels: list[str] | None = None
    has_labels: bool = True
    word_prefix: str = ""

    def __post_init__(self) -> None:
        self.alignment = Alignment(self.source)
        self.class_names: list[str] | None = None

    def sentences(self) -> Iterator[list[tuple[int, Any]]]:
        """Yields a list of (number, row) tuples for each sentence; see `as_numbered`."""
        rows = as_numbered(self.table.rows)
        first = next((pair for pair in rows if pair[1] is not None), None)
        if first is None:
            raise InputError(f"{self.source} has no rows.")
        self._has_words = isinstance(first[1], dict) and self._is_word(first[1])
        rows = itertools.chain([first], rows)
        if self._has_words:
            sentences = self._group_rows(rows)
        else:
            sentences = ([pair] for pair in rows if pair[1] is not None)
        sample = list(itertools.islice(sentences, SAMPLE))
        self._check_words(sample)
        yield from itertools.chain(sample, sentences)

    def _check_words(self, sample):
        """Checks the columns of words, or of lists of words, in the first sentences."""
        sentences = [[row for _, row in rows if isinstance(row, dict)] for rows in sample]
        sentences = [rows for rows in sentences if rows]
        names = list(sentences[0][0]) if sentences else []
        word = self.text or find_name(names, WORDS)
        label = self.label or find_name(names, TAGS)
        if names and label is not None and label.startswith("-"):
            label = chosen_name(names, label, TAGS, "labels", "label")
        columns = {}
        for name in names:
            values = [[row.get(name) for row in rows] for rows in sentences]
            if not self._has_words:
                with contextlib.suppress(InputError):  # `read` reports the row
                    values = [as_list(value) for (value,) in values]
            if all(isinstance(value, list) for value in values):
                columns[name] = [[str(value) for value in row] for row in values]
        if word in columns:
            check_words(self.source, columns, word, label)

    def read(self, rows: list[tuple[int, Any]]) -> list[Row]:
        word_rows: list[Row] = []
        for number, row in rows:
            where = f"{self.source}, {self.table.unit} {number}"
            try:
                if isinstance(row, InputError):
                    raise row
                words, labels = (
                    self._read_word(row) if self._has_words else self._read_sentence(row, number)
                )
                if not words:
                    raise SkippedRowError("the text contains no words.")
            except InputError as error:
                raise type(error)(f"{where}: {error}") from error
            word_rows += [
                row_of(where, number, self._remove_prefix(word, where), tag)
                for word, tag in zip(words, labels)
            ]
        return word_rows

    def _remove_prefix(self, word, where):
        if not word.startswith(self.word_prefix):
            raise InputError(
                f"{where}: the word {word!r:.60} does not start with {self.word_prefix!r}."
            )
        return word.removeprefix(self.word_prefix)

    # === A word in each row ===

    def _is_word(self, row):
        if self.sentence is not None:
            return True
        text = row.get(self.text or find_name(row, WORDS))
        label = row.get(self.label or find_name(row, TAGS))
        are_strings = isinstance(text, str) and isinstance(label, (str, int))
        return are_strings and not text.startswith("[") and len(text.split()) <= 1

    def _group_rows(self, rows):
        sentence, current, before, has_ends = [], None, None, False
        column = self.sentence
        for number, row in rows:
            if row is None:
                has_ends = has_ends or bool(sentence)
                if sentence:
                    yield sentence
                sentence = []
                continue
            if isinstance(row, dict):
                if column is None:
                    column = find_name(row, SENTENCES) or ""
                if column and column not in row:
                    raise InputError(
                        f"{self.source}: no column named {column!r}. Found: {listed(row)}"
                    )
                value = name_of(row[column]).strip() if column else ""
                # The sentence column is filled in all rows of a sentence or only in the first one.
                if sentence and value and (value != current or not before):
                    has_ends = True
                    yield sentence
                    sentence = []
                current, before = value or current, value
            sentence.append((number, row))
        if sentence:
            if not has_ends and len(sentence) > 1 and not column:
                raise InputError(
                    f"{self.source} does not mark the ends of sentences. Pass the column of "
                    "sentence numbers as sentence=... (--sentence COLUMN), or add a blank line "
                    "between sentences."
                )
            yield sentence

    def _read_word(self, row):
        names = list(row)
        word = chosen_name(names, self.text, (*WORDS, *TEXTS), "words", "text")
        word = value_of(row, word)
        if not self.has_labels:
            return [word_of(word)], [None]
        label = chosen_name(names, self.label, TAGS, "labels", "label")
        return [word_of(word)], self._names(label, [value_of(row, label)])

    # === A sentence or an annotated text in each row ===

    def _read_sentence(self, row, number):
        if isinstance(row, (list, tuple)) and len(row) == 2:
            if isinstance(row[1], dict) and "cats" in row[1] and "entities" not in row[1]:
                raise InputError(
                    'spaCy\'s "cats" are labels of whole texts. Use text classification, without '
                    "--task tagging, on a table with a text and a label in each row."
                )
            row = {"text": row[0], "entities": row[1]}  # spaCy's training format
        if not isinstance(row, dict):
            raise InputError(f"expected an object with tokens and tags. Received: {row!r:.60}")
        where = f"{self.table.unit} {number}"
        row = of_label_studio(row, self.text, self.alignment, where)
        row = row and of_argilla(row)
        if row is None:
            raise SkippedRowError("no annotation was accepted.")
        check_accepted(row, (self.text, self.label))
        names = list(row)
        text = chosen_name(names, self.text, (*WORDS, *TEXTS), "words or texts", "text")
        words = as_list(value_of(row, text))
        if not self.has_labels:
            words = split_text(words)
            return words, [None] * len(words)
        label = chosen_name(_prefer_lists(row), self.label, TAGS, "labels", "label")
        tags = as_list(value_of(row, label))
        by_word = plain(text) == "tokenizedtext"  # GLiNER's training format
        if by_word or are_entities(words, tags):
            whole = words if isinstance(words, str) else row.get(find_name(names, TEXTS), words)
            return labels_of_text(None if by_word else whole, words, tags, self.alignment, where)
        words = split_text(words)
        tags = tags if isinstance(tags, list) else re.split(r"[,\s]+", str(tags).strip())
        if len(words) != len(tags):
            raise InputError(
                f"{len(words)} words in {text!r}, but {len(tags)} labels in {label!r}. For labels "
                "of whole texts, use text classification, without --task tagging."
            )
        return words, self._names(label, tags)

    def _names(self, column, tags):
        names = self.table.classes.get(column) or self.labels
        if names is not None:
            tags = [_convert_to_number(tag) if tag not in names else tag for tag in tags]
        if not any(isinstance(tag, _NUMBERS) and not isinstance(tag, bool) for tag in tags):
            return [name_of(tag) for tag in tags]
        if names is None:
            raise InputError(
                f"the labels in {column!r} are numbers. Pass the class names in the order "
                "of their numbers: labels=['O', 'B-PER', ...] (--labels O,B-PER,...)."
            )
        self.class_names = names
        for tag in tags:
            if not isinstance(tag, _NUMBERS) or tag != int(tag) or not 0 <= tag < len(names):
                raise InputError(
                    f"label {tag!r:.40} is not a class index from 0 to {len(names) - 1}."
                )
        return [names[int(tag)] for tag in tags]


def _convert_to_number(tag):
    """Converts a class index from str to int. Returns other labels unchanged."""
    return int(tag) if isinstance(tag, str) and re.fullmatch("[0-9]{1,9}", tag.strip()) else tag


def _prefer_lists(row):
    """Returns the columns that contain lists, or all columns if no list can be the labels."""
    fitting = [name for name, value in row.items() if not isinstance(as_list(value), (str, int))]
    return fitting if find_name(fitting, TAGS) else list(row)
