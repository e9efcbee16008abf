"""Examples of several files as one set."""

import json

import pytest

from keras_bert_impl.data.questions import QuestionExamples, read_squad
from keras_bert_impl.data.tables.examples import Examples
from keras_bert_impl.data.tables.held_rows import copy_rows, held_out_files, write_held_out
from keras_bert_impl.data.tables.joining import join_examples
from keras_bert_impl.data.tables.splits import hold_out, same_text
from keras_bert_impl.data.tables.tables import read_table
from keras_bert_impl.data.tags.columns import read_columns
from keras_bert_impl.data.tags.examples import TaggedExamples
from keras_bert_impl.utils.errors import InputError


@pytest.fixture
def months(tmp_path):
    """Two tables in different formats; each file has rows 0 to 9, and text 3 is in both."""
    lines = ["id,body,tag"] + [f'o{n},"October {n}, €",{"ab"[n % 2]}' for n in range(10)]
    lines[4] = lines[4].replace("October 3, €", "the same")
    (tmp_path / "october.csv").write_bytes("\n".join(lines).encode("cp1252"))
    rows = [{"id": f"n{n}", "body": f"Nóvember {n}", "tag": "ab"[n % 2]} for n in range(10)]
    rows[3]["body"] = "The same "
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    (tmp_path / "november.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return tmp_path / "october.csv", tmp_path / "november.jsonl"


def read(months, **options):
    encodings = ("cp1252", None)
    return join_examples(
        [
            read_table(path, "body", label="tag", encoding=encoding, **options)
            for path, encoding in zip(months, encodings)
        ]
    )


def test_each_example_has_its_file_and_line(months):
    october, november = months
    joined = read(months, id="id")
    assert len(joined) == 20 and joined.texts[9:11] == ["October 9, €", "Nóvember 0"]
    assert joined.where(9) == f"{october}, line 11" and joined.where(10) == f"{november}, line 1"
    columns = joined.described()
    assert list(columns) == ["true_label", "file", "line", "id", "text"]
    assert columns["file"] == [str(october)] * 10 + [str(november)] * 10
    assert joined.source == f"{october}, {november}" and joined.read_with["dev"] == [
        str(october),
        str(november),
    ]
    assert joined.fingerprint == Examples(joined.texts, joined.labels).fingerprint


def test_equal_texts_of_two_files_stay_on_one_side(months):
    examples = read(months)
    for seed in range(20):
        train, dev = hold_out(examples, 0.2, seed)
        assert len(dev) == 4 and len(train.files) == 16
        assert not set(map(same_text, train.texts)) & set(map(same_text, dev.texts))


def test_the_held_out_rows_of_each_file_are_read_again(months, tmp_path):
    _, dev = hold_out(read(months), 0.5)
    run = tmp_path / "run"
    run.mkdir()
    written = write_held_out(dev, run, copy_rows)
    assert [path.name for path in written] == ["dev.1.csv", "dev.2.jsonl"]
    assert held_out_files(str(run)) == list(map(str, written))
    again = join_examples([read_table(path, "body", label="tag") for path in written])
    assert (again.texts, again.labels) == (dev.texts, dev.labels) and len(again) == 10


def test_ids_are_unique_across_files(months):
    october, november = months
    november.write_text(november.read_text("utf-8").replace("n5", "o2"), encoding="utf-8")
    with pytest.raises(InputError) as error:
        read(months, id="id")
    assert str(error.value) == (
        f"{november}, line 6: id 'o2' is already used in {october}, line 4. To skip such rows, pass "
        "--skip-bad-rows."
    )
    joined = read(months, id="id", skip_bad_rows=True)
    assert len(joined) == len(joined.files) == 19 and "id 'o2'" in joined.skipped[0]
    assert joined.ids.count("o2") == 1


def test_what_cannot_be_joined(months):
    october, november = months
    first = read_table(october, "body", label="tag", encoding="cp1252")
    with pytest.raises(InputError, match="october.csv is passed twice"):
        join_examples([first, first])
    message = "november.jsonl has no label per example, but .*october.csv has one label"
    with pytest.raises(InputError, match=message):
        join_examples([first, read_table(november, "body")])
    # In memory, sets have no names.
    assert len(join_examples([Examples(["a"], ["x"]), Examples(["b"], ["y"])])) == 2


def test_sentences_and_questions(tmp_path):
    (tmp_path / "a.conll").write_text("Ada B-PER\nwrote O\n\nHi O\n")
    (tmp_path / "b.conll").write_text("Rome B-LOC\n")
    joined = join_examples([read_columns(tmp_path / name) for name in ("a.conll", "b.conll")])
    assert joined.label_names == ["B-LOC", "B-PER", "O"]
    assert joined.where(2) == f"{tmp_path / 'b.conll'}, line 1" and len(joined) == 3
    row = {
        "id": "1",
        "question": "Who?",
        "context": "Ann came.",
        "answers": [{"text": "Ann", "answer_start": 0}],
    }
    none = row | {"id": "2", "answers": [], "is_impossible": True}
    for name, content in (("a.jsonl", row), ("b.jsonl", none)):
        (tmp_path / name).write_text(json.dumps(content))
    joined = join_examples([read_squad(tmp_path / name) for name in ("a.jsonl", "b.jsonl")])
    assert joined.is_impossible == [False, True] and joined.ids == ["1", "2"]
    (tmp_path / "b.jsonl").write_text(json.dumps(none | {"id": "1"}))
    with pytest.raises(InputError, match="b.jsonl, example 1: id '1' is already used in .*a.jsonl"):
        join_examples([read_squad(tmp_path / name) for name in ("a.jsonl", "b.jsonl")])


@pytest.mark.parametrize(
    "parts", ["train.csv", [], ["a.csv", "b.csv"], [Examples(["x"], ["a"]), (["y"], ["b"])]]
)
def test_only_examples_are_joined_and_split(parts):
    for function in (join_examples, lambda data: hold_out(data, 0.5)):
        with pytest.raises(InputError, match="expected examples from a reader"):
            function(parts)


def test_examples_of_two_kinds_are_not_joined():
    tagged = TaggedExamples([["Ann"]], [["B-PER"]])
    questions = QuestionExamples(["1"], ["Who?"], ["Ann."], [[("Ann", 0)]], None, [""])
    with pytest.raises(InputError, match="contains QuestionExamples, but .* contains Tagged"):
        join_examples(iter([tagged, questions]))
