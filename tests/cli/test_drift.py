"""`keras-bert drift`: compares two files of texts."""

import json

import pytest

from keras_bert_impl.cli import main as cli
from keras_bert_impl.tasks import TokenClassifier
from keras_bert_impl.tokenizers import WordPieceTokenizer
from tests.tasks.helpers import WORDS, classifier, encoder

TOKENIZER = WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, "."])


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


def test_the_reference_is_read_as_the_run_read_it(folder, capsys):
    run_folder = folder / "ner"
    parts = encoder(vocabulary_size=TOKENIZER.vocabulary_size, use_pooler=False)
    labels = ["O", "B-X", "I-X"]
    tagger = TokenClassifier(parts, TOKENIZER, labels=labels, max_length=16)
    tagger.save_pretrained(run_folder / "model")
    words = ["good", "film", "bad"]
    (folder / "ner.txt").write_text("".join(f"{w} {t}\n" for w, t in zip(words, labels)) * 2 + "\n")
    (folder / "same.conll").write_text("good O\nfilm O\nbad O\n" * 2)
    options = {"task": "tagging", "train": str(folder / "ner.txt"), "dev": None}
    (run_folder / "recipe.yaml").write_text("dtype: float32\n")
    (run_folder / "data.json").write_text(json.dumps({"read_with": options}))
    served = ["--served", str(folder / "same.conll"), "--json"]
    assert cli.main(["drift", "--model", str(run_folder), *served]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {one["verdict"] for one in found.values()} == {"same"} and "entities" in found
    (folder / "words.jsonl").write_text('{"tokens": ["good", "film."]}\n{"tokens": ["bad"]}\n')
    for name, sentences in (
        ("same.conll", [words * 2]),
        ("words.jsonl", [["good", "film."], ["bad"]]),
    ):
        arguments = ["predict", "--model", str(run_folder), "--json", "--input", str(folder / name)]
        assert cli.main(arguments) == 0
        answers = map(json.loads, capsys.readouterr().out.splitlines())
        assert [answer["words"] for answer in answers] == sentences
