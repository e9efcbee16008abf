"""The generated reference: every public name has one page, and every setting a sentence."""

import argparse
import dataclasses
import importlib
import inspect
import re
from pathlib import Path

import api
import commands_page
import pytest
import settings_page

import keras_bert_impl
from keras_bert_impl.cli import main as cli
from keras_bert_impl.cli.settings import sentences_of
from keras_bert_impl.pretraining.corpus.preparation import prepare
from keras_bert_impl.tasks import LongTexts
from keras_bert_impl.utils.errors import InputError
from tests.docs import blocks

PAGES = api.pages()
SECTIONS = settings_page.sections()


@pytest.mark.parametrize("package", api.PACKAGES)
def test_a_page_lists_every_public_name(package):
    module = importlib.import_module(package)
    expected = {name for name in getattr(module, "__all__", None) or api.public_names(package)}
    assert set(api.public_names(package)) == expected
    table = PAGES[api.page_of(package)]
    assert set(re.findall(r"^\| \[`(\w+)`\]", table, re.MULTILINE)) == expected


@pytest.mark.parametrize("package", api.PACKAGES)
def test_targets_are_the_objects_that_users_import(package):
    module = importlib.import_module(package)
    for name, target in api.public_names(package).items():
        home, attribute = target.rsplit(".", 1)
        assert getattr(importlib.import_module(home), attribute) is getattr(module, name)


def test_each_object_is_documented_once():
    targets = re.findall(r"^::: (\S+)$", "\n".join(PAGES.values()), re.MULTILINE)
    assert len(targets) == len(set(targets))
    named = {target for p in api.PACKAGES for target in api.public_names(p).values()}
    assert set(targets) == named
    assert len(named) > len(keras_bert_impl.__all__)


def test_every_summary_says_something():
    constants = {"QUESTIONS", "TOLERANCE", "GENERATOR", "OWN_SETTINGS", "Tensors"}
    for package in api.PACKAGES:
        for name, target in api.public_names(package).items():
            is_constant = name in constants
            assert (api.summary(target) == "A constant.") == is_constant, target


# === Settings ===


@pytest.mark.parametrize(("title", "rows", "where"), SECTIONS, ids=[s[0] for s in SECTIONS])
def test_every_setting_has_a_sentence(title, rows, where):
    assert [row.name for row in rows if len(row.sentence) < 10] == []
    assert [row.name for row in rows if not row.kind] == []


def test_every_field_has_a_row():
    for title, settings_class, _ in settings_page.CLASSES:
        rows = {row.name for row in settings_page.class_rows(settings_class)}
        inherited = {
            field.name
            for base in settings_class.__mro__[1:]
            if dataclasses.is_dataclass(base)
            for field in dataclasses.fields(base)
        }
        assert rows == {f.name for f in dataclasses.fields(settings_class)} - inherited, title


def test_rows_read_from_source_equal_those_of_the_objects():
    fields = [field.name for field in dataclasses.fields(LongTexts)]
    rows = settings_page.static_rows("tasks/base/long_texts.py", "LongTexts")
    assert [row.name for row in rows] == fields
    rows = settings_page.static_rows("pretraining/corpus/preparation.py", "prepare")
    assert [row.name for row in rows] == list(inspect.signature(prepare).parameters)


def test_every_settings_class_of_the_package_is_listed():
    listed = {settings_class.__name__ for _, settings_class, _ in settings_page.CLASSES}
    root = Path(keras_bert_impl.__file__).parent
    class_names = set()
    for path in root.rglob("*.py"):
        class_names |= set(
            re.findall(r"^class ([A-Z]\w*Settings)\b", path.read_text(), re.MULTILINE)
        )
    assert class_names <= listed


def test_sentences_of_arguments():
    docstring = """A class.

    Args:
        first: One
            sentence.
        second, third: Both.

    Raises:
        InputError: never.
    """
    assert sentences_of(docstring) == {
        "first": "One sentence.",
        "second": "Both.",
        "third": "Both.",
    }


# === Commands ===


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_the_page_of_commands_has_every_argument(command):
    _, parser = cli.load(command)
    table = "\n".join(commands_page.section(parser))
    for group in parser._action_groups:
        for action in group._group_actions if group.title else []:
            name = action.option_strings[0] if action.option_strings else action.metavar
            is_hidden = action.help is argparse.SUPPRESS
            choices = action.choices and f"{{{','.join(action.choices)}}}"
            line = f"| `{name or choices or action.dest}".replace("|", "\\|")[1:]
            assert (line in table) != is_hidden, action
    assert f"```bash\nkeras-bert {command}" in table


def test_the_page_of_commands_has_every_command_once():
    page = commands_page.page()
    assert re.findall(r"^### (.*)$", page, re.MULTILINE) == list(cli.COMMANDS)
    assert "argparse" not in page and "%(" not in page and "==SUPPRESS" not in page


def test_examples_of_commands_are_accepted():
    problems = []
    for _, source in blocks.blocks(commands_page.page(), "bash"):
        for words in blocks.commands(source):
            try:
                blocks.check_command(words)
            except (InputError, AssertionError, KeyError) as error:
                problems.append(f"keras-bert {' '.join(words)}: {error}")
    assert problems == []


# === Docstrings ===


def test_examples_become_code():
    docstrings = pytest.importorskip("docstrings")
    text = "A class.\n\nExample:\n    a = 1\n\n    b = x[0][1]\n\nSource: a paper [1][2]."
    assert docstrings.with_fenced_examples(text).splitlines() == [
        "A class.",
        "",
        "Example:",
        "    ```python",
        "    a = 1",
        "",
        "    b = x[0][1]",
        "    ```",
        "",
        r"Source: a paper [1]\[2].",
    ]


def test_arguments_that_share_an_entry_get_one_each():
    docstrings = pytest.importorskip("docstrings")
    text = "Args:\n    a, b: Sizes\n        of rows.\n    c: Other."
    assert docstrings.with_own_entries(text).splitlines() == [
        "Args:",
        "    a: Sizes",
        "        of rows.",
        "    b: Sizes",
        "        of rows.",
        "    c: Other.",
    ]
