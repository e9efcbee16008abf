"""Readers of the task model settings kept in `config.json` under this package's key."""

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from keras_bert_impl.config import EncoderConfig
from keras_bert_impl.interop import OWN_SETTINGS
from keras_bert_impl.io.document import Document
from keras_bert_impl.io.errors import InputError
from keras_bert_impl.settings import check
from keras_bert_impl.tasks.base.long_texts import LongTexts

_LOG = logging.getLogger(__name__)


def _count(own, name):
    return own.integer(name, None, least=1, most=1 << 20)


def _features(own, name):
    return own.text(name) if isinstance(own.get(name), str) else own.integer(name, None)


def _weights(own, name):
    values = own.get(name)
    if values is not None and not isinstance(values, list):
        raise own.error(name, "a list of numbers")
    weights = Document(enumerate(values or ()), own.source, f"{own.inside}{name}.")
    return values and [weights.number(place) for place in weights]


def _prompts(own, name):
    prompts = own.mapping(name, {})
    return {key: prompts.text(key) for key in prompts}


def _long_texts(own, name):
    fields = {field: _count(own, field) for field in ("head_tokens", "doc_stride", "max_windows")}
    return LongTexts().changed({"way": own.text(name, None), **fields})


_COUNTS = (
    "truncate_dim max_length doc_stride max_question_length max_answer_length num_best lstm_dim "
    "num_layers"
).split()
_FLAGS = ("do_lower_case", "label_all_tokens", "crf", "learn_layer_weights", "normalize")
_TEXTS = "default_prompt_name similarity_fn_name mask_unit aggregation pooling loss".split()
_READ = {
    **dict.fromkeys(_COUNTS, _count),
    **dict.fromkeys(_FLAGS, lambda own, name: own.flag(name, None)),
    **dict.fromkeys(_TEXTS, lambda own, name: own.text(name, None)),
    **dict.fromkeys(("null_threshold", "scale", "margin"), lambda own, n: own.number(n, None)),
    "mask_rate": lambda own, name: own.number(name, None, above=0, below=1),
    "head_dropout": lambda own, name: own.number(name, None, least=0, below=1),
    "features": _features,
    "layer_weights": _weights,
    "long_texts": _long_texts,
    "projections": lambda own, name: [dict(one) for one in own.list_of(name, dict, [])],
    "prompts": _prompts,
}


def kept_settings(config: Document, names: Iterable[str]) -> dict[str, Any]:
    """Reads arguments of a task model from the directory of a saved one.

    Args:
        config: `Document` of its `config.json`.
        names: names of the arguments.

    Returns:
        dict, without the arguments that are not in the file.

    Raises:
        InputError: a value has another type or is out of range.
    """
    own = config.mapping(OWN_SETTINGS)
    return {name: _READ[name](own, name) for name in names if name in own}


def checked_length(length: int, limit: int) -> int:
    """Returns `max_length`; raises `InputError` unless an encoder of `limit` positions takes it."""
    if not 3 <= check("max_length", length, int) <= limit:
        raise InputError(
            f"max_length must be from 3 to {limit}, the number of positions of the encoder. "
            f"Received: max_length={length}"
        )
    return int(length)


def within_positions(
    kept: dict[str, Any], config: EncoderConfig, name: str | Path
) -> dict[str, Any]:
    """Limits the `max_length` of such arguments to the encoder's number of positions.

    Files of `sentence-transformers` may state more than the encoder has; the encoder's number is
    meant.

    Args:
        kept: dict of arguments.
        name: name of the directory in the warning.
    """
    length = kept.get("max_length")
    if length is None or length <= config.max_length:
        return kept
    _LOG.warning(
        "%s: max_length is %d, but the encoder has %d positions; longer texts are truncated",
        *(name, length, config.max_length),
    )
    return kept | {"max_length": config.max_length}
