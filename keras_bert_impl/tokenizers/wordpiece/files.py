"""Reads and writes WordPiece tokenizer files in Hugging Face's format."""

import logging
import unicodedata
from pathlib import Path
from typing import Any

from keras_bert_impl.checkpoints.published import published_lowercase
from keras_bert_impl.tokenizers import added_files, keras_hub_files
from keras_bert_impl.tokenizers.added_tokens import as_added_tokens
from keras_bert_impl.tokenizers.files import (
    check_settings,
    ids_by_token,
    is_preset,
    last_ids,
    model_of,
    no_tokenizer,
    row_template,
    to_json,
    tokenizer_directory,
    tokens_by_id,
    write_files,
)
from keras_bert_impl.tokenizers.row_files import (
    GENERIC,
    input_names,
    is_generic,
    read_rows,
    unsupported_class,
    warn_of_class,
)
from keras_bert_impl.tokenizers.wordpiece.words import MAX_CHARACTERS, SPECIAL, SPECIAL_TOKENS
from keras_bert_impl.utils.errors import InputError, shown
from keras_bert_impl.utils.io.paths import local_path
from keras_bert_impl.utils.io.reading import read_json, read_text

_log = logging.getLogger(__name__)

# Classes in `transformers` with the same tokens. Other classes split words differently.
_CLASSES = (
    "BertTokenizer",
    "ConvBertTokenizer",
    "DistilBertTokenizer",
    "ElectraTokenizer",
    "LayoutLMTokenizer",
    "MobileBertTokenizer",
    "SqueezeBertTokenizer",
    *GENERIC,
)
_PARTS = {
    "model": "WordPiece",
    "normalizer": "BertNormalizer",
    "pre_tokenizer": "BertPreTokenizer",
}
_NORMALIZER = {  # setting -> its name in tokenizer.json and in tokenizer_config.json
    "lowercase": ("lowercase", "do_lower_case"),
    "strip_accents": ("strip_accents", "strip_accents"),
    "split_on_cjk": ("handle_chinese_chars", "tokenize_chinese_chars"),
}
# defaults in `transformers`
_USUAL = {"lowercase": True, "strip_accents": None, "split_on_cjk": True}
LONGEST = MAX_CHARACTERS + len("##")  # A longer token is no part of any word.
_MAX_BYTES = 256  # of a token, in TensorFlow Text
_FEW = 0.05  # fraction of tokens with capital letters or accents below which they are exceptions


def read(directory: str | Path) -> dict[str, Any]:
    directory = tokenizer_directory(directory)
    settings: dict[str, Any] = {}
    vocabulary = None
    whole = directory / "tokenizer.json"
    if whole.exists():
        if is_preset(read_json(whole)):
            path, settings = keras_hub_files.read_wordpiece(directory)
            return {"vocabulary": read_vocabulary(path), **settings}
        by_token = model_of(read_json(whole)).get("vocab")
        _check_special(directory, by_token if isinstance(by_token, dict) else {})
        vocabulary, settings = _read_whole(whole)
    for path in (directory / "vocab.txt", directory / "assets" / "vocab.txt"):
        if path.exists():
            lines = read_vocabulary(path)
            if vocabulary is not None and last_ids(vocabulary) != last_ids(lines):
                raise InputError(
                    f"{directory}: vocab.txt and tokenizer.json have different vocabularies. "
                    "Move the file that does not belong to the model to another folder."
                )
            vocabulary = lines
            _check_special(directory, lines)
            break
    if vocabulary is None:
        raise no_tokenizer(directory)
    settings = _read_config(directory / "tokenizer_config.json", settings)
    tokens = added_files.read_added_tokens(directory, SPECIAL_TOKENS)
    num_words = len(vocabulary)
    vocabulary = added_files.with_added_tokens(directory, vocabulary, tokens, SPECIAL_TOKENS)
    check_vocabulary(vocabulary, directory)
    if settings.get("lowercase") is None:  # Google's checkpoints do not have this setting.
        settings |= _infer_case(directory, vocabulary) | {
            name: value for name, value in settings.items() if value is not None
        }
    elif settings["lowercase"] and settings.get("strip_accents") is not False:
        share = accented_share(vocabulary)
        if share >= _FEW:
            _log.warning(
                "%s: %.1f %% of the tokens in the vocabulary have accents, but the tokenizer removes "
                "accents, so words with these tokens become [UNK]. If the model was trained with "
                'accents, set "strip_accents": false in tokenizer_config.json.',
                directory,
                100 * share,
            )
    settings = {name: value for name, value in settings.items() if value is not None}
    _, settings["segment_of_second"] = read_rows(directory, vocabulary, SPECIAL_TOKENS, (1, 1))
    added = added_files.settings_of(tokens, SPECIAL)
    while len(vocabulary) > num_words and vocabulary[-1]:  # removes tokens that are only added
        vocabulary.pop()
    return {"vocabulary": vocabulary, "added_tokens": added, **settings}


def _check_special(directory, vocabulary):
    """Raises `InputError` if the special tokens in a vocabulary have other names than in BERT."""
    stated: dict[str, Any] = {}
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        stated |= added_files.read_if_there(directory / name)
    stated_tokens = [added_files.content(stated.get(name)) for name in added_files.SPECIAL_NAMES]
    tokens = set(vocabulary)
    mismatches = [
        (theirs, ours)
        for theirs, ours in zip(stated_tokens, SPECIAL_TOKENS)
        if isinstance(theirs, str) and theirs in tokens and ours not in tokens
    ]
    if mismatches:
        renames = ", ".join(f"{shown(theirs)} to {ours!r}" for theirs, ours in mismatches)
        raise InputError(
            f"{directory}: the special tokens have other names than in BERT. Rename {renames} in "
            "vocab.txt and in the JSON files of the tokenizer. The ids, and so the predictions, do "
            "not change."
        )


def _infer_case(directory, vocabulary):
    """Infers `lowercase`, and `strip_accents` if it differs from `lowercase`."""
    model = added_files.read_if_there(directory / "config.json").get("_name_or_path")
    names = [model] if isinstance(model, str) else []
    names += [part for part in reversed(directory.resolve().parts) if part != "/"][:4]
    published = published_lowercase(vocabulary, names)
    if published is not None:
        _log.info("%s: lowercase=%s, as in the published %s.", directory, *published)
        return {"lowercase": published[0]}
    tokens = [token for token in vocabulary if not token.startswith(("[", "<"))]
    written = [token for token in tokens if token.lower() != token.upper()]
    share = sum(token != token.lower() for token in written) / max(len(written), 1)
    settings = {"lowercase": share < _FEW}
    marked = accented_share(tokens)
    if settings["lowercase"] and marked >= _FEW:
        settings["strip_accents"] = False
    _log.warning(
        "%s: no file sets do_lower_case. Inferred %s, because %.1f %% of the tokens in the "
        "vocabulary have capital letters and %.1f %% have accents. Set do_lower_case and "
        "strip_accents in tokenizer_config.json.",
        directory,
        ", ".join(f"{name}={value}" for name, value in settings.items()),
        100 * share,
        100 * marked,
    )
    return settings


def accented_share(tokens: list[str]) -> float:
    """Returns the fraction of tokens that removing the accents changes, as uncased BERT does."""
    is_accented = [without_accents(token) != token for token in tokens]
    return sum(is_accented) / max(len(tokens), 1)


def without_accents(text: str) -> str:
    decomposed = unicodedata.normalize("NFD", text)
    return "".join(c for c in decomposed if unicodedata.category(c) != "Mn")


def read_vocabulary(path: str | Path) -> list[str]:
    """Reads a UTF-8 vocabulary file with one token per line, in id order."""
    text = read_text(local_path(path)).removeprefix("\ufeff")
    lines = text.replace("\r\n", "\n").replace("\r", "\n").rstrip("\n")
    if not lines:
        raise InputError(f"{path} is empty. A vocabulary has one token per line.")
    return [line.rstrip(" \t") or line for line in lines.split("\n")]


def check_vocabulary(vocabulary: list[str], where: Any = "the vocabulary") -> None:
    """Raises InputError if a vocabulary is empty or lacks a special token."""
    if not vocabulary:
        raise InputError(f"{where} is empty. A vocabulary has one token per line.")
    for line, token in enumerate(vocabulary, 1):
        if not isinstance(token, str):
            raise InputError(f"{where}, line {line}: {token!r:.40} must be a string.")
        if _MAX_BYTES // 4 < len(token) <= LONGEST and len(token.encode()) > _MAX_BYTES:
            raise InputError(f"{where}, line {line}: a token is longer than {_MAX_BYTES} bytes.")
    missing = [token for token in SPECIAL_TOKENS if token not in set(vocabulary)]
    if missing:
        raise InputError(f"{where} lacks {' '.join(missing)}; BERT needs these tokens.")


def write(directory: str | Path, settings: dict[str, Any], **entries: Any) -> None:
    special = dict(zip(added_files.SPECIAL_NAMES, SPECIAL_TOKENS))
    added = as_added_tokens(settings["added_tokens"])
    lines = settings["vocabulary"]
    tokens = set(lines)
    ids = last_ids([*lines, *(t.content for t in added if t.content not in tokens)])
    config = {
        "do_lower_case": settings["lowercase"],
        "strip_accents": settings["strip_accents"],
        "tokenize_chinese_chars": settings["split_on_cjk"],
        "tokenizer_class": "BertTokenizer",
        **special,
        **added_files.added_settings(SPECIAL, added, ids),
        **entries,
    }
    if not settings["segment_of_second"]:  # By default, BertTokenizer returns segment ids.
        config |= input_names(0)
    files = {
        "vocab.txt": "".join(f"{token}\n" for token in lines),
        "tokenizer_config.json": to_json(config),
        "special_tokens_map.json": to_json(special),
        "tokenizer.json": _build_whole(lines, settings, added, ids),
    }
    write_files(directory, files)


def _build_whole(lines, settings, added, ids):
    import tokenizers
    from tokenizers import decoders, models, normalizers, pre_tokenizers

    whole = tokenizers.Tokenizer(
        models.WordPiece(
            ids_by_token(lines), unk_token="[UNK]", max_input_chars_per_word=MAX_CHARACTERS
        )
    )
    whole.normalizer = normalizers.BertNormalizer(
        lowercase=settings["lowercase"],
        strip_accents=settings["strip_accents"],
        handle_chinese_chars=settings["split_on_cjk"],
    )
    whole.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    whole.decoder = decoders.WordPiece()
    whole.post_processor = row_template(
        "[CLS]", "[SEP]", ids, segment_of_second=settings["segment_of_second"]
    )
    return added_files.to_whole(whole, SPECIAL, added, ids)


def _read_config(path, settings):
    config = added_files.read_if_there(path)
    kind = str(config.get("tokenizer_class") or "BertTokenizer").removesuffix("Fast")
    if kind not in _CLASSES:
        raise unsupported_class(path, kind, "WordPiece", "BertTokenizer")
    supported = {
        "do_lower_case": (True, False),
        "strip_accents": (None, True, False),
        "tokenize_chinese_chars": (True, False),
        "do_basic_tokenize": (True,),
    }
    named = dict(zip(added_files.SPECIAL_NAMES, SPECIAL_TOKENS))
    added_files.check_config(path, config, supported, named)
    stated = {ours: config[name] for ours, (_, name) in _NORMALIZER.items() if name in config}
    if kind in GENERIC:
        return stated | settings
    ignored = not is_generic(path.parent)
    for ours, (_, name) in _NORMALIZER.items():
        if ours in stated and settings.get(ours) not in (None, stated[ours]):
            _log.warning(
                "%s: %s=%s is used, as in transformers, although tokenizer.json has %s.",
                path,
                name,
                stated[ours],
                settings[ours],
            )
        elif ignored and ours not in stated and settings.get(ours, _USUAL[ours]) != _USUAL[ours]:
            warn_of_class(path, kind, name, settings[ours], _USUAL[ours])
    return settings | stated


def _read_whole(path):
    whole = read_json(path)
    parts = {}
    for name, kind in _PARTS.items():
        parts[name] = whole[name] if isinstance(whole.get(name), dict) else {}
        if name == "model":
            parts[name] = model_of(whole)
        if name == "normalizer":
            parts[name] = _skip_lowercase(parts[name])
        if parts[name].get("type") != kind:
            part_type = parts[name].get("type")
            raise InputError(f"{path}: {name} {shown(part_type)} is not supported, only {kind}.")
    model, normalizer = parts["model"], parts["normalizer"]
    supported = {
        "unk_token": ("[UNK]",),
        "continuing_subword_prefix": ("##",),
        "max_input_chars_per_word": (MAX_CHARACTERS,),
    }
    check_settings(path, model, supported, "model.")
    supported = {
        "lowercase": (True, False),
        "strip_accents": (None, True, False),
        "handle_chinese_chars": (True, False),
        "clean_text": (True,),
    }
    check_settings(path, normalizer, supported, "normalizer.")
    settings = {"lowercase": True}
    settings |= {ours: normalizer[n] for ours, (n, _) in _NORMALIZER.items() if n in normalizer}
    return tokens_by_id(path, model.get("vocab")), settings


def _skip_lowercase(normalizer):
    """Returns the BertNormalizer after a Lowercase step, as in sentence-transformers."""
    steps = normalizer.get("normalizers")
    if normalizer.get("type") == "Sequence" and isinstance(steps, list) and len(steps) == 2:
        if steps[0] == {"type": "Lowercase"} and isinstance(steps[1], dict):
            if steps[1].get("type") == "BertNormalizer" and steps[1].get("lowercase", True) is True:
                return steps[1]
    return normalizer
