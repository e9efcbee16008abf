"""Names, types, defaults and descriptions of settings, from the dataclasses that declare them."""

import dataclasses
import inspect
import re
import typing
from typing import Any, NamedTuple

from keras_bert_impl.io.settings import OneOf, rule

_METAVARS = {int: "N", float: "X", tuple: "[A,B]"}
_PLAIN = str.maketrans("", "", '`"')  # without the marks of code
_SENTENCE = re.compile(r"\.(?=\s|$)")
_DEFAULT = re.compile(r"(?:Default:|None for|None means) (.+?)\.(?:\s|$)")


class Setting(NamedTuple):
    """One setting.

    Args:
        name: of the field.
        annotation: type of the field, with its limits.
        default: of the field; `dataclasses.MISSING` if it is required.
        text: description, from the docstring of the class that declares the field.
    """

    name: str
    annotation: Any
    default: Any
    text: str

    @property
    def sentence(self) -> str:
        """First sentence of the description, without its period."""
        return _SENTENCE.split(self.text, maxsplit=1)[0].translate(_PLAIN)

    @property
    def shown_default(self) -> str:
        """The default in words; what None stands for, if the description says it."""
        if self.default is dataclasses.MISSING:
            return "required"
        if self.default is None or self.default == ():
            found = _DEFAULT.search(self.text)
            return found[1].translate(_PLAIN) if found else "none"
        if isinstance(self.default, tuple):
            return f"[{','.join(map(str, self.default))}]"
        return str(self.default).lower() if self.default is False else str(self.default)

    @property
    def metavar(self) -> str:
        """The name of a value in help, by its type."""
        kinds = [getattr(kind, "__origin__", kind) for kind in self._kinds()]
        if tuple not in kinds and self.choices:
            return "NAME"
        return next((_METAVARS[kind] for kind in kinds if kind in _METAVARS), "VALUE")

    @property
    def choices(self) -> tuple[str, ...]:
        """The values of a setting that is one of some names, else empty."""
        return tuple(str(choice) for one in self._limits() for choice in one)

    @property
    def is_switch(self) -> bool:
        """Whether the setting is true or false."""
        return bool in self._kinds()

    @property
    def rule(self) -> str:
        """What the setting accepts, in words."""
        return (
            rule(self.annotation).replace("True or False", "true or false").replace("None", "null")
        )

    def _kinds(self):
        """Returns the annotation and its parts: of `X | None`, also X and None."""
        return (self.annotation, *typing.get_args(self.annotation))

    def _limits(self):
        for kind in self._kinds():
            for limits in getattr(kind, "__metadata__", ()):
                if isinstance(limits, OneOf):
                    yield limits.choices


def settings_of(settings_class: type) -> list[Setting]:
    """Returns the settings that a dataclass itself declares, without those of its bases."""
    own = inspect.get_annotations(settings_class)
    hints = typing.get_type_hints(settings_class, include_extras=True)
    texts = sentences_of(settings_class.__doc__ or "")
    return [
        Setting(f.name, hints[f.name], default_of(f), texts.get(f.name, ""))
        for f in dataclasses.fields(settings_class)
        if f.name in own
    ]


def groups_of(settings_class: type) -> dict[str, list[Setting]]:
    """Returns the settings of a dataclass and its bases, below the first lines of their docstrings."""
    found = {}
    for kind in settings_class.__mro__:
        if dataclasses.is_dataclass(kind) and (settings := settings_of(kind)):
            found[title_of(kind)] = settings
    return found


def title_of(settings_class: type) -> str:
    """Returns what a dataclass has the settings of."""
    first = (settings_class.__doc__ or settings_class.__name__).strip().splitlines()[0]
    return first.rstrip(".").removeprefix("Settings of ")


def default_of(field: dataclasses.Field) -> Any:
    """Returns the default of a field, or `dataclasses.MISSING`."""
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def sentences_of(docstring: str) -> dict[str, str]:
    """Returns a dict of argument to its text in the `Args:` of a docstring."""
    _, _, rest = inspect.cleandoc(docstring).partition("\nArgs:\n")
    found: dict[str, str] = {}
    names: list[str] = []
    for line in rest.splitlines():
        if line and not line.startswith(" "):
            break
        entry = re.fullmatch(r"    (\w+(?:, \w+)*): (.*)", line)
        if entry:
            names = entry[1].split(", ")
            found |= dict.fromkeys(names, entry[2])
        elif line.strip():
            found |= {name: f"{found[name]} {line.strip()}" for name in names}
    return {name: text[:1].upper() + text[1:] for name, text in found.items()}
