"""Reads and writes the added tokens in the tokenizer files of `transformers`.

Different versions of `transformers` store added tokens in different files. If several files contain
them, `added_tokens_decoder` in tokenizer_config.json has the highest precedence, followed by
`added_tokens` in tokenizer.json, then by `added_tokens.json` with `special_tokens_map.json`. The
settings `additional_special_tokens`, `extra_special_tokens` and `..._token` in
tokenizer_config.json have the lowest precedence.
"""

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from keras_bert_impl.tokenizers.added_tokens import (
    MAX_TOKENS,
    AddedToken,
    as_added_tokens,
    special_tokens,
)
from keras_bert_impl.tokenizers.files import check_settings
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.io.reading import read_json

FoundTokens = list[tuple[AddedToken, int | None]]  # (token, id or None)
SPECIAL_NAMES = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
_LISTS = ("additional_special_tokens", "extra_special_tokens")
_ROWS = {  # supported values of settings that change the model inputs
    "padding_side": ("right", None),
    "truncation_side": ("right", None),
    "split_special_tokens": (False, None),
}


def read_if_there(path: Path) -> dict[str, Any]:
    """Returns the JSON object in a file, or an empty dict if the file is missing."""
    return read_json(path) if path.exists() else {}


def content(token: Any) -> Any:
    return token.get("content") if isinstance(token, dict) else token


def check_config(
    path: Path, config: dict[str, Any], wanted: dict[str, Any], named: dict[str, str]
) -> None:
    tokens = {name: (token, None) for name, token in named.items()}
    contents = {name: content(config[name]) for name in named if name in config}
    check_settings(path, config, wanted | _ROWS)
    _check_named(path, contents, tokens)
    path = path.parent / "special_tokens_map.json"
    contents = {name: content(token) for name, token in read_if_there(path).items()}
    _check_named(path, contents, tokens)


def _check_named(path, contents, tokens):
    try:
        check_settings(path, contents, tokens)
    except InputError as error:
        name, (token, _) = "pad_token", tokens["pad_token"]
        if contents.get(name) in (token, None):
            raise
        raise InputError(
            f'{error} Set "{name}": "{token}" in this file and in the other files with this setting. '
            f"The predictions do not change if the vocabulary contains {token}: padding is masked."
        ) from error


def read_added_tokens(directory: Path, special: tuple[str, ...]) -> FoundTokens:
    """Reads the added tokens from the tokenizer files in a directory, in the order of their ids."""
    collector = _TokenCollector(special)
    path = directory / "tokenizer.json"
    entries = read_if_there(path).get("added_tokens") or []
    if not isinstance(entries, list):
        raise InputError(f"{path}: added_tokens must be a list, not {type(entries).__name__}.")
    for token in entries:
        if not isinstance(token, dict) or "id" not in token:
            raise InputError(f"{path}: an added token needs a content and an id: {token!r:.60}")
        collector.add(path, token, number=token["id"])
    path = directory / "tokenizer_config.json"
    config = read_if_there(path)
    decoder = config.get("added_tokens_decoder")
    if decoder is not None:
        if not isinstance(decoder, dict):
            raise InputError(
                f"{path}: added_tokens_decoder must be an object, not {type(decoder).__name__}."
            )
        for number, token in decoder.items():
            if not (number.isdecimal() and len(number) < 20 and isinstance(token, dict)):
                raise InputError(
                    f"{path}: added_tokens_decoder must map ids to tokens; {number!r:.20} is not "
                    "the id of a token."
                )
            collector.add(path, token, number=int(number), replace=True)
    named = {path: config}
    path = directory / "special_tokens_map.json"
    named[path] = read_if_there(path)
    # `transformers` 5 ignores additional_special_tokens in special_tokens_map.json.
    lists = {name: v for name, v in named[path].items() if name != "additional_special_tokens"}
    contents = [content(token) for _, token in _find_named_tokens({**named, path: lists})]
    named_here = {token for token in contents if isinstance(token, str)}
    path = directory / "added_tokens.json"
    for token, number in read_if_there(path).items():
        is_special = token in named_here
        fields = {"content": token, "special": is_special, "normalized": not is_special}
        collector.add(path, fields, number=number)
    for path, token in _find_named_tokens(named):
        fields = dict(token) if isinstance(token, dict) else {"content": token}
        collector.add(path, {"normalized": False} | fields | {"special": True})
    return collector.in_order()


def _find_named_tokens(files: dict[Path, dict[str, Any]]) -> Iterator[tuple[Path, Any]]:
    for path, settings in files.items():
        for name, value in settings.items():
            if name.endswith("_token") and isinstance(value, (str, dict)):
                yield path, value
            elif name in _LISTS:
                tokens = list(value.values()) if isinstance(value, dict) else value or []
                if not isinstance(tokens, list):
                    raise InputError(f"{path}: {name} must be a list, not {type(value).__name__}.")
                yield from ((path, token) for token in tokens)


class _TokenCollector:
    """Collects added tokens. If a token is defined more than once, the first definition is used."""

    def __init__(self, special: tuple[str, ...]) -> None:
        self._special = special
        self._tokens: dict[str, AddedToken] = {}
        self._numbers: dict[str, int] = {}

    def add(self, path: Path, fields: Any, number: Any = None, replace: bool = False) -> None:
        try:
            (token,) = as_added_tokens([fields])
        except InputError as error:
            raise InputError(f"{path}: {error}") from error
        if token.content in self._special:
            token = dataclasses.replace(token, special=True)
        if replace or token.content not in self._tokens:
            self._tokens[token.content] = token
        if len(self._tokens) > MAX_TOKENS:
            raise InputError(f"{path}: more than {MAX_TOKENS} added tokens.")
        if number is None:
            return
        if type(number) is not int or number < 0:
            raise InputError(
                f"{path}: the id of {token.content!r:.60} must be an integer, not {number!r:.20}."
            )
        if self._numbers.setdefault(token.content, number) != number:
            raise InputError(
                f"{path}: the added token {token.content!r:.60} has the id {number}, but another "
                f"file gives it the id {self._numbers[token.content]}."
            )

    def in_order(self) -> FoundTokens:
        pairs = [(token, self._numbers.get(name)) for name, token in self._tokens.items()]
        return sorted(pairs, key=lambda pair: float("inf") if pair[1] is None else pair[1])


def special_as_matched(
    directory: Path, found: FoundTokens, contents: tuple[str, ...]
) -> tuple[bool, list[AddedToken]]:
    """Returns (`mask_strips_left`, special tokens with their default matching options)."""
    config, names = (
        read_if_there(directory / name)
        for name in ("tokenizer_config.json", "special_tokens_map.json")
    )
    is_whole = (directory / "tokenizer.json").exists()
    # Some files do not contain the matching options of the mask token.
    tells = is_whole or "added_tokens_decoder" in config
    tells |= any(isinstance(settings.get("mask_token"), dict) for settings in (config, names))
    mask = next((token for token, _ in found if token.content == contents[-1]), None)
    # RoBERTa's mask includes the space before it.
    strips = mask.lstrip if mask and tells else not is_whole and len({*contents}) > 1
    usual = special_tokens(contents, strips)
    return strips, usual if tells else usual + special_tokens(contents)


def with_added_tokens(
    where: Path, vocabulary: list[str], found: FoundTokens, special: tuple[str, ...]
) -> list[str]:
    vocabulary = list(vocabulary)
    ids = {token: number for number, token in enumerate(vocabulary)}
    for token, number in found:
        name = token.content
        if number is None and name in special:
            continue
        size = len(vocabulary)
        number = ids.get(name, size) if number is None else number
        if number > size and name in read_if_there(where / "added_tokens.json"):
            # `transformers` ignores this id and uses the next free id.
            raise InputError(
                f"{where / 'added_tokens.json'}: {name!r:.60} has the id {number}, but no token "
                f"has the ids {size} to {number - 1}. Change the id of {name!r:.60} to {size}."
            )
        if number > size + MAX_TOKENS:
            raise InputError(
                f"{where}: the id {number} of {name!r:.60} is much larger than the other ids."
            )
        vocabulary += [""] * (number + 1 - size)
        if vocabulary[number] not in ("", name) or ids.get(name, number) != number:
            raise InputError(
                f"{where}: the added token {name!r:.60} has the id {number}, but the vocabulary "
                f"has {vocabulary[number]!r:.60} at this id"
                + (f" and the token at id {ids[name]}." if name in ids else ".")
            )
        vocabulary[number], ids[name] = name, number
    return vocabulary


def settings_of(found: FoundTokens, usual: list[AddedToken]) -> list[str | dict[str, Any]]:
    """Returns the argument `added_tokens` of a tokenizer, without the tokens in `usual`."""
    return [token.setting for token, _ in found if token not in usual]


def as_objects(
    special: list[AddedToken], added: list[AddedToken], ids: dict[str, int]
) -> list[dict[str, Any]]:
    """Returns the `added_tokens` list of tokenizer.json, sorted by id."""
    changed = {token.content: token for token in (*special, *added)}
    objects = [{"id": ids[name]} | dataclasses.asdict(t) for name, t in changed.items()]
    return sorted(objects, key=lambda token: token["id"])


def added_settings(
    special: list[AddedToken], added: list[AddedToken], ids: dict[str, int]
) -> dict[str, Any]:
    if not added:
        return {}
    objects = as_objects(special, added, ids)
    names = {token.content for token in special}
    extra = [t.content for t in added if t.special and t.content not in names]
    decoder = {str(token.pop("id")): token for token in objects}
    return {"added_tokens_decoder": decoder, "extra_special_tokens": extra}


def to_whole(
    tokenizer: Any, special: list[AddedToken], added: list[AddedToken], ids: dict[str, int]
) -> str:
    whole = json.loads(tokenizer.to_str())
    whole["added_tokens"] = as_objects(special, added, ids)
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"
