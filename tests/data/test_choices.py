"""Reading SWAG, CODAH, SIQA and JSON lines: valid rows, bad rows, skipped rows."""

import csv
import gzip
import io
import json

import numpy as np
import pandas
import pytest

from keras_bert_impl.data.tables.layout import SKIP_HINT
from keras_bert_impl.data.tables.splits import hold_out
from keras_bert_impl.tasks import read_choices
from keras_bert_impl.tasks.multiple_choice.task import Choice
from keras_bert_impl.utils.errors import InputError

SWAG = "id,startphrase,sent1,sent2,gold-source,ending0,ending1,ending2,ending3,label\n"
SWAG_ROW = '7,"A man sits. He","A man, ""old"", sits.",He,gold,sings.,reads.,eats.,runs.,1\n'
CODAH_ROW = "o\tI am hungry. I\tsleep.\teat.\tfly.\tsing.\t1\n"
SIQA_ROW = {
    "context": "Ann left.",
    "question": "What will Bob do?",
    "answerA": "cry",
    "answerB": "sing",
    "answerC": "go, too",
}


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def lines(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_reads_swag(tmp_path):
    examples = read_choices(write(tmp_path / "train.csv", SWAG + SWAG_ROW * 2))
    endings = ["He sings.", "He reads.", "He eats.", "He runs."]
    assert examples.texts == [('A man, "old", sits.', endings)] * 2
    assert examples.labels == [1, 1] and examples.lines == [2, 3] and len(examples) == 2


def test_reads_the_published_swag_columns(tmp_path):
    names = "video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,ending2,ending3"
    row = '0,lsmdc1,18313,"Ann sits. She","Ann sits.",She,gold,"pats it, then goes.",b.,c.,d.'
    train = read_choices(write(tmp_path / "train.csv", f",{names},label\n{row},2\n"))
    endings = ["She pats it, then goes.", "She b.", "She c.", "She d."]
    assert train.texts == [("Ann sits.", endings)] and train.labels == [2]
    test = read_choices(write(tmp_path / "test.csv", f",{names}\n{row}\n"))
    assert test.texts == train.texts and test.labels is None


def test_swag_without_sentences_or_labels_and_with_other_numbers_of_endings(tmp_path):
    content = "ending10,startphrase,ending2\n" + '"two\nlines",He,sits\n'
    examples = read_choices(write(tmp_path / "test.csv", content))
    assert examples.texts == [("He", ["sits", "two\nlines"])]
    assert examples.labels is None and examples.lines == [3]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_reads_compressed_and_encoded_files(tmp_path, end):
    expected = read_choices(write(tmp_path / "a.csv", SWAG + SWAG_ROW)).texts
    rows = list(csv.reader(io.StringIO(SWAG + SWAG_ROW)))
    file = io.StringIO()
    csv.writer(file, delimiter=";", lineterminator=end).writerows(rows)
    for name, content in (
        ("b.csv", file.getvalue().encode("utf-16")),
        ("b.csv.gz", gzip.compress(file.getvalue().encode())),
    ):
        assert read_choices(write(tmp_path / name, content)).texts == expected
    content = (CODAH_ROW * 2).replace("\n", end)
    assert len(read_choices(write(tmp_path / "a.tsv", content))) == 2


def test_reads_an_array_of_objects(tmp_path):
    rows = [SIQA_ROW | {"correct": "B"}, SIQA_ROW | {"correct": "A"}]
    expected = read_choices(write(tmp_path / "a.json", lines(*rows)))
    array = read_choices(write(tmp_path / "b.json", json.dumps(rows, indent=1)))
    assert array.texts == expected.texts and array.labels == expected.labels == [1, 0]


def test_reads_codah(tmp_path):
    marked = "\ufeff" + CODAH_ROW.replace("\n", "\r\n") + "\n" + CODAH_ROW.replace("o\t", "\t", 1)
    examples = read_choices(write(tmp_path / "full_data.tsv", marked))
    assert examples.texts == [("I am hungry. I", ["sleep.", "eat.", "fly.", "sing."])] * 2
    assert examples.labels == [1, 1] and examples.lines == [1, 3]


def test_reads_siqa_labels_from_a_file_or_the_rows(tmp_path):
    write(tmp_path / "dev.jsonl", lines(SIQA_ROW, SIQA_ROW))
    assert read_choices(tmp_path / "dev.jsonl").labels is None
    labels = write(tmp_path / "other.lst", "2\n2\n")
    assert read_choices(tmp_path / "dev.jsonl", labels).labels == [1, 1]
    write(tmp_path / "dev-labels.lst", "3\r\n1\r\n")
    beside = read_choices(tmp_path / "dev.jsonl")
    assert beside.texts[0] == ("Ann left. What will Bob do?", ["cry", "sing", "go, too"])
    assert beside.labels == [2, 0]
    inside = lines(SIQA_ROW | {"label": "3\n"}, SIQA_ROW | {"correct": "A"})
    inside = read_choices(write(tmp_path / "inside.jsonl", inside))
    wide = [SIQA_ROW | {"label_letter": "ABC"[i], "label_ix": i} for i in (2, 0)]
    assert read_choices(write(tmp_path / "wDims.jsonl", lines(*wide))).labels == [2, 0]
    assert inside.labels == [2, 0] and inside.fingerprint == beside.fingerprint


def test_reads_any_number_of_endings(tmp_path):
    rows = [{"prompt": "a", "endings": list("xyz")[:n], "answer": n - 1} for n in (2, 3)]
    examples = read_choices(write(tmp_path / "a.jsonl", lines(*rows)))
    assert examples.texts == [("a", ["x", "y"]), ("a", ["x", "y", "z"])]
    assert examples.labels == [1, 2]
    reordered = read_choices(write(tmp_path / "b.jsonl", lines(*rows[::-1])))
    assert reordered.fingerprint != examples.fingerprint


GOOD_LINES = {
    "a.csv": SWAG_ROW,
    "a.tsv": CODAH_ROW,
    "a.jsonl": lines({"prompt": "a", "endings": ["x", "y"], "answer": 0}),
}
# (bad row, error message)
BAD = [
    ("a.csv", "7,A,B,C,gold,d,e,f,1\n", "9 columns, expected 10"),
    ("a.csv", SWAG_ROW.replace(",1\n", ",4\n"), "the answer must be from 0 to 3. Received: 4"),
    ("a.csv", SWAG_ROW.replace(",1\n", ",one\n"), "the number of an ending. Received: 'one'"),
    (
        "a.csv",
        SWAG_ROW.replace("reads.", " "),
        "the ending 1 must be a non-empty string. Received: ' '",
    ),
    ("a.csv", SWAG_ROW.replace("old", "o\xe9d").encode("latin-1"), "not UTF-8 (byte"),
    ("a.csv", f'7,A,"{"b" * 200_000}",C,gold,d,e,f,g,1\n', "the prompt has 200,000 characters"),
    ("a.csv", '7,A,B"\0,C,gold,d,e,f,g,1\n', "a NUL byte"),
    ("a.tsv", CODAH_ROW.replace("fly.", "fl\ty."), "8 columns, expected 7: category, prompt"),
    ("a.tsv", CODAH_ROW.replace("1", "-1"), "the number of an ending. Received: '-1'"),
    (
        "a.tsv",
        CODAH_ROW.replace("I am hungry. I", ""),
        "the prompt must be a non-empty string. Received: ''",
    ),
    ("a.tsv", CODAH_ROW.replace("fly", "f" * 1_000_000), "has 1,000,001 characters; the file"),
    ("a.tsv", CODAH_ROW.replace("fly", "f" * 10_000_000), "more than 4,194,304 bytes"),
    ("a.jsonl", '{"prompt": "a",\n', "not valid JSON"),
    ("a.jsonl", '["a"]\n', "expected a JSON object."),
    ("a.jsonl", lines({"prompt": "a", "answer": 0}), "expected an object with prompt, endings"),
    ("a.jsonl", lines({"prompt": "a", "endings": ["x"], "answer": 0}), "at least two endings"),
    (
        "a.jsonl",
        lines({"endings": ["x", "y"], "answer": 0}),
        "the prompt must be a non-empty string",
    ),
    ("a.jsonl", lines({"prompt": "a", "endings": ["x", "y"]}), "the answer is missing, but other"),
    (
        "a.jsonl",
        lines({"prompt": "a", "endings": ["x", "y"], "answer": 2}),
        "from 0 to 1. Received: 2",
    ),
    (
        "a.jsonl",
        lines({"prompt": "a", "endings": ["x", "y"], "label": 1}),
        "as 'answer', not 'label'",
    ),
    (
        "a.jsonl",
        lines({"prompt": "a", "endings": ["x", 3], "answer": 1}),
        "the ending 1 must be a non-empty",
    ),
    ("a.jsonl", lines(SIQA_ROW | {"label": 0}), "the answer must be from 0 to 2. Received: -1"),
    ("a.jsonl", lines(SIQA_ROW | {"correct": "D"}), "correct must be A, B or C, not 'D'"),
    ("a.jsonl", lines(SIQA_ROW | {"label": 1, "question": ""}), "the question must be a non-empty"),
]


@pytest.mark.parametrize("name, bad, message", BAD)
def test_bad_row_is_reported_or_skipped(tmp_path, caplog, name, bad, message):
    good = GOOD_LINES[name].encode()
    bad = bad if isinstance(bad, bytes) else bad.encode()
    header = SWAG.encode() if name == "a.csv" else b""
    path = write(tmp_path / name, header + good + bad + good)
    number = 3 if header else 2
    with pytest.raises(InputError) as raised:
        read_choices(path)
    assert f"{path}, line {number}: " in str(raised.value) and message in str(raised.value)
    examples = read_choices(path, skip_bad_rows=True)
    assert examples.lines == [number - 1, number + 1] and examples.labels[0] == examples.labels[1]
    assert len(examples.skipped) == 1 and examples.skipped[0] + SKIP_HINT == str(raised.value)
    assert f"{path}: rows skipped: 1. " in caplog.text


def test_rejects_a_bad_line_of_a_label_file(tmp_path):
    path = write(tmp_path / "dev.jsonl", lines(*[SIQA_ROW] * 3))
    labels = write(tmp_path / "dev-labels.lst", "1\n4\n3\n")
    with pytest.raises(
        InputError, match="dev.jsonl, line 2: the answer must be from 0 to 2. Received: 3"
    ):
        read_choices(path)
    examples = read_choices(path, skip_bad_rows=True)
    assert examples.labels == [0, 2] and examples.lines == [1, 3]
    write(labels, "1\nB\n3\n")
    with pytest.raises(InputError, match="dev-labels.lst, line 2: the answer must be the number"):
        read_choices(path)
    write(labels, "1\n2\n")
    with pytest.raises(InputError, match="has 3 rows, but .*dev-labels.lst has 2 labels"):
        read_choices(path, skip_bad_rows=True)


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("a.txt", "a\n", "must end in .csv, .tsv, .jsonl, .ndjson, .json, .parquet or"),
        ("a.csv", "sent1,label,ending0,ending1\n", "SWAG requires the columns sent1 and sent2"),
        ("a.csv", "", "SWAG requires the columns"),
        ("a.tsv", "\n\n", "has no usable rows"),
        ("a.tsv", None, "a.tsv cannot be read: No such file"),
    ],
)
def test_rejects_files_of_other_formats(tmp_path, name, content, message):
    path = tmp_path / name
    if content is not None:
        write(path, content)
    with pytest.raises(InputError, match=message):
        read_choices(path, skip_bad_rows=True)


def test_rejects_a_label_file_for_other_formats(tmp_path):
    labels = write(tmp_path / "labels.lst", "1\n")
    with pytest.raises(InputError, match="a.tsv contains its answers"):
        read_choices(write(tmp_path / "a.tsv", CODAH_ROW), labels)
    path = write(tmp_path / "a.jsonl", GOOD_LINES["a.jsonl"])
    with pytest.raises(InputError, match="line 1: only SIQA supports a separate file of answers"):
        read_choices(path, labels)


def test_bad_row_of_an_array_has_its_number(tmp_path, caplog):
    good = {"prompt": "a", "endings": ["x", "y"], "answer": 1}
    for bad, message in (
        (good | {"answer": float("nan")}, "NaN"),
        (good | {"answer": 2}, "from 0 to 1. Received: 2"),
    ):
        path = write(tmp_path / "a.json", json.dumps([good, bad, good], indent=1))
        with pytest.raises(InputError, match=f"a.json, row 2: .*{message}"):
            read_choices(path)
        assert read_choices(path, skip_bad_rows=True).labels == [1, 1]


def test_reads_ndjson(tmp_path):
    rows = lines({"prompt": "a", "endings": ["x", "y"], "answer": 1})
    assert read_choices(write(tmp_path / "a.ndjson", rows)).labels == [1]


def test_held_out_rows_are_read_again(tmp_path):
    rows = "".join(CODAH_ROW.replace("hungry", f"hungry {n} é\u2028") for n in range(20))
    examples = read_choices(write(tmp_path / "all.tsv", rows))
    _, dev = hold_out(examples, 0.3)
    assert Choice.write_held_out(dev, tmp_path) == [tmp_path / "dev.jsonl"]
    again = read_choices(tmp_path / "dev.jsonl")
    assert (again.texts, again.labels) == (dev.texts, dev.labels) and len(again) == 6
    assert Choice.write_held_out(examples, tmp_path) == []


SWAG_DICT = {"sent1": "A dog runs.", "sent2": "It", "ending0": "barks.", "ending1": "flies."}
ROWS = [
    ({"prompt": "A dog runs. It", "endings": ["barks.", "flies."], "answer": 0}, 0),
    ({"prompt": "A dog runs. It", "endings": np.array(["barks.", "flies."]), "answer": 1.0}, 1),
    (SWAG_DICT | {"label": np.int64(1)}, 1),
    (SWAG_DICT, None),
]


@pytest.mark.parametrize("row, label", ROWS)
def test_tables_in_memory_and_parquet(tmp_path, row, label):
    path = tmp_path / "a.parquet"
    pandas.DataFrame([row]).to_parquet(path)
    for table in ([row], pandas.DataFrame([row]), path):
        examples = read_choices(table)
        (prompt, endings), labels = examples.texts[0], examples.labels
        assert f"{prompt} {endings[0]}" == "A dog runs. It barks."
        assert len(endings) == 2 and labels == (None if label is None else [label])
    with pytest.raises(InputError, match="table, row 1: expected an object"):
        read_choices(["a.csv"])
