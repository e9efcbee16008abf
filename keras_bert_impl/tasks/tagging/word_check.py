"""Finds columns that contain ids or labels instead of words."""

import collections
import itertools
import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from keras_bert_impl.io.errors import InputError, listed
from keras_bert_impl.tasks.tagging.spans import read_labels

SAMPLE = 100  # sentences to look at
_FEW = 50  # fewer words may all be numbers
_MOST = 0.95  # fraction of words that must look alike
_LONG = 1000  # words of a sentence

Sentences = Sequence[Sequence[str]]


def check_words(
    source: Any, columns: Mapping[str, Sentences], word: str, label: str | None
) -> None:
    """Raises `InputError` if a column contains ids or labels, and another column contains words.

    Args:
        columns: values of each column in the first sentences, by the name or number of the column.
        word, label: columns of the words and labels.
    """
    words = columns[word]
    problem = unlike_words(words)
    is_swapped = _are_labels(words) and label in columns and not _are_labels(columns[label])
    if problem is None and not is_swapped and not _are_numbers(words):
        return
    fitting = {
        name: _distinct(values)
        for name, values in columns.items()
        if (name not in (word, label) or name == label and is_swapped)
        and unlike_words(values) is None
        and not _are_labels(values)
        and _fraction(any(map(str.isalpha, value)) for value in _flat(values)) >= 0.5
        and _distinct(values) > 1
        and (problem or is_swapped or 2 * _distinct(values) >= _distinct(words))
    }
    if not fitting:
        return
    better = max(fitting, key=lambda name: fitting[name])
    advice = f"text={better} (--text {better})"
    if better == label:
        advice = f"text={better}, label={word} (--text {better} --label {word})"
    raise InputError(
        f"{source}: column {word} does not contain words, but "
        f"{'labels' if is_swapped else problem or 'numbers'}, such as {listed(_flat(words)[:3])}. "
        f"Pass {advice}, or another column."
    )


def word_remarks(source: str, sentences: Sentences) -> list[str]:
    """Returns a sentence about each property of the words that may be a mistake."""
    remarks = []
    if problem := unlike_words(sentences[:SAMPLE]):
        remarks.append(
            f"{source}: the words may be {problem}, such as {listed(_flat(sentences)[:3])}. Pass "
            "the column of the words as text=... (--text COLUMN)."
        )
    longest = max(map(len, sentences), default=0)
    if longest > _LONG:
        remarks.append(
            f"{source}: the longest of {len(sentences):,} sentences has {longest:,} words. If "
            "several sentences are joined, pass the column of sentence numbers as sentence=... "
            "(--sentence COLUMN), or add a blank line after each sentence."
        )
    hidden = sum(map(_is_invisible, itertools.chain.from_iterable(sentences)))
    if hidden:
        remarks.append(
            f"{source}: {hidden:,} words contain only invisible characters. Most tokenizers remove "
            "them: their labels are not trained, and the label of words outside of entities is "
            "predicted."
        )
    return remarks


def _is_invisible(word):
    return all(unicodedata.category(character) in ("Cc", "Cf") for character in word)


def unlike_words(sentences: Sentences) -> str | None:
    """Returns what the values are if they look like ids. Returns None if they may be words."""
    values, several = _flat(sentences), [row for row in sentences if len(row) > 1]
    if values and not any(values):
        return "empty cells"
    is_constant = [len(set(row)) == 1 for row in several]
    if _fraction(is_constant) >= _MOST and sum(map(len, several)) > 4:
        return "one value for each sentence"
    shapes = collections.Counter(re.sub(r"\d+", "0", value) for value in values)
    shape, count = shapes.most_common(1)[0] if shapes else ("", 0)
    if "0" not in shape or count < _MOST * len(values):
        return None
    numbers = [
        [tuple(map(int, re.findall(r"\d{1,18}", value))) for value in row] for row in several
    ]
    pairs = [pair for row in numbers for pair in itertools.pairwise(row) if all(pair)]
    if _fraction(after[-1] - before[-1] == 1 for before, after in pairs) >= _MOST:
        return "numbers of words"
    is_ascending = _fraction(before < after for before, after in pairs) >= _MOST
    return "ids or offsets" if is_ascending and len(values) >= 4 else None


def _are_labels(sentences):
    """Returns whether the values are entity labels with prefixes."""
    labels = read_labels(_flat(sentences))
    return labels is not None and any(
        letter == "B" and type_ != "_" for letter, type_ in labels.parts.values()
    )


def _are_numbers(sentences):
    values = _flat(sentences)
    has_letter = (any(map(str.isalpha, value)) for value in values)
    return _distinct(sentences) >= _FEW and _fraction(has_letter) < 1 - _MOST


def _flat(sentences):
    return list(itertools.chain.from_iterable(sentences))


def _distinct(sentences):
    return len(set(_flat(sentences)))


def _fraction(flags):
    flags = list(flags)
    return sum(flags) / len(flags) if flags else 0.0
