"""`keras-bert report` and `keras-bert look`: files written, and mistakes that a user makes."""

import json

import pytest

from keras_bert_impl.cli.main import main
from tests.reports import pages
from tests.tasks import helpers


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A finished run on tables, with a model that was not trained."""
    folder = tmp_path_factory.mktemp("run")
    model = helpers.classifier()
    model.save_pretrained(folder / "run" / "model")
    texts, labels = helpers.examples(20)
    rows = "".join(f"{text},{label}\n" for text, label in zip(texts, labels))
    (folder / "dev.csv").write_text(f"text,label\n{rows}")
    (folder / "run" / "recipe.yaml").write_text("model: base\nepochs: 1\ndtype: float32\n")
    (folder / "run" / "scores.json").write_text(json.dumps({"accuracy": 0.5}))
    return folder


def test_report_of_one_run(run, capsys, tmp_path):
    assert main(["report", str(run / "run")]) == 0
    captured = capsys.readouterr()
    assert captured.out == f"wrote {run / 'run' / 'report.html'}\n"
    assert "--dev FILE --text COLUMN --label COLUMN" in captured.err
    examples = ["--dev", str(run / "dev.csv"), "--text", "text", "--label", "label"]
    out = ["--out", str(tmp_path / "r.html"), "--pictures", str(tmp_path / "pictures")]
    assert main(["report", str(run / "run"), *examples, *out]) == 0
    page = pages.read(tmp_path / "r.html")
    assert "20 examples of" in page.sections["Scores"] and "Worst errors" in page.sections
    assert (tmp_path / "pictures" / "confusion.png").exists()


def test_report_of_two_runs(run, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["report", str(run / "run"), str(run / "run")]) == 0
    assert capsys.readouterr().out == "wrote comparison.html\n"
    assert "Comparison of 2 runs" in pages.read(tmp_path / "comparison.html").sections[""]


def test_report_of_a_set_of_runs(run, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name, accuracy in (("seed=1", 0.5), ("seed=2", 0.75), ("seed=3", 0.25)):
        folder = tmp_path / "set" / "runs" / name
        folder.mkdir(parents=True)
        (folder / "recipe.yaml").write_text(f"model: base\n{name.replace('=', ': ')}\n")
        (folder / "scores.json").write_text(json.dumps({"accuracy": accuracy}))
    assert main(["report", "set"]) == 0
    headings = pages.read(tmp_path / "set" / "comparison.html").tables["Scores"][0]
    assert headings == ["score", "seed=1", "seed=2", "seed=3"]
    (tmp_path / "set" / "scores.json").write_text(json.dumps({"best": "runs/seed=2"}))
    assert main(["report", "set", str(run / "run"), "--out", "all.html"]) == 0
    page = pages.read(tmp_path / "all.html")
    assert page.tables["Scores"][0] == ["score", "seed=2", "seed=1", "seed=3", "run"]
    assert page.tables["Scores"][1] == ["accuracy", "0.7500", "0.5000", "0.2500", "0.5000"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing"], "missing does not exist"),
        (["."], ". has no recipe.yaml"),
        (["{run}", "missing"], "missing does not exist"),
        (["{run}", "--dev", "missing.csv", "--text", "a", "--label", "b"], "missing.csv"),
        ([], "RUN is missing; write keras-bert report RUN"),
    ],
)
def test_report_of_something_else(run, arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["report", *(argument.format(run=run / "run") for argument in arguments)]) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_look_at_a_run_and_at_an_encoder(run, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    assert main(["look", str(run / "run"), "a good film", "dull plot", "--open"]) == 0
    assert capsys.readouterr().out == "wrote look.html\n"
    assert opened == [(tmp_path / "look.html").as_uri()]
    assert "Attribution" in pages.read(tmp_path / "look.html").sections
    helpers.save_base(tmp_path / "base")
    assert main(["look", str(tmp_path / "base"), "a good film", "--out", "b.html"]) == 0
    assert "TextEmbedder" in pages.read(tmp_path / "b.html").sections[""]
    helpers.save_masked_lm(tmp_path / "lm", helpers.tokenizer())
    assert main(["look", str(tmp_path / "lm"), "a good film", "--out", "c.html"]) == 0
    assert "Losses" in pages.read(tmp_path / "c.html").sections


@pytest.mark.parametrize(
    ("model", "text", "message"),
    [
        ("./missing", "a", "missing"),
        ("file", "a", "No model is named"),
        ("{run}", " ", "text is empty"),
    ],
)
def test_look_at_something_else(run, model, text, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    assert main(["look", model.format(run=run / "run"), text]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "look.html").exists()
