"""Typed settings of a command, from defaults, recipes and options."""

import argparse
import contextlib
import dataclasses
import inspect
import itertools
import re
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from keras_bert_impl.cli.common import FILE, OF_SETTINGS, RECIPE
from keras_bert_impl.cli.parser import Rare, suggestion
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.first_guesses import nearest
from keras_bert_impl.utils.io.reading import parse_yaml, read_text
from keras_bert_impl.utils.settings import OneOf, check, fits, rule, settings_hints

_METAVARS = {int: "N", float: "X", tuple: "[A,B]"}
_PLAIN = str.maketrans("", "", '`"')  # removes the quotes that mark code
_SENTENCE = re.compile(r"\.(?=\s|$)")
_DEFAULT = re.compile(r"(?:Default:|None for|None means) (.+?)\.(?:\s|$)")


class Setting(NamedTuple):
    """One setting.

    Args:
        name: name of the field.
        annotation: type of the field, with its limits.
        default: default of the field; `dataclasses.MISSING` if it is required.
        text: description from the docstring of the class that declares the field.
    """

    name: str
    annotation: Any
    default: Any
    text: str

    @property
    def sentence(self) -> str:
        """First sentence of the description, without the period."""
        return _SENTENCE.split(self.text, maxsplit=1)[0].translate(_PLAIN)

    @property
    def shown_default(self) -> str:
        """The default in the help. If the default is None, the text is from the description."""
        if self.default is dataclasses.MISSING:
            return "required"
        if self.default is None or self.default == ():
            match = _DEFAULT.search(self.text)
            return match[1].translate(_PLAIN) if match else "none"
        if isinstance(self.default, tuple):
            return f"[{','.join(map(str, self.default))}]"
        return str(self.default).lower() if self.default is False else str(self.default)

    @property
    def metavar(self) -> str:
        """Placeholder for a value in the help."""
        kinds = [getattr(kind, "__origin__", kind) for kind in self._list_kinds()]
        if tuple not in kinds and self.choices:
            return "NAME"
        return next((_METAVARS[kind] for kind in kinds if kind in _METAVARS), "VALUE")

    @property
    def choices(self) -> tuple[str, ...]:
        """The allowed names. Empty if the setting is not a choice between names."""
        return tuple(str(choice) for names in self._list_name_choices() for choice in names)

    @property
    def is_switch(self) -> bool:
        return bool in self._list_kinds()

    @property
    def rule(self) -> str:
        """The accepted values in words."""
        return (
            rule(self.annotation).replace("True or False", "true or false").replace("None", "null")
        )

    def _list_kinds(self):
        return (self.annotation, *typing.get_args(self.annotation))

    def _list_name_choices(self):
        for kind in self._list_kinds():
            for limits in getattr(kind, "__metadata__", ()):
                if isinstance(limits, OneOf):
                    yield limits.choices


def settings_of(settings_class: type) -> list[Setting]:
    """Returns the settings of a dataclass, without inherited settings."""
    annotations = inspect.get_annotations(settings_class)
    hints = typing.get_type_hints(settings_class, include_extras=True)
    texts = sentences_of(settings_class.__doc__ or "")
    return [
        Setting(f.name, hints[f.name], default_of(f), texts.get(f.name, ""))
        for f in dataclasses.fields(settings_class)
        if f.name in annotations
    ]


def groups_of(settings_class: type) -> dict[str, list[Setting]]:
    """Returns {title: settings} for a dataclass and each of its base classes."""
    groups = {}
    for kind in settings_class.__mro__:
        if dataclasses.is_dataclass(kind) and (settings := settings_of(kind)):
            groups[title_of(kind)] = settings
    return groups


def title_of(settings_class: type) -> str:
    """Returns the title of a group of settings, from the first line of the docstring."""
    first = (settings_class.__doc__ or settings_class.__name__).strip().splitlines()[0]
    return first.rstrip(".").removeprefix("Settings of ")


def default_of(field: dataclasses.Field) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def sentences_of(docstring: str) -> dict[str, str]:
    """Returns {argument: description} from the `Args:` section of a docstring."""
    _, _, section = inspect.cleandoc(docstring).partition("\nArgs:\n")
    sentences: dict[str, str] = {}
    names: list[str] = []
    for line in section.splitlines():
        if line and not line.startswith(" "):
            break
        entry = re.fullmatch(r"    (\w+(?:, \w+)*): (.*)", line)
        if entry:
            names = entry[1].split(", ")
            sentences |= dict.fromkeys(names, entry[2])
        elif line.strip():
            sentences |= {name: f"{sentences[name]} {line.strip()}" for name in names}
    return {name: text[:1].upper() + text[1:] for name, text in sentences.items()}


Recipes = Mapping[str, dict[str, Any]]  # name -> settings

_FEW = 4  # maximum number of choices that `--help` lists


def add_settings(
    parser: argparse.ArgumentParser,
    settings_class: type,
    recipes: Recipes | None = None,
    main: Sequence[str] = (),
) -> None:
    """Adds `--recipe NAME|FILE.yaml` and all settings as `--key value`."""
    groups = groups_of(settings_class)
    settings_by_name: dict[str, Setting] = {}
    for setting in itertools.chain(*groups.values()):
        settings_by_name.setdefault(setting.name, setting)  # subclasses come first
    parser.set_defaults(options={})
    group = parser.add_argument_group("settings (--no-KEY turns a switch off)")
    for name in main:
        _add_option(group, settings_by_name[name])
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
    """Adds `--key value`. Does nothing if the command already has this option."""
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
            choices=_list_choices(setting),
            default=argparse.SUPPRESS,
            help=text.replace("%", "%%"),
        )


def _list_choices(setting):
    names = [*setting.choices, "null"] if setting.default is None else setting.choices
    return names if setting.metavar == "NAME" else None


class _SettingAction(argparse.Action):
    """Adds `key: value` to the dict `options` of the arguments. The value is a string."""

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
    """Returns the settings of a command. Options override the recipe, which overrides defaults."""
    values = given_settings(arguments, settings_class, recipes)
    for field in dataclasses.fields(settings_class):
        if field.name not in values and default_of(field) is dataclasses.MISSING:
            option = f"--{field.name.replace('_', '-')}"
            raise InputError(f"the setting {field.name!r} is missing; write {option} VALUE.")
    return settings_class(**values)


def given_settings(
    arguments: argparse.Namespace, settings_class: type, recipes: Recipes | None = None
) -> dict[str, Any]:
    values = {}
    if arguments.recipe:
        values = read_recipe(arguments.recipe, settings_class, recipes or {})
    hints = settings_hints(settings_class)
    for key, text in arguments.options.items():
        value = parse_yaml(text, f"--{key.replace('_', '-')} {text}")
        if not fits(value, hints[key]) and fits(text, hints[key]):
            value = text  # YAML reads 4 as a number, but the field may be a str.
        if not fits(value, hints[key]) and "," in text:
            values_of_list = parse_yaml(f"[{text}]", key)  # 0.2,0.8 without brackets
            value = values_of_list if fits(values_of_list, hints[key]) else value
        values[key] = _validate(settings_class, key, value, "command line")
    return values


def read_grid(path: str, settings_class: type) -> dict[str, list]:
    """Reads the values to try from a YAML file with lines `key: [value, ...]`."""
    grid = _read_yaml(path)
    if not isinstance(grid, dict) or not all(isinstance(v, list) and v for v in grid.values()):
        raise InputError(f"{path} must contain a line `key: [value, ...]` for each setting to try.")
    return {
        key: [_validate(settings_class, key, value, path) for value in values]
        for key, values in grid.items()
    }


def _read_yaml(name):
    return parse_yaml(read_text(Path(name)), name)


def read_recipe(name: str, settings_class: type, recipes: Recipes) -> dict[str, Any]:
    """Returns the settings in a recipe, by name, or in a YAML file."""
    if name in recipes:
        values, where = recipes[name], f"recipe {name}"
    elif name.endswith((".yaml", ".yml")):
        values, where = _read_yaml(name), name
    else:
        names = f" named {', '.join(recipes)}" if recipes else ""
        hint = suggestion(name, recipes)
        raise InputError(
            f"there is no recipe {name!r}{names}, and it is not a YAML file{hint and f'; {hint}'}"
        )
    values = {} if values is None else values
    if not isinstance(values, dict):
        raise InputError(f"{where}: a recipe must contain a line `key: value` for each setting.")
    return {key: _validate(settings_class, key, value, where) for key, value in values.items()}


def _validate(settings_class, key, value, where):
    """Validates the value of a setting. Error messages start with `where`."""
    hints = settings_hints(settings_class)
    if key not in hints:
        raise InputError(f"{where}: there is no setting {key!r}; {nearest(key, hints)}")
    return check(f"{where}: {key}", value, hints[key])
