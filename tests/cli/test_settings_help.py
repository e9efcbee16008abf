"""Settings in help: the sentence, type and default of the dataclass."""

import argparse
import dataclasses
from typing import Annotated

import pytest

from keras_bert_impl.cli import main as cli
from keras_bert_impl.cli import settings
from keras_bert_impl.cli.parser import CommandParser
from keras_bert_impl.pretraining.settings import AdaptationSettings, PretrainSettings
from keras_bert_impl.runs.settings import FinetuneSettings
from keras_bert_impl.utils.settings import OneOf, PositiveInt


@dataclasses.dataclass
class Base:
    """Settings of a base.

    Args:
        rate: Share of
            `rows`, such as 0.5. Not for columns.
    """

    rate: float = 0.25


@dataclasses.dataclass
class Settings(Base):
    """Sizes.

    Args:
        steps: Number of steps. None for 10% of the rows.
        optimizer: Optimizer. `"lamb"` for large batches.
        fast: Be fast.
        sizes: Sizes. Default: those of the model.
    """

    steps: PositiveInt | None = None
    optimizer: Annotated[str, OneOf("adamw", "lamb")] = "adamw"
    fast: bool = False
    sizes: tuple[int, ...] = ()


@pytest.fixture(autouse=True)
def width(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")


def shown(*arguments):
    parser = CommandParser(prog="test", add_help=False)
    settings.add_settings(parser, Settings, {"tiny": {}}, main=["steps", "optimizer"])
    parser.add_common()
    parser.shows_all = "all" in arguments
    return [" ".join(line.split()) for line in parser.format_help().splitlines()]


def test_sentence_type_and_default_are_those_of_the_dataclass():
    short, long = shown(), shown("all")
    steps = "number of steps; default: 10% of the rows"
    optimizer = "optimizer; one of adamw, lamb; default: adamw"
    assert f"--steps N {steps}" in short and f"--steps N {steps}" in long
    assert f"--optimizer NAME {optimizer}" in short
    assert "--fast be fast; true or false; default: false" in long
    assert (
        "--sizes [A,B] sizes; a list of values, each an integer; default: those of the model"
        in long
    )
    assert "--rate X share of rows, such as 0.5; a number; default: 0.25" in long
    assert not [line for line in short if line.startswith(("--fast", "--rate"))]
    assert "settings: sizes:" in long and "settings: a base:" in long
    assert [line for line in short if line.startswith("--help-all")]


def test_an_option_refuses_other_names_and_takes_null():
    parser = argparse.ArgumentParser(exit_on_error=False)
    settings.add_settings(parser, FinetuneSettings)
    parsed = parser.parse_args(["--distillation", "null", "--tuning", "lora"])
    values = settings.given_settings(parsed, FinetuneSettings)
    assert values == {"distillation": None, "tuning": "lora"}
    with pytest.raises(argparse.ArgumentError, match="tuning"):
        parser.parse_args(["--tuning", "lorra"])


@pytest.mark.parametrize("settings_class", [FinetuneSettings, AdaptationSettings, PretrainSettings])
def test_every_setting_has_a_sentence_of_one_line_or_two(settings_class):
    for group in settings.groups_of(settings_class).values():
        for setting in group:
            assert 5 < len(setting.sentence) <= 100, setting
            assert setting.text[0].isupper() and setting.text.endswith("."), setting


@pytest.mark.parametrize("command", ["finetune", "pretrain", "adapt"])
def test_help_all_lists_every_setting(command, capsys):
    settings_class = cli.load(command)[0].settings_class
    assert cli.main([command, "--help-all"]) == 0
    out = capsys.readouterr().out
    missing = [
        field.name
        for field in dataclasses.fields(settings_class)
        if f"\n  --{field.name.replace('_', '-')} " not in out
        and f"\n  --{field.name.replace('_', '-')}\n" not in out
    ]
    assert missing == []


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_every_command_takes_help_all(command, capsys):
    assert cli.main([command, "--help-all"]) == 0
    every = set(capsys.readouterr().out.split())
    assert cli.main([command, "--help"]) == 0
    assert set(capsys.readouterr().out.split()) <= every
