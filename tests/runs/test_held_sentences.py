"""Runs of taggers and question answerers that hold out examples of one file, by the command line."""

import json

import pytest

from keras_bert_impl.cli.main import main
from keras_bert_impl.tasks import read_squad, read_tags
from tests.tasks.helpers import examples, save_base
from tests.tasks.squad_files import question


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    folder = tmp_path_factory.mktemp("base")
    save_base(folder)
    return folder


def words(folder):
    texts, _ = examples(30)
    sentences = ("".join(f"{word} O\n" for word in text.split()) for text in texts)
    starts = ("-DOCSTART- O\n\n" * (n % 5 == 0) for n in range(30))
    path = folder / "all.conll"
    path.write_text("first B-X\n\n" + "\n".join(map("".join, zip(starts, sentences))))
    return path


def questions(folder):
    path, rows = folder / "all.jsonl", []
    for number, text in enumerate(examples(12)[0]):
        rows += [question(f"{number}{n}", [("good", 0)], context=f"good {text}") for n in "ab"]
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "file_of", "read", "options"),
    [
        ("tagging", words, read_tags, ["--groups=document"]),
        ("squad", questions, read_squad, ["--max-question-length=8"]),
    ],
)
def test_a_later_run_is_scored_on_the_same_examples(
    task, file_of, read, options, base, tmp_path, capsys
):
    path, runs = file_of(tmp_path), [tmp_path / name for name in ("run", "later")]
    settings = ["--task", task, "--epochs=1", "--max-length=32", *options]
    common = ["finetune", f"--model={base}", f"--train={path}", *settings]
    assert main([*common, "--dev-split=0.3", f"--out={runs[0]}"]) == 0
    (held,) = runs[0].glob("dev.*")
    dev, whole = read(held), read(path)
    assert 0 < len(dev) < len(whole) / 2 and set(map(str, dev.texts)) < set(map(str, whole.texts))
    common = [argument for argument in common if not argument.startswith("--groups")]
    assert main([*common, f"--dev={runs[0]}", f"--out={runs[1]}"]) == 0
    first, later = (json.loads((run / "data.json").read_text()) for run in runs)
    assert first["dev"]["examples"] == later["dev"]["examples"] == len(dev)
    # The later run leaves the held-out examples of the first one out of its training set.
    assert later["summary"]["in_both"] == 0
    assert first["train"]["examples"] == later["train"]["examples"] == len(whole) - len(dev)
    capsys.readouterr()
    assert main(["evaluate", f"--model={runs[0]}", "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    scores = json.loads((runs[0] / "scores.json").read_text())
    assert again.items() <= scores.items()
    assert main(["evaluate", f"--model={runs[0]}", f"--dev={runs[0]}", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == again
