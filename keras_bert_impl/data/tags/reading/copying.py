"""Copies some sentences of a file with labeled words to a new file of the same format."""

import dataclasses
import json
from pathlib import Path

from keras_bert_impl.data.tables.held_rows import BYTE_ORDER_MARK, copy_arrow, lines_of_rows
from keras_bert_impl.data.tables.source import ExampleSource
from keras_bert_impl.data.tags.reading.forms import (
    ARROW_ROWS,
    JSON_ROWS,
    ONTONOTES,
    TABLE,
    form_with_header,
)
from keras_bert_impl.data.tags.reading.numbered_rows import open_rows
from keras_bert_impl.utils.io.lines import raw_lines, suffix_of


def copy_sentences(
    source: ExampleSource, rows: list[list[int]], path: Path, has_mark: bool
) -> None:
    """Copies sentences of a file to the file `path`.

    Args:
        rows: line or row numbers of the words of each sentence.
        has_mark: see `copy_rows`.
    """
    origin = source.file("dev")
    form, has_header = form_with_header(
        origin, source.text, source.label, source.delimiter, not source.no_header
    )
    row_numbers = {number for sentence in rows for number in sentence}
    if form == ARROW_ROWS:
        copy_arrow(origin, sorted(row_numbers), path)
        return
    mark = BYTE_ORDER_MARK if has_mark else b""
    is_json = form == JSON_ROWS
    if is_json:
        table = open_rows(origin, form, None, True)
        if table.unit == "row":  # The file contains one JSON array or object.
            records = [read() for number, read in table.rows if number in row_numbers]
            text = json.dumps(records, ensure_ascii=False)
            path.write_bytes(mark + text.encode("utf-8"))
            return
    is_quoted = form == TABLE and (source.delimiter is not None or suffix_of(origin) == ".csv")
    source = dataclasses.replace(source, no_header=not has_header)
    lines = lines_of_rows(source, is_quoted, form == TABLE, row_numbers)
    ends = set() if is_json else {sentence[-1] for sentence in rows}
    with open(path, "wb") as file:
        file.write(mark)
        for number, line in raw_lines(origin):
            if number in lines or number == 1 and line.startswith(ONTONOTES):
                file.write(line.rstrip(b"\r\n") + b"\n" * (1 + (number in ends)))
