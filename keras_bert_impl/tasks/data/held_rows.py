"""Copies of the held-out rows of a table, in the format of its file."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.io.files import replace_file
from keras_bert_impl.io.lines import encoded_as, raw_lines, suffix_of
from keras_bert_impl.io.paths import local_path
from keras_bert_impl.tasks.data import table_rows
from keras_bert_impl.tasks.data.examples import LabeledExamples
from keras_bert_impl.tasks.data.tables import table_format

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def write_held_out(examples: LabeledExamples, directory: Path) -> Path | None:
    """Writes the rows that `hold_out` took from a file as `dev` with its suffix.

    Returns:
        The file; None for examples of another origin, or of Arrow files.
    """
    how = examples.read_with or {}
    lines = getattr(examples, "lines", None)
    is_table = "label_separator" in how  # only `read_table` has this option
    if not (is_table and how.get("dev_split") and lines):
        return None
    source, kind = how["dev"], table_format(how["dev"], how.get("delimiter"))
    suffix = suffix_of(source)
    if kind == "arrow" and suffix not in table_rows.PARQUET:
        return None
    path = directory / f"dev{suffix}"
    with encoded_as(how.get("encoding")), replace_file(path) as temporary:
        if kind == "arrow":
            _copy_parquet(source, lines, temporary)
        else:
            temporary.write_bytes(b"".join(_text_of_rows(source, kind, lines, how)))
    return path


def held_out_file(path: str) -> str:
    """Returns the file of held-out rows in a run directory; any other path unchanged."""
    if not os.path.isdir(path):
        return path
    found = sorted(Path(path).glob("dev.*"))
    if not found:
        raise InputError(
            f"{path} has no held-out rows. Pass a file, or a run that was made with --dev-split from "
            "a table."
        )
    return str(found[0])


def _copy_parquet(source, rows, path):
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(local_path(source))
    pyarrow.parquet.write_table(table.take([row - 1 for row in rows]), path)


def _text_of_rows(source, kind, rows, how) -> Iterable[bytes]:
    """Yields the bytes of rows: their lines, or the items of a JSON array."""
    if kind == "json" and table_rows.is_json_array(source):
        items = list(table_rows.array_items(source))
        yield ("[" + ",\n".join(items[row - 1] for row in rows) + "]\n").encode("utf-8")
        return
    if how.get("encoding"):
        yield _BYTE_ORDER_MARK  # the file is UTF-8, which it is then read as
    wanted = _lines_of_rows(source, kind, set(rows), how)
    for number, line in raw_lines(source):
        if number in wanted:
            yield line if line.endswith(b"\n") else line + b"\n"


def _lines_of_rows(source, kind, rows, how: dict[str, Any]) -> set[int]:
    """Returns the numbers of the lines of rows and of the header."""
    has_header = not how.get("no_header")
    if kind != "csv":
        return rows | ({1} if kind == "tsv" and has_header else set())
    columns = [how[name] for name in ("text", "pair") if how.get(name)]
    path = local_path(source)
    _, delimiter = table_rows.csv_header(path, how.get("delimiter"), columns, has_header)
    lines: set[int] = set()
    for number, record in enumerate(table_rows.csv_records(path, delimiter)):
        if record.last in rows:
            lines.update(range(record.first, record.last + 1))
        elif number == 0 and has_header:
            lines.update(range(1, record.last + 1))  # with a line such as sep=;
    return lines
