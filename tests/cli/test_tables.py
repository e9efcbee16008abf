"""Tables of people on the command line: no header, columns of 0 and 1, standard input, ASCII."""

import io
import sys

import pytest

from keras_bert_impl.cli import main as cli
from tests.tasks.helpers import classifier


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    classifier().save_pretrained(folder / "model")
    classifier(labels=["😀 joy", "größe"]).save_pretrained(folder / "emoji")
    classifier(labels=["LABEL_0", "LABEL_1"]).save_pretrained(folder / "unnamed")
    (folder / "texts.txt").write_text("good film\nbad film\n")
    (folder / "sms").write_text(
        "".join(f"ham\tgood film {n}\nspam\tbad film {n}\n" for n in range(10))
    )
    rows = [f"good film {n},{n % 2},{n % 3 % 2}\n" for n in range(20)]
    (folder / "toxic.csv").write_text("text,toxic,insult\n" + "".join(rows))
    (folder / "numbers.csv").write_text("text,label\ngood film,0\nbad film,1\n")
    return folder


def run(command, *arguments):
    return cli.main([command, *map(str, arguments)])


def test_a_table_without_a_header(folder, tmp_path, capsys):
    form = ("--no-header", "--delimiter", "tab")
    columns = ("--text", 1, "--label", 0)
    data = ("--train", folder / "sms", "--dev-split", 0.4, *columns)
    model = ("--model", folder / "model", "--out", tmp_path / "run", "--epochs", 1)
    assert run("finetune", *model, *data, "--delimiter", "tab") == 2
    assert "If the first line is not a header, pass --no-header" in capsys.readouterr().err
    assert run("finetune", *model, *data, *form) == 0
    assert run("evaluate", "--model", tmp_path / "run") == 0
    assert run("evaluate", "--model", tmp_path / "run", "--dev", folder / "sms") == 0
    out = tmp_path / "predicted.tsv"
    predict = ("--model", tmp_path / "run", "--input", folder / "sms", *form)
    assert run("predict", *predict, "--text", 1, "--out", out) == 0
    lines = out.read_text().splitlines()
    assert lines[0].split("\t")[:3] == ["0", "1", "label"] and len(lines) == 21
    assert lines[1].startswith("ham\tgood film 0\t")


def test_a_column_of_0_and_1_for_each_label(folder, tmp_path, capsys):
    data = ("--train", folder / "toxic.csv", "--dev-split", 0.4, "--text", "text")
    model = ("--model", folder / "model", "--out", tmp_path / "run", "--epochs", 1)
    assert run("finetune", *model, *data, "--label", "toxic,threat") == 2
    assert "no column named 'threat'" in capsys.readouterr().err
    assert run("finetune", *model, *data, "--label", "toxic,insult") == 0
    assert "micro_f1" in capsys.readouterr().out
    assert run("evaluate", "--model", tmp_path / "run", "--dev", folder / "toxic.csv") == 0
    assert "micro_f1" in capsys.readouterr().out


def test_numbers_score_a_model_without_names_of_classes(folder, capsys):
    data = ("--dev", folder / "numbers.csv", "--text", "text", "--label", "label")
    assert run("evaluate", "--model", folder / "unnamed", *data) == 0
    assert "accuracy" in capsys.readouterr().out


@pytest.mark.parametrize(
    "table, suffix",
    [
        ('{"text": "good film", "id": 1}\n{"text": "bad film", "id": 2}\n', ".jsonl"),
        ('[\n{"text": "good film"}]\n', None),
        ('[{"text": "good film"}]\n', ".json"),
        ("text\tid\ngood film\t1\nbad film\t2\n", ".tsv"),
        ("id;text\n1;good film\n2;bad film\n", ".csv"),
        ("good film\nbad film; text\n", None),
        ("a\ttab\n", None),
        ("Bad, text\nfilm\n", None),
        ("", None),
    ],
)
@pytest.mark.parametrize("is_piped", [False, True])
def test_a_table_is_not_classified_line_by_line(
    folder, tmp_path, capsys, monkeypatch, table, suffix, is_piped
):
    path = tmp_path / "a.txt"
    path.write_text(table)
    if is_piped:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(table.encode())))
        path = "-"
    status = run("predict", "--model", folder / "model", "--input", path)
    out, err = capsys.readouterr()
    if suffix:
        assert status == 2 and not out
        assert f"ends in {suffix}, and pass" in err and ("standard input" in err) == is_piped
    else:
        assert len(out.splitlines()) == table.count("\n")


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_an_emoji_in_a_label_where_output_is_ascii(folder, monkeypatch, options):
    buffer = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(buffer, "ascii", write_through=True))
    model = ("--model", folder / "emoji", "--input", folder / "texts.txt")
    assert run("predict", *model, *options) == 0
    lines = buffer.getvalue().decode("ascii").splitlines()
    assert len(lines) == 2 and all(r"\ud83d\ude00 joy" in line for line in lines if "joy" in line)
    assert all(r"\ud83d\ude00" in line or r"gr\u00f6\u00dfe" in line for line in lines)
