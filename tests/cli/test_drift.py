"""`keras-bert drift`: compares two files of texts."""

import json

import pytest

from keras_bert_impl.cli import main as cli
from tests.tasks.helpers import classifier


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("drift")
    classifier().save_pretrained(folder / "model")
    rows = [f"good film {number % 3}" for number in range(60)]
    (folder / "train.csv").write_text("\n".join(["review", *rows]) + "\n")
    rows = [f"{row} {row} {row}" for row in rows]
    (folder / "served.csv").write_text("\n".join(["review", *rows]) + "\n")
    return folder


def run(folder, *arguments):
    files = ["--model", folder / "model", "--reference", folder / "train.csv"]
    return cli.main(["drift", *map(str, files), *map(str, arguments)])


def test_prints_a_row_for_each_quantity(folder, capsys):
    assert run(folder, "--served", folder / "served.csv") == 0
    lines = capsys.readouterr().out.splitlines()
    names = [line.split()[0] for line in lines[1:]]
    assert lines[0].split() == ["reference", "served", "PSI", "p"]
    assert {"tokens", "unknown", "score", "label"} <= set(names)
    (tokens,) = (line for line in lines if line.startswith("tokens"))
    assert tokens.endswith("shifted far")


def test_check_fails_if_something_has_shifted(folder, capsys):
    assert run(folder, "--served", folder / "served.csv", "--check", "--json") == 2
    out, err = capsys.readouterr()
    assert json.loads(out)["tokens"]["verdict"] == "shifted far"
    assert err.startswith("keras-bert: tokens") and err.endswith("served.csv: shifted.\n")
    assert run(folder, "--served", folder / "train.csv", "--check") == 0


def test_an_empty_file(folder, capsys):
    (folder / "empty.txt").write_text("")
    assert run(folder, "--served", folder / "empty.txt") == 2
    assert "no texts" in capsys.readouterr().err
