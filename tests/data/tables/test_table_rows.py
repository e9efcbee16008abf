"""Delimiters, headers, quotes and the size of records of CSV files; tables in memory."""

import datetime
import functools
import gzip
import json
import tracemalloc

import pandas
import pyarrow
import pyarrow.parquet
import pytest

from keras_bert_impl.data.tables import table_rows
from keras_bert_impl.data.tables.csv_rows import csv_records
from keras_bert_impl.data.tables.layout import Layout
from keras_bert_impl.data.tables.tables import table_columns
from keras_bert_impl.runs.prediction_table import read_rows
from keras_bert_impl.tasks import read_choices, read_squad, read_table, read_tags
from keras_bert_impl.utils.errors import InputError
from tests.tasks.helpers import write_file as write


def test_a_record_that_does_not_end_takes_little_memory(tmp_path):
    content = b'text,label\n"open,pos\n' + b"a\n" * 5_000_000
    path = write(tmp_path, "a.csv.gz", gzip.compress(content))
    tracemalloc.start()
    try:
        *_, last = csv_records(path)
        assert last.first == 2 and last.last == 5_000_002
        assert tracemalloc.get_traced_memory()[1] < 24 << 20
    finally:
        tracemalloc.stop()
    with pytest.raises(InputError, match=r"line 5000002: the row has more than 4,194,304 bytes"):
        read_table(path, "text", label="label")


@pytest.mark.parametrize("first", ["sep=;", '"sep=;"', "SEP=;\r"])
def test_reads_the_first_line_that_excel_reads(tmp_path, first):
    path = write(tmp_path, "a.csv", f"{first}\ntext;label\na, b;pos\n")
    examples = read_table(path, "text", label="label")
    assert examples.texts == ["a, b"] and examples.labels == ["pos"] and examples.lines == [3]


@pytest.mark.parametrize(
    "name, content, columns, delimiter",
    [
        ("SMSSpam", "ham\tGo, until\nspam\tFree entry\n", (1, 0), "\t"),
        ("sms.tsv", "ham\tGo, until\nspam\tFree entry\n", (1, 0), None),
        ("news.csv", '"ham","t","Go, until"\n"spam","t","Free entry"\n', ("2", "0"), None),
        ("phrases.txt", "Go, until@ham\nFree entry@spam\n", (0, 1), "@"),
        ("excel.csv", "sep=;\nham;Go, until\nspam;Free entry\n", (1, 0), None),
    ],
)
def test_reads_tables_without_a_header(tmp_path, name, content, columns, delimiter):
    path = write(tmp_path, name, content)
    text, label = columns
    examples = read_table(path, text, label=label, delimiter=delimiter, header=False)
    assert examples.texts == ["Go, until", "Free entry"] and examples.labels == ["ham", "spam"]
    with pytest.raises(InputError, match="If the first line is not a header, pass --no-header"):
        read_table(path, text, label=label, delimiter=delimiter)
    with pytest.raises(InputError, match="no column named '7'. Found: '0', '1'"):
        read_table(path, 7, delimiter=delimiter, header=False)


def test_a_quote_in_a_file_with_tabs_names_the_suffix_without_quoting(tmp_path):
    path = write(tmp_path, "a", 'ham\t"Go" on\n')
    with pytest.raises(InputError, match="rename the file to .tsv"):
        read_table(path, "1", delimiter="\t", header=False)


ROWS = "".join(f"t{n},pos\nu{n},neg\n" for n in range(4))


@pytest.mark.parametrize(
    "cell",
    [
        '"Dear Sir,\nthank you",pos',
        '"Roses are red,\nViolets are blue,\nSugar is sweet,\nand so are you",pos',
        '"Hello, friend\nbye",pos',
        '"def f(x,y):\n  return x,y\n",pos',
        '"a,b\nc,d\ne",pos',
        '"yes, no\nyes, no\nok",neg',
        '"Main St 5\n10115 Berlin, DE\nGermany",neg',
        '"one\n\ntwo, with ""quotes"".\n",pos',
        '"1,2\n3,4\n5,6",pos',
    ],
)
@pytest.mark.parametrize("rows", [ROWS, "t,pos\n", ""])
def test_cells_with_line_breaks_are_read(tmp_path, cell, rows):
    path = write(tmp_path, "a.csv", f"text,label\n{rows}{cell}\n")
    examples = read_table(path, "text", label="label")
    assert examples.texts[-1] == cell[1 : cell.rindex('"')].replace('""', '"')
    assert len(examples) == rows.count("\n") + 1


@pytest.mark.parametrize(
    "lines",
    [
        '"good,pos\nbad,neg\nfine",pos',
        '"good,pos\nfine",pos',
        '"good,pos\nbad,neg\n\nworst "day",neg',
        '"good,pos\nbad,neg\n"x, y",neg',
        '"good,pos\n' + "\n".join(f"bad {n},neg" for n in range(20)),
    ],
)
@pytest.mark.parametrize("is_first", [True, False])
def test_rows_that_a_stray_quote_joins_are_refused_with_their_lines(tmp_path, lines, is_first):
    content = f"s,pos\n{lines}\n{ROWS}" if is_first else f"{ROWS}{lines}\n"
    path = write(tmp_path, "a.csv", f"text,label\n{content}")
    with pytest.raises(InputError, match="lines [0-9]+ to [0-9]+ are one quoted cell"):
        read_table(path, "text", label="label")
    examples = read_table(path, "text", label="label", skip_bad_rows=True, labels=["pos", "neg"])
    count = len([line for line in content.split("\n") if line])
    assert len(examples) + len(examples.skipped) == count
    with pytest.raises(InputError, match="are one quoted cell"):
        list(read_rows(path, Layout("text")))


@pytest.mark.parametrize(
    "content, text",
    [
        ('text\tlabel\n"he said ""no"", twice"\ta\nplain\tb\n', 'he said "no", twice'),
        ('text\tlabel\n"two\nlines"\ta\n', "two\nlines"),
        ('"text"\t"label"\n"plain"\t"a"\n', "plain"),
        ('text\tlabel\n"Go!" he said\ta\n', '"Go!" he said'),
        ('text\tlabel\n"a whole quotation"\ta\n', '"a whole quotation"'),
        ('text\tlabel\n"a ""b"" c"\ta\n5" pipe\tb\n', '"a ""b"" c"'),
    ],
)
def test_quotes_of_tsv_files_are_removed_only_if_all_enclose_cells(tmp_path, content, text):
    path = write(tmp_path, "a.tsv", content)
    assert read_table(path, "text", label="label").texts[0] == text
    assert table_columns(path) == ["text", "label"]


RECORDS = [{"text": "a", "label": 2, "day": datetime.date(2024, 5, 1)}, {"text": "b", "label": 10}]
RECORDS[1]["day"] = datetime.date(2024, 6, 1)


@pytest.mark.parametrize(
    "table",
    [
        RECORDS,
        {name: [row[name] for row in RECORDS] for name in RECORDS[0]},
        pandas.DataFrame(RECORDS),
        pyarrow.Table.from_pylist(RECORDS),
        iter(RECORDS),
    ],
)
def test_tables_in_memory(table):
    examples = read_table(table, text="text", label="label", dates="day")
    assert (examples.texts, examples.labels) == (["a", "b"], ["2", "10"])
    assert examples.dates[0] < examples.dates[1] and examples.read_with is None


@pytest.mark.parametrize(
    "table, message",
    [
        (5, "expected a table or the path of a file"),
        (["a.csv"], "table, row 1: expected a row with the columns 'text'"),
        ({"train": pandas.DataFrame()}, "expected one table"),
        ([{"text": None}], "row 1: 'text' is missing"),
        (pandas.DataFrame({"text": pandas.array([pandas.NA], "string")}), "'text' is missing"),
    ],
)
def test_other_objects_are_no_tables(table, message):
    with pytest.raises(InputError, match=message):
        read_table(table, text="text")


def test_class_names_that_the_schema_states(tmp_path):
    names = {"names": ["neg", "pos"], "_type": "ClassLabel"}
    features = {"label": names, "labels": {"feature": names, "_type": "Sequence"}}
    table = pyarrow.table({"text": ["a", "b"], "label": [1, 0], "labels": [[0, 1], [1]]})
    stated = json.dumps({"info": {"features": features}})
    path = tmp_path / "a.parquet"
    pyarrow.parquet.write_table(table.replace_schema_metadata({"huggingface": stated}), path)
    examples = read_table(path, "text", label="label")
    assert (examples.labels, examples.label_names) == (["pos", "neg"], ["neg", "pos"])
    assert read_table(path, "text", label="labels").labels == [["neg", "pos"], ["pos"]]
    assert read_table(path, "text", label="label", numeric=True).labels == [1.0, 0.0]
    unlabeled = pyarrow.table({"text": ["a"], "label": [-1]})
    pyarrow.parquet.write_table(unlabeled.replace_schema_metadata({"huggingface": stated}), path)
    with pytest.raises(InputError, match="row 1: the label is -1, so the row is unlabeled"):
        read_table(path, "text", label="label")


@pytest.mark.parametrize("form", ["{}", "[{}]"])
def test_a_long_row_is_no_invalid_json(tmp_path, form):
    path = tmp_path / "long.json"
    path.write_text(form.format(json.dumps({"text": "a " * (3 << 20), "label": "x"})))
    for read in table_columns, functools.partial(read_table, text="text", label="label"):
        with pytest.raises(InputError, match=r"long.json, (row|line) 1: the row has more than"):
            read(path)


@pytest.mark.parametrize(
    "fields, is_read",
    [
        ({"answer": "accept"}, True),
        ({"answer": "reject"}, False),
        ({"answer": "ignore"}, False),
        ({"answer": "forty"}, True),
        ({"status": "Discarded"}, False),
        ({"status": "completed", "label.responses.status": ["discarded"]}, False),
        ({"status": "completed", "label.responses.status": ["submitted"]}, True),
        ({"was_cancelled": True}, False),
        ({"was_cancelled": False}, True),
        ({"response_status": "draft"}, False),
        ({"annotation_status": "Rejected"}, False),
        ({"annotation_status": "submitted"}, True),
        ({"status": "pending", "label.responses": []}, False),
        ({"status": "pending"}, True),
        ({"status": "Validated"}, True),
    ],
)
@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".parquet"])
def test_rows_that_annotators_rejected_are_skipped(tmp_path, fields, is_read, suffix):
    path = tmp_path / f"a{suffix}"
    rows = pandas.DataFrame([{"text": "a", "label": "x"} | fields, {"text": "b", "label": "y"}])
    if suffix == ".csv":
        rows.to_csv(path, index=False)
    elif suffix == ".jsonl":
        rows.to_json(path, orient="records", lines=True)
    else:
        rows.to_parquet(path)
    examples = read_table(path, "text", label="label")
    assert examples.texts == (["a", "b"] if is_read else ["b"])
    assert len(examples.skipped) == (not is_read)


@pytest.mark.parametrize(
    "fields",
    [{"status": "discarded"}, {"was_cancelled": True}, {"answer": "reject"}, {"answer": "ignore"}],
)
def test_rejected_questions_and_choices_are_skipped(fields):
    question = {"question": "Who?", "context": "Ann came.", "answers": {"text": ["Ann"]}}
    question["answers"] |= {"answer_start": [0]}
    choice = {"prompt": "a", "endings": ["x", "y"], "answer": 1}
    for read, row in ((read_squad, question), (read_choices, choice)):
        examples = read([row | fields, row])
        assert len(examples) == 1 and "row 1" in examples.skipped[0]
    nested = [
        {"context": "Ann came.", "qas": [question | {"id": "a"} | fields, question | {"id": "b"}]}
    ]
    assert read_squad(nested).ids == ["b"]
    named = {"question": "What?", "context": "They reject it.", "answer": "reject"}
    assert read_squad([named]).answers == [[("reject", 5)]]


def test_columns_by_number_and_labels_in_one_string(tmp_path):
    path = write(tmp_path, "a.csv", "x,1,0,g,7\ny,0,1,h,8\n")
    examples = read_table(path, 0, label=[1, 2], groups=3, id=4, header=False)
    assert (examples.labels, examples.groups) == ([["1"], ["2"]], ["g", "h"])
    assert read_table(path, 0, label="1,2", header=False).labels == [["1"], ["2"]]
    with pytest.raises(InputError, match="labels must be a list of names"):
        read_table(path, 0, label=3, labels="g,h", header=False)
    with pytest.raises(InputError, match="delimiter must be one character. Received: 9"):
        read_table(path, 0, delimiter=9)


def test_a_folder_of_datasets_names_its_files(tmp_path):
    (tmp_path / "disk" / "train").mkdir(parents=True)
    table = pyarrow.table({"text": ["a"], "label": ["x"]})
    file = tmp_path / "disk" / "train" / "data-00000-of-00001.arrow"
    with pyarrow.ipc.new_stream(str(file), table.schema) as writer:
        writer.write_table(table)
    for read in (
        lambda: read_table(tmp_path / "disk", "text"),
        lambda: read_tags(tmp_path / "disk"),
    ):
        with pytest.raises(InputError, match=f"is a directory.*Pass {file}."):
            read()
    assert read_table(file, "text").texts == ["a"]


@pytest.mark.parametrize(
    "texts, most_rows",
    [([f"text {n}" for n in range(3000)], 1024), (["x" * (1 << 19)] * 300, 128)],
)
def test_batches_of_parquet_are_small_and_not_dictionaries(tmp_path, texts, most_rows):
    path = tmp_path / "a.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"text": texts, "label": [0] * len(texts)}), path)
    with table_rows.open_arrow(path) as (_, batches):
        shapes = [(batch.num_rows, batch.schema.types[0]) for batch in batches(["text"])]
    assert max(shapes)[0] == most_rows and sum(count for count, _ in shapes) == len(texts)
    assert {kind for _, kind in shapes} == {pyarrow.string()}


def test_parquet_with_a_damaged_schema(tmp_path):
    """In pyarrow, a look at the metadata of such a column would end the process."""
    path = tmp_path / "a.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"text": ["a"], "labels": [["x"]]}), path)
    content = path.read_bytes()
    assert content.count(b"5\x02\x18\x06labels") == 1
    path.write_bytes(content.replace(b"5\x02\x18\x06labels", b"5\x12\x18\x06labels"))
    assert read_table(path, "text").texts == ["a"]
    with pytest.raises(InputError, match="a.parquet is not a valid Arrow or Parquet file"):
        read_table(path, "text", label="labels")


def test_parquet_that_stores_differences_of_values(tmp_path):
    path, table = (
        tmp_path / "a.parquet",
        pyarrow.table({"text": ["a b", "a c"], "f": [{"n": 1}] * 2}),
    )
    encoding = {"text": "DELTA_BYTE_ARRAY"}
    pyarrow.parquet.write_table(table, path, use_dictionary=False, column_encoding=encoding)
    assert read_table(path, "text", label="f.n").labels == ["1", "1"]
