"""Names that say nothing, and functions without a verb."""

import ast

import pytest

from tools import check_names

CODE = """
def _rows(found, labels):
    for one in found:
        kept = [label for label in labels]
    async def read_rows(*, known=1): ...
    class Table:
        def __len__(self): return len(kept)
        def with_rows(self): ...
"""


def test_bound_names_and_functions_are_found():
    tree = ast.parse(CODE)
    names = [name for name, _ in check_names.bound_names(tree) if check_names.is_empty(name)]
    assert sorted(names) == ["found", "kept", "known", "one"]
    assert [name for name, _ in check_names.functions(tree)] == ["_rows", "read_rows", "with_rows"]


@pytest.mark.parametrize(
    ("name", "lacks_verb"),
    [
        ("_read_rows", False),
        ("is_empty", False),
        ("_rows", True),
        ("as_rows", True),
        ("read_of", True),
    ],
)
def test_a_function_begins_with_a_verb(name, lacks_verb):
    assert check_names.lacks_verb(name) == lacks_verb
