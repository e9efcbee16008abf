"""The `keras-bert` command: help, errors, exit statuses."""

import errno
import os
import shlex
import subprocess
import sys
import types

import pytest

from keras_bert_impl.cli import main as cli
from keras_bert_impl.cli.parser import Command
from keras_bert_impl.utils.errors import InputError

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@pytest.fixture
def failing_command(monkeypatch):
    """A command `fail` that raises what the test puts into the list."""
    errors = []

    class Fail(Command):
        def run(self, arguments):
            raise errors[0]

    module = types.SimpleNamespace(Fail=Fail)
    monkeypatch.setitem(sys.modules, "keras_bert_impl.cli.fail", module)
    monkeypatch.setitem(cli.COMMANDS, "fail", ("fail.Fail", "raise an error"))
    return errors


@pytest.mark.parametrize("arguments", [[], ["--help"], ["help"], ["-h"]])
def test_the_overview_names_every_command(arguments, capsys):
    assert cli.main(arguments) == 0
    out = capsys.readouterr().out
    assert all(f"  {command} " in out for command in cli.COMMANDS)
    assert [title for title in cli.GROUPS if f"\n\n{title}:\n" in out] == list(cli.GROUPS)
    assert out.count("\n") <= 48 and max(map(len, out.splitlines())) <= 100


def test_closed_streams_are_no_error(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    assert cli.main(["--help"]) == 0


@pytest.mark.parametrize("command", sorted(cli.COMMANDS))
def test_help_fits_a_screen(command, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert cli.main([command, "--help"]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 100
    monkeypatch.setenv("COLUMNS", "80")
    assert cli.main([command, "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 40 and max(map(len, lines)) <= 80
    monkeypatch.setenv("COLUMNS", "70")
    assert cli.main([command, "--help"]) == 0
    narrow = capsys.readouterr().out.partition("\nexamples:")[0].splitlines()
    assert max(len(line) for line in narrow) <= 78  # the longest words are cut nowhere


@pytest.mark.parametrize("arguments", [["help", "finetune"], ["finetune", "-h"]])
def test_help_is_a_command_as_well(arguments, capsys):
    assert cli.main(["finetune", "--help"]) == 0
    expected = capsys.readouterr().out
    assert cli.main(arguments) == 0
    assert capsys.readouterr().out == expected


@pytest.mark.parametrize("command", sorted(cli.COMMANDS))
def test_every_argument_is_explained(command):
    _, parser = cli.load(command)
    for action in parser._actions:
        assert action.help and len(action.help) > 5, action
        if action.option_strings and action.nargs != 0:
            assert action.metavar or action.choices, action


@pytest.mark.parametrize("command", sorted(cli.COMMANDS))
def test_help_has_an_example(command, capsys):
    assert cli.main([command, "--help"]) == 0
    out = capsys.readouterr().out
    assert f"examples:\n  keras-bert {command}" in out and "--debug" in out


def test_help_imports_no_tensorflow():
    commands = [["--help"], *([command, "--help"] for command in cli.COMMANDS)]
    code = (
        "import sys; from keras_bert_impl.cli.main import main\n"
        f"for arguments in {commands!r}: assert main(arguments) == 0\n"
        "assert not {'tensorflow', 'keras', 'matplotlib', 'jax'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["modles"], "there is no command 'modles'; did you mean 'models'?"),
        (
            ["convert", "--from", "model", "--to", ""],
            "the value of to is empty; check that the shell variable",
        ),
        (
            ["cross-validate"],
            "there is no command 'cross-validate'; write keras-bert finetune --folds 5 --model",
        ),
        (["help", "modles"], "there is no command 'modles'; did you mean 'models'?"),
        (["xyzzy"], "there is no command 'xyzzy'; `keras-bert --help` lists them."),
        (["models", "--jsno"], "there is no option --jsno; did you mean --json?"),
        (["--unknown"], "there is no option --unknown; available: --debug, --help, --version"),
        (["recipes", "--lr", "1"], "there is no option --lr; "),
        (
            ["finetune", "--out=x", "--threshold=1"],
            "there is no option --threshold; run `keras-bert calibrate --model run",
        ),
        (
            ["finetune", "--out=x", "--lr", "5e-5"],
            "there is no option --lr; write --learning-rate 5e-5",
        ),
        (
            ["finetune", "--out=x", "--fp16"],
            "there is no option --fp16; write --dtype mixed_float16",
        ),
        (
            ["finetune", "--out=x", "--batchsize=4"],
            "there is no option --batchsize; did you mean --batch",
        ),
        (
            ["finetune", "--out=x", "--task=mrcp"],
            "--task: there is no 'mrcp'; did you mean 'mrpc'? (`keras-bert finetune --help`",
        ),
        (
            ["export", "--model=x", "--format=onx"],
            "--format: there is no 'onx'; did you mean 'onnx'",
        ),
        (
            ["pretrain", "x", "--out=x", "--recipe=bert_bse"],
            "there is no recipe 'bert_bse' named albert_base",
        ),
        (["recipes", "bert_bse"], "there is no recipe 'bert_bse'; did you mean 'bert_base'?"),
        (
            ["finetune", "--out=x", "--data=.", "--model=bert-base-uncasd"],
            "model=bert-base-uncasd: No model is named 'bert-base-uncasd'. Did you mean "
            "'bert-base-uncased'",
        ),
        (
            ["finetune", "--out=x", "--strategy=mirored"],
            "--strategy: there is no 'mirored'; did you mean 'mirrored'?",
        ),
        (
            ["finetune", "--out=x", "--model=m", "epochs=1"],
            "write --epochs 1",
        ),
        (
            ["finetune", "--out=x", "--data=.", "--model=m", "--epochs", "few"],
            "command line: epochs must be a positive integer",
        ),
        (
            ["finetune", "--out=x", "--epochs=3", "--epochs", "4"],
            "--epochs is given twice: 3 and 4",
        ),
        (["fill-mask", "m"], "text is missing; write keras-bert fill-mask --model m text ("),
    ],
)
def test_bad_arguments_are_one_line_and_status_2(arguments, message, capsys):
    assert cli.main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1
    assert err.startswith(f"keras-bert: {message}")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working directory, with the run `run`, the table `a.csv` and the vectors `v.npy`."""
    (tmp_path / "run" / "model").mkdir(parents=True)
    for name in ("a.csv", "b.csv", "v.npy", "-dash.csv"):
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("finetune run a.csv --dev b.csv --out o", {"model": "run", "train": "a.csv"}),
        ("finetune a.csv --folds 2 hf://owner/name --out o", {"model": "hf://owner/name"}),
        ("predict a.csv run", {"model": "run", "input": "a.csv"}),
        ("predict run -", {"model": "run", "input": "-"}),
        ("evaluate run a.csv", {"model": "run", "dev": "a.csv"}),
        ("evaluate run", {"model": "run", "dev": None}),
        ("calibrate a.csv --model run", {"model": "run", "dev": "a.csv"}),
        ("report run run a.csv", {"run": ["run", "run"], "dev": "a.csv"}),
        ("export run --out o", {"model": "run"}),
        ("embed run a.csv b.csv --out v.npy", {"model": "run", "paths": ["a.csv", "b.csv"]}),
        ("embed --model m run --out v.npy", {"model": "m", "paths": ["run"]}),
        ("search run v.npy bicycle", {"model": "run", "vectors": "v.npy", "query": ["bicycle"]}),
        ("fill-mask bert-base-cased a", {"model": "bert-base-cased", "text": ["a"]}),
        ("generate --model gpt2 gpt2", {"model": "gpt2", "text": ["gpt2"]}),
        ("adapt run a.csv --out o", {"model": "run", "text": "a.csv"}),
        ("tokenizer-report run m --data a.csv", {"model": ["run", "m"], "data": ["a.csv"]}),
        ("check --json -- -dash.csv", {"file": ["-dash.csv"]}),
    ],
)
def test_words_stand_for_the_model_and_the_file(typed, expected, folder):
    command, *words = typed.split()
    parsed = vars(cli.parse(cli.load(command)[1], words))
    assert {name: parsed[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("typed", "line"),
    [
        ("finetune a.csv", "finetune --train a.csv --model MODEL --dev-split 0.1 --out DIR"),
        ("finetune run a.csv b.csv", "finetune --model run --train a.csv --dev b.csv --out DIR"),
        ("finetune --data . -- run", "finetune --data . --model run --out DIR"),
        ("evaluate a.csv", "evaluate --dev a.csv --model DIR"),
        ("evaluate a.csv --dev a.csv --model run", "evaluate --dev a.csv --model run"),
        ("predict run", "predict --model run --input FILE"),
        ("export run", "export --model run --out DIR"),
        ("merge run merged", "merge --model run --out merged"),
        ("convert run b", "convert --from run --to b"),
        ("embed run a.csv", "embed a.csv --model run --out FILE"),
        ("doctor x", "doctor"),
        ("train a.csv", "finetune --train a.csv --model MODEL --dev-split 0.1 --out DIR"),
        ("test run a.csv", "evaluate run a.csv"),
        ("download bert-base-uncased", "convert --from bert-base-uncased --to DIR"),
        ("quantize", "export --format onnx --precision int8 --model MODEL --out DIR"),
        ("list", "models"),
        ("version", "--version"),
    ],
)
def test_an_incomplete_command_names_the_whole_command(typed, line, folder, capsys):
    assert cli.main(typed.split()) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and f"; write keras-bert {line}" in err.replace(" (`", "\n")
    if line != "--version":
        command, *words = line.split()
        cli.parse(cli.load(command)[1], words)


@pytest.mark.parametrize("command", sorted(cli.COMMANDS))
def test_a_command_without_arguments_is_complete_or_names_the_whole_command(command):
    _, parser = cli.load(command)
    try:
        cli.parse(parser, [])
    except InputError as error:
        line = shlex.split(str(error).partition("; write ")[2].partition(" (`")[0])
        assert line[:2] == ["keras-bert", command]
        numbers = {"N|A,B": "2"}
        cli.parse(cli.load(command)[1], [numbers.get(word, word) for word in line[2:]])


def test_settings_may_stand_anywhere(capsys):
    assert (
        cli.main(["finetune", "--seed=1", "base", "--batch-size=0", "--data=.", "--out", "x"]) == 2
    )
    assert "batch_size must be a positive integer, got 0." in capsys.readouterr().err


@pytest.mark.parametrize(
    "error, status, message",
    [
        (InputError("line 3\nof it is bad."), 2, "line 3 of it is bad."),
        (MemoryError(), 2, "out of memory"),
        (OSError(errno.ENOSPC, "No space left", "run/model"), 2, "the disk is full"),
        (FileNotFoundError(errno.ENOENT, "No such file", "gone.txt"), 2, "gone.txt: No such file"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (RuntimeError("a fault of ours"), 1, "RuntimeError: a fault of ours (`--debug`"),
    ],
)
def test_errors_become_a_line_and_a_status(failing_command, capsys, error, status, message):
    failing_command.append(error)
    assert cli.main(["fail"]) == status
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and err.startswith(f"keras-bert: {message}")


def test_an_interrupted_run_says_what_is_kept_and_how_to_go_on(monkeypatch, capsys):
    from keras_bert_impl.cli.finetuning import Finetune

    def interrupt(command, arguments):
        raise KeyboardInterrupt

    for name in ("check", "check_files"):
        monkeypatch.setattr(Finetune, name, lambda command, arguments: None)
    monkeypatch.setattr(Finetune, "run", interrupt)
    monkeypatch.setattr(Finetune, "uses_tensorflow", False)
    assert cli.main(["finetune", "bert-base-uncased", "--data=.", "--out", "run"]) == 130
    assert capsys.readouterr().err == (
        "keras-bert: interrupted. The last checkpoint is in run. Run the same command again to continue.\n"
    )


def test_debug_shows_the_traceback(failing_command):
    failing_command.append(InputError("bad"))
    with pytest.raises(InputError, match="bad"):
        cli.main(["fail", "--debug"])


def test_a_closed_pipe_is_not_an_error():
    command = f"{sys.executable} -m keras_bert_impl.cli.main models --json | head -c 10"
    process = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"], cwd=ROOT, capture_output=True, text=True
    )
    assert (process.returncode, process.stdout, process.stderr) == (0, "[\n  {\n    ", "")


def test_arguments_are_utf_8_in_a_locale_of_ascii(tmp_path):
    (tmp_path / "größe.csv").write_text("täxt,label\ngood,schön\nbad,größe\n", "utf-8")
    locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "keras_bert_impl.cli.main", "check", "größe.csv"]
    process = subprocess.run(
        [*command, "--text", "täxt", "--label", "label"],
        cwd=tmp_path, env=os.environ | locale, capture_output=True, encoding="utf-8",
    )  # fmt: skip
    assert process.returncode == 0 and process.stdout.startswith("größe.csv: utf-8"), process.stderr
    assert "classes: schön 1, größe 1" in process.stdout


def test_full_output_device_is_reported():
    with open("/dev/full", "w") as full:
        process = subprocess.run(
            [sys.executable, "-m", "keras_bert_impl.cli.main", "models"],
            cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
    assert process.returncode == 2
    assert process.stderr.count("\n") == 1 and "the disk is full" in process.stderr


@pytest.mark.parametrize("command", [["adapt", "corpus.txt"], ["pretrain", "records"]])
def test_cpu_devices_are_checked(command, capsys):
    options = ["--strategy", "tpu", "--cpu-devices", "2", "--out", "run"]
    if command[0] == "adapt":
        options += ["--model", "gone"]
    assert cli.main([*command, *options]) == 2
    assert "--cpu-devices requires --strategy mirrored, not tpu" in capsys.readouterr().err
