"""Python, command line, recipe and file give the same answer to the same value."""

import argparse
import functools
import json
import random

import pytest
import yaml

from keras_bert_impl.cli import settings as cli_settings
from keras_bert_impl.pretraining.settings import PretrainSettings
from keras_bert_impl.runs.settings import FinetuneSettings
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.io.reading import Document
from keras_bert_impl.utils.settings import check, settings_hints

_WORDS = ("adamw", "lamb", "mean", "float32", "balanced", "lora", "masked_lm", "full", "x", "")
_NUMBERS = (0, 1, -1, 3, 2**31, 0.0, 0.5, 1.0, 1e-4, -2.5, 1e300)


def random_value(generator):
    """Returns a value that JSON can hold: a word, a number, a bool, or a list or dict of those."""
    kind = generator.randrange(6)
    if kind < 4:
        return generator.choice((_WORDS, _NUMBERS, _NUMBERS, (True, False))[kind])
    few = [random_value(generator) for _ in range(generator.randrange(3))]
    return few if kind == 4 else {f"key{number}": value for number, value in enumerate(few)}


def answer(call):
    """Returns the value that a call accepts, or the rule that its error states."""
    try:
        return call()
    except InputError as error:
        return "must be " + str(error).partition(" must be ")[2]


@functools.cache
def parser_of(settings_class):
    parser = argparse.ArgumentParser()
    cli_settings.add_settings(parser, settings_class)
    return parser


def given(settings_class, *words):
    arguments = parser_of(settings_class).parse_args(words)
    return cli_settings.given_settings(arguments, settings_class)


def from_option(settings_class, name, text):
    """Returns the value of `--name text`, of any name and text."""
    arguments = parser_of(settings_class).parse_args([])
    arguments.options = {name: text}
    return cli_settings.given_settings(arguments, settings_class)[name]


@pytest.mark.parametrize("settings_class", [FinetuneSettings, PretrainSettings])
def test_each_door_gives_the_same_answer(settings_class, tmp_path):
    generator = random.Random(0)
    hints = settings_hints(settings_class)
    recipe = tmp_path / "recipe.yaml"
    accepted = 0
    for _ in range(1000):
        name, value = generator.choice(sorted(hints)), random_value(generator)
        expected = answer(lambda: check(name, value, hints[name]))
        recipe.write_text(yaml.safe_dump({name: value}))
        document = Document({name: value}, "config.json")
        assert answer(lambda: document.setting(name, hints[name])) == expected
        assert answer(lambda: given(settings_class, "--recipe", str(recipe))[name]) == expected
        text = json.dumps(value)
        option_answer = answer(lambda: from_option(settings_class, name, text))
        # On the command line, where all is text, a number may be a name.
        assert option_answer in (expected, text, (text,)), (name, value)
        accepted += not str(expected).startswith("must be")
    assert 100 < accepted < 900


@pytest.mark.parametrize(
    ("written", "name", "value"),
    [
        ("--objectives=masked_lm", "objectives", ("masked_lm",)),
        ("--lora-projections=query", "lora_projections", ("query",)),
        ("--learning-rate=1e-4", "learning_rate", 1e-4),
        ("--seed=7", "seed", 7),
    ],
)
def test_a_single_value_is_a_list_of_one(written, name, value):
    settings = given(PretrainSettings if name == "objectives" else FinetuneSettings, written)
    assert settings == {name: value}
