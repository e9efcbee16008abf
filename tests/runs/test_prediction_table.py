"""Tables of predictions: their formats, their columns and what they refuse."""

import csv
import datetime
import json

import pyarrow
import pyarrow.parquet
import pytest

from keras_bert_impl.data.tables.layout import Layout
from keras_bert_impl.data.tables.tables import read_table
from keras_bert_impl.runs.prediction_table import count_rows, joined, read_rows, table_writer
from keras_bert_impl.utils.errors import InputError

ROWS = [{"id": 1, "note": 'a "b",\tc\nd'}, {"id": 2, "note": ""}]
ANSWERS = [
    {"label": "good", "score": 0.1 + 0.2, "scores": {"good": 0.5}},
    {"label": "ba,d", "score": 1e-30, "scores": {"good": 0.25}},
]
EXPECTED = [row | answer for row, answer in zip(ROWS, ANSWERS)]


def write(path, rows=ROWS, like=None):
    with table_writer(path, like) as write:
        for row, answer in zip(rows, ANSWERS):  # one row at a time, as blocks come
            write([(row, answer, [])])


def as_columns(row):
    """A column for each class; numbers with the nine digits that float32 has."""
    answer = {"score": float(f"{row['score']:.9g}"), "score_good": row["scores"]["good"]}
    return {name: row[name] for name in ("id", "note", "label")} | answer


def test_csv_reads_back(tmp_path):
    write(tmp_path / "a.csv")
    with open(tmp_path / "a.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows == [{k: str(v) for k, v in as_columns(row).items()} for row in EXPECTED]


def test_tsv_has_a_line_for_each_row(tmp_path):
    write(tmp_path / "a.tsv")
    lines = [line.split("\t") for line in (tmp_path / "a.tsv").read_text().splitlines()]
    assert lines[0] == ["id", "note", "label", "score", "score_good"]
    assert lines[1][:3] == ["1", 'a "b", c d', "good"] and lines[1][3:] == ["0.3", "0.5"]
    assert len(lines) == 3


def test_json_lines_keep_lists_and_dicts(tmp_path):
    write(tmp_path / "a.jsonl")
    assert [json.loads(line) for line in (tmp_path / "a.jsonl").open()] == EXPECTED


@pytest.mark.parametrize(
    ("name", "header", "delimiter", "expected"),
    [
        ("in.csv", "id;note", None, ";"),
        ("in.csv", "id,note", None, ","),
        ("in.txt", "id|note", "|", "|"),
        ("in.jsonl", '{"id": 1}', None, ","),
    ],
)
def test_csv_has_the_delimiter_of_the_input(tmp_path, name, header, delimiter, expected):
    (tmp_path / name).write_text(f"{header}\n")
    with table_writer(tmp_path / "a.csv", tmp_path / name, delimiter) as write_rows:
        write_rows([({"id": 1, "note": "a;b|c,d"}, ANSWERS[0], [])])
    with open(tmp_path / "a.csv", newline="") as file:
        rows = list(csv.reader(file, delimiter=expected))
    assert rows[0] == ["id", "note", "label", "score", "score_good"]
    assert rows[1] == ["1", "a;b|c,d", "good", "0.3", "0.5"]


def test_parquet_keeps_numbers(tmp_path):
    write(tmp_path / "a.parquet")
    assert pyarrow.parquet.read_table(tmp_path / "a.parquet").to_pylist() == list(
        map(as_columns, EXPECTED)
    )


def test_columns_of_parquet_keep_their_types(tmp_path):
    day = pyarrow.array([None, datetime.date(2020, 2, 29)])  # null in the first block
    table = pyarrow.table({"day": day, "small": pyarrow.array([1, 2], "int8")})
    pyarrow.parquet.write_table(table, tmp_path / "in.parquet")
    write(tmp_path / "out.parquet", table.to_pylist(), tmp_path / "in.parquet")
    out = pyarrow.parquet.read_table(tmp_path / "out.parquet")
    assert out.select(["day", "small"]).equals(table)


def test_a_taken_name_gets_a_prefix():
    row = {"text": "a", "label": "mine"}
    assert joined(row, {"label": "good", "score": 1.0}) == row | {
        "predicted_label": "good",
        "score": 1.0,
    }
    with pytest.raises(InputError, match="has the columns 'predicted_label'.*--id"):
        joined(row | {"predicted_label": "x"}, {"label": "good"})


@pytest.mark.parametrize(
    "name, rows, message",
    [
        ("a.csv", [{"id": 1}, {"id": 2, "more": 3}], "columns 'more', which the first row lacks"),
        ("a.parquet", [{"id": 1}, {"id": "b"}], "values of different types.*Write a .csv"),
    ],
)
def test_a_failed_table_is_not_written(tmp_path, name, rows, message):
    (tmp_path / name).write_text("before")
    with pytest.raises(InputError, match=message):
        write(tmp_path / name, rows)
    assert (tmp_path / name).read_text() == "before"


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.json", "a.parquet"])
def test_reads_all_columns_of_a_table(tmp_path, name):
    rows = [{"key": "1", "text": "a", "more": "x"}, {"key": "2", "text": "", "more": "y"}]
    path, layout = tmp_path / name, Layout("text", allow_empty=True)
    if name == "a.parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    elif name == "a.json":
        path.write_text(json.dumps(rows))
    elif name == "a.jsonl":
        path.write_text("\n".join(map(json.dumps, rows)))
    else:
        between = "," if name == "a.csv" else "\t"
        path.write_text("\n".join(between.join(row) for row in [rows[0], *map(dict.values, rows)]))
    assert list(read_rows(path, layout)) == [(row["text"], row) for row in rows]
    assert count_rows(path, layout) == (None if name == "a.json" else 2)


def test_cells_with_carriage_returns_read_back(tmp_path):
    rows = [{"text": "one\rtwo"}, {"text": "a,b\n"}, {"text": "plain"}]
    with table_writer(tmp_path / "a.csv", tmp_path / "in.jsonl") as write_rows:
        write_rows([(row, {"label": "x"}, ["x"]) for row in rows])
    table = read_table(tmp_path / "a.csv", text="text", label="label")
    assert table.texts == [row["text"] for row in rows]
