"""The one error that bad input raises."""


class InputError(ValueError):
    """Something the user gave cannot be used: the message says what, where and what to do.

    The command line prints it on one line and exits with status 2; in Python it is a `ValueError`.
    """
