"""Typed settings of a command, from defaults, recipes and options."""

import argparse
import contextlib
import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_bert_impl.cli.kinds import FILE, OF_SETTINGS, RECIPE
from keras_bert_impl.cli.parser import Rare, suggestion
from keras_bert_impl.cli.settings_help import default_of, groups_of
from keras_bert_impl.first_guesses import nearest
from keras_bert_impl.io.errors import InputError
from keras_bert_impl.io.reading import parse_yaml, read_text
from keras_bert_impl.io.settings import check, fits, settings_hints

Recipes = Mapping[str, dict[str, Any]]  # name -> settings

_FEW = 4  # choices of a setting that `--help` lists


def add_settings(
    parser: argparse.ArgumentParser,
    settings_class: type,
    recipes: Recipes | None = None,
    main: Sequence[str] = (),
) -> None:
    """Adds `--recipe NAME|FILE.yaml`, and every setting as `--key value`."""
    groups = groups_of(settings_class)
    known = {setting.name: setting for settings in groups.values() for setting in settings}
    parser.set_defaults(options={})
    group = parser.add_argument_group("settings (--no-KEY turns a switch off)")
    for name in main:
        _add_option(group, known[name])
    named = "name that `keras-bert recipes` lists, or " if recipes else ""
    group.add_argument(
        "--recipe",
        type=RECIPE if recipes else FILE,
        metavar="FILE",
        help=f"{named}YAML file of settings",
    )
    for title, settings in groups.items():
        group = parser.add_argument_group(Rare(f"settings: {title[:1].lower()}{title[1:]}"))
        for setting in settings:
            if setting.name not in main:
                _add_option(group, setting)


def _add_option(group, setting):
    """Adds `--key value` for a setting, unless the command has an option of that name."""
    is_rare = isinstance(group.title, Rare)
    rule = f"; {setting.rule}" if is_rare or 0 < len(setting.choices) <= _FEW else ""
    sentence = setting.sentence[:1].lower() + setting.sentence[1:]
    text = f"{sentence}{rule}"
    if is_rare or not setting.is_switch:
        text += f"; default: {setting.shown_default}"
    name = setting.name.replace("_", "-")
    with contextlib.suppress(argparse.ArgumentError):
        group.add_argument(
            *[f"--{name}", f"--no-{name}"][: 1 + setting.is_switch],
            dest=setting.name,
            action=_SettingAction,
            nargs=0 if setting.is_switch else None,
            type=OF_SETTINGS.get(setting.name),
            metavar=setting.metavar,
            choices=_choices(setting),
            default=argparse.SUPPRESS,
            help=text.replace("%", "%%"),
        )


def _choices(setting):
    """Returns the names that an option accepts, or None for any value."""
    names = [*setting.choices, "null"] if setting.default is None else setting.choices
    return names if setting.metavar == "NAME" else None


class _SettingAction(argparse.Action):
    """Stores the text of `--key value` in `options`, a dict."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        if self.nargs == 0:
            values = "false" if str(option_string).startswith("--no-") else "true"
        before = namespace.options.get(self.dest, values)
        if before != values:
            raise InputError(f"{self.option_strings[0]} is given twice: {before} and {values}.")
        namespace.options = namespace.options | {self.dest: values}


def resolve_settings(
    arguments: argparse.Namespace, settings_class: type, recipes: Recipes | None = None
) -> Any:
    """Resolves the settings of a command: defaults, then the recipe, then the options."""
    values = given_settings(arguments, settings_class, recipes)
    for field in dataclasses.fields(settings_class):
        if field.name not in values and default_of(field) is dataclasses.MISSING:
            option = f"--{field.name.replace('_', '-')}"
            raise InputError(f"the setting {field.name!r} is missing; write {option} VALUE.")
    return settings_class(**values)


def given_settings(
    arguments: argparse.Namespace, settings_class: type, recipes: Recipes | None = None
) -> dict[str, Any]:
    """Returns the settings given by the recipe and the options."""
    values = {}
    if arguments.recipe:
        values = _read_recipe(arguments.recipe, settings_class, recipes or {})
    hints = settings_hints(settings_class)
    for key, text in arguments.options.items():
        value = parse_yaml(text, f"--{key.replace('_', '-')} {text}")
        if not fits(value, hints[key]) and fits(text, hints[key]):
            value = text  # such as `4` for a name
        values[key] = _checked(settings_class, key, value, "command line")
    return values


def read_grid(path: str, settings_class: type) -> dict[str, list]:
    """Reads lists of setting values to try.

    Args:
        path: a YAML file with one line `key: [value, ...]` per setting.
    """
    grid = _read_yaml(path)
    if not isinstance(grid, dict) or not all(isinstance(v, list) and v for v in grid.values()):
        raise InputError(f"{path} must have a line `key: [value, ...]` for each setting to try.")
    return {
        key: [_checked(settings_class, key, value, path) for value in values]
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
        known = f" named {', '.join(recipes)}" if recipes else ""
        hint = suggestion(name, recipes)
        raise InputError(
            f"there is no recipe {name!r}{known}, and it is not a YAML file{hint and f'; {hint}'}"
        )
    values = {} if values is None else values
    if not isinstance(values, dict):
        raise InputError(f"{where}: a recipe must have a line `key: value` for each setting.")
    return {key: _checked(settings_class, key, value, where) for key, value in values.items()}


def _checked(settings_class, key, value, where):
    """Validates a setting of a dataclass; the message names its location."""
    hints = settings_hints(settings_class)
    if key not in hints:
        raise InputError(f"{where}: there is no setting {key!r}; {nearest(key, hints)}")
    return check(f"{where}: {key}", value, hints[key])
