"""How command-line arguments select labeled examples; no model is built."""

import argparse
import json

import pytest

from keras_bert_impl.cli.examples import (
    add_examples,
    check_examples,
    read_examples,
    read_train_and_dev,
)
from keras_bert_impl.cli.main import main
from keras_bert_impl.tasks import AnchorExamples, read_glue
from keras_bert_impl.tasks.language_modeling.augmentation import write_examples
from keras_bert_impl.tasks.names import task_called
from keras_bert_impl.utils.errors import InputError


def parsed(*arguments):
    parser = argparse.ArgumentParser()
    add_examples(parser, is_training=True)
    return parser.parse_args(list(map(str, arguments)))


def read(*arguments, split="train"):
    return read_examples(parsed(*arguments), split)


@pytest.fixture
def glue(tmp_path):
    (tmp_path / "MRPC").mkdir()
    for split, row in (("train", "1\t1\t2\tA b.\tB a."), ("dev", "0\t3\t4\tC d.\tD c.")):
        header = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String"
        (tmp_path / "MRPC" / f"{split}.tsv").write_text(f"{header}\n{row}\n")
    return tmp_path


def test_reads_augmented_texts_instead_of_those_of_a_task(glue):
    train, augmented = read_glue("mrpc", glue, "train"), glue / "more.jsonl"
    write_examples(augmented, train, "text", "pair", "label")
    again = read("--task", "mrpc", "--data", glue, "--train", augmented)
    assert again.texts == train.texts and again.labels == ["equivalent"]
    assert (again.label_names, again.metrics) == (train.label_names, train.metrics)
    assert list(again.class_numbers(again.label_names)) == train.labels
    dev = read("--task", "mrpc", "--data", glue, "--train", augmented, split="dev")
    assert dev.texts == [("C d.", "D c.")]
    augmented.write_text('{"text": "a", "pair": "b", "label": "other"}\n')
    with pytest.raises(InputError, match="more.jsonl, line 1: label 'other' is not one of 'not_"):
        read("--task", "mrpc", "--data", glue, "--train", augmented)
    with pytest.raises(InputError, match="requires the folder of the task in --data"):
        read("--task", "mrpc", "--data", glue, "--dev", augmented)


def test_reads_several_files_of_each_task(tmp_path):
    (tmp_path / "a.conll").write_text("Ada B-PER\n\n")
    (tmp_path / "b.conll").write_text("Oslo B-LOC\n\n")
    files = tmp_path / "a.conll", tmp_path / "b.conll"
    examples = read("--task", "tagging", "--train", *files, "--dev", files[0])
    assert examples.texts == [["Ada"], ["Oslo"]] and examples.label_names == ["B-LOC", "B-PER"]
    assert examples.described()["file"] == list(map(str, files))
    for name, text in (("a.csv", "a,b"), ("b.csv", "c,d")):
        (tmp_path / name).write_text(f"text,pair\n{text}\n")
    files = tmp_path / "a.csv", tmp_path / "b.csv"
    options = "--dev", files[0], "--text", "text", "--pair", "pair"
    examples = read("--task", "similarity", "--train", *files, *options)
    assert type(examples) is AnchorExamples and examples.texts == [("a", "b"), ("c", "d")]


def test_rejects_labels_that_are_not_listed(tmp_path):
    table, words = tmp_path / "a.csv", tmp_path / "a.txt"
    table.write_text("text,label\nx,pos\ny,pso\n")
    words.write_text("en:a B-X\nen:b B-Y\n")
    files = ["--train", table, "--dev", table, "--text", "text", "--label", "label"]
    assert read(*files).labels == ["pos", "pso"]
    with pytest.raises(InputError, match="a.csv, line 3: label 'pso' is not one of 'pos', 'neg'"):
        read(*files, "--labels", "pos,neg")
    files = ["--task", "tagging", "--train", words, "--dev", words, "--word-prefix", "en:"]
    assert read(*files).texts == [["a", "b"]]
    with pytest.raises(InputError, match="a.txt, line 2: label 'B-Y' is not one of 'O', 'B-X'"):
        read(*files, "--labels", "O,B-X")
    words.write_text("sent;w;t;other\n1;a;B-X;x\n2;b;NADA;x\n")
    files = ["--task", "tagging", "--train", words, "--dev", words, "--delimiter", ";"]
    files += ["--text", "w", "--label", "t", "--sentence", "sent", "--outside", "NADA"]
    assert read(*files).labels == [["B-X"], ["O"]]
    with pytest.raises(InputError, match="--labels requires a table or --task tagging"):
        read("--task", "mrpc", "--data", tmp_path, "--labels", "a,b")


def test_similarity_without_labels_is_of_anchors(tmp_path):
    table = tmp_path / "a.csv"
    table.write_text("one,two,three,score\na,b,c,1\n")
    files = ["--task", "similarity", "--train", table, "--dev", table, "--text", "one"]
    pairs = read(*files, "--pair", "two")
    assert isinstance(pairs, AnchorExamples) and pairs.texts == [("a", "b")]
    threes = read(*files, "--pair", "two", "--negative", "three")
    assert threes.texts == [("a", "b", "c")] and threes.labels is None
    assert read(*files, "--pair", "two", "--label", "score").labels == [1.0]
    for columns, message in (
        (["--pair", "two", "--negative", "three", "--label", "score"], "Leave out --label"),
        (["--pair", "two", "--negative", "four"], "no column named 'four'"),
        ([], "the column of the second text is missing. Pass --pair"),
    ):
        with pytest.raises(InputError, match=message):
            read(*files, *columns)
    with pytest.raises(InputError, match="--negative needs --task similarity"):
        read(*files[2:], "--label", "score", "--negative", "three")


def test_one_table_is_split(tmp_path, capsys):
    table = tmp_path / "all.csv"
    table.write_text("text;label\n" + "".join(f"t{i};{'ab'[i % 2]}\n" for i in range(40)))

    def read_both(*options, seed=1):
        options = ["--train", table, "--text", "text", "--label", "label", *options]
        return read_train_and_dev(parsed(*options), seed)

    train, dev = read_both("--dev-split", 0.1)
    assert (len(train), len(dev)) == (36, 4) and sorted(dev.labels) == ["a", "a", "b", "b"]
    assert "held out 4 of 40 examples to score on, seed 1" in capsys.readouterr().err
    assert read_both("--dev-split", 0.1)[1] == dev != read_both("--dev-split", 0.1, seed=2)[1]
    with pytest.raises(InputError, match="leave out --dev and --data, or leave out --dev-split"):
        read_both("--dev-split", 0.1, "--dev", table)
    with pytest.raises(
        InputError, match="--dev is missing. Pass .*or --dev-split 0.1 instead of --dev"
    ):
        read_both()
    for share in ("0", "1", "ten"):
        with pytest.raises(SystemExit):
            read_both("--dev-split", share)


def test_names_may_contain_commas_and_spaces(tmp_path):
    table = tmp_path / "a.csv"
    table.write_text('text,label\nx,"legal, privacy"\ny,other\n')
    files = ["--train", table, "--dev", table, "--text", "text", "--label", "label"]
    assert read(*files, "--labels", '"legal, privacy", other').labels == ["legal, privacy", "other"]
    with pytest.raises(
        InputError, match="'legal, privacy' is not one of 'legal', 'privacy', 'other'"
    ):
        read(*files, "--labels", "legal, privacy,other")


def test_the_delimiter_of_a_table(tmp_path):
    table = tmp_path / "a.txt"
    table.write_text("text^label\nx^a\n")
    files = ["--train", table, "--dev", table, "--text", "text", "--label", "label"]
    assert read(*files, "--delimiter", "^").labels == ["a"]
    with pytest.raises(InputError, match="or pass --delimiter"):
        read(*files)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--task squad --delimiter ;", "--delimiter is not supported with --task squad"),
        ("--task tagging --pair b", "--pair is not supported with --task tagging"),
        ("--word-prefix en:", "--word-prefix is not supported with tables"),
        ("--language de", "--language is not supported with tables"),
        ("--task mrpc --data . --text a", "--text is not supported with --data"),
        ("--tfds a/b --regression", "--regression is not supported with --tfds"),
        ("--task similarity --label-separator |", "--label-separator is not supported with"),
        ("--text t --label t", "each column can only be used once. Received: --text t, --label t"),
    ],
)
def test_options_without_a_meaning_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        check_examples(parsed(*options.split()))


@pytest.mark.parametrize("options", ["--task xnli --data . --language de", "--text a --id b"])
def test_options_with_a_meaning_are_taken(options):
    check_examples(parsed(*options.split()))


def test_the_held_out_rows_of_a_run_are_a_file_to_score_on(tmp_path):
    (tmp_path / "dev.csv").write_text("text,label\na,b\n")
    options = ["--train", "t.csv", "--dev", str(tmp_path), "--text", "text", "--label", "label"]
    arguments = parsed(*options)
    check_examples(arguments)
    assert arguments.dev == str(tmp_path / "dev.csv")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--groups", "g"], "--groups requires --dev-split"),
        (["--dates", "d"], "--dates requires --dev-split"),
        (["--groups", "g", "--dates", "d", "--dev-split", "0.1"], "exclude each other"),
    ],
)
def test_columns_of_a_split_need_a_split(options, message):
    with pytest.raises(InputError, match=message):
        check_examples(parsed("--train", "t.csv", *options))


@pytest.mark.parametrize(
    ("header", "arguments", "line", "cells"),
    [
        ("text,label", "", "text: column 'text', label: column 'label'\n", "uv"),
        ("id,sentence,labels", "", "text: column 'sentence', label: column 'labels'\n", "vw"),
        ("sentence,text,label", "--text text", "label: column 'label'\n", "vw"),
        ("text,label,labels", "--label labels", "text: column 'text'\n", "uw"),
        ("body,label,text", "--text body --label label", "", "uv"),
    ],
)
def test_columns_with_a_usual_name_are_taken(header, arguments, line, cells, tmp_path, capsys):
    names = header.split(",")
    (tmp_path / "a.csv").write_text(f"{header}\n{','.join('uvw'[: len(names)])}\n")
    file = tmp_path / "a.csv"
    options = ["--train", file, "--dev", file, *arguments.split()]
    examples = read(*options)
    assert capsys.readouterr().err == line
    assert [*examples.texts, *examples.labels] == list(cells)


@pytest.mark.parametrize("header", ["sentence,text,label", "Text,Label", "text,label,labels"])
def test_columns_in_doubt_are_not_taken(header, tmp_path):
    (tmp_path / "a.csv").write_text(f"{header}\nu,v,w\n")
    with pytest.raises(InputError, match="--(text|label) is missing"):
        read("--train", tmp_path / "a.csv", "--dev", tmp_path / "a.csv")


@pytest.mark.parametrize(
    ("names", "task"),
    [
        ("ner NER token-classification token_classification", "tagging"),
        ("qa question-answering squad", "squad"),
        ("sts similarity", "similarity"),
        ("text-classification Sequence_Classification nli", None),
        ("SST-2 sst2 SST2", "sst2"),
        ("paws-x paws_x", "paws_x"),
    ],
)
def test_tasks_have_the_names_of_other_libraries(names, task):
    assert {task_called(name) for name in names.split()} == {task}
    assert task is None or parsed("--task", names.split()[0]).task == task


@pytest.mark.parametrize(
    ("name", "line", "task"),
    [
        ("a.jsonl", {"tokens": ["Ann"], "ner_tags": ["B-PER"]}, "tagging"),
        ("a.json", {"version": "2.0", "data": []}, "squad"),
        ("a.jsonl", {"question": "Who?", "context": "Ann.", "answers": {}}, "squad"),
        ("a.jsonl", {"prompt": "a", "endings": ["b", "c"], "answer": 0}, "choice"),
        ("a.conll", "Ann B-PER", "tagging"),
    ],
)
def test_files_of_another_task_name_it(name, line, task, tmp_path, capsys):
    path = tmp_path / name
    path.write_text(json.dumps(line) + "\n")
    assert main(["check", str(path)]) == 2
    assert f"--task {task}" in capsys.readouterr().err
