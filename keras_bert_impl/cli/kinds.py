"""Kinds of paths and names in arguments, which `main` checks before TensorFlow is imported.

An argument has its kind as its argparse type: `add_argument("--train", type=FILE)`. Completion
offers what the kind names. Names on a bucket or a hub, with `://` in them, are checked only for
their form.
"""

import dataclasses
import os
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable
from pathlib import Path

from keras_bert_impl.cli.parser import suggestion
from keras_bert_impl.io.errors import InputError
from keras_bert_impl.io.files import is_remote
from keras_bert_impl.io.lines import STANDARD_INPUT
from keras_bert_impl.io.paths import expanded


@dataclasses.dataclass(frozen=True)
class Kind:
    """argparse type of a path or name.

    Args:
        completes: what a shell offers: `"file"`, `"directory"`, `"model"` or `"recipe"`.
        check: raises an `InputError` for a value that cannot be used. Takes the value and all
            arguments. None for what the command itself checks, without TensorFlow.
    """

    completes: str
    check: Callable[[str, Namespace], None] | None = None

    def __call__(self, text: str) -> str:
        """Returns the path or name; argparse calls it before all arguments are known."""
        return expanded(text)


def check_values(parser: ArgumentParser, arguments: Namespace) -> None:
    """Checks the values of all arguments that have a `Kind`."""
    given = [*_given(parser, arguments)]
    for name, kind, value in given:
        if kind.check:
            try:
                kind.check(value, arguments)
            except InputError as error:
                raise InputError(f"{name}: {error}") from error
    inputs = [value for _, kind, value in given if kind in (PATH, FILE, EXAMPLES)]
    for name, kind, value in given:
        if kind is OUTPUT_FILE:
            try:
                check_not_read(value, inputs)
            except InputError as error:
                raise InputError(f"{name}: {error}") from error


def _given(parser, arguments):
    """Yields (name of the argument, its kind, value) for each value that has a `Kind`."""
    for action in parser._actions:
        if isinstance(action.type, Kind):
            name = (action.option_strings or [str(action.metavar or action.dest)])[-1]
            value = getattr(arguments, action.dest, None)
            for one in value if isinstance(value, list) else [value]:
                if isinstance(one, str):
                    yield name, action.type, one


def check_not_read(output: str | os.PathLike, inputs: Iterable[str | os.PathLike]) -> None:
    """Checks that a file to write is not an input, and not in a folder that is one."""
    place = Path(output).resolve()
    for one in inputs:
        if Path(one).resolve() == place:
            raise InputError(f"{output} is the input; give another name to the file to write.")
        if Path(one).resolve() in place.parents:
            raise InputError(f"{output} is in {one}, which is read; write it elsewhere.")


def check_model(name: str, value: object) -> None:
    """Checks a setting that names a model, unless it is None or a configuration."""
    if isinstance(value, str) and not value.endswith(".json"):
        try:
            _check_model(value, Namespace())
        except InputError as error:
            raise InputError(f"{name}={value}: {error}") from error


def _check_path(value: str, arguments: Namespace) -> None:
    if value != STANDARD_INPUT and not is_remote(value) and not os.path.exists(value):
        parent = Path(value).parent
        names = os.listdir(parent) if parent.is_dir() else []
        suffix = Path(value).suffix
        hint = suggestion(Path(value).name, [n for n in names if Path(n).suffix == suffix])
        raise InputError(f"{value} does not exist{f'; {hint}' if hint else '.'}")


def _check_file(value, arguments):
    _check_path(value, arguments)
    if os.path.isdir(value):
        raise InputError(f"{value} is a directory; give a file.")
    if os.path.exists(value) and not os.access(value, os.R_OK):
        raise InputError(f"{value} cannot be read; its permissions forbid it.")


def _check_folder(value, arguments):
    _check_path(value, arguments)
    if os.path.isfile(value):
        raise InputError(f"{value} is a file; give the folder it is in.")


def _check_examples(value, arguments):
    if not getattr(arguments, "tfds", None):  # else the name of a split
        _check_path(value, arguments)


def _check_model(value, arguments):
    from keras_bert_impl.hub import check_name

    if not os.path.exists(f"{value}.index"):  # else the prefix of a Google checkpoint
        check_name(value)


def _check_output_directory(value, arguments):
    if os.path.isfile(value):
        raise InputError(f"{value} is a file; give a directory to write.")
    _check_writable(Path(value))


def _check_output_file(value, arguments):
    if os.path.isdir(value):
        raise InputError(f"{value} is a directory; give the name of a file to write.")
    _check_writable(Path(value).parent)


def _check_writable(path):
    if is_remote(path):
        return
    existing = next(
        place for place in (path.absolute(), *path.absolute().parents) if place.exists()
    )
    if not existing.is_dir():
        raise InputError(f"{path} cannot be written: {existing} is a file.")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise InputError(f"{path} cannot be written: no permission to write in {existing}.")


PATH = Kind("file", _check_path)  # a file, a folder or standard input
FILE = Kind("file", _check_file)
FOLDER = Kind("directory", _check_folder)
EXAMPLES = Kind("file", _check_examples)  # a file, or with --tfds the name of a split
MODEL = Kind("model", _check_model)  # a directory, or a name that `hub.local_directory` resolves
RECIPE = Kind("recipe")
SAVED_MODEL = Kind("directory")
OUTPUT_DIRECTORY = Kind("directory", _check_output_directory)
OUTPUT_FILE = Kind("file", _check_output_file)
GRID = Kind("file")  # of settings to try
DATA_SET = Kind("directory")  # or the name of one
# Settings that name a model or a folder; the commands check them together with the others.
OF_SETTINGS = {
    "model": Kind("model"),
    "teacher": Kind("model"),
    "generator": Kind("model"),
    "long_records": Kind("directory"),
}
