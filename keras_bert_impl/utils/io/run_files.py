"""Reads the files that a run has written: its settings, its data and its scores.

A damaged file raises an `InputError` that names the file and how to go on without losing the run.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from keras_bert_impl.utils.errors import InputError, shown
from keras_bert_impl.utils.io.reading import Document, read_json, read_yaml


def read_run_file(path: Path, value: Callable[[Document], Any] | None = None) -> Any:
    """Returns the contents of a JSON or YAML file of a run, or `value(contents)`.

    Raises:
        InputError: the file is missing or empty, it cannot be read, or `value` raised.
    """
    way_out = f"Restore {path.name}, or choose another directory for a new run."
    if not path.exists():
        raise InputError(f"{path} is missing. {way_out}")
    try:
        contents = (read_yaml if path.suffix == ".yaml" else read_json)(path)
        if not contents:
            raise InputError(f"{path} is empty.")
        return contents if value is None else value(contents)
    except InputError as error:
        raise InputError(f"{path} is damaged. {way_out} ({error})") from error


def read_scores(path: Path) -> dict[str, float]:
    """Returns the scores of one run, from its `scores.json`."""
    return read_run_file(path, check_numbers)


def check_numbers(contents: Document) -> dict[str, float]:
    """Returns the contents if they are numbers, which may be NaN, with names."""
    for name, number in contents.items():
        if not name.strip() or isinstance(number, bool) or not isinstance(number, (int, float)):
            raise InputError(f"{contents.source}: {shown(name)} is {shown(number)}, not a number.")
    return dict(contents)
