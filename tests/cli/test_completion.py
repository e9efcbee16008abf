"""The completion scripts, run by the shells."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from keras_bert_impl.cli import main as cli
from tests.cli import zsh

ROOT = Path(__file__).resolve().parents[2]
# Completes the words in argv, of which the last is being typed; prints the suggestions.
_COMPLETE = """
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
_keras_bert
printf '%s\\n' "${COMPREPLY[@]}"
"""


def complete(*words, folder="/"):
    program = cli.script("bash") + _COMPLETE
    command = ["bash", "-c", program, "bash", "keras-bert", *words]
    process = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    assert process.stderr == ""
    return [line for line in process.stdout.splitlines() if line]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["fin"], ["finetune"]),
        (["finetune", "--ep"], ["--epochs"]),
        (["finetune", "--epochs", ""], []),
        (["finetune", "--task", "mr"], ["mrpc"]),
        (["finetune", "--tuning", "lo"], ["lora"]),
        (["finetune", "--tuning", "=", "lo"], ["lora"]),  # bash splits --tuning=lo
        (["finetune", "--model", "bert-base-u"], ["bert-base-uncased"]),
        (["pretrain", "x", "--recipe", "electra"], ["electra_base", "electra_small"]),
        (["recipes", "bert_b"], ["bert_base"]),
        (["completion", "z"], ["zsh"]),
        (["help", "mer"], ["merge"]),
        (["xyzzy", ""], []),
    ],
)
def test_bash_completes(words, expected):
    assert complete(*words) == expected


def test_bash_completes_files_and_folders(tmp_path):
    (tmp_path / "corpus.txt").touch()
    (tmp_path / "corpora").mkdir()
    (tmp_path / "my texts").mkdir()
    assert complete("serve", "my", folder=tmp_path) == ["my texts"]
    assert complete("finetune", "--train", "corpu", folder=tmp_path) == ["corpus.txt"]
    assert sorted(complete("finetune", "--train", "corp", folder=tmp_path)) == [
        "corpora", "corpus.txt",
    ]  # fmt: skip
    assert complete("serve", "corp", folder=tmp_path) == ["corpora"]
    assert complete("finetune", "--teacher", "=", "corp", folder=tmp_path) == ["corpora"]
    assert complete("pretrain", "x", "--long-records", "corp", folder=tmp_path) == ["corpora"]
    assert complete("finetune", "--sweep", "corpus", folder=tmp_path) == ["corpus.txt"]


def test_every_command_and_option_is_offered():
    assert complete("") == ["help", *cli.COMMANDS]
    for command in ("finetune", "serve", "export"):
        _, parser = cli.load(command)
        options = {name for name in parser._option_string_actions if name.startswith("--")}
        assert options <= set(complete(command, "--"))


def test_printing_a_script_imports_no_tensorflow():
    code = (
        "import sys; from keras_bert_impl.cli.main import main\n"
        "assert main(['completion', 'bash']) == 0\n"
        "assert not {'tensorflow', 'keras', 'jax'} & set(sys.modules)"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert process.stdout == cli.script("bash")


@pytest.mark.skipif(not shutil.which("zsh"), reason="zsh is not installed")
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("fin", "finetune"),
        ("finetune --ep", "finetune --epochs"),
        ("finetune --tuning=lo", "finetune --tuning=lora"),
        ("finetune --train corpu", "finetune --train corpus.txt"),
        ("finetune --teacher ru", "finetune --teacher run/"),
        ("finetune --teacher=ru", "finetune --teacher=run"),
        ("serve xyzzy", "serve xyzzy"),
    ],
)
def test_zsh_completes(line, expected, tmp_path):
    (tmp_path / "corpus.txt").touch()
    (tmp_path / "run").mkdir()
    completion = zsh.completed(cli.script("zsh"), f"keras-bert {line}", tmp_path)
    assert completion.rstrip() == f"keras-bert {expected}"
