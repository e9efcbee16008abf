import csv
import gzip
import io
import json
import random

import pyarrow
import pyarrow.feather
import pyarrow.parquet
import pytest

from keras_bert_impl.data.tables import layout as layout_module
from keras_bert_impl.data.tables.layout import SKIP_HINT
from keras_bert_impl.data.tables.tables import table_columns
from keras_bert_impl.tasks import read_table
from keras_bert_impl.utils.errors import InputError
from tests.tasks.helpers import write_file as write


def test_tsv_has_no_quoting_and_may_have_bom_and_crlf(tmp_path):
    content = '\ufefffirst\tsecond\tscore\r\n"a\tb " c\t1.5\r\n'
    examples = read_table(
        write(tmp_path, "a.tsv", content), "first", "second", "score", numeric=True
    )
    assert examples.texts == [('"a', 'b " c')] and examples.labels == [1.5]
    assert examples.where(0).endswith("a.tsv, line 2")


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("a.tsv", "text\tlabl\nx\ty\n", r"no column named 'label'. Found: 'text', 'labl'"),
        ("a.tsv", "text\tlabel\nx\tpos\nz\n", r"a.tsv, line 3: 1 columns, expected 2"),
        ("a.tsv", "text\tlabel\nx\ty\tz\n", r"line 2: 3 columns, expected 2"),
        ("a.tsv", "text\tlabel\nx\tpos\nx\tposs\n", r"line 3: label 'poss' is not one of 'pos'"),
        ("a.tsv", "text\tlabel\n \tpos\n", r"line 2: the text in column 'text' is empty"),
        ("a.tsv", b"text\tlabel\n\xe9t\xe9\tpos\n", r"line 2: not UTF-8"),
        ("a.tsv", b"text\tlabel\nx\0\tpos\n", r"line 2: a NUL byte"),
        ("a.tsv", "text\tlabel\n", r"a.tsv has no rows"),
        ("a.csv", 'text,label\nx,pos\n"x,pos\n', r"a.csv, line 3: not valid CSV"),
        ("a.csv", "text,label\nx\n", r"line 2: 1 columns, expected 2"),
        ("a.jsonl", '{"text": "x", "label": "pos"}\n{"text": \n', r"line 2: .* \(character 9\)"),
        ("a.csv", "text,label\nx,pos\n".encode("utf-16")[:-1], r"does not match its byte"),
        ("a.jsonl", '["x"]\n', r"line 1: expected a JSON object"),
        ("a.jsonl", '{"text": "x"}\n', r"line 1: no column named 'label'"),
        ("a.jsonl", '{"text": null, "label": "pos"}\n', r"line 1: 'text' is missing"),
        ("a.parquet", "x", r"a.parquet is not a valid Arrow or Parquet file"),
        ("a.xlsx", "x", r"must end in .csv"),
        ("a.xlsx", b"PK\x03\x04", r"a.xlsx is a zip archive. .* save an Excel sheet as .csv"),
        ("a.csv.zst", b"\x28\xb5\x2f\xfd", r"a.csv.zst is compressed with zstd"),
        ("a.csv", "text;label,x\nx;pos,y\n", r"no column named 'text'. Found: 'text;label', 'x'"),
        ("a.tsv", "text,label\nx,pos\n", r"no column named 'text'. Found: 'text,label'"),
        ("a.json", '[{"text": "x", "label": "pos"}, 5]', r"row 2: expected a JSON object"),
        ("a.json", '[{"text": "x", "label": "pos"}', r"row 2: expected a JSON object"),
        ("a.json", '[{"text": "x", "label": }]', r"row 1: not valid JSON"),
        (
            "a.json",
            '[{"text": "x", "label": "pos"}]\n[{"text": "y", "label": "pos"}]',
            "a.json: unexpected content after the array of 1 rows",
        ),
        ("a.json", "[]]", "content after the array of 0 rows"),
        ("a.json", '[{"text": "x", "text": "y", "label": "pos"}]', "row 1: .*the key 'text' twice"),
        ("a.json", "[]", r"a.json has no rows"),
        ("a.csv", b"\x1f\x8b\x08\x00text,label", r"a.csv is damaged"),
        ("a.csv", "", r"a.csv has no rows"),
    ],
)
def test_rejects_bad_tables_with_file_and_line(tmp_path, name, content, message):
    with pytest.raises(InputError, match=message):
        read_table(write(tmp_path, name, content), "text", label="label", labels=["pos", "neg"])


@pytest.mark.parametrize("value", ["three", "nan", "inf"])
def test_numeric_labels_must_be_finite_numbers(tmp_path, value):
    path = write(tmp_path, "a.csv", f"text,score\nx,1\ny,{value}\n")
    with pytest.raises(InputError, match=f"line 3: label '{value}'"):
        read_table(path, "text", label="score", numeric=True)


BAD_ROWS = [  # (row, error message); a valid row precedes and follows it
    (b"one cell", "1 columns, expected 3"),
    (b"7\ta\tstray tab\tpos", "4 columns, expected 3"),
    (b"7\tx\tposs", "label 'poss' is not one of 'pos', 'neg'"),
    (b"7\tx\t", "the label is empty"),
    (b"7\t \tpos", "the text in column 'text' is empty"),
    (b"7\t\xe9t\xe9\tpos", r"not UTF-8 \(byte 2\)"),
    (b"7\t" + "film".encode("utf-16-le") + b"\tpos", "a NUL byte"),
    (b"1\tx\tpos", "id '1' is already used in line 2"),
    (b"\tx\tpos", "the id is empty"),
    (b"7\t" + b"x" * (10 << 20) + b"\tpos", "a line with more than 4,194,304 bytes"),
]


@pytest.mark.parametrize("bad, message", BAD_ROWS, ids=[message[:20] for _, message in BAD_ROWS])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_bad_rows_are_rejected_or_listed(tmp_path, caplog, bad, message, end):
    lines = [b"\xef\xbb\xbfid\ttext\tlabel", b"1\tx\tpos", bad, b"2\ty\tneg", b""]
    path = write(tmp_path, "a.tsv", end.join(lines))
    read = {"text": "text", "label": "label", "labels": ["pos", "neg"], "id": "id"}
    with pytest.raises(InputError, match=f"a.tsv, line 3: {message}") as caught:
        read_table(path, **read)
    examples = read_table(path, **read, skip_bad_rows=True)
    assert examples.texts == ["x", "y"] and examples.labels == ["pos", "neg"]
    assert examples.lines == [2, 4]
    (skipped,) = examples.skipped
    assert str(caught.value) == skipped + SKIP_HINT
    assert f"rows skipped: 1. {skipped}" in caplog.text


def test_missing_quote_is_reported_with_the_first_and_last_line(tmp_path):
    content = 'text,label\nx,pos\n"y,pos\nz,neg\nw ""v"",pos\n'
    path = write(tmp_path, "a.csv", content)
    with pytest.raises(InputError, match=r"line 3: lines 3 to 5 are one quoted cell"):
        read_table(path, "text", label="label")
    examples = read_table(path, "text", label="label", skip_bad_rows=True)
    assert examples.texts == ["x"] and len(examples.skipped) == 3


def test_reads_quoted_csv_cells(tmp_path):
    cells = ['"a, ""b"""', '5" pipe', '"two\r\nlines"', '""', '"""x"""', "", '"a\n\nb"']
    content = "id,text\r\n" + "".join(f"{i},{cell}\r\n" for i, cell in enumerate(cells))
    examples = read_table(write(tmp_path, "a.csv", content), "text", allow_empty=True)
    expected = [row[1] for row in list(csv.reader(io.StringIO(content)))[1:]]
    # Line breaks inside a cell become LF, whatever the file uses.
    assert examples.texts == [text.replace("\r\n", "\n") for text in expected]
    assert examples.lines == [2, 3, 5, 6, 7, 8, 11]


def test_cells_may_be_longer_than_the_csv_module_allows(tmp_path):
    text = "film " * 40_000  # 200,000 characters; the csv limit of 131,072 must not change
    before = csv.field_size_limit()
    assert read_table(write(tmp_path, "a.csv", f"text\n{text}\n"), "text").texts == [text]
    assert csv.field_size_limit() == before


def test_rejects_nan_in_json(tmp_path):
    rows = [f'{{"text": "x", "score": {value}}}\n' for value in ("1e400", "NaN")]
    path = write(tmp_path, "a.jsonl", "".join(rows))
    read = {"text": "text", "label": "score", "numeric": True}
    with pytest.raises(InputError, match="line 1: label 'inf' is not finite"):
        read_table(path, **read)
    with pytest.raises(InputError, match="has no usable rows"):
        read_table(path, **read, skip_bad_rows=True)


def test_rejects_duplicate_column_names(tmp_path):
    with pytest.raises(InputError, match="2 columns named 'text'"):
        read_table(write(tmp_path, "a.tsv", "text\ttext\nx\ty\n"), "text")


@pytest.mark.parametrize(
    "name, content",
    [
        ("a.csv", 'text,labels\nx,"a, b"\ny,\nz,b\n'),
        (
            "a.jsonl",
            '{"text": "x", "labels": ["a", "b"]}\n{"text": "y", "labels": []}\n'
            '{"text": "z", "labels": "b"}\n',
        ),
    ],
)
def test_reads_multiple_labels_per_text(tmp_path, name, content):
    path = write(tmp_path, name, content)
    examples = read_table(path, "text", label="labels", label_separator=",")
    assert examples.labels == [["a", "b"], [], ["b"]] and examples.is_multi_label
    assert examples.multi_hot(["b", "a"]).tolist() == [[1, 1], [0, 0], [1, 0]]
    with pytest.raises(InputError, match="line 2: label 'b' is not one of 'a'|line 1: label"):
        read_table(path, "text", label="labels", label_separator=",", labels=["a"])
    with pytest.raises(InputError, match=r"a\.(csv, line 2|jsonl, line 1): label 'b'"):
        examples.multi_hot(["a"])


def test_rejects_duplicate_labels_of_a_text(tmp_path):
    path = write(tmp_path, "a.tsv", "text\tlabels\nx\ta|b|a\n")
    with pytest.raises(InputError, match=r"line 2: duplicate label in 'a\|b\|a'"):
        read_table(path, "text", label="labels", label_separator="|")


def test_rejects_a_missing_file(tmp_path):
    with pytest.raises(InputError, match="No such file"):
        read_table(tmp_path / "a.csv", "text")


def test_allows_empty_texts_on_request(tmp_path):
    path = write(tmp_path, "a.jsonl", json.dumps({"text": ""}) + "\n")
    assert read_table(path, "text", allow_empty=True).texts == [""]


def test_quoted_label_names_may_contain_the_separator(tmp_path):
    content = 'text;labels\nx;"""legal, privacy"", other"\ny;other\n'
    examples = read_table(
        write(tmp_path, "a.csv", content), "text", label="labels", label_separator=","
    )
    assert examples.labels == [["legal, privacy", "other"], ["other"]]
    rows = [{"text": "x", "labels": ["legal, privacy", "other"]}, {"text": "y", "labels": []}]
    path = write(tmp_path, "a.json", json.dumps(rows))
    assert read_table(path, "text", label="labels").labels == [["legal, privacy", "other"], []]
    path = write(tmp_path, "b.json", json.dumps([rows[0], {"text": "y", "labels": "other"}]))
    with pytest.raises(
        InputError, match="row 2: this row has a single label, but other rows have a list"
    ):
        read_table(path, "text", label="labels")


@pytest.mark.parametrize("labels", [[1.0, None], [1.0, float("nan")]])
def test_rejects_missing_labels_in_parquet(tmp_path, labels):
    file = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table({"text": ["x", "y"], "label": labels}), file)
    path = write(tmp_path, "a.parquet", file.getvalue())
    with pytest.raises(InputError, match="row 2: 'label' is missing"):
        read_table(path, "text", label="label")


def test_parquet_labels_may_be_booleans(tmp_path):
    file = io.BytesIO()
    table = pyarrow.table({"text": ["x", "y"], "label": [True, False]})
    pyarrow.parquet.write_table(table, file)
    path = write(tmp_path, "a.parquet", file.getvalue())
    assert read_table(path, "text", label="label").labels == ["true", "false"]
    with pytest.raises(InputError, match="'label' must be a string"):
        read_table(path, "label")


def test_lookup_of_many_labels_takes_constant_time(tmp_path):
    class Name(str):
        compared = 0
        __hash__ = str.__hash__

        def __eq__(self, other):
            Name.compared += 1
            return str(self) == str(other)

    names = [Name(f"label {number}") for number in range(500)]
    rows = "".join(f"x\tlabel {number}\n" for number in range(500))
    path = write(tmp_path, "a.tsv", f"text\tlabel\n{rows}")
    examples = read_table(path, "text", label="label", labels=names)
    assert examples.class_numbers(names).tolist() == list(range(500))
    assert Name.compared < 5000  # linear search would compare 250,000 times


def test_random_tables_are_read_like_the_csv_module(tmp_path):
    draw = random.Random(0)
    characters = ["a", '"', ",", ";", "\t", "|", "\n", " ", "ä", "\u2028", "\x0b", "\\", "'"]
    for _ in range(300):
        file = io.StringIO()
        settings = {
            "delimiter": draw.choice(",;\t|"),
            "lineterminator": draw.choice(["\n", "\r\n"]),
            "quoting": draw.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
        }
        rows = [
            tuple("".join(draw.choices(characters, k=draw.randint(0, 6))) for _ in range(2))
            for _ in range(draw.randint(1, 4))
        ]
        csv.writer(file, **settings).writerows([("text", "label"), *rows])
        encoding = draw.choice(["utf-8", "utf-8-sig", "utf-16"])
        path = write(tmp_path, "a.csv", file.getvalue().encode(encoding))
        assert read_table(path, "text", pair="label", allow_empty=True).texts == rows, (
            file.getvalue()
        )


def test_rejects_numbers_with_thousands_of_digits(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"t": "good"}\n{"t": %s}\n{"t": [%s]}\n' % ("9" * 5_000, "[" * 5_000))
    with pytest.raises(InputError, match=r"line 2: .*a number with too many digits"):
        read_table(path, "t")
    assert read_table(path, "t", skip_bad_rows=True).texts == ["good"]


@pytest.mark.parametrize("name", ["train.csv", "train.csv.gz"])
def test_rejects_a_repeated_header(tmp_path, name):
    path = tmp_path / name
    data = b"text,label\ngood film,pos\ntext,label\nbad film,neg\n"
    path.write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    with pytest.raises(InputError, match="line 3: the row repeats the header"):
        read_table(path, "text", label="label")


def test_one_and_one_point_zero_are_one_label_in_json(tmp_path):
    path = tmp_path / "train.jsonl"
    path.write_text("".join(json.dumps({"t": "a", "l": label}) + "\n" for label in (1, 1.0, 0.5)))
    assert read_table(path, "t", label="l").labels == ["1", "1", "0.5"]


def test_most_rows_skipped(tmp_path, caplog, monkeypatch):
    path = write(tmp_path, "a.tsv", "text\tlabel\n" + "x\ty\n" * 20 + "bad\n" * 25 + "x\ty\n" * 20)
    examples = read_table(path, "text", skip_bad_rows=True)
    assert len(examples) == 40 and len(examples.skipped) == 25
    (message,) = caplog.messages
    reason = "1 columns, expected 2 ('text', 'label')"
    assert f"rows skipped: 25. {reason} (25). The first: {path}, line 22: {reason}." in message
    monkeypatch.setattr(layout_module, "_MOST_SKIPPED", 10)
    with pytest.raises(
        InputError, match="21 rows, more than half, are invalid. The first one: .*22"
    ):
        read_table(path, "text", skip_bad_rows=True)


def test_a_column_name_that_is_not_utf8_names_the_file(tmp_path):
    path = tmp_path / "a.arrow"
    table = pyarrow.table({"text": ["a"], "labels": ["b"]})
    pyarrow.feather.write_feather(table, path, compression="uncompressed")
    path.write_bytes(path.read_bytes().replace(b"labels", b"l\xe1bels"))
    with pytest.raises(InputError, match="a.arrow is not a valid Arrow or Parquet file: 'utf-8'"):
        table_columns(path)
