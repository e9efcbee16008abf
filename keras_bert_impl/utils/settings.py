"""Validates settings and arguments by their annotations: types, ranges and choices.

Settings dataclasses call `validate(self)` in `__post_init__`. Functions call `check(name, value,
annotation)`. NumPy numbers are accepted as numbers. Bools, NaN and infinity are not accepted as
numbers. The module does not import NumPy, so that `--help` is fast.

Example:
    import dataclasses
    from typing import Annotated
    from keras_bert_impl.utils.settings import OneOf, PositiveInt, Rate, validate

    @dataclasses.dataclass(frozen=True)
    class Settings:
        epochs: PositiveInt = 3
        dropout: Rate | None = None
        optimizer: Annotated[str, OneOf("adamw", "lamb")] = "adamw"

        def __post_init__(self):
            validate(self)

    Settings(epochs=0)  # InputError: epochs must be a positive integer, got 0.
"""

import collections.abc
import dataclasses
import difflib
import functools
import math
import operator
import os
import re
import types
import typing
from typing import Annotated, Any

from keras_bert_impl.utils.errors import InputError, shown
from keras_bert_impl.utils.io.paths import expanded

_MOST = 2**31 - 1  # int32 maximum, the default upper limit of integers
_MOST_CHOICES = 20  # maximum number of choices in a message


@dataclasses.dataclass(frozen=True)
class Range:
    """Limits of a number, for `Annotated[int, Range(...)]` or `Annotated[float, Range(...)]`.

    Args:
        least, most: Inclusive limits.
        above, below: Exclusive limits.
    """

    least: float | None = None
    most: float | None = None
    above: float | None = None
    below: float | None = None

    def holds(self, value: float) -> bool:
        return (
            (self.least is None or value >= self.least)
            and (self.most is None or value <= self.most)
            and (self.above is None or value > self.above)
            and (self.below is None or value < self.below)
        )

    def rule(self, noun: str) -> str:
        """Describes the limits, for example as `"a number in [0, 1)"`."""
        low = self.least if self.least is not None else self.above
        high = self.most if self.most is not None else self.below
        article = "an" if noun == "integer" else "a"
        if self == Range(above=0) or (noun == "integer" and self == Range(least=1)):
            return f"a positive {noun}"
        if low is None and high is None:
            return f"{article} {noun}"
        if high is None:
            return f"{article} {noun}, {'at least' if self.least is not None else 'above'} {low}"
        if low is None:
            return f"{article} {noun}, {'at most' if self.most is not None else 'below'} {high}"
        brackets = "[" if self.least is not None else "(", "]" if self.most is not None else ")"
        return f"{article} {noun} in {brackets[0]}{low}, {high}{brackets[1]}"


class OneOf:
    """The allowed values of a setting, for `Annotated[str, OneOf("adamw", "lamb")]`."""

    def __init__(self, *choices: Any) -> None:
        self.choices = choices


PositiveInt = Annotated[int, Range(least=1)]
NonNegativeInt = Annotated[int, Range(least=0)]
PositiveFloat = Annotated[float, Range(above=0)]
NonNegativeFloat = Annotated[float, Range(least=0)]
Rate = Annotated[float, Range(least=0, below=1)]  # such as a dropout rate
Fraction = Annotated[float, Range(above=0, below=1)]
Share = Annotated[float, Range(least=0, most=1)]
Seed = Annotated[int, Range(least=0, most=2**32 - 1)]
DType = Annotated[
    str,
    OneOf("float32", "float64", "bfloat16", "float16", "mixed_bfloat16", "mixed_float16"),
]


def validate(settings: Any) -> None:
    """Validates every field of a dataclass instance against its annotation.

    Every field is set to the converted value that `check` returns.

    Args:
        settings: Dataclass instance, which may be frozen.

    Raises:
        InputError: a field has the wrong type or is out of range. The message names the first
            invalid field.
    """
    hints = settings_hints(settings.__class__)
    for field in dataclasses.fields(settings):
        value = check(field.name, getattr(settings, field.name), hints[field.name])
        object.__setattr__(settings, field.name, expanded(value))  # A model may be a path.


def check(name: str, value: Any, annotation: Any) -> Any:
    """Validates one value against an annotation.

    Args:
        name: Name of the setting or argument, for the message.
        value: Value to check.
        annotation: Annotation such as `PositiveInt`, `Rate | None`, `tuple[str, ...]`,
            `dict[str, float]` or a dataclass. A tuple of choices must not be empty or contain
            duplicates.

    Returns:
        The value after conversion: NumPy numbers become Python numbers, sequences become tuples,
        and dicts become instances of the annotated dataclass.

    Raises:
        InputError: the value has the wrong type or is out of range.
    """
    try:
        converted = _convert(value, annotation)
    except InputError as error:  # A field of a dataclass is invalid.
        raise InputError(f"{name}: {error}") from error
    if converted is _MISFIT:
        raise misfit(name, value, rule(annotation), _format_hint(value, annotation))
    return converted


def fits(value: Any, annotation: Any) -> bool:
    """Returns whether `check` accepts a value."""
    try:
        return _convert(value, annotation) is not _MISFIT
    except InputError:
        return False


def misfit(name: str, value: Any, what: str, hint: str = "") -> InputError:
    """Returns the error for an invalid value, which must be `what`, such as `"a string"`."""
    return InputError(f"{name} must be {what}, got {shown(value)}.{hint}")


def rule(annotation: Any) -> str:
    """Describes an annotation, for example as `"a positive integer or None"`."""
    return " or ".join(_describe_kind(kind) for kind in _list_alternatives(annotation))


_MISFIT = object()
_NOUNS = {int: "integer", float: "number"}
_WORDS = {str: "a string", bool: "True or False", dict: "a dict", type(None): "None"}
_SEQUENCES = (tuple, list, collections.abc.Sequence)
_SURROGATE = re.compile("[\ud800-\udfff]")


@functools.cache
def settings_hints(settings_class: type) -> dict[str, Any]:
    hints = typing.get_type_hints(settings_class, include_extras=True)
    return {field.name: hints[field.name] for field in dataclasses.fields(settings_class)}


def _list_alternatives(annotation):
    is_union = typing.get_origin(annotation) in (typing.Union, types.UnionType)
    return typing.get_args(annotation) if is_union else (annotation,)


def _split_annotation(kind):
    """Splits an annotation into (type, `Range`, `OneOf` or None)."""
    if typing.get_origin(kind) is Annotated:
        return typing.get_args(kind)
    return kind, None


def _convert(value, annotation):
    """Converts the value to the first type that fits; returns `_MISFIT` if none fits."""
    for kind in _list_alternatives(annotation):
        kind, limits = _split_annotation(kind)
        converted = _convert_to_kind(value, kind)
        if converted is not _MISFIT and _is_within(converted, kind, limits):
            return converted
    return _MISFIT


def _convert_to_kind(value, kind):
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return value
    if kind in _CONVERSIONS:
        return _CONVERSIONS[kind](value)
    if origin in _SEQUENCES:
        return _convert_items(value, arguments[0])
    if origin is dict and isinstance(value, dict):
        return _convert_entries(value, *arguments)
    if dataclasses.is_dataclass(kind) and isinstance(value, dict):
        fields = {field.name for field in dataclasses.fields(kind)}
        return kind(**value) if value.keys() <= fields else _MISFIT
    return value if isinstance(value, origin or kind) else _MISFIT


def _is_within(value, kind, limits):
    if isinstance(limits, OneOf):
        return value in limits.choices
    if kind is int:
        most = limits.most if limits and limits.most is not None else _MOST
        if abs(value) > most:
            return False
    return limits is None or limits.holds(value)


def _convert_items(values, kind):
    if isinstance(values, (str, os.PathLike)):
        values = [values]  # A single value becomes a tuple with one element.
    if not isinstance(values, (list, tuple)) and not hasattr(values, "tolist"):
        return _MISFIT
    items = tuple(_convert(item, kind) for item in values)
    if any(item is _MISFIT for item in items):
        return _MISFIT
    if _has_choices(kind) and not 0 < len(set(items)) == len(items):
        return _MISFIT  # A tuple of choices must not be empty or contain duplicates.
    return items


def _has_choices(kind):
    return isinstance(_split_annotation(kind)[1], OneOf)


def _convert_entries(values, key_kind, value_kind):
    entries = {_convert(k, key_kind): _convert(v, value_kind) for k, v in values.items()}
    return _MISFIT if _MISFIT in (*entries, *entries.values()) else entries


def _is_bool(value):
    # This also matches NumPy's bool, without importing NumPy.
    return type(value).__name__ in ("bool", "bool_")


def _convert_to_int(value):
    if _is_bool(value):
        return _MISFIT
    try:
        return operator.index(value)
    except TypeError:
        return _MISFIT


def _convert_to_float(value):
    if _is_bool(value) or isinstance(value, (str, bytes)) or getattr(value, "shape", ()) != ():
        return _MISFIT
    try:
        value = float(value)
    except (TypeError, ValueError, OverflowError):
        return _MISFIT
    return value if math.isfinite(value) else _MISFIT


def _convert_to_bool(value):
    return bool(value) if _is_bool(value) else _MISFIT


def _convert_to_str(value):
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if not isinstance(value, str):
        return _MISFIT
    # JSON can contain an unpaired surrogate, which cannot be written to a file.
    return _MISFIT if not value.isascii() and _SURROGATE.search(value) else str(value)


_CONVERSIONS = {
    int: _convert_to_int,
    float: _convert_to_float,
    bool: _convert_to_bool,
    str: _convert_to_str,
}


def _describe_kind(kind):
    kind, limits = _split_annotation(kind)
    if isinstance(limits, OneOf):
        note = ", ..." if len(limits.choices) > _MOST_CHOICES else ""
        return f"one of {', '.join(map(str, limits.choices[:_MOST_CHOICES]))}{note}"
    if typing.get_origin(kind) in _SEQUENCES:
        item = typing.get_args(kind)[0]
        note = " (at least one, without duplicates)" if _has_choices(item) else ""
        return f"a list of values, each {rule(item)}{note}"
    if kind in _NOUNS:
        return (limits or Range()).rule(_NOUNS[kind])
    if dataclasses.is_dataclass(kind):
        fields = ", ".join(field.name for field in dataclasses.fields(kind))
        return f"a {kind.__name__} or a dict of its fields ({fields})"
    kind = typing.get_origin(kind) or kind
    return _WORDS.get(kind) or f"a {kind.__name__}"


def _format_hint(value, annotation):
    """Returns a hint with the closest choice, or an empty string."""
    limits = [_split_annotation(kind)[1] for kind in _list_alternatives(annotation)]
    choices = [str(c) for limit in limits if isinstance(limit, OneOf) for c in limit.choices]
    near = difflib.get_close_matches(value, choices, n=1) if isinstance(value, str) else []
    return f" Did you mean {near[0]!r}?" if near else ""
