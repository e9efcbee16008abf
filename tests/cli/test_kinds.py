"""Files, models and outputs are checked before TensorFlow is imported, for every command."""

import json
import os
import subprocess
import sys
from argparse import ArgumentParser
from pathlib import Path

import pytest

from keras_bert_impl.cli import common
from keras_bert_impl.cli import main as cli
from keras_bert_impl.training.strategy import STRATEGIES
from keras_bert_impl.utils.errors import InputError

ROOT = Path(__file__).resolve().parents[2]
MODEL = "bert-base-uncased"  # known by name, so that another argument is refused
_TRAIN = f"finetune --model {MODEL} --out {{}}/run --train {{}}/rows.csv --dev-split 0.1"
# What a command cannot use: a file, directory, model or column that does not exist, or an output
# below a file. `{}` is a folder with `file.txt` and `rows.csv`. All commands that read files.
COMMANDS = [
    (_TRAIN, "The columns of {}/rows.csv are 'Text', 'Label'."),
    (f"{_TRAIN} --text text --label Label", "rows.csv: no column named 'text'. Found: 'Text'"),
    (f"{_TRAIN} --text Text", "--label is missing. Pass "),
    (f"{_TRAIN} --task similarity --text Text --pair Pair", "no column named 'Pair'"),
    ("augment --model {} --train {}/rows.csv --out {}/more.jsonl --text a", "--label is missing"),
    ("predict --model {} --input {}/rows.csv --text text", "no column named 'text'"),
    ("finetune {}/gone {}/file.txt --dev-split .1 --out {}/run", "/gone' does not exist."),
    (f"finetune {MODEL} {{}}/gone.csv --dev-split .1 --out {{}}/run", "gone.csv does not exist"),
    (f"finetune --model {MODEL} --data {{}}/gone --task rte --out {{}}/run", "gone does not exist"),
    (f"finetune {MODEL} --data {{}} --out {{}}/file.txt/run", "file.txt is a file."),
    (f"finetune {MODEL} --data {{}} --adapt {{}}/gone --out {{}}/run", "gone does not exist"),
    (f"finetune {MODEL} --data {{}} --teacher {{}}/gone --out {{}}/run", "teacher="),
    (f"finetune {MODEL} --data {{}} --recipe {{}}/gone.yaml --out {{}}/run", "cannot read"),
    ("pretrain {}/gone --out {}/run", "records: "),
    ("pretrain {} --model bert-bse-uncased --out {}/run", "Did you mean"),
    ("pretrain {} --recipe {}/gone.yaml --out {}/run", "cannot read"),
    ("tokenizer-report {} --data {}/gone", "--data: "),
    ("clean {}/gone --out {}/clean.jsonl", "gone does not exist"),
    ("prepare {}/gone --tokenizer {} --out {}/records", "text: "),
    ("prepare {}/file.txt --tokenizer {}/gone --out {}/records", "--tokenizer: "),
    ("adapt {}/gone.txt --model {} --out {}/run", "gone.txt does not exist"),
    ("adapt {}/file.txt --model hf://one --out {}/run", "must have the form"),
    ("check {}/gone.csv --text a", "FILE: "),
    ("check {}/rows.csv --text text", "no column named 'text'"),
    ("vocab {}/gone --out {}/vocabulary", "gone does not exist"),
    ("vocab {}/file.txt --out {}/file.txt", "is a file; pass a directory to write"),
    ("augment --model {} --train {}/gone.csv --out {}/more.jsonl", "--train: "),
    ("augment --model {} --train {}/file.txt --out {}/more.csv", "must end in .jsonl"),
    ("student --teacher {}/gone --layers 2 --out {}/student", "--teacher: "),
    ("recipes gone", "there is no recipe 'gone'"),
    ("predict --model {}/gone --input {}/file.txt", "--model: "),
    ("evaluate --model {}/gone --dev {}/file.txt", "--model: "),
    ("evaluate --model {} --dev {}/gone.csv", "--dev: "),
    ("calibrate --model {} --dev {}/gone.csv", "--dev: "),
    ("report {}/gone", "RUN: "),
    ("look {}/gone text", "MODEL: "),
    ("drift --model {} --served {}/gone --reference {}/file.txt", "--served: "),
    ("drift --model {} --served {}/file.txt", "--reference FILE is missing"),
    ("predict --model {} --input {}/gone.txt", "--input: "),
    ("predict --model {} --input {}/file.txt --out {}/x.pdf", ".pdf"),
    ("fill-mask {}/gone [MASK]", "does not exist"),
    ("generate {}/gone text", "does not exist"),
    ("embed {}/gone --model {} --out {}/vectors.npy", "PATH: "),
    ("embed {}/file.txt --model {} --out {}", "is a directory; pass a file to write"),
    ("search query --model {} --vectors {}/gone.npy", "--vectors: "),
    ("export --model {}/gone --out {}/models", "--model: "),
    ("export --model {} --check {}/gone", "--check: "),
    ("export --model {} --out {}/x --format onnx --dtype float16", "--dtype requires --format"),
    ("convert --from {}/gone --to {}/model", "--from: "),
    ("convert --from {} --to {}/file.txt/x", "--to: "),
    ("merge --model {}/gone --out {}/merged", "--model: "),
    ("serve {}/gone", "/gone does not exist"),
    ("completion fish", "shell: there is no 'fish'"),
]
_WITHOUT_FILES = {"models", "doctor", "input-worker"}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "file.txt").write_text("a text\n")
    (tmp_path / "rows.csv").write_text("Text;Label\na text;good\n")
    return tmp_path


def test_no_command_imports_tensorflow_for_a_missing_file(folder):
    commands = [line.format(*[folder] * line.count("{}")).split() for line, _ in COMMANDS]
    code = (
        "import contextlib, io, json, sys; from keras_bert_impl.cli.main import main\n"
        f"for arguments in {commands!r}:\n"
        "    with contextlib.redirect_stderr(io.StringIO()) as stream: status = main(arguments)\n"
        "    loaded = sorted({'tensorflow', 'keras', 'jax'} & set(sys.modules))\n"
        "    print(json.dumps([status, stream.getvalue(), loaded]))"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    answers = [json.loads(line) for line in process.stdout.splitlines()]
    assert len(answers) == len(COMMANDS)
    for (line, message), (status, err, loaded) in zip(COMMANDS, answers):
        assert (status, loaded) == (2, []), (line, err)
        message = message.replace("{}", str(folder))
        assert err.count("\n") == 1 and err.startswith("keras-bert: ") and message in err, line
    assert sorted(path.name for path in folder.iterdir()) == ["file.txt", "rows.csv"]


def test_every_command_is_tried():
    assert {line.split()[0] for line, _ in COMMANDS} == cli.COMMANDS.keys() - _WITHOUT_FILES


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (common.MODEL, "bert-base-uncased"),
        (common.MODEL, "hf://google-bert/bert-base-uncased@main"),
        (common.MODEL, "kaggle://keras/bert/keras/bert_base_en/3"),
        (common.MODEL, "bert_tiny_en_uncased"),
        (common.MODEL, "{}"),
        (common.MODEL, "{}/bert_model.ckpt"),
        (common.PATH, "gs://bucket/corpus"),
        (common.PATH, "tfds://my_text:train?field=body"),
        (common.PATH, "-"),
        (common.PATH, "{}"),
        (common.FILE, "{}/file.txt"),
        (common.FOLDER, "{}"),
        (common.FOLDER, "gs://bucket/records"),
        (common.OUTPUT_DIRECTORY, "gs://bucket/records"),
        (common.OUTPUT_DIRECTORY, "{}/a/new/folder"),
        (common.OUTPUT_DIRECTORY, "{}"),
        (common.OUTPUT_FILE, "{}/new/file.npy"),
        (common.OUTPUT_FILE, "{}/file.txt"),
    ],
)
def test_what_can_be_used_is_accepted(kind, value, folder):
    (folder / "bert_model.ckpt.index").touch()
    parser = ArgumentParser()
    parser.add_argument("--value", type=kind, nargs="?", const=True)
    common.check_values(parser, parser.parse_args(["--value", value.format(folder)]))
    common.check_values(parser, parser.parse_args(["--value"]))
    common.check_values(parser, parser.parse_args([]))


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        (common.FILE, "{}/fil.txt", "--value: {}/fil.txt does not exist; did you mean 'file.txt'?"),
        (common.FILE, "{}", "--value: {} is a directory; pass a file."),
        (common.FOLDER, "{}/file.txt", "--value: {}/file.txt is a file; pass its folder."),
        (common.MODEL, "gs://bucket/model", "--value: No model is named 'gs://bucket/model'."),
        (common.OUTPUT_FILE, "{}/file.txt/x/y", "--value: {}/file.txt/x cannot be written: "),
    ],
)
def test_what_cannot_be_used_is_refused(kind, value, message, folder):
    parser = ArgumentParser()
    parser.add_argument("--value", type=kind)
    with pytest.raises(InputError) as error:
        common.check_values(parser, parser.parse_args(["--value", value.format(folder)]))
    assert str(error.value).startswith(message.format(folder))


def test_an_output_without_permission_is_refused(folder, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != folder)  # as for no root
    parser = ArgumentParser()
    parser.add_argument("--out", type=common.OUTPUT_DIRECTORY)
    with pytest.raises(InputError, match="--out: .* no permission to write in "):
        common.check_values(parser, parser.parse_args(["--out", str(folder / "run")]))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("{}/file.txt", "is the input; choose a different output"),
        ("{}/sub/../file.txt", "is the input; choose a different output"),
        ("{}/link.txt", "is the input; choose a different output"),
        ("{}/texts/out.txt", "is in {}/texts, an input folder; choose a different"),
    ],
)
def test_an_output_is_no_input(value, message, folder):
    for name in ("sub", "texts"):
        (folder / name).mkdir(exist_ok=True)
    if not (folder / "link.txt").exists():
        (folder / "link.txt").symlink_to(folder / "file.txt")
    parser = ArgumentParser()
    parser.add_argument("paths", type=common.PATH, nargs="+")
    parser.add_argument("--out", type=common.OUTPUT_FILE)
    inputs = [str(folder / "texts"), str(folder / "file.txt")]
    with pytest.raises(InputError) as error:
        common.check_values(parser, parser.parse_args([*inputs, "--out", value.format(folder)]))
    assert str(error.value).startswith(f"--out: {value} {message}".format(folder, folder))
    common.check_values(parser, parser.parse_args([*inputs, "--out", str(folder / "new.txt")]))


def test_with_tfds_splits_are_no_files():
    _, parser = cli.load("finetune")
    line = "--model bert-base-uncased --tfds my_reviews --train train --dev test --out run"
    common.check_values(parser, cli.parse(parser, line.split()))


def test_strategies_are_those_of_training():
    assert common.STRATEGIES == STRATEGIES


def test_forms_are_those_of_conversion():
    from keras_bert_impl.cli.models import FORMS
    from keras_bert_impl.models.conversion import formats

    assert FORMS == formats.FORMS
