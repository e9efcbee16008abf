"""`~` in a path means the home directory, whatever the path is given to."""

import ast
import os
from pathlib import Path

import numpy as np
import pytest

import keras_bert_impl
from keras_bert_impl.cli.main import main
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.pretraining import prepare, read_documents
from keras_bert_impl.pretraining.examples.records import read_manifest, read_tokenizer
from keras_bert_impl.tasks import (
    FinetuneSettings,
    TextClassifier,
    finetune,
    load_tuned,
    read_choices,
    read_columns,
    read_table,
)
from keras_bert_impl.tasks.embedding.search import read_vectors
from keras_bert_impl.tasks.embedding.vectors import read_texts
from keras_bert_impl.tokenizers import Tokenizer
from keras_bert_impl.training.runs.run_directory import RunDirectory
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.io.files import absolute, claim, replace_directory, replace_file
from keras_bert_impl.utils.io.paths import expanded, local_path
from tests.tasks.helpers import classifier, encoder, examples, save_base, tokenizer

PACKAGE = Path(keras_bert_impl.__file__).parent


@pytest.fixture
def home(tmp_path, monkeypatch):
    """The home directory; at the end, the current directory must be empty."""
    (tmp_path / "here").mkdir()
    (tmp_path / "home").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    yield tmp_path / "home"
    assert not os.listdir(tmp_path / "here")


def test_other_values_stay(home):
    for value in (
        "hf://owner/name",
        "gs://bucket/~",
        "-",
        "a~b",
        "cost$",
        None,
        3,
    ):
        assert expanded(value) == value
    assert expanded("~/a") == str(home / "a") and local_path(Path("~/a")) == home / "a"


def test_unknown_users_and_variables_are_no_names_of_folders(home):
    for path in ("~nobody-of-this-name/x", "$HOME/x", Path("${HOME}/x")):
        with pytest.raises(InputError, match=r"(user does not exist|are not expanded). Write the"):
            with replace_directory(path):
                pass


@pytest.mark.parametrize("kind", [str, Path])
def test_what_is_written_is_read_again(home, kind):
    model = classifier()
    model.save_pretrained(kind("~/model"))
    for read in (TextClassifier.from_pretrained, load_tuned, Encoder.from_pretrained):
        read(kind("~/model"))
    Tokenizer.from_pretrained(kind("~/model"))
    encoder().save_pretrained(kind("~/encoder"))
    tokenizer().save_pretrained(kind("~/encoder"))
    model.export(kind("~/served"))
    assert (home / "served" / "saved_model.pb").is_file()
    assert {path.name for path in home.iterdir()} == {"model", "encoder", "served"}


def test_texts(home):
    (home / "a.csv").write_text("text,label\ngood,x\nbad,y\n")
    (home / "a.jsonl").write_text('{"prompt": "p", "endings": ["a", "b"], "answer": 1}\n')
    (home / "a.conll").write_text("good B-X\n\nbad O\n")
    (home / "a.txt").write_text("good\n")
    np.save(home / "v.npy", np.zeros((1, 2), "float32"))
    assert read_table("~/a.csv", text="text", label="label").texts == ["good", "bad"]
    assert len(read_choices("~/a.jsonl").texts) == 1
    assert len(read_columns("~/a.conll").texts) == 2
    assert [text.text for text in read_texts("~/a.txt")] == ["good"]
    assert [text.text for text in read_texts([Path("~/a.txt")])] == ["good"]
    assert len(list(read_documents("~/a.txt"))) == len(list(read_documents(["~/a.txt"]))) == 1
    assert read_vectors("~/v.npy").shape == (1, 2)


def test_runs_and_records(home):
    save_base(home / "base")
    data = examples(count=8)
    finetune("~/base", data, data, "~/run", epochs=1, max_length=16, verbose=0)
    assert (home / "run" / "model" / "config.json").is_file()
    assert FinetuneSettings(model="~/base", teacher="~/run").teacher == str(home / "run")
    load_tuned("~/run")
    RunDirectory("~/other", FinetuneSettings(model="~/base"))
    assert (home / "other" / "recipe.yaml").is_file()
    (home / "corpus.txt").write_text("\n\n".join(f"{text}." for text in examples(40)[0]))
    prepare("~/corpus.txt", "~/records", tokenizer(), length=16, objective="mlm", num_workers=1)
    assert read_manifest("~/records")["documents"]
    assert read_tokenizer("~/records").vocabulary_size == tokenizer().vocabulary_size


def test_files(home):
    with replace_file("~/a/file") as temporary:
        temporary.write_text("1")
    with replace_directory("~/b"):
        pass
    claim("~/c/lock").release()
    assert absolute("~/a") == home / "a"
    assert {path.name for path in home.iterdir()} == {"a", "b", "c"}


def test_commands(home):
    """A shell expands neither `--out=~/x` nor `key=~/x`."""
    save_base(home / "base")
    (home / "t.csv").write_text("text,label\n" + "good film,x\nbad film,y\n" * 4)
    data = ["--train=~/t.csv", "--dev=~/t.csv", "--text=text", "--label=label"]
    settings = ["--epochs=1", "--max-length=16", "--model=~/base"]
    assert main(["finetune", *data, "--out=~/run", *settings]) == 0
    table = ["--input=~/t.csv", "--text=text"]
    assert main(["predict", "--model=~/run", *table, "--out=~/p.csv"]) == 0
    assert main(["export", "--model=~/run", "--out=~/served"]) == 0
    assert {path.name for path in home.iterdir()} == {"base", "t.csv", "run", "p.csv", "served"}


READS = {"open", "Path", "isdir", "isfile", "exists", "abspath", "realpath", "lexists"}


def unexpanded(tree):
    """Parameters for users' paths that a function uses as they are: (function, line)."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef) or function.name.startswith("_"):
            continue
        arguments = [*function.args.args, *function.args.kwonlyargs]
        users = {
            arg.arg
            for arg in arguments
            if arg.annotation is not None and "str | " in (text := ast.unparse(arg.annotation))
            if "Path" in text
        }
        for node in ast.walk(function):
            if isinstance(node, ast.Assign) and isinstance(node.value, (ast.Call, ast.Tuple)):
                if {"expanded", "local_path", "absolute"} & set(names_in(node.value)):
                    users -= {name for target in node.targets for name in names_in(target)}
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Name):
                name = ast.unparse(node.func).rpartition(".")[2]
                if name in READS and node.args[0].id in users:
                    yield function.name, node.lineno


def names_in(tree):
    return [node.id for node in ast.walk(tree) if isinstance(node, ast.Name)]


def test_no_public_function_takes_a_path_as_it_is():
    problems = {
        f"{path.relative_to(PACKAGE)}:{line} {function}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if not path.is_relative_to(PACKAGE / "cli")  # its arguments are expanded by `Kind`
        for function, line in unexpanded(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert problems == set()


def test_the_search_finds_what_it_looks_for():
    text = "def f(path: str | Path): return Path(path)\ndef g(path: str | Path):\n path = local_path(path)\n open(path)"
    assert list(unexpanded(ast.parse(text))) == [("f", 1)]
