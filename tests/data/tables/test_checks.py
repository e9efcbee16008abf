"""Checks of a table before training, with counts by hand."""

import json
import subprocess
import sys

import pytest

from keras_bert_impl.cli.main import main
from keras_bert_impl.data.questions import QuestionExamples
from keras_bert_impl.data.tables import checks
from keras_bert_impl.data.tables.examples import Examples
from keras_bert_impl.data.tables.layout import count_reasons
from keras_bert_impl.data.tables.token_lengths import count_tokens
from keras_bert_impl.data.tags.examples import TaggedExamples
from keras_bert_impl.tasks import ChoiceExamples
from keras_bert_impl.tasks.names import max_length_of
from keras_bert_impl.tasks.registry import task_of
from keras_bert_impl.tasks.tagging.token_classifier import TokenClassifier
from keras_bert_impl.utils.errors import InputError
from tests.tasks.helpers import encoder, tokenizer
from tests.tasks.squad_files import document, question, write

ROWS = [
    "id;text;label",
    "1;costs 5 €;good",
    "2;<b>bold</b> words here;Good",
    "3;;good",
    "4;costs 5 € ;bad",
    '5;"a&nbsp;b";bad',
    "6;too;many;cells",
    "7;Costs 5 €;good",
    "8;;bad",
]


@pytest.fixture
def table(tmp_path):
    (tmp_path / "train.csv").write_text("\n".join(ROWS) + "\n", encoding="cp1252")
    (tmp_path / "dev.csv").write_text("text,label\nCOSTS 5 €,good\nnew,bad\n", encoding="utf-8")
    return tmp_path / "train.csv"


def test_numbers_of_a_dirty_table(table, capsys):
    columns = ["--text", "text", "--label", "label", "--json"]
    assert main(["check", str(table), *columns]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out) == {
        "file": str(table),
        "encoding": "cp1252",
        "delimiter": ";",
        "columns": ["id", "text", "label"],
        "rows": 8,
        "usable": 5,
        "skipped": {
            "the text in column 'text' is empty.": 2,
            "4 columns, expected 3 ('id', 'text', 'label').": 1,
        },
        "classes": {"good": 2, "bad": 2, "Good": 1},
        "similar_labels": [["good", "Good"]],
        "repeated": 2,
        "repeated_with_other_label": 1,
        "words": {"50": 3, "90": 3, "99": 3, "max": 3},
        "html": 2,
        "in_both": None,
        "warnings": ["'Good' has one training example. Add some, or merge classes."],
    }
    assert "--encoding cp1252" in err


def test_at_most_ten_lines_and_a_leak(table, capsys):
    table.write_text(table.read_text(encoding="cp1252"), encoding="utf-8")
    arguments = [str(table), "--dev", str(table.with_name("dev.csv")), "--text", "text"]
    assert main(["check", *arguments, "--label", "label"]) == 0
    lines = capsys.readouterr().out.splitlines()
    numbers = [line for line in lines if not line.startswith("warning: ")]
    assert len(numbers) <= 10
    assert numbers[-1] == "leak: 1 validation texts are also in the training set"
    assert "rows: 8, of which 5 can be used" in lines
    assert "labels that differ in their spelling only: good 2, Good 1" in lines


def test_labels_are_optional_and_data_sets_are_not_read(table, capsys):
    assert main(["check", str(table), "--text", "text"]) == 0
    output = capsys.readouterr()
    assert "classes: good 2" in output.out and "label: column 'label'" in output.err
    table.write_text(table.read_text("cp1252").replace("text;label", "body;mood"), "cp1252")
    assert main(["check", str(table), "--text", "body"]) == 0
    assert "classes" not in capsys.readouterr().out
    assert main(["check", str(table), "--task", "mrpc"]) == 2
    assert "reads only files" in capsys.readouterr().err
    assert main(["check", str(table)]) == 2
    assert "The columns of" in capsys.readouterr().err


# Counted by hand: words, entities, an I that starts an entity, a repeated sentence, a bad row.
CONLL = """Ann B-PER
Lee I-PER
left O

Oslo I-LOC
is O
cold O

OSLO B-LOC
is O
cold O

bad

Bob B-per
"""


def test_labeled_words(tmp_path, capsys):
    path, dev = tmp_path / "train.conll", tmp_path / "dev.conll"
    path.write_text(CONLL)
    dev.write_text("ann B-PER\nlee I-PER\nleft O\n\nnew O\n")
    assert main(["check", str(path), "--task", "tagging", "--dev", str(dev), "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["rows"] == 5 and summary["usable"] == 4
    assert summary["skipped"] == {"1 columns, but the first row has 2.": 1}
    assert summary["entities"] == {"LOC": 2, "PER": 1, "per": 1}
    assert summary["similar_labels"] == [["PER", "per"]]
    assert (summary["label_scheme"], summary["invalid_entities"]) == ("IOB2", 1)
    assert summary["first_invalid_entity"] == f"{path}, line 5"
    assert (summary["repeated"], summary["repeated_with_other_label"]) == (1, 1)
    assert summary["in_both"] == 1 and summary["words"]["max"] == 3
    assert main(["check", str(path), "--task", "tagging", "--dev", str(dev)]) == 0
    lines = capsys.readouterr().out.splitlines()
    place = f"1 invalid entities, the first in {path}, line 5"
    assert f"label scheme: IOB2, {place}" in lines


def test_questions(tmp_path, capsys):
    questions = [
        question("a"),
        *(question(f"b{n}", [("Oslo", n)]) for n in range(12)),
        question("a"),
        question("d", [], is_impossible=True),
        question("e", [("Monday", 29)], question="  "),
    ]
    path = write(tmp_path / "train.json", document(*questions))
    unseen = document(question("z", [("Rome", 0)]), context="Rome is old.")
    dev = write(tmp_path / "dev.json", {"data": document(question("y"))["data"] + unseen["data"]})
    assert main(["check", str(path), "--task", "squad", "--dev", str(dev), "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["skipped"] == {
        "the answer ... is not at character ... of the context. Found: ...; the answer does not "
        "occur.": 12,
        "the question at data[...].paragraphs[...].qas[...] has the same id.": 1,
        "the question must be a non-empty string. Received: ...": 1,
    }
    assert summary["questions"] == {"with an answer": 1, "without": 1} and summary["contexts"] == 1
    assert (summary["repeated"], summary["repeated_with_other_label"]) == (1, 1)
    assert summary["in_both"] == 1 and summary["words"]["max"] == 15
    assert main(["check", str(path), "--task", "squad", "--dev", str(dev)]) == 0
    leak = "leak: contexts of 1 validation questions are also in the training set"
    assert leak in capsys.readouterr().out.splitlines()


def test_tokens_are_those_of_the_model(tmp_path, capsys):
    tagger = TokenClassifier(encoder(use_pooler=False), tokenizer(), labels=["O", "B-PER"])
    tagger.save_pretrained(tmp_path / "run" / "model")
    path = tmp_path / "train.conll"
    path.write_text("good O\nfilm O\n\n" + "bad O\n" * 9)
    inputs = [str(path), "--task", "tagging", "--model", str(tmp_path / "run"), "--max-length", "8"]
    assert main(["check", *inputs, "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    lengths = [len(row) + 2 for row in tokenizer().tokenize(["good film", "bad " * 9]).to_list()]
    assert summary["tokens"] == {
        "50": max(lengths),
        "90": max(lengths),
        "99": max(lengths),
        "max": 11,
    }
    assert summary["split"] == 0.5 and summary["max_length"] == 8
    assert main(["check", *inputs]) == 0
    assert "max_length is 8, 50.0% are split into windows" in capsys.readouterr().out
    (tmp_path / "run" / "model" / "tokenizer.json").unlink()
    assert main(["check", *inputs]) == 0
    out, err = capsys.readouterr()
    assert "tokens:" not in out and "lengths are in words only" in err


def test_default_lengths_are_those_of_the_models():
    tagger = TokenClassifier(encoder(use_pooler=False), tokenizer(), labels=["O", "B-PER"])
    assert max_length_of("tagging") == (128, True) and max_length_of("squad") == (384, True)
    assert max_length_of(None) == max_length_of("choice") == (128, False)
    assert tagger.max_length == min(128, tagger.config.max_length) and tagger.splits_texts


def test_pairs_and_prompts(tmp_path, capsys):
    pairs, choices = tmp_path / "pairs.tsv", tmp_path / "choices.jsonl"
    pairs.write_text("a\tb\tscore\ngood film\tgood\t1.5\nbad\tfilm\t2\n")
    columns = ["--text", "a", "--pair", "b", "--label", "score"]
    assert main(["check", str(pairs), "--task", "similarity", *columns, "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["delimiter"] == "\t" and summary["words"]["max"] == 2  # each text by itself
    choices.write_text('{"prompt": "I am", "endings": ["here", "not here"], "answer": 0}\n')
    assert main(["check", str(choices), "--task", "choice"]) == 0
    assert "endings: 2 each 1" in capsys.readouterr().out


def _modules_of(*arguments):
    code = "import sys; from keras_bert_impl.cli.main import main; status = main(sys.argv[1:]); "
    code += "sys.exit(10 if 'tensorflow' in sys.modules else status)"
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


def test_tensorflow_is_not_imported_by_the_check_nor_before_an_error_of_a_row(table):
    columns = ["--text", "text", "--label", "label", "--encoding", "cp1252"]
    assert _modules_of("check", table, *columns).returncode == 0
    words = table.with_name("words.conll")
    words.write_text(CONLL)
    assert _modules_of("check", words, "--task", "tagging").returncode == 0
    files = ["--train", words, "--dev", words, "--task", "tagging", "--out", table.parent / "run"]
    process = _modules_of("finetune", "--model", table.parent, *files)
    assert process.returncode == 2 and "words.conll, line 13: 1 columns" in process.stderr
    arguments = ["--model", table.parent, "--train", table, "--dev-split", "0.5", "--out"]
    process = _modules_of("finetune", *arguments, table.parent / "run", *columns)
    assert (
        process.returncode == 2 and "line 4: the text in column 'text' is empty" in process.stderr
    )
    assert "--skip-bad-rows" in process.stderr


@pytest.mark.parametrize(
    ("text", "has_html"),
    [("a <br/> b", 1), ("5 < 6 > 4", 0), ("AT&T &amp; co", 1), ("a <abc> b", 0), ("<3", 0)],
)
def test_html(text, has_html):
    assert checks.count_html([text, ("plain", "text")]) == has_html
    assert checks.count_html([("plain", text)]) == has_html


def test_advice_for_a_run():
    data = Examples(["a", "A ", "<p>b</p>", "c"], ["x", "y", "X", "y"])
    labels, repeated, html = checks.advice(data)
    assert labels == "classes differ in their spelling only: 'x' 1, 'X' 1. Use one spelling."
    names = ["1", "01", "1.0", "-1", "café", "cafe\u0301", "x", "x\u200b", "y"]
    assert checks.similar_labels(names) == [names[:3], names[4:6], names[6:8]]
    assert repeated.startswith("1 duplicate texts") and html.startswith("1 texts have HTML")
    assert checks.advice(Examples(["a", "b"], ["x", "y"])) == []
    words = TaggedExamples([["a", "b", "c"]], [["B-X", "O", "I-X"]], ["O", "B-X", "I-X"])
    (invalid,) = checks.advice(words)
    place = "the first in examples, sentence 0, word 2"
    assert invalid == f"1 entities do not follow the scheme IOB2, {place}. Check them."


TEXTS = [f"film number {n}" for n in range(20)]
LABELS = ["a", "b"] * 10


ENTITIES = [f"he/O saw/O Oslo/B-LOC {n}/O".split() for n in range(20)]


def tagged(*rows):
    words, labels = zip(*(zip(*(token.split("/") for token in row)) for row in rows))
    return TaggedExamples(list(map(list, words)), list(map(list, labels)), ["B-LOC", "O"])


@pytest.mark.parametrize(
    "train, dev, remark",
    [
        (Examples(TEXTS, TEXTS), None, "the 20 examples have 20 different labels"),
        (Examples([f"{n} - 7" for n in range(20)], LABELS), None, "100% of the texts contain no"),
        (Examples(["same"] * 20, LABELS), None, "all texts are 'same'. Check the column."),
        (Examples([(t, "x") for t in TEXTS], LABELS), None, "the second texts of all pairs are"),
        (Examples([(t, t) for t in TEXTS], LABELS), None, "100% of the pairs are the same text"),
        (Examples(TEXTS, [3.5] * 20), None, "all labels are 3.5, so a model has nothing to learn."),
        (Examples(TEXTS, [[]] * 20, ["x", "y"]), None, "no text has a label."),
        (Examples(TEXTS, [["x"]] * 20, ["x", "y"]), None, "no example has the label 'y'."),
        (Examples(TEXTS, LABELS), Examples(["q"], ["c"]), "'c' occurs only in the validation set."),
        (Examples(TEXTS, LABELS), Examples(["q"], ["b"]), "'a' occurs only in the training set"),
        (tagged(*ENTITIES), tagged(["he/O"]), "the validation set contains no entity"),
        (tagged(*ENTITIES), tagged(*ENTITIES), None),
        (tagged(*ENTITIES[:1] * 20), None, "all texts are 'he saw Oslo 0'."),
        (Examples(TEXTS, ["c", *LABELS[1:]]), None, "'c' has one training example."),
        (Examples(TEXTS, ["nan", "a"] * 10), None, "'nan' may mean that the label is missing."),
        (
            Examples([f"'{text}'" for text in TEXTS], LABELS),
            None,
            "the texts are in quotes, such as",
        ),
        (
            Examples([f'"{t}" and "{t}"' for t in TEXTS[:5]] + TEXTS, LABELS + list("ababa")),
            None,
            None,
        ),
        (Examples(TEXTS, LABELS), Examples(TEXTS, LABELS), None),
        (Examples(["ok", "ж", "नमस्ते", "字"] * 5, LABELS), None, None),
        (Examples(TEXTS, [float(n) for n in range(20)]), None, None),
        (Examples([(t, f"{t}?") for t in TEXTS]), None, None),
        (QuestionExamples(["1"] * 20, TEXTS, ["one"] * 20, [[]] * 20, None, [""] * 20), None, None),
        (ChoiceExamples([(t, ["b", "c"]) for t in TEXTS], [0] * 20), None, None),
    ],
)
def test_remarks(train, dev, remark):
    remarks = checks.remarks(train, dev)
    assert any(sentence.startswith(remark) for sentence in remarks) if remark else remarks == []
    assert all(sentence.endswith(".") for sentence in remarks)


def test_nothing_to_learn_is_refused():
    for labels, names in (([3.5] * 20, None), ([[]] * 20, ["x", "y"])):
        with pytest.raises(InputError, match="examples: (all labels are 3.5|no text has a label)"):
            task_of(Examples(TEXTS, labels, names), Examples(TEXTS, labels, names))


def test_unknown_tokens_of_a_tokenizer(tmp_path):
    tokenizer().save_pretrained(tmp_path)
    good, hindi = [("good film",)] * 30, [("फिल्म कहानी",)] * 10
    assert count_tokens(tmp_path, good)[1:] == (0, [])
    counts = count_tokens(tmp_path, [*good, *hindi])
    ids = tokenizer().tokenize([text for (text,) in [*good, *hindi]]).flat_values.numpy()
    assert counts.unknown == pytest.approx((ids == tokenizer().unk_id).mean())
    assert set(counts.unknown_words) == {"फिल्म", "कहानी"}
    (remark,) = checks.about_unknown_tokens(counts.unknown, counts.unknown_words)
    assert "of the tokens are unknown to the tokenizer, such as 'फिल्म', 'कहानी'" in remark


def test_skipped_rows_are_counted_without_their_places():
    skipped = ["a.csv, line 3: the label is empty.", "a.csv, line 9: the label is empty.", "odd"]
    assert count_reasons(skipped) == {"the label is empty.": 2, "odd": 1}
    skipped = [f"a.csv, line {n}: not UTF-8 (byte {n}). Pass it." for n in (3, 7)]
    assert count_reasons(skipped) == {"not UTF-8. Pass it.": 2}
