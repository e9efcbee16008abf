"""Several labels of a text: lists in cells, dicts and columns of 0 and 1."""

import json
import logging
import time

import pyarrow
import pyarrow.parquet
import pytest

from keras_bert_impl.data.tables.layout import parsed, usable
from keras_bert_impl.runs.inputs import as_examples
from keras_bert_impl.tasks import Examples, read_table
from keras_bert_impl.tasks.text_classification.task import TextClassification
from keras_bert_impl.utils.errors import InputError


def write(tmp_path, name, rows):
    path = tmp_path / name
    if name.endswith(".jsonl"):
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif name.endswith(".parquet"):
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    else:
        path.write_text("\n".join(rows) + "\n")
    return path


@pytest.mark.parametrize(
    "cell, expected",
    [
        ("['joy', 'love']", ["joy", "love"]),
        ('["joy", "it\\u0027s"]', ["joy", "it's"]),
        ("[\"it's\", 'a, b']", ["it's", "a, b"]),
        ("('joy',)", ["joy"]),
        ("[]", []),
        ('{"joy": 1, "love": 0}', {"joy": 1, "love": 0}),
        *(
            (name, name)
            for name in ("joy", "[other]", "(a)", "[", "{x}", "(a, b)", "c[1]", "1 [2]")
        ),
    ],
)
def test_lists_in_cells_are_read_as_lists_and_names_are_kept(cell, expected):
    assert parsed(cell) == expected


@pytest.mark.parametrize(
    "cell",
    [
        *("['joy' 'love']", "[0 0 1]", "{'joy', 'love'}", "[joy, love]", "array(['joy'])"),
        *("['joy'", "['joy', love]", "{'joy': 1}", "['" + "x" * 20_000 + "']"),
    ],
)
@pytest.mark.parametrize("separator", [None, ","])
def test_other_structures_are_no_names(tmp_path, cell, separator):
    path = write(tmp_path, "a.tsv", ["text\tlabel", f"x\t{cell}", "y\tjoy"])
    with pytest.raises(InputError, match="line 2: .* is a structure.*--label-separator '|'"):
        read_table(path, "text", label="label", label_separator=separator)
    if len(cell) < 100:
        examples = read_table(path, "text", label="label", labels=[cell, "joy"])
        assert examples.labels == [cell, "joy"]


@pytest.mark.parametrize("separator", [None, ","])
def test_lists_that_pandas_wrote_are_several_labels(tmp_path, separator):
    rows = ["text,labels", "x,\"['joy', 'love']\"", "y,\"['joy']\"", "z,[]"]
    path = write(tmp_path, "a.csv", rows)
    examples = read_table(path, "text", label="labels", label_separator=separator)
    assert examples.labels == [["joy", "love"], ["joy"], []]


def test_numbers_in_a_list_are_no_names(tmp_path):
    for row in ({"text": "x", "label": [0, 1]}, {"text": "x", "label": "[0, 1]"}):
        path = write(tmp_path, "a.jsonl", [row])
        with pytest.raises(InputError, match="must contain names.*a column for each label"):
            read_table(path, "text", label="label")
    with pytest.raises(InputError, match="must contain names.*rows of 0 and 1"):
        as_examples((["x", "y"], [[0, 1], [1, 1]]), "train")


@pytest.mark.parametrize("no, yes", [("0", "1"), ("0.0", "1.0"), ("False", "True")])
def test_a_column_of_0_and_1_for_each_label(tmp_path, no, yes):
    rows = ["text,toxic,insult,threat", f"x,{yes},{no},{no}", f"y,{no},{yes},{no}"]
    path = write(tmp_path, "a.csv", [*rows, f"z,{no},{no},{no}"])
    columns = ["threat", "toxic", "insult"]
    examples = read_table(path, "text", label=columns)
    assert examples.labels == [["toxic"], ["insult"], []] and examples.label_names == columns
    assert examples.read_with["label"] == "threat,toxic,insult"
    path = write(tmp_path, "b.csv", [*rows, "z,1,-1,0"])
    with pytest.raises(InputError, match="line 4: 'insult' must be 0 or 1. Received: '-1'"):
        read_table(path, "text", label=columns)
    for wrong in (
        {"label": ["toxic", "toxic"]},
        {"label": []},
        {"label": columns, "numeric": True},
    ):
        with pytest.raises(InputError, match="label columns"):
            read_table(path, "text", **wrong)


@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet"])
def test_nested_columns_and_dicts_of_categories(tmp_path, name):
    rows = [
        {"text": "x", "labels": {"label": "pos", "n": 1}, "cats": {"A": 1.0, "B": 0.0}},
        {"text": "y", "labels": {"label": "neg", "n": 2}, "cats": {"A": 1.0, "B": 1.0}},
    ]
    path = write(tmp_path, name, rows)
    assert read_table(path, "text", label="labels.label").labels == ["pos", "neg"]
    assert read_table(path, "labels.label").texts == ["pos", "neg"]
    assert read_table(path, "text", label="cats").labels == [["A"], ["A", "B"]]
    with pytest.raises(InputError, match="Use a nested column, such as labels.label"):
        read_table(path, "labels")
    with pytest.raises(InputError, match="no column named 'x'. Found: 'label', 'n'\\."):
        read_table(path, "text", label="labels.x")


def test_lists_of_one_label_may_be_classes(tmp_path, caplog):
    path = write(tmp_path, "a.jsonl", [{"text": t, "label": [n]} for t, n in ("xa", "yb")])
    several = read_table(path, "text", label="label")
    with caplog.at_level(logging.WARNING):
        task = TextClassification(several, several)
    assert task.arguments["problem_type"] == "multi_label_classification"
    assert "a list with exactly one label" in caplog.text and "--single-label" in caplog.text
    classes = read_table(path, "text", label="label", single_label=True)
    assert classes.labels == ["a", "b"] and classes.read_with["single_label"] is True
    path = write(tmp_path, "b.jsonl", [{"text": "x", "label": ["a", "b"]}])
    with pytest.raises(InputError, match="line 1: 2 labels; --single-label requires one"):
        read_table(path, "text", label="label", single_label=True)


@pytest.mark.parametrize("end", [" ", "\u00a0", "\t \r"])
def test_space_around_labels_is_no_part_of_them(tmp_path, end):
    name = "a.csv" if "\t" in end else "a.tsv"
    delimiter = "," if "\t" in end else "\t"
    rows = [f"text{delimiter}label", f"x{delimiter}pos{end}", f"y{delimiter} pos"]
    path = write(tmp_path, name, rows)
    assert read_table(path, "text", label="label", labels=["pos "]).labels == ["pos", "pos"]
    assert as_examples((["x", "y"], ["pos ", "pos"]), "train").labels == ["pos", "pos"]


def test_numbers_are_those_of_classes_without_names(caplog):
    names = ["LABEL_0", "LABEL_1", "LABEL_2"]
    with caplog.at_level(logging.WARNING):
        assert Examples(["x", "y"], ["2", "0"]).class_numbers(names).tolist() == [2, 0]
    assert "0 is read as LABEL_0" in caplog.text
    assert Examples(["x"], [["1"]]).multi_hot(names).tolist() == [[0, 1, 0]]
    for labels, class_names in ((["3"], names), (["0", "LABEL_1"], names), (["0"], ["a", "b"])):
        with pytest.raises(InputError, match="is not one of"):
            Examples(["x"] * len(labels), labels).class_numbers(class_names)


@pytest.mark.parametrize(
    ("seconds", "lines"),
    [
        (0.01, []),
        (0.25, ["reading: 40 rows, 0:00:10, 4/s", "reading: 50 rows, 0:00:12, 4/s"]),
    ],
)
def test_only_long_reading_is_shown(seconds, lines, monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])

    def rows():
        for row in range(50):
            now[0] += seconds
            yield row

    assert usable(str, rows(), [], False) == [str(row) for row in range(50)]
    assert capsys.readouterr().err.splitlines() == lines
