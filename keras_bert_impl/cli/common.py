"""Shared parts of commands: output, progress, and typed settings from recipes and overrides."""

import argparse
import contextlib
import dataclasses
import difflib
import json
import os
import sys
import time
import types
import typing
from pathlib import Path

from keras_bert_impl.first_guesses import GUESSES
from keras_bert_impl.io.errors import InputError, shown
from keras_bert_impl.io.reading import parse_yaml, read_text

# === Results and progress ===


def print_table(rows, columns):
    """Prints dicts as a table.

    Args:
        rows: list of dict.
        columns: dict of key to heading. Numbers are right-aligned, with thousands separators.
    """
    cells = [[_cell(row[key]) for key in columns] for row in rows]
    widths = [max(map(len, column)) for column in zip(columns.values(), *cells, strict=True)]
    right = [bool(rows) and isinstance(rows[0][key], (int, float)) for key in columns]
    for line in [list(columns.values()), *cells]:
        padded = [
            text.rjust(width) if is_right else text.ljust(width)
            for text, width, is_right in zip(line, widths, right, strict=True)
        ]
        print("  ".join(padded).rstrip())


def print_json(value):
    """Prints a result as JSON on stdout, for use by programs."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def print_scores(scores):
    """Prints a dict of metric to number on one line."""
    print(", ".join(f"{name} {value:.4f}" for name, value in scores.items()))


class Progress:
    """Shows the progress of a long job: one redrawn line on a terminal, plain lines when piped.

    Args:
        label: str, such as `"reading"`.
        total: int. Number of units; None if unknown.
        unit: str, such as `"documents"`.
        stream: where to write. None for stderr, so that results can be piped.

    Example:
        from keras_bert_impl.cli.common import Progress
        with Progress("reading", total=10, unit="files") as progress:
            progress.update(3)
    """

    def __init__(self, label, total=None, unit="", stream=None):
        self.label, self.total, self.unit = label, total, unit
        self.stream = stream or sys.stderr
        self.is_terminal = self.stream.isatty()
        self.seconds_between = 0.1 if self.is_terminal else 10.0
        self.last = time.monotonic() if not self.is_terminal else 0.0
        self.done = 0

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if kind is None:
            self._draw()
        if self.is_terminal:
            self.stream.write("\n")

    def update(self, done, note=""):
        """Reports that `done` units are finished; draws at most ten times a second."""
        self.done = done
        if time.monotonic() - self.last >= self.seconds_between:
            self._draw(note)

    def _draw(self, note=""):
        self.last = time.monotonic()
        of = f" of {self.total:,}" if self.total else ""
        line = f"{self.label}: {self.done:,}{of} {self.unit} {note}".rstrip()
        self.stream.write(f"\r\033[K{line}" if self.is_terminal else f"{line}\n")
        self.stream.flush()


def _cell(value):
    return f"{value:,}" if isinstance(value, (int, float)) else str(value)


def positive_int(text):
    """argparse type of counts and sizes."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive whole number")
    return int(text)


def delimiter(text):
    """argparse type of a delimiter: one character, or its name."""
    text = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";"}.get(text, text)
    if len(text) != 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not one character, tab, comma or semicolon")
    return text


# === Runs ===


def add_run(parser):
    """Adds the run arguments shared by training commands: output, devices, and whether to resume."""
    parser.add_argument("--out", required=True, metavar="DIR", help="the run directory to write")
    parser.add_argument(
        "--strategy",
        default="auto",
        help="auto, one_device, mirrored, multi_worker or tpu; default: auto",
    )
    parser.add_argument(
        "--cpu-devices",
        type=positive_int,
        metavar="N",
        help="try --strategy mirrored on N logical devices of this CPU, without GPUs",
    )
    parser.add_argument(
        "--worker-timeout",
        type=positive_int,
        metavar="SECONDS",
        help="how long to wait for the other workers of TF_CONFIG to start; default: 600",
    )
    parser.add_argument(
        "--no-resume",
        dest="resume",
        action="store_false",
        help="refuse an --out that holds a run, in place of going on with it",
    )


def prepared_strategy(arguments):
    """Applies `--cpu-devices` and `--worker-timeout`, and returns the name of the strategy.

    Raises:
        InputError: `--cpu-devices` is given with a strategy that cannot use it.
    """
    from keras_bert_impl.training.strategy import use_cpu_devices
    from keras_bert_impl.training.workers import TIMEOUT

    if arguments.worker_timeout is not None:
        os.environ[TIMEOUT] = str(arguments.worker_timeout)
    if arguments.cpu_devices is None:
        return arguments.strategy
    if arguments.strategy not in ("auto", "mirrored"):
        raise InputError(f"--cpu-devices goes with --strategy mirrored, not {arguments.strategy}.")
    use_cpu_devices(arguments.cpu_devices)
    return "mirrored"


# === Settings ===


def add_settings(parser, settings_class, recipes=None):
    """Adds `--recipe NAME|FILE.yaml` and `key=value` overrides to a command.

    Args:
        parser: the command's `argparse.ArgumentParser`.
        settings_class: a dataclass. Its fields are the keys, with annotations as types (str, int,
            float, bool, `X | None`, `tuple[X, ...]`) and values as defaults.
        recipes: dict of name to a dict of settings. The recipes that come with the command.
    """
    named = f"one of {', '.join(recipes)}, or " if recipes else ""
    parser.add_argument("--recipe", metavar="NAME|FILE.yaml", help=f"settings: {named}a YAML file")
    fields = dataclasses.fields(settings_class)
    defaults = ", ".join(f"{field.name}={_shown(field)}" for field in fields)
    parser.set_defaults(options=[])
    for field in fields:
        _add_option(parser, settings_class, field.name)
    parser.add_argument(
        "overrides",
        nargs="*",
        metavar="key=value",
        help=f"settings that override the recipe; --key value says the same, and --key that a "
        f"setting is true; defaults: {defaults}".replace("%", "%%"),
    )


def _add_option(parser, settings_class, key):
    """Adds `--key value` for a setting, unless the command has an option of that name."""
    is_switch = bool in _alternatives(typing.get_type_hints(settings_class)[key])
    with contextlib.suppress(argparse.ArgumentError):
        parser.add_argument(
            f"--{key.replace('_', '-')}",
            dest=key,
            action=_Setting,
            nargs=0 if is_switch else None,
            default=argparse.SUPPRESS,
            help=argparse.SUPPRESS,  # `overrides` has the help of all settings
        )


class _Setting(argparse.Action):
    """Stores `--key value` as the override `key=value`."""

    def __call__(self, parser, namespace, values, option_string=None):
        value = "true" if self.nargs == 0 else values
        namespace.options = [*namespace.options, f"{self.dest}={value}"]


def overrides_of(arguments):
    """Returns the settings given on the command line, as a list of `key=value` strings."""
    return [*arguments.overrides, *arguments.options]


def resolve_settings(arguments, settings_class, recipes=None):
    """Resolves the settings of a command: defaults, then the recipe, then `key=value` overrides.

    Args:
        arguments: parsed arguments, including those of `add_settings`.
        settings_class, recipes: see `add_settings`.

    Returns:
        An instance of `settings_class`.

    Raises:
        InputError: a recipe or key is unknown, or a value has the wrong type; the message names the
            value and its location.
    """
    values = given_settings(arguments, settings_class, recipes)
    for field in dataclasses.fields(settings_class):
        if field.name not in values and _shown(field) == _REQUIRED:
            raise InputError(f"the setting {field.name!r} is missing; write {field.name}=value.")
    return settings_class(**values)


def given_settings(arguments, settings_class, recipes=None):
    """Returns a dict of the settings given by the recipe and the overrides.

    For arguments and errors, see `resolve_settings`.
    """
    values = {}
    if arguments.recipe:
        values = _read_recipe(arguments.recipe, settings_class, recipes or {})
    seen = {}
    for override in overrides_of(arguments):
        key, equals, text = override.partition("=")
        if not equals:
            raise InputError(f"{override!r} is not an override; write key=value.")
        if seen.setdefault(key, override) != override:
            raise InputError(f"{key} is given twice: {seen[key]} and {override}.")
        values[key] = _typed(settings_class, key, parse_yaml(text, override), "command line")
    return values


def read_grid(path, settings_class):
    """Reads lists of setting values to try.

    Args:
        path: str. A YAML file with one line `key: [value, ...]` per setting.
        settings_class: see `add_settings`.

    Returns:
        dict of key to list.

    Raises:
        InputError: the file does not exist, or has an invalid key or value.
    """
    grid = _read_yaml(path)
    if not isinstance(grid, dict) or not all(isinstance(v, list) and v for v in grid.values()):
        raise InputError(f"{path}: write a line `key: [value, ...]` for each setting to try.")
    return {
        key: [_typed(settings_class, key, value, path) for value in values]
        for key, values in grid.items()
    }


def _read_yaml(name):
    return parse_yaml(read_text(Path(name)), name)


def _read_recipe(name, settings_class, recipes):
    if name in recipes:
        values, where = recipes[name], f"recipe {name}"
    elif name.endswith((".yaml", ".yml")):
        values, where = _read_yaml(name), name
    else:
        near = difflib.get_close_matches(name, recipes, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        known = f" named {', '.join(recipes)}" if recipes else ""
        raise InputError(f"there is no recipe {name!r}{known}, and it is no YAML file.{hint}")
    values = {} if values is None else values
    if not isinstance(values, dict):
        raise InputError(f"{where}: a recipe is a mapping, with a line `key: value` a setting.")
    return {key: _typed(settings_class, key, value, where) for key, value in values.items()}


def _typed(settings_class, key, value, where):
    """Converts `value` to the field's type, or raises an `InputError` that names key and type."""
    hints = typing.get_type_hints(settings_class)
    if key not in hints:
        raise InputError(f"{where}: there is no setting {key!r}; {_setting_hint(key, hints)}")
    for kind in _alternatives(hints[key]):
        converted = _convert(value, kind)
        if converted is not _MISFIT:
            return converted
    names = " or ".join(_type_name(kind) for kind in _alternatives(hints[key]))
    raise InputError(f"{where}: {key} must be {names}. Received: {key}={shown(value)}")


def _setting_hint(key, known):
    """Suggests what to write instead of a setting that does not exist."""
    line = GUESSES["keras-bert"].get(str(key).replace("_", "-"), "").split()
    name = line[0].removeprefix("--").replace("-", "_") if line else None
    if name in known:
        return f"write {name}={line[1] if len(line) > 1 else 'true'}."
    near = difflib.get_close_matches(str(key), known, n=1)
    return f"did you mean {near[0]!r}?" if near else f"there is {', '.join(known)}."


_MISFIT = object()
_REQUIRED = "(required)"


def _alternatives(kind):
    is_union = typing.get_origin(kind) in (typing.Union, types.UnionType)
    return typing.get_args(kind) if is_union else (kind,)


def _convert(value, kind):
    if typing.get_origin(kind) is tuple:
        if not isinstance(value, (list, tuple)):
            return _MISFIT
        items = tuple(_convert(item, typing.get_args(kind)[0]) for item in value)
        return _MISFIT if _MISFIT in items else items
    if isinstance(value, bool) or value is None:
        return value if type(value) is kind else _MISFIT  # isinstance counts True as an int
    if isinstance(value, kind):
        return value
    if kind is float:
        # YAML 1.1 reads 1e-4, which has no decimal point, as a string.
        try:
            return float(value) if isinstance(value, (int, str)) else _MISFIT
        except ValueError:
            return _MISFIT
    if kind is str and isinstance(value, (int, float)):
        return str(value)
    return _MISFIT


def _type_name(kind):
    if typing.get_origin(kind) is tuple:
        return f"a list of {typing.get_args(kind)[0].__name__}"
    return "null" if kind is type(None) else kind.__name__


def _shown(field):
    if field.default is not dataclasses.MISSING:
        return field.default
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return _REQUIRED
