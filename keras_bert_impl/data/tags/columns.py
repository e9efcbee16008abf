"""Readers of files with columns of words and labels: CoNLL-2003, WNUT-17, WikiANN, CoNLL-U."""

import functools
import itertools
import re
from pathlib import Path

from keras_bert_impl.data.tags.examples import TaggedExamples
from keras_bert_impl.data.tags.reading.assembly import row_of, tagged_examples
from keras_bert_impl.data.tags.reading.forms import (
    COLUMNS,
    CONLLU,
    ONTONOTES,
    TABLE,
    form_of,
    has_sentence_rows,
)
from keras_bert_impl.data.tags.word_check import SAMPLE, check_words
from keras_bert_impl.utils.errors import InputError, listed
from keras_bert_impl.utils.io.lines import decoded, raw_lines
from keras_bert_impl.utils.settings import check

_CONLLU_COLUMNS = {"upos": 3, "xpos": 4, "feats": 5, "deprel": 7}
_NO_WORD = re.compile(r"\d+-\d+|\d+\.\d+")  # ids of multiword tokens and empty nodes
_SENTENCE_ID = re.compile(r"#\s*sent_id\s*=\s*(\S+)\s*")
_LEAST_OF_ONTONOTES = 11
_BRACKETS = re.compile(r"(?:\(([^()*]+))?\*?\)?")
# Matches comments, but not words such as "#" and "#tag".
_COMMENT = re.compile(r"#\s*([\w.:-]+\s*=(\s|$)|(newdoc|newpar)\b)|##+ ")


def read_columns(
    path: str | Path,
    word: int = 0,
    label: int | None = -1,
    labels: list[str] | None = None,
    word_prefix: str = "",
    skip_bad_rows: bool = False,
    outside: str | None = None,
) -> TaggedExamples:
    """Reads a file with a word and its label on each line, and a blank line after each sentence.

    Columns are separated by tabs if the first row contains a tab, else by spaces. See
    `lines.raw_lines` for encodings, line ends and compression. Lines with only white space count as
    blank lines. Lines that start with `-DOCSTART-` are skipped, and so are comments before a
    sentence. A line that starts with `#` is a comment if it has the form `# key = value`, or if the
    number of columns differs from the first row. In the CoNLL-2012 files of OntoNotes, the default
    columns are 3 for words and 10 for entities, which are converted from brackets to IOB2.

    Args:
        path: file to read.
        word: 0-based column of the words; negative numbers count from the end.
        label: column of the labels. None reads only words.
        labels: allowed labels. None allows any label.
        word_prefix: prefix to remove from every word, such as `"en:"` in the English WikiANN files.
        skip_bad_rows: whether to skip sentences with an invalid row. A warning reports the number
            of skipped sentences, and `skipped` of the result lists them.
        outside: see `read_tags`.

    Raises:
        InputError: the file has a different format (`read_tags` supports more formats), the file
            has no sentences, the same column is used for words and labels, or a row is invalid. In
            an invalid row, the number of columns differs from other rows, a cell is empty, the
            label is not allowed, the encoding is wrong, there is a NUL byte, or a word has more
            than 10,000 characters.

    Example:
        read_columns("conll2003/train.txt").labels[0]  # ["B-ORG", "O", "B-MISC", ...]
    """
    check("word", word, int)
    check("label", label, int | None)
    form = form_of(path, has_numbers=(word, label) != (0, -1))
    if form == COLUMNS and has_sentence_rows(path):
        form = TABLE
    if form != COLUMNS:
        is_conllu = form == CONLLU
        raise InputError(
            f"{path} is a {'CoNLL-U file' if is_conllu else f'table ({form})'}. Use "
            f"{'read_conllu' if is_conllu else 'read_tags'}."
        )
    has_tabs, width = _detect_layout(path)
    if is_ontonotes := next(raw_lines(path), (0, b""))[1].startswith(ONTONOTES):
        word, label = (3, 10) if (word, label) == (0, -1) else (word, label)
    for name, column in (("word", word), ("label", label)):
        if column is not None and not -width <= column < width:
            raise InputError(f"{path}: no column {name}={column}; the file has {width} columns.")
    if label is not None and word % width == label % width:
        raise InputError(
            f"{path}: words and labels are the same column, {word % width}. The file has {width} "
            "column(s), separated by tabs or spaces. Choose another column for one of them."
        )
    _check_words(path, has_tabs, width, word, label)
    width = None if is_ontonotes else width  # differs between sentences
    rows = functools.partial(_read_column_rows, path, has_tabs, width, word, label, word_prefix)
    read_with = {"dev": str(path), "text": str(word), "label": str(label)}
    read_with |= {"word_prefix": word_prefix}
    arguments = labels, outside, skip_bad_rows
    return tagged_examples(str(path), rows, _read_sentences(path), *arguments, read_with=read_with)


def _check_words(path, has_tabs, width, word, label):
    rows = [
        [
            cells
            for _, line in lines
            if len(cells := _split_cells(_decode_line(line), has_tabs)) == width
        ]
        for lines in itertools.islice(_read_sentences(path), SAMPLE)
    ]
    columns = {str(i): [[cells[i] for cells in row] for row in rows] for i in range(width)}
    check_words(path, columns, str(word % width), None if label is None else str(label % width))


def read_conllu(
    path: str | Path,
    label: str | None = "upos",
    labels: list[str] | None = None,
    skip_bad_rows: bool = False,
) -> TaggedExamples:
    """Reads words from a CoNLL-U file, with the values of one column as their labels.

    Comments, multiword tokens (`1-2`) and empty nodes (`1.1`) are skipped.

    Args:
        path, labels, skip_bad_rows: see `read_columns`.
        label: column of the labels, `"upos"`, `"xpos"`, `"feats"` or `"deprel"`. None reads only
            words.

    Raises:
        InputError: see `read_columns`; or word ids are not consecutive, or a `sent_id` occurs
            twice.

    Source: https://universaldependencies.org/format.html

    Example:
        read_conllu("en_ewt-ud-dev.conllu").labels[0]  # ["ADP", "DET", "PROPN", ...]
    """
    if label not in (None, *_CONLLU_COLUMNS):
        raise InputError(f"label must be one of {listed(_CONLLU_COLUMNS)}. Received: {label!r}")
    rows = functools.partial(_read_conllu_rows, path, label, {})
    read_with = {"dev": str(path), "label": label}
    arguments = labels, "O", skip_bad_rows
    return tagged_examples(str(path), rows, _read_sentences(path), *arguments, read_with=read_with)


def _read_sentences(path):
    """Yields the lines of each sentence as (line number, bytes) tuples."""
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


def _detect_layout(path):
    """Returns whether tabs separate the columns, and the number of columns."""
    first = None
    for _, line in raw_lines(path):
        if not _is_between(line):
            first = first or line
            if not line.startswith(b"#"):
                break
    else:
        line = first  # each row starts with "#"
    if first is None:
        raise InputError(f"{path} has no rows.")
    text = _decode_line(line)
    return "\t" in text, len(_split_cells(text, "\t" in text))


def _decode_line(line):
    return line.decode("utf-8", "replace").rstrip("\r\n")


def _split_cells(text, has_tabs):
    return text.split("\t") if has_tabs else re.split("[ \t]+", text.strip(" \t"))


def _read_column_rows(path, has_tabs, width, word, label, prefix, lines):
    rows = []
    for number, line in lines:
        where = f"{path}, line {number}"
        text = decoded(line, path, number)
        cells = _split_cells(text, has_tabs)
        is_comment = len(cells) != width or _COMMENT.match(text)
        if not rows and text.startswith("#") and is_comment:
            continue
        if width is None and len(cells) < _LEAST_OF_ONTONOTES:
            raise InputError(f"{where}: {len(cells)} columns, but OntoNotes files have 12 or more.")
        if width is not None and len(cells) != width:
            raise InputError(f"{where}: {len(cells)} columns, but the first row has {width}.")
        if not cells[word].startswith(prefix):
            raise InputError(
                f"{where}: the word {cells[word]!r:.60} does not start with {prefix!r}."
            )
        cells[word] = cells[word].removeprefix(prefix)
        rows.append(row_of(where, number, cells[word], None if label is None else cells[label]))
    if width is None and label is not None and all(_BRACKETS.fullmatch(row.label) for row in rows):
        labels = _convert_brackets([row.label for row in rows])
        rows = [row._replace(label=label) for row, label in zip(rows, labels)]
    return rows


def _convert_brackets(labels):
    """Converts labels such as "(GPE*", "*)" and "*" to "B-GPE", "I-GPE" and "O"."""
    converted, kind = [], None
    for label in labels:
        begun = _BRACKETS.fullmatch(label)[1]
        kind = begun or kind
        converted.append(f"{'B' if begun else 'I'}-{kind}" if kind else "O")
        kind = None if label.endswith(")") else kind
    return converted


# === CoNLL-U ===


def _read_conllu_rows(path, label, sentence_ids, lines):
    """Converts the lines of a sentence to rows, and adds the sentence id to `sentence_ids`."""
    rows = []
    for number, line in lines:
        where = f"{path}, line {number}"
        text = decoded(line, path, number)
        cells = text.split("\t")
        match = _SENTENCE_ID.fullmatch(text)
        if match and sentence_ids.setdefault(match[1], number) != number:
            raise InputError(
                f"{where}: sent_id {match[1]!r:.60} is already used in line "
                f"{sentence_ids[match[1]]}."
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
        rows.append(row_of(where, number, cells[1], value))
    return rows
