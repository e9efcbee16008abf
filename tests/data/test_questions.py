import json

import numpy as np
import pandas
import pyarrow.parquet
import pytest

from keras_bert_impl.data.questions import read_squad, write_squad
from keras_bert_impl.data.tables.joining import join_examples
from keras_bert_impl.data.tables.layout import SKIP_HINT
from keras_bert_impl.data.tables.splits import hold_out
from keras_bert_impl.tasks.question_answering.task import QuestionAnswering
from keras_bert_impl.utils.errors import InputError
from tests.tasks.squad_files import ANSWERS, CONTEXT, document, question, write


def test_reads_squad_1(tmp_path):
    content = document(question("a", ANSWERS, question=" Where? "), question(7))
    examples = read_squad(write(tmp_path / "dev.json", content))
    assert examples.ids == ["a", "7"] and len(examples) == 2
    assert examples.pairs == [("Where?", CONTEXT), ("Where did they meet?", CONTEXT)]
    assert examples.answers == [ANSWERS, ANSWERS[:1]]
    # The smiling face is one character, though four bytes and two units of UTF-16.
    assert [CONTEXT[start:][: len(text)] for text, start in ANSWERS] == ["Zürich", "Monday"]
    assert examples.is_impossible is None and examples.titles == ["People"] * 2
    assert examples.source == str(tmp_path / "dev.json") and examples.skipped == ()


def test_reads_squad_2(tmp_path):
    none = question("b", [], is_impossible=True, plausible_answers=[{"text": "x"}])
    content = document(question("a", is_impossible=False), none)
    examples = read_squad(write(tmp_path / "dev.json", content))
    assert examples.is_impossible == [False, True]
    assert examples.answers == [ANSWERS[:1], []]


def test_ignores_byte_order_mark_and_line_ends(tmp_path):
    plain = read_squad(write(tmp_path / "plain.json", document(question())))
    marked = read_squad(write(tmp_path / "marked.json", document(question()), "utf-8-sig"))
    lines = json.dumps(document(question()), indent=1).replace("\n", "\r\n")
    (tmp_path / "lines.json").write_bytes(lines.encode())
    assert plain.fingerprint == marked.fingerprint
    assert plain.fingerprint == read_squad(tmp_path / "lines.json").fingerprint
    changed = read_squad(write(tmp_path / "other.json", document(question(answers=ANSWERS))))
    assert plain.fingerprint != changed.fingerprint


BAD = {
    "answer 'Zürich' is not at character 16 of the context. Found: 'ürich '; the answer is at 15": question(
        "bad", [("Zürich", 16)]
    ),
    "answer 'Bob' is not at character 38 of the context. Found: 'ob": question(
        "bad", [("Bob", 38)]
    ),
    "at character -1 of the context. Found: ''; the answer is at 0": question("bad", [("Ann", -1)]),
    "at character 99 of the context. Found: ''; the answer is at 0": question("bad", [("Ann", 99)]),
    "the answer does not occur": question("bad", [("Eve", 3)]),
    "the question has 5,000,000 characters; the file may be damaged": question(
        "bad", question="x" * 5_000_000
    ),
    "the answer must be a non-empty string. Received: ''": question("bad", [("", 3)]),
    "answer_start must be an integer. Received: '15'": question("bad", [("Zürich", "15")]),
    "answer_start must be an integer. Received: True": question("bad", [("n", True)]),
    "an answer must be a JSON object": question("bad") | {"answers": ["Zürich"]},
    "there is no 'answers' list": {"id": "bad", "question": "Who?"},
    "there are no answers": question("bad", []),
    "the question must be a non-empty string": question("bad", question=" \n"),
    "the question has an unpaired surrogate at 3": question("bad", question="Who\ud83d?"),
    "the question at data[0].paragraphs[0].qas[0] has the same id": question("q0"),
    "the id must be a non-empty string": question(None),
    "is_impossible must be true or false. Received: 'no'": question("bad")
    | {"is_impossible": "no"},
}


@pytest.mark.parametrize("message", BAD)
def test_bad_question_is_reported_or_skipped(tmp_path, message, caplog):
    path = tmp_path / "train.json"
    bad = BAD[message]
    fields = {"is_impossible": False} if "is_impossible" in bad else {}
    content = document(question(**fields), bad, question("q2", **fields))
    path.write_text(json.dumps(content))
    with pytest.raises(InputError) as caught:
        read_squad(path)
    where = f"{path}, question {bad['id']!r} (data[0].paragraphs[0].qas[1]): "
    assert str(caught.value).startswith(where) and message in str(caught.value)
    examples = read_squad(path, skip_bad_rows=True)
    assert examples.ids == ["q0", "q2"]
    (skipped,) = examples.skipped
    assert skipped + SKIP_HINT == str(caught.value)
    assert caplog.messages == [f"{path}: questions skipped: 1. {skipped}"]


def test_rejects_an_impossible_question_with_answers(tmp_path):
    path = write(tmp_path / "a.json", document(question(is_impossible=True)))
    with pytest.raises(InputError, match="is_impossible is true, but there are answers"):
        read_squad(path)


def test_reads_both_versions_in_one_file(tmp_path):
    content = document(question("a"), question("b", [], is_impossible=True), question("c", []))
    examples = read_squad(write(tmp_path / "dev.json", content))
    assert examples.is_impossible == [False, True, True]
    content = document(question("a"), question("b", is_impossible="no"))
    with pytest.raises(InputError, match="is_impossible must be true or false. Received: 'no'"):
        read_squad(write(tmp_path / "dev.json", content))
    with pytest.raises(InputError, match="there are no answers"):
        read_squad(write(tmp_path / "dev.json", document(question("a"), question("c", []))))


def flat(answers, **fields):
    texts, starts = zip(*answers) if answers else ((), ())
    return {
        "context": CONTEXT,
        "question": "Where did they meet?",
        "answers": {"text": list(texts), "answer_start": list(starts)},
    } | fields


@pytest.mark.parametrize(
    "form", ["lines.jsonl", "lines.json", "array.json", "data.json", "a.parquet"]
)
def test_reads_flat_rows(tmp_path, form):
    rows = [flat(ANSWERS), flat([]), flat(ANSWERS[:1])]
    path = tmp_path / form
    if form == "a.parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    elif form.startswith("lines"):
        path.write_text("".join(json.dumps(row) + "\n" for row in rows) + "\n")
    else:
        path.write_text(json.dumps({"data": rows} if form == "data.json" else rows, indent=1))
    examples = read_squad(path)
    assert examples.questions == ["Where did they meet?"] * 3 and len(set(examples.ids)) == 3
    assert examples.answers == [ANSWERS, [], ANSWERS[:1]]
    assert examples.is_impossible == [False, True, False]


@pytest.mark.parametrize(
    "row, message",
    [
        (flat([("Bob", 1)]), r"line 2\): the answer 'Bob' is not at character 1"),
        (
            flat([]) | {"answers": {"text": ["Ann"], "answer_start": []}},
            "two lists of equal length",
        ),
        (flat([]) | {"answers": "Ann"}, "there is no 'answers' list"),
        (flat([], context=None), "the context must be a non-empty string"),
        ([1], "line 2: expected a JSON object"),
    ],
)
def test_rejects_bad_flat_rows(tmp_path, row, message):
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(flat(ANSWERS)) + "\n" + json.dumps(row))
    with pytest.raises(InputError, match=message):
        read_squad(path)


@pytest.mark.parametrize("context", ["", " ", None, 3])
def test_rejects_a_context_without_text(tmp_path, context):
    with pytest.raises(InputError, match="the context must be a non-empty string"):
        read_squad(write(tmp_path / "a.json", document(question(), context=context)))


@pytest.mark.parametrize(
    "content, message",
    [
        ([], "has no questions"),
        ({"data": {}}, "the file has no list 'data'"),
        ({"data": ["x"]}, r"data\[0\] has no list 'paragraphs'"),
        ({"data": [{"paragraphs": [{}]}]}, r"data\[0\].paragraphs\[0\] has no list 'qas'"),
        (document(), "has no questions"),
        (document("What?"), "must be a JSON object. Received: 'What[?]'"),
    ],
)
def test_rejects_another_layout(tmp_path, content, message):
    with pytest.raises(InputError, match=message):
        read_squad(write(tmp_path / "a.json", content))


def test_rejects_invalid_json_with_its_line(tmp_path):
    (tmp_path / "cut.json").write_text('{"data":\n[{')
    (tmp_path / "latin.json").write_bytes(b'{"data":\n"Z\xfcrich"}')
    for name in ("cut", "latin"):
        with pytest.raises(InputError, match=f"{name}.json, line 2"):
            read_squad(tmp_path / f"{name}.json")
    with pytest.raises(InputError, match="cannot be read"):
        read_squad(tmp_path / "none.json")


def test_rejects_a_file_with_only_bad_questions(tmp_path):
    path = write(tmp_path / "a.json", document(question(answers=[("Eve", 0)])))
    with pytest.raises(InputError, match="has no usable questions"):
        read_squad(path, skip_bad_rows=True)


def test_an_empty_list_of_answers_makes_a_file_squad_2(tmp_path):
    rows = [
        {
            "id": "a",
            "question": "q",
            "context": "one two",
            "answers": [{"text": "one", "answer_start": 0}],
        },
        {"id": "b", "question": "q", "context": "one two", "answers": []},
    ]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert read_squad(path).is_impossible == [False, True]


@pytest.mark.parametrize("is_v2", [False, True])
def test_held_out_questions_are_read_again(tmp_path, is_v2):
    fields = {"is_impossible": False} if is_v2 else {}
    contexts = [f"{CONTEXT} {number}" for number in range(8)]
    parts = [
        document(question(f"a{n}", **fields), question(f"b{n}", ANSWERS, **fields), context=context)
        for n, context in enumerate(contexts)
    ]
    content = {"data": [article for part in parts for article in part["data"]]}
    if is_v2:
        qas = content["data"][0]["paragraphs"][0]["qas"]
        qas.append(question("c", [], is_impossible=True))
    examples = read_squad(write(tmp_path / "all.json", content))
    train, dev = hold_out(examples, 0.3)
    assert not set(train.contexts) & set(dev.contexts)
    for part in (train, dev):
        write_squad(tmp_path / "dev.json", part)
        again = read_squad(tmp_path / "dev.json")
        assert again.fingerprint == part.fingerprint and again.titles == part.titles
    assert QuestionAnswering.write_held_out(dev, tmp_path) == [tmp_path / "dev.json"]
    assert read_squad(tmp_path / "dev.json").pairs == dev.pairs
    assert QuestionAnswering.write_held_out(examples, tmp_path) == []  # nothing is held out


def test_articles_are_not_split(tmp_path):
    articles = [
        {"title": f"T{n // 2}", "topic": n // 4, "paragraphs": [{"context": f"{CONTEXT} {n}"}]}
        for n in range(16)
    ]
    for n, article in enumerate(articles):
        article["paragraphs"][0]["qas"] = [question(f"q{n}")]
    path = write(tmp_path / "all.json", {"data": articles})
    for key, count in (("title", 8), ("topic", 4)):
        examples = read_squad(path, groups=key)
        assert len(set(examples.groups)) == count
        train, dev = hold_out(examples, 0.25)
        assert len(dev) == 4 and not set(train.groups) & set(dev.groups)
    with pytest.raises(InputError, match=r"question 'q0' .*: groups='author' requires the key"):
        read_squad(path, groups="author")


def test_several_files_of_flat_rows_without_ids_are_joined(tmp_path):
    parts = []
    for name, number in (("a.jsonl", 0), ("b.jsonl", 1)):
        rows = [flat(ANSWERS, question=f"q{number}"), flat(ANSWERS, id=f"own{number}")]
        (tmp_path / name).write_text("\n".join(map(json.dumps, rows)))
        parts.append(read_squad(tmp_path / name))
    joined = join_examples(parts)
    assert joined.ids == ["file 1, line 1", "own0", "file 2, line 1", "own1"]
    assert joined.questions[2] == "q1"


OFFICE = "The office opens at 9:00. It has 120 desks."
ASKED = {"id": "1", "question": "When?", "answers": [{"text": "9:00", "answer_start": 20}]}
ARRAYS = "\"{'text': array(['9:00'], dtype=object), 'answer_start': array([20], dtype=int32)}\""
ROW = {"question": "When?", "context": OFFICE}


@pytest.mark.parametrize(
    "name, content",
    [
        ("a.csv", f"question,context,answer_text,answer_start\nWhen?,{OFFICE},9:00,20\n"),
        ("a.csv", f"question;context;answer;id\nWhen?;{OFFICE};9:00;7\n"),
        ("a.csv", f"question,context,answer_text,answer_start\nWhen?,{OFFICE},9:00,\n"),
        ("a.csv", f"question,context,answers\nWhen?,{OFFICE},{ARRAYS}\n"),
        ("a.tsv", f"question\tcontext\tanswer\nWhen?\t{OFFICE}\t9:00\n"),
        ("a.json", json.dumps([{"context": OFFICE, "qas": [ASKED]}])),
        ("a.jsonl", json.dumps({"context": OFFICE, "qas": [ASKED]})),
        (
            "a.json",
            json.dumps([{"title": "t", "paragraphs": [{"context": OFFICE, "qas": [ASKED]}]}]),
        ),
        ("a.json", json.dumps({"data": [{"context": OFFICE, "qas": [ASKED]}]})),
        (None, [{"context": OFFICE, "qas": [ASKED]}]),
        (None, pandas.DataFrame([ROW | {"answers": ASKED["answers"], "is_impossible": None}])),
        (None, [ROW | {"answers": {"text": np.array(["9:00"]), "answer_start": np.array([20])}}]),
    ],
)
def test_reads_tables_and_rows_with_several_questions(tmp_path, name, content):
    if name:
        (tmp_path / name).write_text(content)
    examples = read_squad(tmp_path / name if name else content)
    assert examples.pairs == [("When?", OFFICE)] and examples.answers == [[("9:00", 20)]]
    assert (examples.read_with is None) == (name is None)


def test_questions_without_an_answer_in_a_table(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(f"question,context,answer\nWhen?,{OFFICE},9:00\nWho?,{OFFICE},\n")
    assert read_squad(path).is_impossible == [False, True]
    path.write_text(f"question,context,answer\nHow many?,{OFFICE},0\n")
    with pytest.raises(InputError, match="line 2.*'0' occurs 3 times in the context. Write"):
        read_squad(path)
    path.write_text(f"question,text,answer\nWhen?,{OFFICE},9:00\n")
    with pytest.raises(InputError, match="no column named 'context'"):
        read_squad(path)
