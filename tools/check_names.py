#!/usr/bin/env python
"""Counts names that do not say what they hold, and functions that do not begin with a verb.

    python tools/check_names.py           # fails if there are too many
    python tools/check_names.py --list    # prints their places

Bound names are variables, parameters and items of loops. Functions are counted in the package only,
without those with two underscores.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("keras_bert_impl", "tests", "tools")
MOST_EMPTY = 0.005  # maximum share of bound names
FEWEST_VERBS = 0.6  # minimum share of functions
EMPTY = set(
    """
    another asked chosen counted done found given kept known left made meant more one other others own
    rest said seen shown taken these those told wanted what which whose
    """.split()
)
NO_VERB = re.compile(r"_*(of|in|with|without|as|at|by|for|from|on|to)_|.*_of$")
VERBS = set(
    """
    adapt add align annotate answer append apply are ask assert assign attend augment average
    batch build cache calibrate call can cast change check choose claim classify clean clear clip
    close collect combine compare compile complete compose compute concatenate configure connect
    construct convert copy count create cut deal decide declare decode decompose default describe
    deserialize detect detokenize distribute download draw drop embed encode ensure escape
    estimate evaluate expand explain export extend extract fetch fill filter find finetune finish
    fit flatten fold follow forget format freeze gather generate get group guess handle has hash
    hide hold import index infer insert install is iterate join keep label lay learn leave limit
    list listen load locate log look make map mark mask match max measure merge mix move name
    normalize note open order overwrite pack pad parse place plan pool predict prefer prepare
    pretrain print process put quantize quote rank read record reduce refuse register reject
    remove rename render repeat replace report reset resolve restore round run sample save score
    search select send serialize serve set shape shard should show skip slice sort split spread
    start state stop stream strip sum swap take test tokenize trace train translate transpose trim
    truncate try tune unpack update use validate wait walk warn watch weigh wrap write yield
    """.split()
)


def bound_names(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Yields (name, line) for each variable and parameter."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno


def functions(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Yields (name, line) for each function and method."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and not node.name.startswith(
            "__"
        ):
            yield node.name, node.lineno


def is_empty(name: str) -> bool:
    return name.strip("_") in EMPTY or name.strip("_").startswith("of_")


def lacks_verb(name: str) -> bool:
    return name.strip("_").split("_")[0] not in VERBS or bool(NO_VERB.match(name))


def main() -> int:
    """Prints the shares; returns whether one is beyond its bound."""
    is_bad = False
    checks = [
        (folder, "bound names that say nothing", bound_names, is_empty, MOST_EMPTY)
        for folder in FOLDERS
    ]
    checks += [(FOLDERS[0], "functions without a verb", functions, lacks_verb, 1 - FEWEST_VERBS)]
    for folder, title, names_in, is_wrong, limit in checks:
        names = [
            (path, line, name)
            for path in sorted((ROOT / folder).rglob("*.py"))
            for name, line in names_in(ast.parse(path.read_text(encoding="utf-8")))
        ]
        wrong = [place for place in names if is_wrong(place[2])]
        print(f"{folder}: {len(wrong) / len(names):.2%} {title} (at most {limit:.1%})")
        is_bad |= len(wrong) > limit * len(names)
        if "--list" in sys.argv:
            for path, line, name in wrong:
                print(f"  {path.relative_to(ROOT)}:{line}: {name}")
    return int(is_bad)


if __name__ == "__main__":
    sys.exit(main())
