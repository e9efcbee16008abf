"""Held-out rows as a file: the same examples, in the format of the input."""

import json

import pyarrow
import pyarrow.parquet
import pytest

from keras_bert_impl.data.tables.examples import Examples
from keras_bert_impl.data.tables.held_rows import copy_rows, held_out_files, write_held_out
from keras_bert_impl.data.tables.splits import hold_out
from keras_bert_impl.data.tables.table_rows import arrow_rows, arrow_schema
from keras_bert_impl.data.tables.tables import read_table
from keras_bert_impl.utils.errors import InputError

ROWS = [
    {"n": str(n), "text": f'text {n}: "é€"; a, b\nnext line', "label": "ab"[n % 2]}
    for n in range(20)
]


def _csv(delimiter, first=""):
    quoted = [['"' + cell.replace('"', '""') + '"' for cell in row.values()] for row in ROWS]
    return first + "\n".join(map(delimiter.join, [ROWS[0].keys(), *quoted]))


FILES = {
    "a.csv": _csv(","),
    "b.csv": _csv(";", "sep=;\n"),
    "c.txt": _csv("|"),
    "d.tsv": "\n".join(
        "\t".join(row).replace("\n", " ") for row in [ROWS[0], *map(dict.values, ROWS)]
    ),
    "e.jsonl": "\n".join(map(json.dumps, ROWS)),
    "f.json": json.dumps(ROWS),
}


@pytest.mark.parametrize("encoding", [None, "cp1252"])
@pytest.mark.parametrize("name", FILES)
def test_the_held_out_rows_are_read_again(name, encoding, tmp_path):
    if name in ("e.jsonl", "f.json") and encoding:
        pytest.skip("JSON is ASCII here")
    (tmp_path / name).write_text(FILES[name], encoding=encoding or "utf-8")
    how = {"label": "label", "encoding": encoding, "delimiter": "|" if name == "c.txt" else None}
    _, dev = hold_out(read_table(tmp_path / name, "text", **how), 0.3)
    (written,) = write_held_out(dev, tmp_path, copy_rows)
    assert written == tmp_path / f"dev.{name[2:]}"
    again = read_table(written, "text", **how)
    assert (again.texts, again.labels) == (dev.texts, dev.labels) and len(again) == 6
    # All columns are kept.
    numbers = read_table(written, "n", **how).texts
    expected = read_table(tmp_path / name, "n", **how)
    assert numbers == [expected.texts[expected.lines.index(line)] for line in dev.lines]
    assert held_out_files(str(tmp_path)) == str(written)


def test_tables_without_a_header(tmp_path):
    for name, delimiter in (("a.csv", ","), ("b.tsv", "\t")):
        (tmp_path / name).write_text("".join(f"text {n}{delimiter}{n % 2}\n" for n in range(20)))
        how = {"label": "1", "header": False}
        _, dev = hold_out(read_table(tmp_path / name, "0", **how), 0.3)
        again = read_table(*write_held_out(dev, tmp_path, copy_rows), "0", **how)
        assert (again.texts, again.labels) == (dev.texts, dev.labels)


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "feather"])
def test_arrow(suffix, tmp_path):
    path, table = tmp_path / f"a.{suffix}", pyarrow.Table.from_pylist(ROWS)
    if suffix == "parquet":
        pyarrow.parquet.write_table(table, path)
    else:
        opened = pyarrow.ipc.new_stream if suffix == "arrow" else pyarrow.ipc.new_file
        with opened(str(path), table.schema) as writer:
            writer.write_table(table, max_chunksize=7)
    _, dev = hold_out(read_table(path, "text", label="label"), 0.3)
    (written,) = write_held_out(dev, tmp_path, copy_rows)
    assert written.name == f"dev.{suffix}"
    rows = [read() for _, read in arrow_rows(written)]
    assert rows == [ROWS[line - 1] for line in dev.lines]
    read_schema = pyarrow.parquet.read_schema if suffix == "parquet" else arrow_schema
    assert read_schema(written) == table.schema


def test_examples_of_another_origin_are_not_written(tmp_path):
    _, dev = hold_out(Examples(["a", "b", "c", "d"], ["x", "y"] * 2), 0.5)
    assert write_held_out(dev, tmp_path, copy_rows) == [] and not any(tmp_path.iterdir())
    with pytest.raises(InputError, match="is a directory without held-out rows. Pass a run"):
        held_out_files(str(tmp_path))
    assert held_out_files("new.csv") == "new.csv"
