"""Checks of a table before training, with counts by hand."""

import json
import subprocess
import sys

import pytest

from keras_bert_impl.cli.main import main
from keras_bert_impl.tasks.data import checks
from keras_bert_impl.tasks.data.examples import Examples
from keras_bert_impl.tasks.data.layout import count_reasons

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
    }
    assert "--encoding cp1252" in err


def test_at_most_ten_lines_and_a_leak(table, capsys):
    table.write_text(table.read_text(encoding="cp1252"), encoding="utf-8")
    given = [str(table), "--dev", str(table.with_name("dev.csv")), "--text", "text"]
    assert main(["check", *given, "--label", "label"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 10
    assert lines[-1] == "leak: 1 validation texts are also in the training set"
    assert "rows: 8, of which 5 can be used" in lines
    assert "labels that differ in case or spaces only: good 2, Good 1" in lines


def test_labels_are_optional_and_tasks_are_not_read(table, capsys):
    assert main(["check", str(table), "--text", "text"]) == 0
    assert "classes" not in capsys.readouterr().out
    assert main(["check", str(table), "--task", "tagging"]) == 2
    assert "reads tables" in capsys.readouterr().err
    assert main(["check", str(table)]) == 2
    assert "The columns of" in capsys.readouterr().err


def _modules_of(*arguments):
    code = "import sys; from keras_bert_impl.cli.main import main; status = main(sys.argv[1:]); "
    code += "sys.exit(10 if 'tensorflow' in sys.modules else status)"
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


def test_tensorflow_is_not_imported_by_the_check_nor_before_an_error_of_a_row(table):
    columns = ["--text", "text", "--label", "label", "--encoding", "cp1252"]
    assert _modules_of("check", table, *columns).returncode == 0
    given = ["--model", table.parent, "--train", table, "--dev-split", "0.5", "--out"]
    found = _modules_of("finetune", *given, table.parent / "run", *columns)
    assert found.returncode == 2 and "line 4: the text in column 'text' is empty" in found.stderr
    assert "--skip-bad-rows" in found.stderr


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
    assert labels == "classes differ in case or spaces only: 'x' 1, 'X' 1. Write each in one way."
    assert repeated.startswith("1 texts repeat") and html.startswith("1 texts have HTML")
    assert checks.advice(Examples(["a", "b"], ["x", "y"])) == []


def test_skipped_rows_are_counted_without_their_places():
    skipped = ["a.csv, line 3: the label is empty.", "a.csv, line 9: the label is empty.", "odd"]
    assert count_reasons(skipped) == {"the label is empty.": 2, "odd": 1}
    skipped = [f"a.csv, line {n}: not UTF-8 (byte {n}). Pass it." for n in (3, 7)]
    assert count_reasons(skipped) == {"not UTF-8. Pass it.": 2}
