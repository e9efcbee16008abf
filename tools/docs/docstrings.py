"""A griffe extension that renders the docstring style of this package.

`Example:` becomes fenced code, `num_layers, hidden_dim: Sizes.` becomes one entry per argument, and
`Source:` becomes a paragraph.
"""

import re
import textwrap
from typing import Any

import griffe

_BRACKETS = re.compile(r"(`[^`]*`)|(\] ?)\[")  # outside code, `][` is a reference in Markdown
_SHARED = re.compile(r"^(\s+)(\w+(?:, \w+)+): (.*)$")


def with_fenced_examples(text: str) -> str:
    """Returns a docstring whose `Example:` blocks are fenced code."""
    lines = text.splitlines()
    result: list[str] = []
    while lines:
        line = lines.pop(0)
        result.append(_BRACKETS.sub(lambda match: match[1] or rf"{match[2]}\[", line))
        if line.strip() != "Example:":
            continue
        indent = line[: len(line) - len(line.lstrip())]
        block = []
        while lines and (not lines[0].strip() or lines[0].startswith(f"{indent} ")):
            block.append(lines.pop(0))
        code = textwrap.dedent("\n".join(block)).strip("\n")
        language = "pycon" if code.startswith(">>>") else "python"
        fenced = f"```{language}\n{code}\n```\n"
        result += textwrap.indent(fenced, f"{indent}    ").splitlines() + [""]
    return "\n".join(result)


def with_own_entries(text: str) -> str:
    """Returns a docstring with a separate entry for each argument that shares an entry."""
    result: list[str] = []
    lines = text.splitlines()
    for position, line in enumerate(lines):
        shared = _SHARED.match(line)
        if not shared:
            result.append(line)
            continue
        indent, names, sentence = shared.groups()
        continuation = []
        for below in lines[position + 1 :]:
            if not below.startswith(f"{indent} "):
                break
            continuation.append(below)
        *first, last = names.split(", ")
        for name in first:
            result += [f"{indent}{name}: {sentence}", *continuation]
        result.append(f"{indent}{last}: {sentence}")
    return "\n".join(result)


class Docstrings(griffe.Extension):
    """Rewrites docstrings before they are parsed."""

    def on_instance(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = with_own_entries(with_fenced_examples(obj.docstring.value))
