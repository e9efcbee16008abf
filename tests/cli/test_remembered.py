"""Options of a run that later commands need not repeat."""

import argparse
import json

import pytest

from keras_bert_impl.cli.examples import add_examples
from keras_bert_impl.cli.main import main
from keras_bert_impl.cli.remembered import (
    form_of_run,
    has_data,
    options_of,
    read_options,
    with_columns,
    with_data,
)
from keras_bert_impl.utils.errors import InputError


def parsed(*arguments, is_training=False):
    parser = argparse.ArgumentParser()
    add_examples(parser, is_training)
    return parser.parse_args(map(str, arguments))


def remembered(*arguments):
    options = options_of(parsed(*arguments, is_training=True), seed=3)
    return json.loads(json.dumps(options))  # as in `data.json`


TABLE = ["--text", "review", "--label", "stars", "--delimiter", ";"]


def test_the_data_of_the_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dev.csv").write_text("")
    options = remembered("--train", "train.csv", "--dev", "dev.csv", *TABLE)
    monkeypatch.chdir("/")
    assert not has_data(parsed())
    arguments = with_data(parsed(), options, "run")
    assert arguments.dev == str(tmp_path / "dev.csv") and not hasattr(arguments, "train")
    assert (arguments.text, arguments.label, arguments.delimiter) == ("review", "stars", ";")
    (tmp_path / "dev.csv").unlink()
    with pytest.raises(InputError, match="dev.csv, on which run was scored, does not exist"):
        with_data(parsed(), options, "run")


def test_a_held_out_share_of_the_training_file():
    arguments = with_data(parsed(), remembered("--train", "all.csv", "--dev-split", "0.25"), "run")
    assert (arguments.dev, arguments.dev_split, arguments.seed) == ("all.csv", 0.25, 3)


def test_a_language_is_remembered():
    options = remembered("--task", "xnli", "--data", "xnli", "--language", "de")
    assert with_data(parsed(), options, "run").language == "de"
    assert with_data(parsed("--language", "fr"), options, "run").language == "fr"


def test_a_column_that_another_file_lacks(tmp_path, capsys):
    run, dev = tmp_path / "run", tmp_path / "new.csv"
    run.mkdir()
    options = remembered("--train", "train.csv", "--dev", "dev.csv", *TABLE)
    (run / "data.json").write_text(json.dumps({"read_with": options}))
    dev.write_text("text;stars\ngood;5\n")
    assert main(["evaluate", "--model", str(run), "--dev", str(dev)]) == 2
    # The run has no model: the columns are checked before it is read.
    assert "new.csv: no column named 'review'. Found: 'text', 'stars'" in capsys.readouterr().err


def test_columns_for_another_file():
    options = remembered("--train", "train.csv", "--dev", "dev.csv", *TABLE)
    arguments = with_columns(parsed("--dev", "new.csv", "--label", "mood"), options)
    assert (arguments.dev, arguments.text, arguments.label) == ("new.csv", "review", "mood")
    assert arguments.delimiter == ";"
    # Neither a delimiter nor files for a table of another format.
    arguments = with_columns(parsed("--dev", "new.jsonl"), options)
    assert (arguments.text, arguments.delimiter, arguments.task) == ("review", None, None)


def test_columns_of_words_belong_to_one_kind_of_file():
    columns = "--task tagging --text w --label t --sentence s --outside 0 --labels 0,B-X".split()
    options = remembered("--train", "train.csv", "--dev", "dev.csv", *columns)
    arguments = with_columns(parsed("--dev", "new.csv"), options)
    assert (arguments.text, arguments.label, arguments.sentence, arguments.outside) == (
        "w",
        "t",
        "s",
        "0",
    )
    arguments = with_columns(parsed("--dev", "new.conllu"), options)
    assert (arguments.text, arguments.label, arguments.sentence, arguments.outside) == (
        None,
        None,
        None,
        "0",
    )
    assert arguments.labels == ["0", "B-X"]


def test_a_model_of_another_origin_has_no_options(tmp_path):
    assert read_options(tmp_path) == {}


def test_the_encoding_of_a_run_is_not_forced_on_utf8(tmp_path):
    new = tmp_path / "new.csv"
    options = {"train": "train.csv", "encoding": "cp1252", "delimiter": ";"}
    new.write_text("text;stars\ncafé €;5\n", encoding="cp1252")
    assert form_of_run(options, new) == {"encoding": "cp1252", "delimiter": ";"}
    new.write_text("text;stars\ncafé €;5\n", encoding="utf-8")
    assert form_of_run(options, new) == {"delimiter": ";"}
    assert form_of_run(options, tmp_path / "new.jsonl") is None
