"""The wheel in a new environment, outside of the checkout: all commands of a first hour."""

import zipfile
from email.parser import Parser

import pytest

from keras_bert_impl.utils.version import __version__
from tests.packaging import environment

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("outside")


@pytest.fixture(scope="module")
def keras_bert(build_folder, folder):
    programs = environment.installed(build_folder)

    def run(*arguments):
        process = environment.run(programs / "keras-bert", *arguments, cwd=folder)
        assert process.returncode == 0, process.stderr[-2000:]
        return process.stdout

    run.program = programs / "keras-bert"
    return run


def test_holds_the_package_and_nothing_else(build_folder):
    names = zipfile.ZipFile(environment.wheel(build_folder)).namelist()
    package = environment.ROOT / "keras_bert_impl"
    files = [path for path in package.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    ours = {str(path.relative_to(environment.ROOT)) for path in files}
    assert {name for name in names if ".dist-info/" not in name} == ours


def test_metadata(build_folder):
    with zipfile.ZipFile(environment.wheel(build_folder)) as archive:
        name = next(name for name in archive.namelist() if name.endswith("/METADATA"))
        metadata = Parser().parsestr(archive.read(name).decode())
    assert (metadata["Name"], metadata["Version"]) == ("keras-bert-impl", __version__)
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert metadata["License-File"] == "LICENSE"
    text = (environment.ROOT / "DESCRIPTION.md").read_text(encoding="utf-8")
    assert metadata.get_payload().strip() == text.strip()


def test_dependencies_agree(build_folder):
    process = environment.run(environment.installed(build_folder) / "pip", "check")
    assert process.stdout == "No broken requirements found.\n", process.stdout


def test_version_and_models(keras_bert):
    assert keras_bert("--version") == f"keras-bert {__version__}\n"
    assert "bert-base-uncased" in keras_bert("models")


def test_from_text_to_a_request(keras_bert, folder):
    documents = [f"It is list {n}.\nArray {n} has a shape.\n\n" for n in range(200)]
    (folder / "corpus.txt").write_text("".join(documents))
    keras_bert("vocab", "corpus.txt", "--out", "tokenizer", "--size", "300")
    keras_bert("prepare", "corpus.txt", "--tokenizer", "tokenizer", "--out", "records")
    size = ["--model", "bert_uncased_L-2_H-128_A-2", "--total-steps", "4", "--batch-size", "2"]
    keras_bert("pretrain", "records", "--out", "pretrained", *size)
    rows = [f"{text},{label}\n" for text, label in (("it is a list", "a"), ("the array", "b")) * 8]
    (folder / "train.csv").write_text("text,label\n" + "".join(rows))
    table = ["--train", "train.csv", "--dev", "train.csv", "--text", "text", "--label", "label"]
    keras_bert("finetune", "--model", "pretrained/model", *table, "--out", "run", "--epochs", "1")
    keras_bert("export", "--model", "run", "--out", "models/small")
    command = keras_bert.program, "serve", folder / "models" / "small"
    assert environment.ask(command, "it is a list")["label"] in ("a", "b")
