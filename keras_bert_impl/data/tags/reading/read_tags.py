"""`read_tags`: reads labeled words or entities in the formats of many tools."""

import dataclasses
from pathlib import Path
from typing import Any

from keras_bert_impl.data.tables.labels import label_names
from keras_bert_impl.data.tables.table_rows import ARROW, PARQUET, table_in_memory
from keras_bert_impl.data.tables.tables import JSON, WORD_FILES
from keras_bert_impl.data.tags.columns import read_columns, read_conllu
from keras_bert_impl.data.tags.examples import TaggedExamples
from keras_bert_impl.data.tags.reading.assembly import tagged_examples
from keras_bert_impl.data.tags.reading.forms import (
    COLUMNS,
    CONLLU,
    TABLE,
    form_of,
    form_with_header,
    is_number,
)
from keras_bert_impl.data.tags.reading.grouping import groups_of
from keras_bert_impl.data.tags.reading.names import WORDS, find_name
from keras_bert_impl.data.tags.reading.numbered_rows import (
    as_numbered,
    open_rows,
)
from keras_bert_impl.data.tags.reading.sentences import RowReader
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.io.lines import encoded_as, suffix_of
from keras_bert_impl.utils.settings import check


def read_tags(
    source: Any,
    text: str | int | None = None,
    label: str | int | None = None,
    sentence: str | int | None = None,
    labels: list[str] | None = None,
    outside: str | None = None,
    word_prefix: str = "",
    delimiter: str | None = None,
    header: bool = True,
    skip_bad_rows: bool = False,
    groups: str | int | None = None,
    encoding: str | None = None,
) -> TaggedExamples:
    """Reads labeled words or texts with entities, from a file or a table in memory.

    The format is detected from the file suffix and the first lines:

    - files with a word and its label on each line, see `read_columns`, and CoNLL-U files, see
      `read_conllu`;
    - tables (CSV, TSV, JSON, Parquet or Arrow) with a word in each row and a column of sentence
      numbers. Only the first row of a sentence needs the number;
    - tables with lists of words and labels in each row, as in `datasets`;
    - tables with a text and the character offsets of its entities in each row, as in the exports of
      doccano, Label Studio, Prodigy and spaCy. Entities that start or end inside a word are
      extended to whole words. Entities that overlap a longer entity are dropped. Warnings report
      the numbers of extended and dropped entities.

    Args:
        source: path of a file, which may be compressed; or a table in memory: a `datasets.Dataset`,
            a `DataFrame` or a list of dicts.
        text: column of the words or texts: the name, or the 0-based number if there is no header.
            Default: a column with a common name, such as `tokens` or `Word`; column 0 if there is
            no header.
        label: column of the labels or entities. Default: a column with a common name, such as
            `ner_tags`, `Tag` or `entities`; the last column if there is no header; `upos` in
            CoNLL-U.
        sentence: column of the sentence numbers or ids. Default: a column with a common name, such
            as `Sentence #`.
        labels: allowed labels. None allows any label. If the labels in the file are class indices,
            pass the label names in the order of the indices.
        outside: label of words outside of entities, if it is not `"O"`. By default, if the other
            labels are like `"B-PER"`, common spellings of `"O"`, such as `"0"`, `"_"` and an empty
            cell, are recognized and a warning is logged.
        word_prefix: see `read_columns`.
        delimiter: character between the cells of a table. Cells may be quoted.
        header: whether the first line of a table contains column names. Ignored if `text` or
            `label` is a column number.
        skip_bad_rows: whether to skip sentences with an invalid row; see `read_columns`.
        groups: column or JSON key whose value is the group of a sentence. `hold_out` never splits a
            group. For files with a word on each line, pass `"document"`: each document, which
            starts with a line `-DOCSTART-` or `# newdoc`, is a group.
        encoding: see `read_table`.

    Raises:
        InputError: the format or a column is not recognized, or a row is invalid.

    Example:
        read_tags("conll2003/train.txt").labels[0]  # ["B-ORG", "O", "B-MISC", ...]
    """
    columns = {"text": text, "label": label, "sentence": sentence, "groups": groups}
    for name, column in columns.items():
        check(name, column, str | int | None)
    text, label, sentence, groups = (
        None if column is None else str(column) for column in columns.values()
    )
    for name, value in dict(outside=outside, delimiter=delimiter, encoding=encoding).items():
        check(name, value, str | None)
    check("word_prefix", word_prefix, str)
    if labels is not None:
        labels = label_names(None, labels)
    arguments = source, text, label, sentence, labels, outside, word_prefix, delimiter, header
    with encoded_as(encoding):
        examples = _read(*arguments, skip_bad_rows)
        if examples.read_with is not None:
            read_with = examples.read_with | {"groups": groups, "encoding": encoding}
            examples = examples.replace(read_with=read_with)
        if groups is None:
            return examples
        group_names = groups_of(source, text, label, delimiter, header, groups, examples.lines)
        return examples.replace(groups=group_names)


def _read(
    source, text, label, sentence, labels, outside, word_prefix, delimiter, header, skip_bad_rows
):
    common = labels, outside, skip_bad_rows
    if not isinstance(source, (str, Path)):
        table = table_in_memory(source)
        reader = RowReader(table, "table", text, label, sentence, labels, word_prefix=word_prefix)
        return _read_rows(reader, *common, None)
    form, has_header = form_with_header(source, text, label, delimiter, header)
    if form == COLUMNS and sentence is not None:
        form, has_header = TABLE, False
    if form == TABLE and not has_header:
        text, label = text or "0", label or "-1"
    if form in (COLUMNS, CONLLU):
        if sentence is not None:
            raise InputError(f"{source} has blank lines between sentences. Leave out sentence=...")
        if form == CONLLU and not (is_number(text) or is_number(label)):
            return read_conllu(source, label or "upos", labels, skip_bad_rows)
        word, number = _parse_column_numbers(source, text or "0", label or "-1")
        return read_columns(source, word, number, labels, word_prefix, skip_bad_rows, outside)
    table = open_rows(source, form, delimiter, has_header)
    name = str(source)
    reader = RowReader(table, name, text, label, sentence, labels, word_prefix=word_prefix)
    read_with: dict[str, Any] = {"text": text, "label": label, "sentence": sentence}
    read_with |= {"delimiter": delimiter, "no_header": not header, "dev": name}
    read_with |= {"word_prefix": word_prefix}
    return _read_rows(reader, *common, read_with)


def read_words(path: str) -> list[list[str]] | None:
    """Reads unlabeled sentences as lists of words. Returns None if the file is plain text."""
    suffix = suffix_of(path)
    if suffix == ".conllu":
        return read_conllu(path, label=None).texts
    if suffix in WORD_FILES:
        return read_columns(path, label=None).texts
    if suffix not in (*JSON, *PARQUET, *ARROW):
        return None
    form = form_of(path)
    rows = as_numbered(open_rows(path, form, None, True).rows)
    _, row = next(rows, (0, None))
    name = find_name(row, WORDS) if isinstance(row, dict) else None
    if name is None or not isinstance(row[name], list):
        return None
    reader = RowReader(open_rows(path, form, None, True), path, text=name, has_labels=False)
    return tagged_examples(path, reader.read, reader.sentences(), unit=reader.table.unit).texts


def _parse_column_numbers(path, *columns):
    for option, column in zip(("text", "label"), columns):
        if not is_number(column):
            raise InputError(
                f"--{option} must be a column number of {path}, or a name in its first line. "
                f"Received: {column!r}"
            )
    return [int(column) for column in columns]


def _read_rows(reader, labels, outside, skip_bad_rows, read_with):
    examples = tagged_examples(
        reader.source,
        reader.read,
        reader.sentences(),
        labels,
        outside,
        skip_bad_rows,
        reader.table.unit,
        read_with,
    )
    reader.alignment.report()
    if reader.class_names and labels is None:  # keep the order of the indices
        return dataclasses.replace(examples, label_names=list(reader.class_names))
    return examples
