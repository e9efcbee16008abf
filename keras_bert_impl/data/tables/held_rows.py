"""Writes the held-out rows of a file to a new file in the same format."""

import codecs
import dataclasses
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from keras_bert_impl.data.tables import csv_rows, table_rows
from keras_bert_impl.data.tables.examples import LabeledExamples
from keras_bert_impl.data.tables.source import ExampleSource
from keras_bert_impl.data.tables.tables import table_format
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.io.files import replace_file
from keras_bert_impl.utils.io.lines import encoded_as, files_in, raw_lines, suffix_of
from keras_bert_impl.utils.io.paths import local_path

_OPTIONS = {field.name for field in dataclasses.fields(ExampleSource)}
BYTE_ORDER_MARK = codecs.BOM_UTF8
Copy = Callable[[ExampleSource, list, Path, bool], None]


def write_held_out(examples: LabeledExamples, directory: Path, copy: Copy) -> list[Path]:
    """Writes the rows held out by `hold_out` to a file in the format of the source file.

    Args:
        copy: function that copies rows of a file, such as `copy_rows`.

    Returns:
        Paths of the new files: `dev.csv` for one source file, or `dev.1.csv`, `dev.2.csv`, ... for
        several. Empty if the examples are not from files.
    """
    read_with = examples.read_with or {}
    lines = getattr(examples, "lines", None)
    if not (read_with.get("dev_split") and lines) or read_with.get("tfds"):
        return []
    options = {name: read_with[name] for name in read_with.keys() & _OPTIONS}
    sources = {
        source.file("dev"): source for source in ExampleSource(**options, splits=()).each("dev")
    }
    written, width = [], len(str(len(sources)))
    for number, (file, source) in enumerate(sources.items(), 1):
        rows, name = lines, "dev"
        if examples.files is not None:
            rows = [line for path, line in zip(examples.files, lines) if path == file]
            name = f"dev.{number:0{width}}"
        if rows:
            written.append(directory / f"{name}{suffix_of(file) or '.txt'}")
            with encoded_as(source.encoding), replace_file(written[-1]) as temporary:
                copy(source, rows, temporary, bool(read_with.get("encoding")))
    return written


def copy_rows(source: ExampleSource, rows: list[int], path: Path, has_mark: bool) -> None:
    """Copies rows of a table.

    Args:
        rows: row numbers; for text files, the number of the last line of each row.
        has_mark: whether to start text files with a UTF-8 byte order mark. Readers then ignore the
            option `encoding`, which is the encoding of the source.
    """
    origin = source.file("dev")
    kind = table_format(origin, source.delimiter)
    if kind == "arrow":
        copy_arrow(origin, rows, path)
    else:
        path.write_bytes(b"".join(_extract_rows(source, kind, rows, has_mark)))


def copy_arrow(source: str | Path, rows: Sequence[int], path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    numbers = [row - 1 for row in rows]
    if local_path(source).suffix.lower() in table_rows.PARQUET:
        table = pyarrow.parquet.read_table(local_path(source))
        pyarrow.parquet.write_table(table.take(numbers), path)
        return
    with table_rows.open_arrow(source) as (schema, batches):
        table = pyarrow.Table.from_batches(batches(schema.names), schema).take(numbers)
        with pyarrow.ipc.new_file(str(path), schema) as writer:
            writer.write_table(table)


def held_out_files(path: str) -> str | list[str]:
    """Returns the held-out files if `path` is a run directory; otherwise, returns `path`."""
    if not os.path.isdir(path):
        return path
    paths = sorted(map(str, Path(path).glob("dev.*")))
    if not paths:
        raise InputError(
            f"{path} is a directory without held-out rows. Pass a run with --dev-split, or a file."
            f"{files_in(path)}"
        )
    return paths if len(paths) > 1 else paths[0]


def _extract_rows(source, kind, rows, has_mark) -> Iterable[bytes]:
    if kind == "json" and table_rows.is_json_array(source.dev):
        items = list(table_rows.array_items(source.dev))
        yield ("[" + ",\n".join(items[row - 1] for row in rows) + "]\n").encode("utf-8")
        return
    if has_mark:
        yield BYTE_ORDER_MARK
    line_numbers = lines_of_rows(source, kind == "csv", kind in ("csv", "tsv"), set(rows))
    for number, line in raw_lines(source.dev):
        if number in line_numbers:
            yield line if line.endswith(b"\n") else line + b"\n"


def lines_of_rows(
    source: ExampleSource, is_quoted: bool, may_have_header: bool, rows: set[int]
) -> set[int]:
    """Returns the numbers of the lines that contain the rows or the header.

    Args:
        is_quoted: whether quoted cells may span several lines.
        may_have_header: whether the first line is a header, unless `source.no_header`.
    """
    has_header, path = may_have_header and not source.no_header, local_path(source.file("dev"))
    if not is_quoted:
        first = next(number for number, line in raw_lines(path) if line.strip())
        return rows | ({first} if has_header else set())
    columns = [name for name in (source.text, source.pair) if name]
    _, delimiter = csv_rows.csv_header(path, source.delimiter, columns, has_header)
    lines: set[int] = set()
    for number, record in enumerate(csv_rows.csv_records(path, delimiter)):
        if record.last in rows:
            lines.update(range(record.first, record.last + 1))
        elif number == 0 and has_header:
            lines.update(range(1, record.last + 1))  # a line such as sep=; may come first
    return lines
