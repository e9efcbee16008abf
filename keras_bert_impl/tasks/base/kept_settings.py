"""Reads what this package saves of a task model: its arguments, and the tokenizer's facts."""

import abc
import inspect
import logging
import typing
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from keras_bert_impl.checkpoints.config import EncoderConfig
from keras_bert_impl.checkpoints.interop import OWN_SETTINGS
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.io.reading import Document
from keras_bert_impl.utils.settings import check

_LOG = logging.getLogger(__name__)


def kept_settings(config: Document, model_class: type, names: Iterable[str]) -> dict[str, Any]:
    """Reads constructor arguments of a task model from `config.json`."""
    saved = config.mapping(OWN_SETTINGS)
    kinds = _collect_annotations(model_class)
    return {
        name: saved.setting(name, kinds.get(name, Any), None) for name in names if name in saved
    }


def _collect_annotations(model_class):
    annotations: dict[str, Any] = {}
    for kind in reversed(model_class.__mro__):
        if "__init__" in vars(kind):
            annotations |= typing.get_type_hints(kind.__init__, include_extras=True)
    return annotations


def argument_of(model_class: type, name: str) -> tuple[Any, Any] | None:
    for kind in model_class.__mro__:
        if "__init__" in vars(kind):
            argument = inspect.signature(kind.__init__).parameters.get(name)  # type: ignore[misc]
            if argument is not None:
                required = argument.default is argument.empty
                return _collect_annotations(kind).get(
                    name, Any
                ), None if required else argument.default
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


# === The tokenizer in a `.keras` file ===

TOKENIZER_ASSET = "keras_tokenizer.json"
_FACTS = ("vocabulary_size", "num_separators", "segment_of_second")
_IDS = ("pad_id", "unk_id", "cls_id", "sep_id", "mask_id")


def facts_of(tokenizer: Any) -> dict[str, int]:
    """Returns the properties of a tokenizer on which the constructors of task models depend."""
    return {name: getattr(tokenizer, name) for name in (*_FACTS, *_IDS)}


class TokenizerOfFile(abc.ABC):  # noqa: B024 - it has the layout of a `Tokenizer`
    """Stands for a tokenizer until Keras has read the assets of a `.keras` file."""

    def __init__(self, facts: dict[str, int]) -> None:
        vars(self).update(facts)

    def with_one_segment(self) -> "TokenizerOfFile":
        self.segment_of_second = 0
        return self

    def become(self, tokenizer: Any) -> None:
        """Turns into a tokenizer. Other objects may already refer to this object."""
        tokenizer.segment_of_second = self.segment_of_second
        self.__dict__ = vars(tokenizer)
        self.__class__ = type(tokenizer)
