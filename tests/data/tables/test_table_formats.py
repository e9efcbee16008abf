"""The same table in each format of `read_table`."""

import csv
import gzip
import io
import json
import lzma
import tracemalloc

import pyarrow
import pyarrow.feather
import pyarrow.parquet
import pytest

from keras_bert_impl.data.tables.layout import Layout
from keras_bert_impl.data.tables.tables import open_table
from keras_bert_impl.tasks import read_table
from keras_bert_impl.utils.errors import InputError
from tests.tasks.helpers import write_file as write

ROWS = [{"text": 'a "film", good', "label": "pos"}, {"text": "größe; ja", "label": "neg"}]


def csv_with(delimiter, end="\n"):
    file = io.StringIO()
    writer = csv.DictWriter(file, ["text", "label"], delimiter=delimiter, lineterminator=end)
    writer.writeheader()
    writer.writerows(ROWS)
    return file.getvalue()


def arrow(kind):
    file, table = io.BytesIO(), pyarrow.Table.from_pylist(ROWS)
    if kind == "parquet":
        pyarrow.parquet.write_table(table, file)
    elif kind == "feather":
        pyarrow.feather.write_feather(table, file)
    else:
        with pyarrow.ipc.new_stream(file, table.schema) as writer:
            writer.write_table(table)
    return file.getvalue()


@pytest.mark.parametrize(
    "name, content",
    [
        ("a.csv", csv_with(",")),
        ("a.csv", csv_with(";")),
        ("a.csv", csv_with("\t")),
        ("a.csv", csv_with("|", "\r\n")),
        ("a.csv", csv_with(",", "\r")),
        ("a.csv", csv_with(",") + "\n  \n\n"),
        ("a.csv", csv_with(";").encode("utf-16")),
        ("a.CSV", b"\xef\xbb\xbf" + csv_with(";").encode()),
        ("a.csv.gz", gzip.compress(csv_with(",").encode(), mtime=0)),
        ("a.csv.xz", lzma.compress(csv_with(",").encode())),
        ("a.tsv", "text\tlabel\r" + "".join(f"{r['text']}\t{r['label']}\r" for r in ROWS)),
        ("a.tsv", "text\tlabel\n" + "".join(f"{r['text']}\t{r['label']}\n\n" for r in ROWS)),
        ("a.jsonl", "\n".join(map(json.dumps, ROWS)) + "\n\n"),
        ("a.json", "\n" + "\n".join(map(json.dumps, ROWS))),
        ("a.json", json.dumps(ROWS)),
        ("a.json", json.dumps(ROWS, indent=2, ensure_ascii=False)),
        (
            "a.json.gz",
            gzip.compress(json.dumps(ROWS, ensure_ascii=False).encode("utf-16"), mtime=0),
        ),
        ("a.parquet", arrow("parquet")),
        ("a.feather", arrow("feather")),
        ("a.arrow", arrow("stream")),
    ],
)
def test_all_formats_give_the_same_examples(tmp_path, name, content):
    examples = read_table(write(tmp_path, name, content), "text", label="label")
    assert examples.texts == [row["text"] for row in ROWS]
    assert examples.labels == ["pos", "neg"]


def test_accepts_a_delimiter(tmp_path):
    path = write(tmp_path, "a.txt", csv_with("^"))
    assert read_table(path, "text", label="label", delimiter="^").labels == ["pos", "neg"]
    # In a .tsv file, an explicit delimiter also enables quoting.
    path = write(tmp_path, "a.tsv", csv_with("\t"))
    assert read_table(path, "text", delimiter="\t").texts == [row["text"] for row in ROWS]
    for delimiter in (",,", "", '"'):
        with pytest.raises(InputError, match="delimiter must be one character"):
            read_table(path, "text", delimiter=delimiter)


def test_comma_is_preferred_if_it_yields_the_columns(tmp_path):
    path = write(tmp_path, "a.csv", "a;b,text\n1;2,x;y\n")
    assert read_table(path, "text").texts == ["x;y"]


def test_only_line_feeds_end_a_line(tmp_path):
    text = "a\u2028b\x0bc\x85d\x0ce\x1cf"
    path = write(tmp_path, "a.tsv", f"text\n{text}\n")
    assert read_table(path, "text").texts == [text]


def test_long_json_arrays_are_read_in_chunks(tmp_path):
    rows = [{"text": f"{number} " + "ä" * 3000} for number in range(100)]
    path = write(tmp_path, "a.json", json.dumps(rows, ensure_ascii=False))
    assert read_table(path, "text").texts == [row["text"] for row in rows]


def test_skips_bad_rows_of_a_json_array(tmp_path):
    content = '[{"text": "a", "n": %s}, {"text": "b", "text": "c"}, {"text": "d"}]' % ("9" * 5000)
    examples = read_table(write(tmp_path, "a.json", content), "text", skip_bad_rows=True)
    assert examples.texts == ["d"]
    first, second = examples.skipped
    assert "row 1: the line has a number with too many" in first
    assert "row 2: the line has the key 'text' twice" in second


def test_memory_does_not_grow_with_a_json_array_on_one_line(tmp_path):
    row = '{"text": "' + "x" * 999 + '"}'
    path = write(tmp_path, "a.json", "[" + ", ".join([row] * 5_000) + "]")
    tracemalloc.start()
    try:
        rows = open_table(path, Layout("text")).rows
        assert sum(len(read()["text"]) for _, read in rows) == 5_000 * 999
        assert tracemalloc.get_traced_memory()[1] < 2 << 20
    finally:
        tracemalloc.stop()
