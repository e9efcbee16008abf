"""`keras-bert models`: the table, its filter and JSON."""

import json

import pytest

from keras_bert_impl.checkpoints.published import MODELS
from keras_bert_impl.cli import main as cli


def names(capsys, *arguments):
    assert cli.main(["models", *arguments]) == 0
    _, *rows = capsys.readouterr().out.splitlines()
    return [row.split()[0] for row in rows]


def test_the_table_lists_all_models_within_100_columns(capsys):
    assert cli.main(["models"]) == 0
    header, *rows = capsys.readouterr().out.splitlines()
    assert len(rows) == len(MODELS)
    assert header.split()[:2] == ["name", "parameters"]
    assert rows[0].split()[:3] == ["bert-base-uncased", "109,482,240", "12"]
    assert max(map(len, [header, *rows])) <= 100


def test_wide_shows_every_column(capsys):
    assert cli.main(["models", "spanbert", "base", "--wide"]) == 0
    header, row = capsys.readouterr().out.splitlines()
    assert header.split()[-3:] == ["hub", "license", "paper"]
    assert "CC-BY-NC-4.0" in row and row.endswith("Joshi et al. 2020, arXiv:1907.10529")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["chinese", "large"], ["chinese-roberta-wwm-ext-large", "chinese-macbert-large"]),
        (["Small", "uncased"], ["electra-small-discriminator", "electra-small-generator"]),
        (["cased", "spanbert"], ["spanbert-base-cased", "spanbert-large-cased"]),
        (["bert-base-dutch"], ["bert-base-dutch-cased"]),
    ],
)
def test_all_words_of_a_filter_match(words, expected, capsys):
    assert names(capsys, *words) == expected


def test_a_tokenizer_or_architecture_is_a_filter(capsys):
    model_names = names(capsys, "SentencePiece")
    assert model_names == [
        name for name, model in MODELS.items() if model.tokenizer == "SentencePiece"
    ]
    assert "bert-base-uncased" not in names(capsys, "roberta")


def test_no_match_names_the_nearest(capsys):
    assert cli.main(["models", "bert", "base", "uncasd"]) == 1
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1
    assert err.startswith("keras-bert: no published model matches 'bert base uncasd'; the nearest")
    assert "bert-base-uncased" in err


def test_json_keeps_every_column(capsys):
    assert cli.main(["models", "--json"]) == 0
    models = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert list(models) == list(MODELS)
    # Published parameter counts.
    assert models["bert-base-uncased"]["parameters"] == 109_482_240
    assert models["bert_uncased_L-2_H-128_A-2"]["parameters"] == 4_385_920
    assert {"hub", "paper", "license", "heads"} <= models["bert-base-uncased"].keys()
