"""The one error that bad input raises, and how its messages show names and values."""

import reprlib

_REPR = reprlib.Repr()
_REPR.maxlevel, _REPR.maxstring, _REPR.maxlong, _REPR.maxother = 3, 60, 60, 60


class InputError(ValueError):
    """Something the user gave cannot be used: the message says what, where and what to do.

    The command line prints it on one line and exits with status 2; in Python it is a `ValueError`.
    """


def listed(names):
    """str. Names for a message, the first 20."""
    names = list(names)
    return ", ".join(map(repr, names[:20])) + (", ..." if len(names) > 20 else "")


def shown(value):
    """str. A value of any kind for a message, cut to 80 characters: no value is formatted whole."""
    try:
        text = _REPR.repr(value)
    except ValueError:  # a whole number of more digits than Python writes
        return f"a very long {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:77]}..."
