"""Copies of the held-out rows of a table, in the format of its file."""

import dataclasses
import os
from collections.abc import Iterable
from pathlib import Path

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.io.files import replace_file
from keras_bert_impl.io.lines import encoded_as, raw_lines, suffix_of
from keras_bert_impl.io.paths import local_path
from keras_bert_impl.tasks.data import table_rows
from keras_bert_impl.tasks.data.examples import LabeledExamples
from keras_bert_impl.tasks.data.source import ExampleSource
from keras_bert_impl.tasks.data.tables import table_format

_OPTIONS = {field.name for field in dataclasses.fields(ExampleSource)}
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def write_held_out(examples: LabeledExamples, directory: Path) -> list[Path]:
    """Writes the rows held out by `hold_out` to a file `dev` with the suffix of the source.

    Returns:
        The file; for several sources, one file each, such as `dev.1.csv`. Empty if a source is not
        a table or is in the Arrow format.
    """
    how = examples.read_with or {}
    lines = getattr(examples, "lines", None)
    is_table = "label_separator" in how  # an option of `read_table` only
    if not (is_table and how.get("dev_split") and lines):
        return []
    options = {name: how[name] for name in how.keys() & _OPTIONS}
    sources = {one.file("dev"): one for one in ExampleSource(**options, splits=()).each("dev")}
    if any(suffix_of(file) in table_rows.ARROW for file in sources):
        return []
    written, width = [], len(str(len(sources)))
    for number, (file, source) in enumerate(sources.items(), 1):
        rows, name = lines, "dev"
        if examples.files is not None:
            rows = [line for one, line in zip(examples.files, lines) if one == file]
            name = f"dev.{number:0{width}}"
        if rows:
            written.append(directory / f"{name}{suffix_of(file)}")
            _write_rows(source, rows, written[-1], bool(how.get("encoding")))
    return written


def _write_rows(source, rows, path, has_mark):
    """Copies rows of a file; `has_mark` adds a byte order mark to text."""
    kind = table_format(source.dev, source.delimiter)
    with encoded_as(source.encoding), replace_file(path) as temporary:
        if kind == "arrow":
            _copy_parquet(source.dev, rows, temporary)
        else:
            temporary.write_bytes(b"".join(_text_of_rows(source, kind, rows, has_mark)))


def held_out_files(path: str) -> str | list[str]:
    """Returns the files of held-out rows in a run directory; returns other paths unchanged."""
    if not os.path.isdir(path):
        return path
    found = sorted(map(str, Path(path).glob("dev.*")))
    if not found:
        raise InputError(
            f"{path} has no held-out rows. Pass a file, or a run that was made with --dev-split from "
            "a table."
        )
    return found if len(found) > 1 else found[0]


def _copy_parquet(source, rows, path):
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(local_path(source))
    pyarrow.parquet.write_table(table.take([row - 1 for row in rows]), path)


def _text_of_rows(source, kind, rows, has_mark) -> Iterable[bytes]:
    """Yields the bytes of the rows: lines, or one JSON array."""
    if kind == "json" and table_rows.is_json_array(source.dev):
        items = list(table_rows.array_items(source.dev))
        yield ("[" + ",\n".join(items[row - 1] for row in rows) + "]\n").encode("utf-8")
        return
    if has_mark:
        yield _BYTE_ORDER_MARK  # rows are copied as UTF-8; the mark overrides `encoding`
    wanted = _lines_of_rows(source, kind, set(rows))
    for number, line in raw_lines(source.dev):
        if number in wanted:
            yield line if line.endswith(b"\n") else line + b"\n"


def _lines_of_rows(source, kind, rows) -> set[int]:
    """Returns the line numbers of the rows and of the header."""
    has_header = not source.no_header
    if kind != "csv":
        return rows | ({1} if kind == "tsv" and has_header else set())
    columns = [name for name in (source.text, source.pair) if name]
    path = local_path(source.dev)
    _, delimiter = table_rows.csv_header(path, source.delimiter, columns, has_header)
    lines: set[int] = set()
    for number, record in enumerate(table_rows.csv_records(path, delimiter)):
        if record.last in rows:
            lines.update(range(record.first, record.last + 1))
        elif number == 0 and has_header:
            lines.update(range(1, record.last + 1))  # also copies a first line such as sep=;
    return lines
