"""Reads the arguments of a task model that this package saves in `config.json`."""

import inspect
import logging
import typing
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from keras_bert_impl.config import EncoderConfig
from keras_bert_impl.interop import OWN_SETTINGS
from keras_bert_impl.io.errors import InputError
from keras_bert_impl.io.reading import Document
from keras_bert_impl.io.settings import check

_LOG = logging.getLogger(__name__)


def kept_settings(config: Document, model_class: type, names: Iterable[str]) -> dict[str, Any]:
    """Reads constructor arguments of a task model from `config.json`."""
    own = config.mapping(OWN_SETTINGS)
    kinds = _annotations(model_class)
    return {name: own.setting(name, kinds.get(name, Any), None) for name in names if name in own}


def _annotations(model_class):
    found: dict[str, Any] = {}
    for kind in reversed(model_class.__mro__):
        if "__init__" in vars(kind):
            found |= typing.get_type_hints(kind.__init__, include_extras=True)
    return found


def argument_of(model_class: type, name: str) -> tuple[Any, Any] | None:
    for kind in model_class.__mro__:
        if "__init__" in vars(kind):
            argument = inspect.signature(kind.__init__).parameters.get(name)  # type: ignore[misc]
            if argument is not None:
                required = argument.default is argument.empty
                return _annotations(kind).get(name, Any), None if required else argument.default
    return None


def checked_length(length: int, limit: int) -> int:
    if not 3 <= check("max_length", length, int) <= limit:
        raise InputError(
            f"max_length must be from 3 to {limit}, the number of positions of the encoder. "
            f"Received: max_length={length}"
        )
    return int(length)


def within_positions(
    kept: dict[str, Any], config: EncoderConfig, name: str | Path
) -> dict[str, Any]:
    """Limits `max_length` to the encoder's number of positions."""
    length = kept.get("max_length")
    if length is None or length <= config.max_length:
        return kept
    _LOG.warning(
        "%s: max_length is %d, but the encoder has %d positions; longer texts are truncated",
        *(name, length, config.max_length),
    )
    return kept | {"max_length": config.max_length}
