"""Paths as users write them: the one place that expands `~`, for each function that takes a path."""

import os
from pathlib import Path
from typing import Any


def expanded(path: Any) -> Any:
    """Returns a path that begins with `~` in full, as str or `Path`; any other value unchanged.

    Example:
        >>> from keras_bert_impl.io.paths import expanded
        >>> expanded("~/model"), expanded("hf://owner/name"), expanded(None)
    """
    if not isinstance(path, (str, os.PathLike)) or not str(os.fspath(path)).startswith("~"):
        return path
    whole = os.path.expanduser(path)
    return whole if isinstance(path, str) else Path(whole)


def local_path(path: str | os.PathLike) -> Path:
    """Returns the `Path` of a file or directory on this machine, with `~` expanded."""
    return Path(expanded(path))
