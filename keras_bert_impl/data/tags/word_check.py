"""Finds columns that contain ids or labels instead of words."""

import collections
import itertools
import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from keras_bert_impl.data.tags.spans import read_labels
from keras_bert_impl.utils.errors import InputError, listed

SAMPLE = 100  # sentences to look at
_MOST = 0.95  # fraction of the values that must look alike
_MANY, _FEW = 100, 60  # values, different values
_LONG = 1000  # words of a sentence
_CODE = re.compile(r"(?=.*\d)(?=.*[a-zA-Z])[\w-]{6,}", re.ASCII)  # such as hashes and UUIDs

Sentences = Sequence[Sequence[str]]


def check_words(
    source: Any, columns: Mapping[str, Sentences], word: str, label: str | None
) -> None:
    """Raises `InputError` if a column contains ids or labels, and another column contains words.

    Args:
        columns: values of each column in the first sentences, by the name or number of the column.
        word, label: columns of the words and labels.
    """
    are_swapped = _are_labels(columns[word]) and not _are_labels(columns.get(label, columns[word]))
    problem = "labels" if are_swapped else unlike_words(columns[word])
    fitting = {
        name: len({*_join_rows(values)})
        for name, values in columns.items()
        if name != word and (are_swapped or name != label) and _can_be_words(values)
    }
    most = max(fitting.values(), default=0)
    problem = problem or _compare_counts(_join_rows(columns[word]), most)
    if problem is None or not fitting:
        return
    better = max(fitting, key=lambda name: fitting[name])
    advice = f"text={better} (--text {better})"
    if better == label:
        advice = f"text={better}, label={word} (--text {better} --label {word})"
    raise InputError(
        f"{source}: column {word} does not contain words, but {problem}, such as "
        f"{listed(_join_rows(columns[word])[:3])}. Pass {advice}, or another column."
    )


def _compare_counts(values, most):
    """Like `unlike_words`, for values of which another column has `most` different ones."""
    count = len(set(values))
    if len(values) < _MANY:
        return None
    if count <= _FEW and most >= 5 * count:  # such as parts of speech before the words
        return f"only {count} different values"
    has_letters = any(any(map(str.isalpha, value)) for value in values)
    return None if has_letters or count < 20 or 2 * most < count else "numbers"


def unlike_words(sentences: Sentences) -> str | None:
    """Returns what the values are if they look like ids. Returns None if they may be words."""
    values, several = _join_rows(sentences), [row for row in sentences if len(row) > 1]
    if values and not any(values):
        return "empty cells"
    if _has_majority(len(set(row)) == 1 for row in several) and sum(map(len, several)) > 4:
        return "one value for each sentence"
    if len(set(values)) > 4 and _has_majority(bool(_CODE.fullmatch(value)) for value in values):
        return "ids"
    shapes = collections.Counter(re.sub(r"\d+", "0", value) for value in values)
    shape, count = shapes.most_common(1)[0] if shapes else ("", 0)
    if "0" not in shape or count < _MOST * len(values):
        return None
    numbers = [
        [tuple(map(int, re.findall(r"\d{1,18}", value))) for value in row] for row in several
    ]
    pairs = [pair for row in numbers for pair in itertools.pairwise(row) if all(pair)]
    if _has_majority(after[-1] - before[-1] == 1 for before, after in pairs):
        return "numbers of words"
    is_ascending = _has_majority(before < after for before, after in pairs)
    return "ids or offsets" if is_ascending and len(values) >= 4 else None


def _can_be_words(sentences):
    values = _join_rows(sentences)
    with_letters = sum(any(map(str.isalpha, value)) for value in values)
    return (
        2 * with_letters >= len(values)
        and len(set(values)) > 1
        and unlike_words(sentences) is None
        and not _are_labels(sentences)
    )


def _are_labels(sentences):
    """Returns whether the values are entity labels such as "B-PER"."""
    labels = read_labels(_join_rows(sentences))
    return labels is not None and any(
        letter == "B" and kind != "_" for letter, kind in labels.parts.values()
    )


def word_remarks(source: str, sentences: Sentences) -> list[str]:
    """Returns a sentence about each property of the words that may be a mistake."""
    remarks = []
    if problem := unlike_words(sentences[:SAMPLE]):
        remarks.append(
            f"{source}: the words may be {problem}, such as {listed(_join_rows(sentences)[:3])}. Pass "
            "the column of the words as text=... (--text COLUMN)."
        )
    longest = max(map(len, sentences), default=0)
    if longest > _LONG:
        remarks.append(
            f"{source}: the longest of {len(sentences):,} sentences has {longest:,} words. If "
            "several sentences are joined, pass the column of sentence numbers as sentence=... "
            "(--sentence COLUMN), or add a blank line after each sentence."
        )
    invisible = sum(
        all(unicodedata.category(character) in ("Cc", "Cf") for character in word)
        for word in itertools.filterfalse(str.isprintable, itertools.chain.from_iterable(sentences))
    )
    if invisible:
        remarks.append(
            f"{source}: {invisible:,} words contain only invisible characters. Tokenizers remove "
            "them: their labels are not trained, and they are predicted to be outside of entities."
        )
    return remarks


def _join_rows(sentences):
    return list(itertools.chain.from_iterable(sentences))


def _has_majority(flags):
    flags = list(flags)
    return bool(flags) and sum(flags) >= _MOST * len(flags)
