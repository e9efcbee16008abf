"""Reads the kind and class of a saved tokenizer, and its templates of special tokens."""

import json
import logging
import warnings
from pathlib import Path
from typing import Any

from keras_bert_impl.tokenizers import keras_hub_files as keras_hub
from keras_bert_impl.tokenizers.added_files import read_if_there
from keras_bert_impl.tokenizers.files import (
    KIND_OF_FILE,
    is_preset,
    last_ids,
    model_of,
    no_tokenizer,
    tokenizer_directory,
)
from keras_bert_impl.utils.errors import InputError, shown
from keras_bert_impl.utils.io.reading import read_json

_KINDS = {  # model type in tokenizer.json -> kind of tokenizer
    "WordPiece": "WordPiece",
    "BPE": "byte-level BPE",
    "Unigram": "SentencePiece",
}

_log = logging.getLogger(__name__)

# Classes that `transformers` creates from tokenizer.json alone, without the suffix "Fast".
GENERIC = ("PreTrainedTokenizer", "TokenizersBackend")
WITH_SEGMENTS = ["input_ids", "token_type_ids", "attention_mask"]
WITHOUT_SEGMENTS = ["input_ids", "attention_mask"]
_FIRST, _SECOND = 2**32 - 1, 2**32 - 2  # placeholder ids for the two texts

_INSTEAD = {  # unsupported class of `transformers` -> reason and alternative
    "BertJapaneseTokenizer": (
        "It needs MeCab. Separate the words of all texts with MeCab (fugashi) first, and set "
        '"tokenizer_class": "BertTokenizer" and "strip_accents": false. Or use a model without '
        "MeCab, such as xlm-roberta-base."
    ),
    **dict.fromkeys(
        ("PhobertTokenizer", "BertweetTokenizer"),
        "Its byte-pair encoding (bpe.codes) is not supported. Use a model with another "
        "tokenizer, such as xlm-roberta-base.",
    ),
}


def kind_of(directory: str | Path) -> str:
    """Returns the kind of the tokenizer in a directory: a value of `_KINDS`, or "Moses BPE"."""
    directory = tokenizer_directory(directory)
    class_or_family = _read_class_or_family(directory)
    if class_or_family in ("FlaubertTokenizer", "flaubert"):
        return "Moses BPE"
    if class_or_family in ("XLMTokenizer", "xlm"):
        raise InputError(
            f"{directory}: XLM's tokenizer is not supported. Convert texts to ids with "
            "transformers, and pass them to the Encoder as token_ids."
        )
    whole = directory / "tokenizer.json"
    if whole.exists():
        settings = read_json(whole)
        if is_preset(settings):
            return keras_hub.kind_of(whole)
        model_type = model_of(settings)["type"]
        if model_type not in list(_KINDS):
            raise InputError(
                f"{whole}: model {shown(model_type)} is not supported, only {', '.join(_KINDS)}."
            )
        return _KINDS[model_type]
    for name, kind in KIND_OF_FILE.items():
        if (directory / name).exists():
            return kind
    raise no_tokenizer(directory)


def _read_class_or_family(directory):
    """Returns the tokenizer's class or, if no file states it, the family of the model."""
    keys = {"tokenizer_config.json": "tokenizer_class", "config.json": "model_type"}
    for name, key in keys.items():
        kind = read_if_there(directory / name).get(key)
        if kind is not None:
            return kind
    return None


def tokenizer_class(directory: Path) -> str | None:
    """Returns `tokenizer_class` of tokenizer_config.json or config.json, without "Fast"."""
    name = read_if_there(directory / "tokenizer_config.json").get("tokenizer_class")
    name = name or read_if_there(directory / "config.json").get("tokenizer_class")
    return str(name).removesuffix("Fast") if name else None


def is_generic(directory: Path) -> bool:
    """Returns whether `transformers` creates the tokenizer from tokenizer.json alone."""
    if not (directory / "tokenizer.json").exists():
        return False
    name = tokenizer_class(directory)
    model = read_if_there(directory / "config.json").get("model_type")
    return name in GENERIC if name else model in (None, "modernbert")


def unsupported_class(path: Path, name: str, kind: str, usual: str) -> InputError:
    advice = _INSTEAD.get(name) or (
        f"The directory contains {kind} files. If they are correct, set "
        f'"tokenizer_class": "{usual}".'
    )
    return InputError(f"{path}: tokenizer_class {shown(name)} is not supported. {advice}")


def read_rows(
    directory: Path,
    vocabulary: list[str],
    special: tuple[str, ...],
    usual: tuple[int, int],
    separators: tuple[int, ...] = (),
) -> tuple[int, int]:
    """Returns (number of separators, segment id of the second text), as used by `transformers`."""
    has_segments = _has_segments(directory)
    unchanged = usual[0], usual[1] if has_segments else 0
    path = directory / "tokenizer.json"
    processor = read_if_there(path).get("post_processor")
    is_albert = processor is not None and tokenizer_class(directory) == "AlbertTokenizer"
    if not is_generic(directory) and not is_albert:
        return unchanged
    single, pair = _encode(path, processor)
    ids = last_ids(vocabulary)
    cls, sep = (ids.get(special[number], -number) for number in (2, 3))
    row_of_one = [(cls, 0), (_FIRST, 0), (sep, 0)]
    if single == row_of_one and _list_ids(pair) == ([_FIRST, _SECOND],):
        _log.warning(
            "%s: post_processor has no template for pairs of texts, so transformers adds no "
            "special tokens to pairs. This tokenizer adds %s and %s to pairs.",
            path,
            *special[2:4],
        )
        return unchanged
    if _list_ids(single, pair) == ([_FIRST], [_FIRST, _SECOND]):
        warnings.warn(
            f"{path}: post_processor adds no special tokens, so transformers adds none. This "
            f"tokenizer adds {special[2]} and {special[3]}. For the same ids in transformers, "
            "save this tokenizer with save_pretrained.",
            stacklevel=2,
        )
        names = read_if_there(directory / "tokenizer_config.json").get("model_input_names")
        return usual if names is None else unchanged
    segment = dict(pair).get(_SECOND, 0)
    for count in separators or usual[:1]:
        row = [(cls, 0), (_FIRST, 0), *[(sep, 0)] * count, (_SECOND, segment), (sep, segment)]
        rows = row_of_one, row
        if (
            (single, pair) == rows
            or not has_segments
            and _list_ids(single, pair) == _list_ids(*rows)
        ):
            return count, _choose_segment(directory, segment, has_segments)
    raise _make_template_error(path, (single, pair), ids, special, usual[0])


def _make_template_error(path, rows, ids, special, num_separators):
    names = {number: token for token, number in ids.items()} | {_FIRST: "A", _SECOND: "B"}
    single, pair = (" ".join(names.get(token, str(token)) for token, _ in row) for row in rows)
    segments = " ".join(str(segment) for _, segment in rows[1])
    cls, sep = special[2:4]
    return InputError(
        f"{path}: the templates in post_processor are not supported: {single} for one text; {pair} "
        f"with the segment ids {segments} for two texts. Supported templates are {cls} A {sep} and "
        f"{' '.join([cls, 'A', *[sep] * num_separators, 'B', sep])}. In the second, B and the last "
        "token must have the same segment id. If the model was trained with the supported "
        "templates, correct post_processor."
    )


def _has_segments(directory):
    """Returns whether the tokenizer returns segment ids."""
    path = directory / "tokenizer_config.json"
    names = read_if_there(path).get("model_input_names")
    if names is None:
        return tokenizer_class(directory) not in (*GENERIC, "DistilBertTokenizer")
    if not isinstance(names, list):
        raise InputError(f"{path}: model_input_names must be a list, not {type(names).__name__}.")
    return "token_type_ids" in names


def _choose_segment(directory, segment, has_segments):
    """Returns `segment` (the second text's id in post_processor), or 0 without segment ids."""
    path = directory / "tokenizer_config.json"
    config = read_if_there(path)
    if segment and not has_segments and "model_input_names" not in config:
        _log.warning(
            "%s: tokenizer_class %s has no model_input_names. The second text of a pair "
            "therefore gets the segment id 0, as in transformers 5, although tokenizer.json has "
            "1. If the model was trained with segment ids, set model_input_names to %s.",
            path,
            config["tokenizer_class"],
            json.dumps(WITH_SEGMENTS),
        )
    return segment if has_segments else 0


def _list_ids(*rows):  # without the segment ids
    return tuple([token for token, _ in row] for row in rows)


def _encode(path, processor):
    """Returns the templates for one text and for two texts, as lists of (id, segment id)."""
    from tokenizers import Tokenizer

    model = {"type": "WordLevel", "vocab": {"A": _FIRST, "B": _SECOND}, "unk_token": "A"}
    try:
        whole = Tokenizer.from_str(json.dumps({"model": model, "post_processor": processor}))
    except Exception as error:  # `tokenizers` raises plain exceptions.
        raise InputError(f"{path}: post_processor is damaged or unknown: {error}") from error
    rows = whole.encode("A"), whole.encode("A", "B")
    return tuple(list(zip(row.ids, row.type_ids)) for row in rows)


def warn_of_class(path: Path, name: str, setting: str, used: Any, theirs: Any) -> None:
    """Warns that a class in `transformers` ignores a setting of tokenizer.json."""
    _log.warning(
        "%s has no %s: %s=%s of tokenizer.json is used. %s of transformers ignores it and uses %s. "
        "Set %s in tokenizer_config.json.",
        path,
        setting,
        setting,
        used,
        name,
        theirs,
        setting,
    )


def input_names(segment_of_second: int) -> dict[str, list[str]]:
    """Returns `model_input_names` for tokenizer_config.json."""
    return {"model_input_names": WITH_SEGMENTS if segment_of_second else WITHOUT_SEGMENTS}
