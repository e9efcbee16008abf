"""Readers of the task model settings kept in `config.json` under this package's key."""

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from keras_bert_impl.config import EncoderConfig
from keras_bert_impl.interop import OWN_SETTINGS
from keras_bert_impl.io.document import Document
from keras_bert_impl.tasks.base.long_texts import LongTexts

_LOG = logging.getLogger(__name__)


def _count(own, name):
    return own.integer(name, None, least=1, most=1 << 20)


def _number(own, name):
    return own.number(name, None)


def _text(own, name):
    return own.text(name, None)


def _flag(own, name):
    return own.flag(name, None)


def _features(own, name):
    return own.text(name) if isinstance(own.get(name), str) else own.integer(name, None)


def _weights(own, name):
    values = own.get(name)
    if values is not None and not isinstance(values, list):
        raise own.error(name, "a list of numbers")
    weights = Document(enumerate(values or ()), own.source, f"{own.inside}{name}.")
    return values and [weights.number(place) for place in weights]


def _projections(own, name):
    return [dict(one) for one in own.list_of(name, dict, [])]


def _prompts(own, name):
    prompts = own.mapping(name, {})
    return {key: prompts.text(key) for key in prompts}


def _long_texts(own, name):
    fields = {field: _count(own, field) for field in ("head_tokens", "doc_stride", "max_windows")}
    return LongTexts().changed({"way": own.text(name, None), **fields})


_READ = {
    "projections": _projections,
    "truncate_dim": _count,
    "do_lower_case": _flag,
    "prompts": _prompts,
    "default_prompt_name": _text,
    "similarity_fn_name": _text,
    "mask_rate": lambda own, name: own.number(name, None, above=0, below=1),
    "mask_unit": _text,
    "max_length": _count,
    "doc_stride": _count,
    "max_question_length": _count,
    "max_answer_length": _count,
    "num_best": _count,
    "null_threshold": _number,
    "head_dropout": lambda own, name: own.number(name, None, least=0, below=1),
    "label_all_pieces": _flag,
    "aggregation": _text,
    "crf": _flag,
    "features": _features,
    "lstm_dim": _count,
    "pooling": _text,
    "num_layers": _count,
    "layer_weights": _weights,
    "learn_layer_weights": _flag,
    "normalize": _flag,
    "loss": _text,
    "scale": _number,
    "margin": _number,
    "long_texts": _long_texts,
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
