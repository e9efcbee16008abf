"""Reads and writes SentencePiece tokenizer files in Hugging Face's format."""

import base64
import logging
from pathlib import Path
from typing import Any

from keras_bert_impl.tokenizers import added_files, keras_hub_files
from keras_bert_impl.tokenizers.added_tokens import as_added_tokens, special_tokens
from keras_bert_impl.tokenizers.files import (
    is_preset,
    last_ids,
    no_tokenizer,
    to_json,
    tokenizer_directory,
    write_files,
)
from keras_bert_impl.tokenizers.row_files import (
    GENERIC,
    input_names,
    is_generic,
    read_rows,
    unsupported_class,
)
from keras_bert_impl.tokenizers.sentencepiece.families import FAMILIES, make_whole, read_whole
from keras_bert_impl.utils.errors import InputError, shown
from keras_bert_impl.utils.io.reading import read_bytes, read_json

_log = logging.getLogger(__name__)

_NOT_USED = ["<s>NOTUSED", "</s>NOTUSED", "<unk>NOTUSED"]
_NOT_USED_SCORE = -100.0
_UNIGRAM, _BYTE = 1, 6  # model and token types in sentencepiece_model.proto
_TYPES = {2: "BPE", 3: "word", 4: "character"}
AVOIDED = 100.0  # penalty on the score of a token that ALBERT splits


def read(directory: str | Path) -> dict[str, Any]:
    directory = tokenizer_directory(directory)
    whole = directory / "tokenizer.json"
    if whole.exists() and is_preset(read_json(whole)):
        return _read_preset(directory, whole)
    settings = added_files.read_if_there(directory / "tokenizer_config.json")
    model = added_files.read_if_there(directory / "config.json")
    family = _find_family(directory, settings, model)
    if whole.exists():
        arguments = read_whole(whole, family)
    else:
        arguments = _read_model(directory, family)
    facts = FAMILIES[arguments["family"]]
    supported: dict[str, Any] = {"add_prefix_space": (True, False)}
    if facts.folds:
        supported |= {"do_lower_case": (True,), "keep_accents": (False,)}
    path = directory / "tokenizer_config.json"
    added_files.check_config(path, settings, supported, _name_special_tokens(facts))
    added = added_files.read_added_tokens(directory, facts.special_tokens)
    named = {token.content for token, _ in added}
    ends = special_tokens(facts.named_ends or ())
    added += [(token, None) for token in ends if token.content not in named]
    lists = ("added_tokens_decoder", "extra_special_tokens", "additional_special_tokens")
    is_own = facts.tokenizer_class == "CamembertTokenizer" and not is_generic(directory)
    if is_own and whole.exists():
        # Without these lists, the class uses its defaults.
        if all(settings.get(name) is None for name in lists):
            not_used = special_tokens(_NOT_USED)
            added += [(token, None) for token in not_used if token.content not in named]
    if settings.get("add_prefix_space") is False and arguments.get("prepend_scheme") != "first":
        arguments["prepend_scheme"] = "never"
    if whole.exists() and not is_generic(directory):
        _check_scheme(path, settings, facts, arguments["prepend_scheme"])
    strips, usual = added_files.special_as_matched(directory, added, facts.special_tokens)
    vocabulary = added_files.with_added_tokens(
        directory, arguments["vocabulary"], added, facts.special_tokens
    )
    size = len(vocabulary)
    if isinstance(model.get("vocab_size"), int) and model["vocab_size"] < size:
        raise InputError(
            f"{directory}: the tokenizer has {size} tokens, but config.json has "
            f"vocab_size={model['vocab_size']}."
        )
    rows = facts.num_separators, facts.segment_of_second
    _, segment = read_rows(directory, vocabulary, facts.special_tokens, rows)
    return arguments | {
        "vocabulary": vocabulary,
        "segment_of_second": segment,
        "mask_strips_left": strips,
        "added_tokens": added_files.settings_of(added, usual),
    }


def write(directory: str | Path, settings: dict[str, Any], **entries: Any) -> None:
    facts = FAMILIES[settings["family"]]
    named, segment = _name_special_tokens(facts), settings["segment_of_second"]
    added = as_added_tokens(settings["added_tokens"])
    tokens = special_tokens(facts.special_tokens, settings["mask_strips_left"])
    ids = last_ids(settings["vocabulary"])
    # The class in `transformers` always does this, regardless of tokenizer.json.
    is_usual = settings["prepend_scheme"] != "first" and segment <= facts.segment_of_second
    is_usual &= not facts.splits_at_spaces
    # The vocabulary alone may identify the family.
    names_family = tuple(settings["vocabulary"][: len(facts.start)]) == facts.start
    kind = "PreTrainedTokenizerFast"
    if is_usual or not names_family:
        kind = facts.tokenizer_class
    config = {
        "add_prefix_space": settings["prepend_scheme"] != "never",
        "tokenizer_class": kind,
        **named,
        **added_files.added_settings(tokens, added, ids),
        **entries,
    }
    if kind == "CamembertTokenizer":  # Otherwise the class in `transformers` adds its own template.
        config.setdefault("extra_special_tokens", [])
        config["additional_special_tokens"] = config["extra_special_tokens"]
    if facts.folds:
        config |= {"do_lower_case": True, "keep_accents": False}
    if facts.segment_of_second or not is_usual:  # By default, `transformers` omits segment ids.
        config |= input_names(segment)
    files = {
        "tokenizer_config.json": to_json(config),
        "special_tokens_map.json": to_json(named),
        "tokenizer.json": added_files.to_whole(make_whole(facts, settings), tokens, added, ids),
    }
    write_files(directory, files)


def _check_scheme(path, settings, facts, scheme):
    """Warns if `transformers` adds `▁` to more or fewer words than this tokenizer."""
    theirs = "never" if settings.get("add_prefix_space") is False else "always"
    if scheme != theirs:
        _log.warning(
            "%s: prepend_scheme=%s of tokenizer.json is used. %s of transformers ignores this "
            "setting and uses %s. For the same ids in transformers, set tokenizer_class to "
            "PreTrainedTokenizerFast.",
            path,
            scheme,
            facts.tokenizer_class,
            theirs,
        )


def _name_special_tokens(facts):
    named = dict(zip(added_files.SPECIAL_NAMES, facts.special_tokens))
    ends = facts.named_ends or facts.special_tokens[2:4]
    return named | dict(zip(("bos_token", "eos_token"), ends))


def _find_family(directory, settings, model):
    name = str(settings.get("tokenizer_class") or "").removesuffix("Fast")
    if name and name not in GENERIC:
        for family, facts in FAMILIES.items():
            if name == facts.tokenizer_class:
                return family
        usual = " or ".join(facts.tokenizer_class for facts in FAMILIES.values())
        path = directory / "tokenizer_config.json"
        raise unsupported_class(path, name, "SentencePiece (unigram)", usual)
    if not model.get("model_type"):
        return None
    for family, facts in FAMILIES.items():
        if model["model_type"] in facts.model_types:
            return family
    raise InputError(
        f"{directory / 'config.json'}: the tokenizer of model_type {shown(model['model_type'])} "
        f"is not supported. SentencePiece tokenizers are supported for {', '.join(FAMILIES)}."
    )


def _read_preset(directory, whole):
    name = read_json(whole)["registered_name"].partition(">")[2]
    family = _find_family(directory, {"tokenizer_class": name}, {})
    path = keras_hub_files.sentencepiece_model(directory)
    return {**_convert_model(path, family), **keras_hub_files.sentencepiece_notes(whole)}


def _read_model(directory, family):
    # If two families use the same file name, it belongs to the first one.
    for candidate in [family] if family else FAMILIES:
        for name in FAMILIES[candidate].files:
            if (directory / name).exists():
                return _convert_model(directory / name, candidate)
    raise no_tokenizer(directory)


def _convert_model(path, family):
    facts = FAMILIES[family]
    pieces, scores, character_map = read_model(path)
    if facts.first_tokens:
        if tuple(pieces[:3]) != ("<unk>", "<s>", "</s>"):
            raise InputError(
                f"{path}: the first pieces of a {family} model must be <unk>, <s> and </s>, not "
                f"{' '.join(pieces[:3])}."
            )
        first_scores = [_NOT_USED_SCORE if t == "<unk>NOTUSED" else 0.0 for t in facts.first_tokens]
        pieces = [*facts.first_tokens, *pieces[facts.num_replaced :], "<mask>"]
        scores = [*first_scores, *scores[facts.num_replaced :], 0.0]
    if facts.folds:
        scores = [s - AVOIDED if is_avoided(p) else s for p, s in zip(pieces, scores)]
    return {
        "family": family,
        "vocabulary": pieces,
        "scores": scores,
        "character_map": character_map,
    }


def is_avoided(piece: str) -> bool:
    """Returns whether a token ends with a digit and a comma, which ALBERT splits."""
    return len(piece) > 1 and piece[-1] == "," and piece[-2].isdigit()


def read_model(path: Path) -> tuple[list[str], list[float], str]:
    """Returns (tokens, scores, character map in base64 or "") of a unigram model."""
    # Only SentencePiece models need protobuf.
    from google.protobuf.message import DecodeError
    from sentencepiece import sentencepiece_model_pb2

    model = sentencepiece_model_pb2.ModelProto()  # type: ignore[attr-defined]  # made at import
    try:
        model.ParseFromString(read_bytes(path))
    except DecodeError as error:
        raise InputError(f"{path} is damaged or not a SentencePiece model.") from error
    if not model.pieces or not model.HasField("trainer_spec"):
        raise InputError(f"{path} is damaged or not a SentencePiece model: it has no pieces.")
    kind, size = model.trainer_spec.model_type, model.trainer_spec.vocab_size
    if kind != _UNIGRAM:
        raise InputError(
            f"{path}: a SentencePiece model of type {_TYPES.get(kind, kind)} is not supported, "
            "only unigram."
        )
    if model.trainer_spec.byte_fallback or any(piece.type == _BYTE for piece in model.pieces):
        raise InputError(f"{path}: byte_fallback is not supported.")
    if model.trainer_spec.treat_whitespace_as_suffix or not model.normalizer_spec.add_dummy_prefix:
        raise InputError(
            f"{path}: only models with the space mark before each word are supported "
            "(add_dummy_prefix=true, treat_whitespace_as_suffix=false)."
        )
    if size and size != len(model.pieces):
        raise InputError(f"{path} has {len(model.pieces)} pieces, but vocab_size={size}.")
    pieces = [piece.piece for piece in model.pieces]
    if not all(isinstance(piece, str) for piece in pieces):  # The library returns bytes.
        raise InputError(f"{path} is damaged: a piece is not UTF-8 text.")
    scores = [piece.score for piece in model.pieces]
    return pieces, scores, base64.b64encode(model.normalizer_spec.precompiled_charsmap).decode()
