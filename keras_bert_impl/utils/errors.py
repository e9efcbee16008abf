"""The error for invalid input, and formatting of names and values in messages."""

import re
import reprlib
from collections.abc import Iterable

# Control characters except tab and newline, line separators, and marks that change the direction of
# text. Joiners, which Indic scripts and emoji need, are not among them.
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"
)
_REPR = reprlib.Repr()
_REPR.maxlevel, _REPR.maxstring, _REPR.maxlong, _REPR.maxother = 3, 60, 60, 60


class InputError(ValueError):
    """Invalid user input. The message states what is wrong, where, and how to fix it.

    The command line prints the message on one line and exits with status 2. The class is a subclass
    of `ValueError`.
    """

    def __str__(self) -> str:
        return printable(super().__str__())


def printable(text: str) -> str:
    """Escapes the characters that control a terminal as JSON does, so that JSON keeps its value."""
    return _UNPRINTABLE.sub(lambda character: f"\\u{ord(character[0]):04x}", text)


def listed(names: Iterable[object]) -> str:
    names = list(names)
    return ", ".join(map(shown, names[:20])) + (", ..." if len(names) > 20 else "")


def shown(value: object) -> str:
    """Formats any value in at most 80 characters."""
    try:
        text = _REPR.repr(value)
    except ValueError:  # Python does not convert very long integers to a string.
        return f"a very long {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:77]}..."
