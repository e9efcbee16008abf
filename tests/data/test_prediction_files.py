"""Files of predictions: what identifies each row, and that they read back."""

import csv

import pytest

from keras_bert_impl.data.prediction_files import (
    join_predictions,
    read_column,
    read_predictions_table,
    write_predictions_table,
)
from keras_bert_impl.data.tables.examples import Examples
from keras_bert_impl.data.tables.tables import read_table
from keras_bert_impl.tasks import ChoiceExamples
from keras_bert_impl.utils.errors import InputError


def rows_of(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def test_rows_name_the_lines_ids_and_texts_of_the_file(tmp_path):
    (tmp_path / "in.csv").write_text(
        'n,text,label\n7,"two\nlines",a\n8,,b\n9,"tab\there",b\n', encoding="utf-8"
    )
    examples = read_table(tmp_path / "in.csv", "text", label="label", id="n", skip_bad_rows=True)
    columns = ["label", "a", "b"]
    write_predictions_table(
        tmp_path / "p.tsv", columns, [["b", "0.1", "0.9"], ["b", "0.2", "0.8"]], examples
    )
    first, second = rows_of(tmp_path / "p.tsv")
    expected = {"index": "0", "label": "b", "a": "0.1", "b": "0.9", "true_label": "a"}
    assert first == expected | {"line": "3", "id": "7", "text": "two\nlines"}
    # Line 4 was skipped, so the second prediction is not of the second row.
    assert (second["index"], second["line"], second["id"]) == ("1", "5", "9")
    assert read_predictions_table(tmp_path / "p.tsv") == (
        columns,
        [["b", "0.1", "0.9"], ["b", "0.2", "0.8"]],
    )


@pytest.mark.parametrize(
    ("examples", "expected"),
    [
        (Examples([("a", "b")], ["x"]), {"true_label": ["x"], "text": ["a"], "pair": ["b"]}),
        (
            Examples(["a"], [1], label_names=["x", "y"], lines=[4]),
            {"true_label": ["y"], "line": [4], "text": ["a"]},
        ),
        (Examples(["a"], [["x", "y"]]), {"true_label": ["x,y"], "text": ["a"]}),
        (Examples(["a" * 2000], [0.5]), {"true_label": ["0.5"], "text": ["a" * 1000]}),
        (Examples(["a"]), {"true_label": [""], "text": ["a"]}),
        (ChoiceExamples([("a", ["b", "c"])], [1]), {"true_label": ["1"], "text": ["a"]}),
    ],
)
def test_columns_that_identify_examples(examples, expected):
    assert examples.described() == expected


def test_classes_may_have_the_names_of_the_columns(tmp_path):
    examples = Examples(["a"], ["text"])
    columns = ["label", "line", "text", "true_label"]
    write_predictions_table(tmp_path / "p.tsv", columns, [["text", "0", "1", "0"]], examples)
    assert read_predictions_table(tmp_path / "p.tsv") == (columns, [["text", "0", "1", "0"]])


def test_files_are_joined_by_the_index_of_their_examples(tmp_path):
    paths = [tmp_path / name for name in "ab"]
    for path, names, indices in zip(paths, ("xyz", "uv"), ([0, 0, 1], [0, 1])):
        write_predictions_table(path, ["label"], names, indices=indices)
    join_predictions(tmp_path / "all", zip(paths, ([3, 0], [1, 2])))
    assert read_column(tmp_path / "all", "label") == list(zip([0, 1, 2, 3, 3], "zuvxy"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"text\n", "is not a table"),
        (b"index\ta\n" + b"9" * 5000 + b"\t1\n", "is not a table"),  # too long for `int`
        (b"index\t\xff\n", "utf-8"),
        (None, "cannot read"),
    ],
)
def test_damaged_files(tmp_path, content, message):
    if content is not None:
        (tmp_path / "p.tsv").write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_predictions_table(tmp_path / "p.tsv")
