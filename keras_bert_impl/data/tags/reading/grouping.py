"""Groups of sentences, such as documents.

When examples are split into sets, no group is divided.
"""

import bisect
import re
from pathlib import Path
from typing import Any

from keras_bert_impl.data.tables.table_rows import table_in_memory, value_of
from keras_bert_impl.data.tags.reading.forms import COLUMNS, CONLLU, form_with_header
from keras_bert_impl.data.tags.reading.numbered_rows import open_rows
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.io.lines import raw_lines

_DOCUMENT = "document"
_START = re.compile(rb"-DOCSTART-|#\s*newdoc\b|#begin document")


def groups_of(
    source: Any,
    text: str | None,
    label: str | None,
    delimiter: str | None,
    header: bool,
    groups: str,
    lines: list[list[int]],
) -> list[str]:
    """Returns the group of each sentence: the number of the document, or the value of a column.

    Args:
        source, text, label, delimiter, header, groups: see `read_tags`.
        lines: line or row numbers of the words of each sentence.
    """
    if not isinstance(source, (str, Path)):
        return _read_values(table_in_memory(source), "table", groups, lines)
    form, has_header = form_with_header(source, text, label, delimiter, header)
    if form not in (COLUMNS, CONLLU):
        rows = open_rows(source, form, delimiter, has_header)
        return _read_values(rows, str(source), groups, lines)
    if groups != _DOCUMENT:
        raise InputError(
            f"{source} has no column names. Pass groups='document' (--groups document) to keep "
            f"each document in one set. Received: {groups!r}"
        )
    starts = [number for number, line in raw_lines(source) if _START.match(line)]
    if not starts:
        raise InputError(
            f"{source} does not mark documents: no line starts with -DOCSTART- or # newdoc."
        )
    return [str(bisect.bisect(starts, line_numbers[0])) for line_numbers in lines]


def _read_values(table, source, column, lines):
    first_numbers = {line_numbers[0] for line_numbers in lines}
    values = {}
    for number, read in table.rows:
        if number in first_numbers:
            try:
                value = value_of(read(), column)
                if value is None:
                    raise InputError(f"{column!r} is missing.")
                values[number] = str(value)
            except InputError as error:
                raise InputError(f"{source}, {table.unit} {number}: {error}") from error
    return [values[line_numbers[0]] for line_numbers in lines]
