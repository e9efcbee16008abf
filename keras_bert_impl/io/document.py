"""Type-checked access to an object in an external file."""

import math
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from keras_bert_impl.io.errors import InputError, shown

_LARGEST = 2**31 - 1  # int32 maximum; bounds integers without an explicit limit
_SURROGATE = re.compile("[\ud800-\udfff]")
_REQUIRED = object()


class Document(dict):
    """A JSON or YAML object from an external file, with type-checked access to its values.

    A `null` value counts as missing. The document is still a dict, so it can be passed on as is.

    Args:
        source: The file, for error messages.
        inside: Key prefix of the object within the file, such as `"model."`.

    Example:
        >>> from pathlib import Path
        >>> from keras_bert_impl.io.reading import read_json
        >>> config = read_json(Path("config.json"))
        >>> config.integer("num_hidden_layers", least=1)
        12
        >>> config.mapping("text_config").number("dropout", 0.1)
        Traceback (most recent call last):
            ...
        keras_bert_impl.io.errors.InputError: config.json: text_config.dropout must be a number. Received: '0.1'
    """

    def __init__(self, values: dict, source: str | Path, inside: str = "") -> None:
        super().__init__(values)
        self.source = source
        self.inside = inside

    def integer(
        self, key: str, default: Any = _REQUIRED, least: int | None = None, most: int = _LARGEST
    ) -> Any:
        """Returns an integer within limits, or `default` if it is missing.

        Args:
            default: Any value. If not given, a missing value raises an error.
            least, most: Inclusive limits.

        Raises:
            InputError: the value is missing without a default, or invalid.
        """
        low = -_LARGEST if least is None else least
        limits = f", at least {least}" if most == _LARGEST else f" from {low} to {most}"
        what = f"an integer{'' if least is None and most == _LARGEST else limits}"
        return self._value(key, default, what, lambda v: type(v) is int and low <= v <= most)

    def number(
        self,
        key: str,
        default: Any = _REQUIRED,
        least: float | None = None,
        above: float | None = None,
        below: float | None = None,
        most: float | None = None,
    ) -> Any:
        """Returns a finite float or int within limits; see `integer`."""
        limits = {"at least": least, "above": above, "below": below, "at most": most}
        words = [f"{word} {limit}" for word, limit in limits.items() if limit is not None]

        def holds(value):
            return (
                (type(value) is float or (type(value) is int and abs(value) <= 2**63))
                and math.isfinite(value)
                and (least is None or value >= least)
                and (above is None or value > above)
                and (below is None or value < below)
                and (most is None or value <= most)
            )

        return self._value(key, default, " ".join(["a number", " and ".join(words)]).strip(), holds)

    def flag(self, key: str, default: Any = _REQUIRED) -> Any:
        """Returns a bool; see `integer`."""
        return self._value(key, default, "true or false", lambda value: type(value) is bool)

    def text(self, key: str, default: Any = _REQUIRED, choices: Iterable[str] | None = None) -> Any:
        """Returns a str, one of `choices` if given; see `integer`."""
        what = "a string" if choices is None else f"one of {', '.join(choices)}"

        def holds(value):
            return _is_text(value) and (choices is None or value in choices)

        return self._value(key, default, what, holds)

    def mapping(self, key: str, default: Any = _REQUIRED) -> Any:
        """Returns a nested object as a `Document`, empty if it is missing; see `integer`."""
        default = {} if default is _REQUIRED else default
        value = self._value(key, default, "an object", lambda value: isinstance(value, dict))
        if not isinstance(value, dict):
            return value
        return Document(value, self.source, f"{self.inside}{key}.")

    def mappings(self) -> list[tuple[str, "Document"]]:
        """Returns a list of (key, `Document`) for all values, each of which must be an object."""
        return [(key, self.mapping(key)) for key in self]

    def list_of(self, key: str, kind: type, default: Any = _REQUIRED) -> Any:
        """Returns a list of values of one type; `dict` values become `Document`s.

        Args:
            key, default: See `integer`. An empty list is not missing.
            kind: Type of the values: `str`, `int`, `float` or `dict`.
        """
        names = {str: "strings", int: "integers", float: "numbers", dict: "objects"}

        def holds(value):
            is_kind = _is_text if kind is str else lambda item: type(item) is kind
            return isinstance(value, list) and all(map(is_kind, value))

        values = self._value(key, default, f"a list of {names[kind]}", holds)
        if kind is not dict or not isinstance(values, list):
            return values
        return [
            Document(value, self.source, f"{self.inside}{key}[{number}].")
            for number, value in enumerate(values)
        ]

    def error(self, key: str, what: str) -> InputError:
        """Creates the `InputError` for a value that is missing or not `what`, such as "a string"."""
        name = f"{self.source}: {self.inside}{key}"
        if self.get(key) is None:
            return InputError(f"{name} is missing; it must be {what}.")
        return InputError(f"{name} must be {what}. Received: {shown(self[key])}")

    def _value(self, key: str, default: Any, what: str, holds: Callable[[Any], bool]) -> Any:
        value = self.get(key)
        if value is None and default is not _REQUIRED:
            return default
        if not holds(value):
            raise self.error(key, what)
        return value


def _is_text(value):
    """Returns whether a value is a UTF-8 encodable str; JSON can escape half a surrogate pair."""
    return type(value) is str and (value.isascii() or not _SURROGATE.search(value))
