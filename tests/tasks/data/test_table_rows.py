"""Delimiters, headers and the size of records of CSV files."""

import gzip
import tracemalloc

import pytest

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.tasks import read_table
from keras_bert_impl.tasks.data.table_rows import csv_records


def write(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


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
