"""Readers of column files with words and labels: CoNLL-2003, WNUT-17, WikiANN, CoNLL-U."""

import functools
import re
from pathlib import Path
from typing import NamedTuple

from keras_bert_impl.io.errors import InputError, listed
from keras_bert_impl.io.lines import decoded, raw_lines, suffix_of
from keras_bert_impl.tasks.data.examples import usable, warn_of_skipped
from keras_bert_impl.tasks.tagging.entity_labels import misfits
from keras_bert_impl.tasks.tagging.examples import TaggedExamples

_CONLLU_COLUMNS = {"upos": 3, "xpos": 4, "feats": 5, "deprel": 7}
_NO_WORD = re.compile(r"\d+-\d+|\d+\.\d+")  # ids of multiword tokens and empty nodes
_SENTENCE_ID = re.compile(r"#\s*sent_id\s*=\s*(\S+)\s*")
# Comments precede the words of a sentence; "#" and "#tag" may also be words.
_COMMENT = re.compile(r"#\s*([\w.:-]+\s*=(\s|$)|(newdoc|newpar)\b)")
_LONGEST_WORD = 10_000  # characters; anything longer indicates a damaged file


class _Row(NamedTuple):
    line: int
    word: str
    label: str | None


def read_columns(
    path: str | Path,
    word: int = 0,
    label: int | None = -1,
    labels: list[str] | None = None,
    word_prefix: str = "",
    skip_bad_rows: bool = False,
) -> TaggedExamples:
    """Reads a file with one word and its label per line and blank lines between sentences.

    Columns are separated by tabs if the first row has one, else by runs of spaces. See
    `lines.raw_lines` for encodings, line ends and compression. A line of only white space counts
    as blank. Lines that start with `-DOCSTART-` are skipped, and so are comments before a sentence:
    lines that start with `#` and have a different number of columns, or look like `# key = value`.

    Args:
        path: file to read.
        word: column of the words, from 0; negative numbers count from the end.
        label: column of the labels; None for words only.
        labels: allowed labels; None for any.
        word_prefix: prefix that every word has and that is removed, such as `"en:"` in the English
            files of WikiANN.
        skip_bad_rows: whether to skip sentences with an invalid row; they are counted in a warning
            and listed in `skipped`.

    Raises:
        InputError: words and labels are the same column; a row has a different length, an empty
            cell, a label not in `labels`, or one that is neither `"O"` nor like `"B-PER"` where the
            others are; wrong encoding, a NUL byte, or a word of more than 10,000 characters (all
            with file and line); or a file without sentences.

    Example:
        read_columns("conll2003/train.txt").labels[0]  # ["B-ORG", "O", "B-MISC", ...]
    """
    if is_conllu(path):
        raise InputError(f"{path} is a CoNLL-U file. Use read_conllu.")
    has_tabs, width = _layout(path)
    for name, column in (("word", word), ("label", label)):
        if column is not None and not -width <= column < width:
            raise InputError(f"{path}: no column {name}={column}; the file has {width} columns.")
    if label is not None and word % width == label % width:
        raise InputError(
            f"{path}: word={word} and label={label} are the same column, of {width}. Choose "
            "another, or label=None for words without labels."
        )
    rows = functools.partial(_column_rows, path, has_tabs, width, word, label, word_prefix)
    columns = {"text": str(word), "label": str(label), "word_prefix": word_prefix}
    return _read(path, rows, labels, skip_bad_rows, columns)


def is_conllu(path: str | Path) -> bool:
    """Returns whether the name of a file, which may be compressed, is that of a CoNLL-U file."""
    return suffix_of(path) == ".conllu"


def read_conllu(
    path: str | Path,
    label: str | None = "upos",
    labels: list[str] | None = None,
    skip_bad_rows: bool = False,
) -> TaggedExamples:
    """Reads the words of a CoNLL-U file and one column as their labels.

    Comments, multiword tokens (`1-2`) and empty nodes (`1.1`) are skipped.

    Args:
        path, labels, skip_bad_rows: see `read_columns`.
        label: column of the labels: `"upos"`, `"xpos"`, `"feats"` or `"deprel"`; None for words
            only.

    Raises:
        InputError: see `read_columns`; also for ids that are not consecutive word numbers and for a
            duplicate `sent_id`.

    Source: https://universaldependencies.org/format.html

    Example:
        read_conllu("en_ewt-ud-dev.conllu").labels[0]  # ["ADP", "DET", "PROPN", ...]
    """
    if label not in (None, *_CONLLU_COLUMNS):
        raise InputError(f"label must be one of {listed(_CONLLU_COLUMNS)}. Received: {label!r}")
    rows = functools.partial(_conllu_rows, path, label, {})
    return _read(path, rows, labels, skip_bad_rows, {"label": label})


def _read(path, rows, labels, skip_bad_rows, columns):
    """Reads `TaggedExamples`; `rows` converts the lines of a sentence to a list of `_Row`."""
    read_with = {"dev": str(path), "labels": labels, "skip_bad_rows": skip_bad_rows} | columns
    skipped = [] if skip_bad_rows else None
    sentences = [rows for rows in usable(rows, _sentences(path), skipped) if rows]
    found = {row.label for rows in sentences for row in rows if row.label is not None}
    others = frozenset(misfits(found)) if labels is None else found.difference(labels)
    check = functools.partial(_check_labels, path, labels, others)
    sentences = usable(check, sentences, skipped)
    warn_of_skipped(path, skipped, "sentences")
    if not sentences:
        raise InputError(f"{path} has no usable sentences.")
    lines, words, tags = ([[row[i] for row in rows] for rows in sentences] for i in range(3))
    has_labels = tags[0][0] is not None
    if has_labels and labels is None:
        labels = sorted({label for sentence in tags for label in sentence})
    return TaggedExamples(
        words,
        tags if has_labels else None,
        list(labels) if has_labels else None,
        source=str(path),
        lines=lines,
        skipped=tuple(skipped or ()),
        read_with=read_with,
    )


def _sentences(path):
    """Yields lists of (line number, bytes), split at blank lines."""
    sentence = []
    for number, line in raw_lines(path):
        if not _is_between(line):
            sentence.append((number, line))
        elif sentence:
            yield sentence
            sentence = []
    if sentence:
        yield sentence


def _is_between(line):
    return not line.strip() or line.startswith(b"-DOCSTART-")


# === Columns ===


def _layout(path):
    """Returns (whether columns are tab-separated, their number), from the first non-comment row."""
    first = None
    for _, line in raw_lines(path):
        if not _is_between(line):
            first = first or line
            if not line.startswith(b"#"):
                break
    else:
        line = first  # every row starts with "#"
    if first is None:
        raise InputError(f"{path} has no rows.")
    text = line.decode("utf-8", "replace").rstrip("\r\n")
    return "\t" in text, len(_cells(text, "\t" in text))


def _cells(text, has_tabs):
    return text.split("\t") if has_tabs else re.split("[ \t]+", text.strip(" \t"))


def _column_rows(path, has_tabs, width, word, label, prefix, lines):
    rows = []
    for number, line in lines:
        where = f"{path}, line {number}"
        text = decoded(line, path, number)
        cells = _cells(text, has_tabs)
        if not rows and text.startswith("#") and (len(cells) != width or _COMMENT.match(text)):
            continue
        if len(cells) != width:
            raise InputError(f"{where}: {len(cells)} columns, but the first row has {width}.")
        if not cells[word].startswith(prefix):
            raise InputError(
                f"{where}: the word {cells[word]!r:.60} does not start with {prefix!r}."
            )
        cells[word] = cells[word].removeprefix(prefix)
        rows.append(_row(where, number, cells[word], None if label is None else cells[label]))
    return rows


def _row(where, number, word, label):
    if not word.strip(" "):
        raise InputError(f"{where}: the word is empty.")
    if len(word) > _LONGEST_WORD:
        raise InputError(f"{where}: the word has {len(word)} characters: {word!r:.40}...")
    if label is not None and not label.strip(" "):
        raise InputError(f"{where}: the label is empty.")
    return _Row(number, word, label)


# === CoNLL-U ===


def _conllu_rows(path, label, sentence_ids, lines):
    """Returns the rows of a sentence; records its id and line in the dict `sentence_ids`."""
    rows = []
    for number, line in lines:
        where = f"{path}, line {number}"
        text = decoded(line, path, number)
        cells = text.split("\t")
        found = _SENTENCE_ID.fullmatch(text)
        if found and sentence_ids.setdefault(found[1], number) != number:
            raise InputError(
                f"{where}: sent_id {found[1]!r:.60} is already used in line "
                f"{sentence_ids[found[1]]}."
            )
        if text.startswith("#") or _NO_WORD.fullmatch(cells[0]):
            continue
        if len(cells) != 10:
            raise InputError(f"{where}: {len(cells)} columns, but CoNLL-U has 10.")
        if cells[0] != str(len(rows) + 1):
            raise InputError(
                f"{where}: the id is {cells[0]!r:.40}, but this is word {len(rows) + 1}. Separate "
                "sentences by a blank line."
            )
        value = None if label is None else cells[_CONLLU_COLUMNS[label]]
        if value == "_" and label != "feats":
            raise InputError(f"{where}: the word has no {label}.")
        rows.append(_row(where, number, cells[1], value))
    return rows


# === Labels ===


def _check_labels(path, labels, others, rows):
    """Returns the rows of a sentence unchanged.

    Raises:
        InputError: a label is among `others`.
    """
    for row in rows:
        if row.label in others:
            where = f"{path}, line {row.line}: label {row.label!r:.60}"
            if labels is not None:
                raise InputError(f"{where} is not one of {listed(labels)}.")
            raise InputError(
                f"{where} is neither 'O' nor like 'B-PER', unlike the others. To allow it, pass "
                "labels."
            )
    return rows
