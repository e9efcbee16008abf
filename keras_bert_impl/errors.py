"""The one error that bad input raises, and how its messages list names."""


class InputError(ValueError):
    """Something the user gave cannot be used: the message says what, where and what to do.

    The command line prints it on one line and exits with status 2; in Python it is a `ValueError`.
    """


def listed(names):
    """str. Names for a message, the first 20."""
    names = list(names)
    return ", ".join(map(repr, names[:20])) + (", ..." if len(names) > 20 else "")
