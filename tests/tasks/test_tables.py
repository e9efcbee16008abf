import json

import pytest

from keras_bert_impl.errors import InputError
from keras_bert_impl.tasks import read_table


def write(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    "name, content",
    [
        ("a.csv", 'id,text,label\n1,"a ""film"", good",pos\n2,"two\nlines",neg\n'),
        ("a.jsonl", '{"text": "a \\"film\\", good", "label": "pos", "id": 1}\n'
                    '{"text": "two\\nlines", "label": "neg", "id": 2}\n'),
    ],
)
def test_reads_csv_and_json_lines(tmp_path, name, content):
    examples = read_table(write(tmp_path, name, content), "text", label="label")
    assert examples.texts == ['a "film", good', "two\nlines"]
    assert examples.labels == ["pos", "neg"]


def test_tsv_has_no_quoting_and_may_have_bom_and_crlf(tmp_path):
    content = "\ufefffirst\tsecond\tscore\r\n\"a\tb \" c\t1.5\r\n"
    examples = read_table(
        write(tmp_path, "a.tsv", content), "first", "second", "score", numeric=True
    )
    assert examples.texts == [('"a', 'b " c')] and examples.labels == [1.5]
    assert examples.where(0).endswith("a.tsv, line 2")


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("a.tsv", "text\tlabl\nx\ty\n", r"no column 'label'; there is 'text', 'labl'"),
        ("a.tsv", "text\tlabel\nx\tpos\nz\n", r"a.tsv, line 3: 1 columns, expected 2"),
        ("a.tsv", "text\tlabel\nx\ty\tz\n", r"line 2: 3 columns, expected 2"),
        ("a.tsv", "text\tlabel\nx\tpos\nx\tposs\n", r"line 3: the label 'poss' is none of 'pos'"),
        ("a.tsv", "text\tlabel\n \tpos\n", r"line 2: the text in column 'text' is empty"),
        ("a.tsv", b"text\tlabel\n\xe9t\xe9\tpos\n", r"line 2: not UTF-8"),
        ("a.tsv", b"text\tlabel\nx\0\tpos\n", r"line 2: a NUL byte"),
        ("a.tsv", "text\tlabel\n", r"a.tsv has no rows"),
        ("a.csv", 'text,label\nx,pos\n"x,pos\n', r"a.csv, line 3: not valid CSV"),
        ("a.csv", "text,label\nx\n", r"line 2: 1 columns, expected 2"),
        ("a.jsonl", '{"text": "x", "label": "pos"}\n{"text": \n', r"line 2: not valid JSON"),
        ("a.jsonl", '["x"]\n', r"line 1: expected a JSON object"),
        ("a.jsonl", '{"text": "x"}\n', r"line 1: there is no column 'label'"),
        ("a.jsonl", '{"text": null, "label": "pos"}\n', r"line 1: 'text' must be a string"),
        ("a.parquet", "x", r"must end in .csv"),
    ],
)
def test_bad_tables_are_refused_with_file_and_line(tmp_path, name, content, message):
    with pytest.raises(InputError, match=message):
        read_table(write(tmp_path, name, content), "text", label="label", labels=["pos", "neg"])


@pytest.mark.parametrize("value", ["three", "nan", "inf"])
def test_numeric_labels_must_be_finite_numbers(tmp_path, value):
    path = write(tmp_path, "a.csv", f"text,score\nx,1\ny,{value}\n")
    with pytest.raises(InputError, match=f"line 3: the label '{value}'"):
        read_table(path, "text", label="score", numeric=True)


def test_missing_file(tmp_path):
    with pytest.raises(InputError, match="No such file"):
        read_table(tmp_path / "a.csv", "text")


def test_empty_texts_may_be_allowed(tmp_path):
    path = write(tmp_path, "a.jsonl", json.dumps({"text": ""}) + "\n")
    assert read_table(path, "text", allow_empty=True).texts == [""]
