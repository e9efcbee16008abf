"""Converts the sentences of all readers to `TaggedExamples` and checks the labels."""

import functools
import logging
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from keras_bert_impl.data.tables.labels import sort_names
from keras_bert_impl.data.tables.layout import usable, warn_of_skipped
from keras_bert_impl.data.tables.table_rows import SURROGATE
from keras_bert_impl.data.tags.examples import TaggedExamples
from keras_bert_impl.data.tags.spans import (
    OUTSIDE,
    means_none,
    misfits,
    outside_candidates,
)
from keras_bert_impl.utils.errors import InputError, listed

_LOG = logging.getLogger(__name__)
_LONGEST_WORD = 10_000  # maximum characters of a word

_MOST_WORDS_OF_A_LABEL = 6  # longer cells are sentences


class Row(NamedTuple):
    line: int  # line number or row number
    word: str
    label: str | None


def row_of(where: str, number: int, word: str, label: str | None) -> Row:
    """Creates a `Row`: checks the word and removes white space around the label."""
    if not word:
        raise InputError(f"{where}: the word is empty.")
    if SURROGATE.search(word) or label is not None and SURROGATE.search(label):
        raise InputError(f"{where}: the word or its label contains an unpaired surrogate.")
    if len(word) > _LONGEST_WORD:
        raise InputError(f"{where}: the word has {len(word)} characters: {word!r:.40}...")
    return Row(number, word, None if label is None else label.strip())


def tagged_examples(
    source: str,
    read: Callable[[Any], list[Row]],
    sentences: Iterable[Any],
    labels: list[str] | None = None,
    outside: str | None = None,
    skip_bad_rows: bool = False,
    unit: str = "line",
    read_with: dict[str, Any] | None = None,
) -> TaggedExamples:
    common = {"labels": labels, "outside": outside, "skip_bad_rows": skip_bad_rows}
    skipped: list[str] = []
    tagged = [rows for rows in usable(read, sentences, skipped, skip_bad_rows) if rows]
    counts = Counter(row.label for rows in tagged for row in rows if row.label is not None)
    stand_ins = _find_stand_ins(source, counts, outside)
    if stand_ins:
        tagged = [[_replace_stand_in(row, stand_ins) for row in rows] for rows in tagged]
        labels = labels and list(dict.fromkeys("O" if x in stand_ins else x for x in labels))
    names = {row.label for rows in tagged for row in rows if row.label is not None}
    invalid_labels = frozenset(misfits(names)) if labels is None else names.difference(labels)
    check = functools.partial(_check_labels, source, unit, labels, invalid_labels)
    tagged = usable(check, tagged, skipped, skip_bad_rows)
    warn_of_skipped(source, skipped, "sentences")
    if not tagged:
        raise InputError(f"{source} has no usable sentences.")
    lines, words, tags = ([[row[i] for row in rows] for rows in tagged] for i in range(3))
    has_labels = tags[0][0] is not None
    if has_labels and labels is None:
        labels = sort_names(label for sentence in tags for label in sentence)
    return TaggedExamples(
        words,
        tags if has_labels else None,
        list(labels) if has_labels else None,
        source=str(source),
        lines=lines,
        skipped=tuple(skipped),
        read_with=None if read_with is None else common | read_with,
        unit=unit,
    )


def _find_stand_ins(source, counts, outside):
    """Returns the labels that are read as "O": `outside`, or by default, spellings of "O"."""
    if outside is not None:
        return {outside.strip()} - {"O"}
    candidates = outside_candidates(counts)
    if candidates and all(map(means_none, candidates)):
        _LOG.warning(
            "%s: label %s marks words outside of entities and is read as 'O'.",
            source,
            listed(candidates),
        )
        return set(candidates)
    if not candidates and not counts.keys() & set(OUTSIDE):
        candidates = list(filter(means_none, counts))  # labels without prefixes, such as "PER"
    candidates = [label for label in candidates if 2 * counts[label] > counts.total()]
    if candidates and len(counts) > 1:
        _LOG.warning(
            "%s: label %s is not in the format of entity labels. If it marks words outside of "
            "entities, pass outside=%r (--outside %s).",
            source,
            listed(candidates),
            candidates[0],
            candidates[0] or "''",
        )
    return set()


def _replace_stand_in(row, stand_ins):
    return row._replace(label="O") if row.label in stand_ins else row


def _check_labels(source, unit, labels, invalid_labels, rows):
    for row in rows:
        where = f"{source}, {unit} {row.line}"
        if row.label is not None and len(row.label.split()) > _MOST_WORDS_OF_A_LABEL:
            raise InputError(f"{where}: {row.label!r:.60} is not a label. Choose another column.")
        if row.label == "" and (labels is None or "" not in labels):
            raise InputError(f"{where}: the label is empty.")
        if row.label in invalid_labels:
            if labels is not None:
                raise InputError(
                    f"{where}: label {row.label!r:.60} is not one of {listed(labels)}."
                )
            raise InputError(
                f"{where}: label {row.label!r:.60} is neither 'O' nor like 'B-PER', but the "
                "other labels are. If it marks words outside of entities, pass "
                f"outside={row.label!r:.60}; to "
                "allow it, pass labels."
            )
    return rows
