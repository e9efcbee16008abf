"""Type-checked access to an object in an external file."""

import types
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.io.settings import OneOf, Range, check, misfit, rule

_REQUIRED = object()


class Document(dict):
    """A JSON or YAML object from an external file, with type-checked access to its values."""

    def __init__(self, values: dict, source: str | Path, inside: str = "") -> None:
        super().__init__(values)
        self.source = source
        self.inside = inside

    def setting(self, key: str, annotation: Any, default: Any = _REQUIRED) -> Any:
        """Returns a value validated against an annotation, or `default` if it is missing."""
        if self.get(key) is not None:
            return check(self._name(key), self[key], annotation)
        if default is _REQUIRED:
            raise self.error(key, rule(annotation))
        return default

    def integer(
        self, key: str, default: Any = _REQUIRED, least: int | None = None, most: int | None = None
    ) -> Any:
        """Returns an integer within inclusive limits; see `setting`."""
        return self.setting(key, Annotated[int, Range(least=least, most=most)], default)

    def number(
        self,
        key: str,
        default: Any = _REQUIRED,
        least: float | None = None,
        above: float | None = None,
        below: float | None = None,
        most: float | None = None,
    ) -> Any:
        """Returns a finite number within limits; see `setting`."""
        limits = Range(least=least, most=most, above=above, below=below)
        return self.setting(key, Annotated[float, limits], default)

    def flag(self, key: str, default: Any = _REQUIRED) -> Any:
        """Returns a bool; see `setting`."""
        return self.setting(key, bool, default)

    def text(self, key: str, default: Any = _REQUIRED, choices: Iterable[str] | None = None) -> Any:
        """Returns a str, one of `choices` if given; see `setting`."""
        return self.setting(
            key, str if choices is None else Annotated[str, OneOf(*choices)], default
        )

    def mapping(self, key: str, default: Any = _REQUIRED) -> Any:
        """Returns a nested object as a `Document`, empty if it is missing; see `setting`."""
        value = self.setting(key, dict, {} if default is _REQUIRED else default)
        if not isinstance(value, dict):
            return value
        return Document(value, self.source, f"{self.inside}{key}.")

    def mappings(self) -> list[tuple[str, "Document"]]:
        """Returns a list of (key, `Document`) for all values, each of which must be an object."""
        return [(key, self.mapping(key)) for key in self]

    def list_of(self, key: str, kind: type, default: Any = _REQUIRED) -> Any:
        """Returns a list of values of one type; `dict` values become `Document`s."""
        annotation = types.GenericAlias(tuple, (kind, ...))
        if isinstance(self.get(key), str):
            raise self.error(key, rule(annotation))
        values = self.setting(key, annotation, default)
        if values is default:
            return default
        if kind is not dict:
            return list(values)
        return [
            Document(value, self.source, f"{self.inside}{key}[{number}].")
            for number, value in enumerate(values)
        ]

    def error(self, key: str, what: str) -> InputError:
        """Creates the `InputError` for a value that is missing or not `what`, such as "a string"."""
        if self.get(key) is None:
            return InputError(f"{self._name(key)} is missing; it must be {what}.")
        return misfit(self._name(key), self[key], what)

    def _name(self, key):
        return f"{self.source}: {self.inside}{key}"
