"""Every message on the troubleshooting page is one of the package."""

import ast
import functools
import re
from pathlib import Path

import pytest

import keras_bert_impl

PAGE = Path(__file__).resolve().parents[2] / "docs" / "troubleshooting.md"
ENTRIES = re.findall(
    r"^### `([^\n]+)`\n\n(.*?)(?=\n^##|\Z)",
    PAGE.read_text(encoding="utf-8"),
    re.DOTALL | re.MULTILINE,
)
MESSAGES = [message for message, _ in ENTRIES]


def templates_of(tree):
    """Yields the strings of a module, with `…` in place of what is filled in."""
    inside = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr) and id(node) not in inside:  # not a format
            inside.update(id(child) for child in ast.walk(node) if child is not node)
            parts = (v.value if isinstance(v, ast.Constant) else "…" for v in node.values)
            yield "".join(parts)
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in inside
        ):
            yield node.value


@functools.cache
def templates():
    root = Path(keras_bert_impl.__file__).parent
    return [
        template
        for path in root.rglob("*.py")
        for template in templates_of(ast.parse(path.read_text(encoding="utf-8")))
    ]


def occurs(message):
    """Whether some string of the package contains a message; `…` at its end may be any text."""
    start = message.removesuffix("…").rstrip() if len(message) > 20 else message
    return any(start in template for template in templates())


@pytest.mark.parametrize("message", MESSAGES)
def test_message_occurs_in_the_package(message):
    assert occurs(message)


@pytest.mark.parametrize(("message", "entry"), ENTRIES, ids=MESSAGES)
def test_entry_has_a_cause_and_a_fix(message, entry):
    assert re.search(r"\*\*Cause\.\*\* \S", entry) and re.search(r"\*\*Fix\.\*\* \S", entry)


def test_there_are_thirty_messages_and_no_message_twice():
    assert len(MESSAGES) >= 30
    assert len(set(MESSAGES)) == len(MESSAGES)


def test_a_message_that_changed_is_found():
    assert not occurs("There is no model with the name …")
    assert not occurs("… texts against … labels.")


def test_strings_are_joined_and_values_left_out():
    source = 'f"a {x!r:.60} b " "c"\nf"{y}"\n"plain"'
    assert list(templates_of(ast.parse(source))) == ["a … b c", "…", "plain"]
