"""Reads and writes tokenizer files."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keras_bert_impl.utils.errors import InputError, shown
from keras_bert_impl.utils.io.files import replace_directory
from keras_bert_impl.utils.io.paths import local_path
from keras_bert_impl.utils.io.reading import file_within, read_json

KIND_OF_FILE = {  # file in a directory without tokenizer.json -> kind of tokenizer
    "vocab.txt": "WordPiece",
    "merges.txt": "byte-level BPE",
    "spiece.model": "SentencePiece",
    "sentencepiece.bpe.model": "SentencePiece",
    "30k-clean.model": "SentencePiece",  # Google's ALBERT
    "assets/vocab.txt": "WordPiece",  # SavedModel of TF Hub
    "assets/30k-clean.model": "SentencePiece",
}
_OTHER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "config.json",
    "vocab.json",
    *(f"assets/tokenizer/{name}" for name in ("vocabulary.txt", "vocabulary.json")),
    *(f"assets/tokenizer/{name}" for name in ("merges.txt", "vocabulary.spm")),
)


def has_tokenizer(directory: str | Path) -> bool:
    names = ("tokenizer.json", *KIND_OF_FILE)
    return any((local_path(directory) / name).exists() for name in names)


def no_tokenizer(directory: Path) -> InputError:
    return InputError(
        f"{directory} has no tokenizer. Expected tokenizer.json or {' or '.join(KIND_OF_FILE)}."
    )


def tokenizer_directory(directory: str | Path) -> Path:
    """Checks that a directory exists and that no tokenizer file is a link to another directory."""
    directory = local_path(directory)
    if not directory.is_dir():
        raise InputError(
            f"{directory} is not a directory. Pass a model directory with a tokenizer."
        )
    for name in (*KIND_OF_FILE, *_OTHER_FILES):
        file_within(directory, name)
    return directory


def write_files(directory: str | Path, files: dict[str, str]) -> None:
    """Writes files to a directory. If writing fails, the directory stays unchanged."""
    with replace_directory(directory) as temporary:
        for name, text in files.items():
            (temporary / name).write_text(text, encoding="utf-8", newline="\n")


def check_settings(
    path: Path, settings: Mapping[str, Any], wanted: Mapping[str, Any], inside: str = ""
) -> None:
    """Raises InputError if a setting does not have one of its supported values in `wanted`."""
    for name, allowed in wanted.items():
        if name in settings and not any(_is_same_value(settings[name], value) for value in allowed):
            raise InputError(
                f"{path}: {inside}{name}={shown(settings[name])} is not supported, "
                f"only {' or '.join(map(repr, allowed))}."
            )


def _is_same_value(value, allowed):
    return type(value) is type(allowed) and value == allowed  # 1 and True are different values.


def is_preset(settings: dict[str, Any]) -> bool:
    return "registered_name" in settings


def model_of(whole: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the `model` object of a tokenizer.json.

    Old files have no `type`, which is then inferred.
    """
    model = whole.get("model")
    model = dict(model) if isinstance(model, dict) else {}
    if "type" not in model:
        fields = {"BPE": "merges", "WordPiece": "max_input_chars_per_word"}
        kinds = [kind for kind, field in fields.items() if field in model]
        kinds += ["Unigram"] * isinstance(model.get("vocab"), list)
        model["type"] = kinds[0] if kinds else None
    return model


def tokens_by_id(path: Path | str, ids: Any) -> list[str]:
    """Returns the tokens of a {token: id} object in id order, with "" for unused ids."""
    if not isinstance(ids, dict) or not ids:
        raise InputError(f"{path} has no vocabulary: expected an object with the id of each token.")
    for token, number in ids.items():
        if type(number) is not int or number < 0:
            raise InputError(
                f"{path}: the id of {token!r:.40} must be an integer, not {number!r:.40}."
            )
    size = max(ids.values()) + 1
    if len(set(ids.values())) < len(ids) or size - len(ids) > max(10, size // 10):
        raise InputError(f"{path}: the ids must be 0 to {len(ids) - 1}, each once.")
    by_id = dict(zip(ids.values(), ids))
    tokens = [by_id.get(number, "") for number in range(size)]
    return ["" if token == _name_unused(number) else token for number, token in enumerate(tokens)]


def in_order(vocabulary: Any) -> list[str]:
    if isinstance(vocabulary, dict):
        return tokens_by_id("the vocabulary", vocabulary)
    if isinstance(vocabulary, (set, frozenset, bytes)) or not hasattr(vocabulary, "__len__"):
        raise InputError(
            "the vocabulary must be a list of tokens in id order. Received: "
            f"{type(vocabulary).__name__}"
        )
    return vocabulary.tolist() if hasattr(vocabulary, "tolist") else list(vocabulary)


def unique_in_order(vocabulary: Any) -> list[str]:
    """Like `in_order`, but raises InputError if a token occurs twice."""
    vocabulary = in_order(vocabulary)
    ids: dict[str, int] = {}
    for number, token in enumerate(vocabulary):
        if token and token in ids:
            raise InputError(f"the token {token!r:.40} has two ids, {ids[token]} and {number}.")
        ids[token] = number
    return vocabulary


def as_vocabulary(vocabulary: Any) -> list[str]:
    """Returns the tokens of a vocabulary, or of a JSON file with a vocabulary, in id order."""
    if isinstance(vocabulary, (str, Path)):
        return tokens_by_id(
            local_path(vocabulary), read_json(local_path(vocabulary), is_vocabulary=True)
        )
    return unique_in_order(vocabulary)


def last_ids(vocabulary: list[str]) -> dict[str, int]:
    """Returns {token: id}. If a token occurs more than once, its last id is used."""
    return {token: number for number, token in enumerate(vocabulary) if token}


def ids_by_token(vocabulary: list[str]) -> dict[str, int]:
    """Returns {token: id}. Duplicate tokens are renamed, so that the dict contains all ids."""
    last = last_ids(vocabulary)
    return {
        token if last.get(token) == number else _name_unused(number): number
        for number, token in enumerate(vocabulary)
    }


def _name_unused(number):
    return f" {number}"  # A word never contains a space.


def without_last(vocabulary: list[str], added: set[str]) -> list[str]:
    size = len(vocabulary)
    while size and vocabulary[size - 1] in added | {""}:
        size -= 1
    return vocabulary[:size]


def row_template(
    cls: str, sep: str, ids: dict[str, int], num_separators: int = 1, segment_of_second: int = 1
) -> Any:
    from tokenizers import processors

    between, second = " ".join([sep] * num_separators), segment_of_second
    return processors.TemplateProcessing(
        single=f"{cls} $A {sep}",
        pair=f"{cls} $A {between} $B:{second} {sep}:{second}",
        special_tokens=[(token, ids[token]) for token in (cls, sep)],
    )


def to_json(value: Any) -> str:
    return json.dumps(value, indent=2, sort_keys=True) + "\n"
