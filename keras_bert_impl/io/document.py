"""Type-checked access to an object in an external file."""

import math
import re

from keras_bert_impl.io.errors import InputError, shown

_LARGEST = 2**31 - 1  # int32 maximum; bounds integers without an explicit limit
_SURROGATE = re.compile("[\ud800-\udfff]")
_REQUIRED = object()


class Document(dict):
    """A JSON or YAML object from an external file, with type-checked access to its values.

    A `null` value counts as missing. The document is still a dict, so it can be passed on as is.

    Args:
        values: dict.
        source: str or `Path`. The file, for error messages.
        inside: str. Key prefix of the object within the file, such as `"model."`.

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

    def __init__(self, values, source, inside=""):
        super().__init__(values)
        self.source = source
        self.inside = inside

    def integer(self, key, default=_REQUIRED, least=None, most=_LARGEST):
        """Returns an integer within limits, or `default` if it is missing.

        Args:
            key: str.
            default: any value. If not given, a missing value raises an error.
            least, most: inclusive limits.

        Raises:
            InputError: the value is missing without a default, or invalid.
        """
        low = -_LARGEST if least is None else least
        limits = f", at least {least}" if most == _LARGEST else f" from {low} to {most}"
        what = f"a whole number{'' if least is None and most == _LARGEST else limits}"
        return self._value(key, default, what, lambda v: type(v) is int and low <= v <= most)

    def number(self, key, default=_REQUIRED, least=None, above=None, below=None, most=None):
        """Returns a finite float or int within limits; see `integer`.

        Args:
            least, most: inclusive limits.
            above, below: exclusive limits.
        """
        words = {"at least": least, "above": above, "below": below, "at most": most}
        words = [f"{word} {limit}" for word, limit in words.items() if limit is not None]

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

    def flag(self, key, default=_REQUIRED):
        """Returns a bool; see `integer`."""
        return self._value(key, default, "true or false", lambda value: type(value) is bool)

    def text(self, key, default=_REQUIRED, choices=None):
        """Returns a str, one of `choices` if given; see `integer`."""
        what = "a string" if choices is None else f"one of {', '.join(choices)}"

        def holds(value):
            return _is_text(value) and (choices is None or value in choices)

        return self._value(key, default, what, holds)

    def mapping(self, key, default=_REQUIRED):
        """Returns a nested object as a `Document`, empty if it is missing; see `integer`."""
        default = {} if default is _REQUIRED else default
        value = self._value(key, default, "an object", lambda value: isinstance(value, dict))
        if not isinstance(value, dict):
            return value
        return Document(value, self.source, f"{self.inside}{key}.")

    def mappings(self):
        """Returns a list of (key, `Document`) for all values, each of which must be an object."""
        return [(key, self.mapping(key)) for key in self]

    def list_of(self, key, kind, default=_REQUIRED):
        """Returns a list of values of one type; `dict` values become `Document`s.

        Args:
            key, default: see `integer`. An empty list is not missing.
            kind: type of the values: `str`, `int`, `float` or `dict`.
        """
        names = {str: "strings", int: "whole numbers", float: "numbers", dict: "objects"}

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

    def error(self, key, what):
        """Creates the `InputError` for a missing or invalid value.

        Args:
            key: str.
            what: str. The expected value, such as `"a string"`.
        """
        place = f"{self.source}: {self.inside}{key}"
        if self.get(key) is None:
            return InputError(f"{place} is missing; it must be {what}.")
        return InputError(f"{place} must be {what}. Received: {shown(self[key])}")

    def _value(self, key, default, what, holds):
        value = self.get(key)
        if value is None and default is not _REQUIRED:
            return default
        if not holds(value):
            raise self.error(key, what)
        return value


def _is_text(value):
    """Returns whether a value is a UTF-8 encodable str; JSON can escape half a surrogate pair."""
    return type(value) is str and (value.isascii() or not _SURROGATE.search(value))
