"""Cells of tables that contain several labels: serialized lists, and columns of 0 and 1."""

import ast
import contextlib
import csv
import re
from collections.abc import Iterable
from typing import Any

from keras_bert_impl.io.errors import InputError, shown
from keras_bert_impl.io.reading import parse_json_line

_STRING = r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
_PYTHON_LIST = re.compile(rf"[\[(]\s*(?:{_STRING}\s*(?:,\s*{_STRING}\s*)*,?\s*)?[\])]", re.DOTALL)
# Brackets around quotes, around several things, or around numbers; `[other]` is a name.
_STRUCTURE = re.compile(
    r"""array\(.*|[\[({]\s*['"].*|[\[{].*,.*[\]}]|[\[{][\s\d.+-]+[\]}]""", re.DOTALL
)
_LONGEST = 10_000  # characters of a list of labels
_SET = {"1": True, "1.0": True, "true": True, "0": False, "0.0": False, "false": False}


def parsed(cell: str) -> str | list | dict:
    """Returns the list or dict that a cell contains, as JSON or as pandas writes it; or the cell."""
    text = cell.strip()
    if not _STRUCTURE.fullmatch(text) and text not in ("[]", "{}"):
        return cell
    if len(text) <= _LONGEST:
        with contextlib.suppress(InputError):
            value = parse_json_line(text)
            if isinstance(value, (list, dict)):
                return value
        if _PYTHON_LIST.fullmatch(text):
            with contextlib.suppress(SyntaxError, ValueError):  # of an escape
                return [ast.literal_eval(one) for one in re.findall(_STRING, text, re.DOTALL)]
    raise InputError(
        f"label {shown(text)} is a structure, not a name. Write names with a separator, such as "
        "a|b, and pass --label-separator '|'; or a column of 0 and 1 for each label, and pass "
        "--label A,B. If it is a name, list it in --labels."
    )


def names_of_set(flags: Iterable[tuple[str, Any]]) -> list[str]:
    """Returns the names whose value is 1 or true."""
    names = []
    for name, value in flags:
        is_set = _SET.get(str(value).strip().lower())
        if is_set is None:
            raise InputError(f"{name!r} must be 0 or 1. Received: {shown(value)}")
        if is_set:
            names.append(name)
    return names


def several_columns(label: str, columns: list[str]) -> str | list[str]:
    """Returns the columns that `A,B` names, as a list; the name itself if it is a column."""
    if "," not in label or label in columns:
        return label
    return [name.strip() for name in next(csv.reader([label], skipinitialspace=True))]
