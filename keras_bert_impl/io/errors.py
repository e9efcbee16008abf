"""The error raised for invalid input, and the formatting of names and values in its messages."""

import reprlib
from collections.abc import Iterable

_REPR = reprlib.Repr()
_REPR.maxlevel, _REPR.maxstring, _REPR.maxlong, _REPR.maxother = 3, 60, 60, 60


class InputError(ValueError):
    """Invalid user input. The message names what is wrong, where, and what to do.

    The command line prints it on one line and exits with status 2. In Python it is a `ValueError`.
    """


def listed(names: Iterable[object]) -> str:
    """Returns the first 20 names, formatted and cut for a message."""
    names = list(names)
    return ", ".join(map(shown, names[:20])) + (", ..." if len(names) > 20 else "")


def shown(value: object) -> str:
    """Returns any value for a message, cut to 80 characters without formatting all of it."""
    try:
        text = _REPR.repr(value)
    except ValueError:  # an integer with more digits than Python converts to a string
        return f"a very long {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:77]}..."
