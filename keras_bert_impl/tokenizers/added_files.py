"""Added tokens in tokenizer files: where they are stored, and which file takes precedence.

`transformers` has used five places since 2019. Their order of precedence here is:
`added_tokens_decoder` of tokenizer_config.json; `added_tokens` of tokenizer.json;
`added_tokens.json` with `special_tokens_map.json`; then the tokens that tokenizer_config.json
names in `additional_special_tokens`, `extra_special_tokens` and each `..._token`.
"""

import dataclasses
import json

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.io.reading import read_json
from keras_bert_impl.tokenizers.added_tokens import MAX_TOKENS, as_added_tokens
from keras_bert_impl.tokenizers.files import check_settings

SPECIAL_NAMES = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
_LISTS = ("additional_special_tokens", "extra_special_tokens")
ROWS = {  # settings of all kinds that would change rows, with their supported values
    "padding_side": ("right", None),
    "truncation_side": ("right", None),
    "split_special_tokens": (False, None),
}


def read_if_there(path):
    """Reads the object of a JSON file; returns an empty dict if there is no such file."""
    return read_json(path) if path.exists() else {}


def content(token):
    """Returns the text of a token in a JSON file, where it may be an object."""
    return token.get("content") if isinstance(token, dict) else token


def check_special_names(directory, named):
    """Checks that special_tokens_map.json names the supported special tokens.

    It takes precedence over tokenizer_config.json in `transformers`.

    Args:
        directory: `Path`.
        named: dict of names such as `"cls_token"` to tokens.

    Raises:
        InputError: If it names another token.
    """
    path = directory / "special_tokens_map.json"
    settings = {name: content(token) for name, token in read_if_there(path).items()}
    check_settings(path, settings, {name: (token, None) for name, token in named.items()})


def read_added_tokens(directory, special_tokens):
    """Reads the added tokens of a directory.

    Args:
        directory: `Path`.
        special_tokens: tuple of str, the tokenizer's own special tokens, which are special whatever
            a file says.

    Returns:
        list of (`AddedToken`, int or None): each token and its id if a file gives one, in the order
        in which tokens without an id get theirs.

    Raises:
        InputError: If a file is damaged, or two files give a token different ids.
    """
    found = _Found(special_tokens)
    path = directory / "tokenizer.json"
    entries = read_if_there(path).get("added_tokens") or []
    if not isinstance(entries, list):
        raise InputError(f"{path}: added_tokens is no list.")
    for token in entries:
        if not isinstance(token, dict) or "id" not in token:
            raise InputError(f"{path}: an added token has no content or no id: {token!r:.60}")
        found.add(path, token, number=token["id"])
    path = directory / "tokenizer_config.json"
    config = read_if_there(path)
    decoder = config.get("added_tokens_decoder")
    if decoder is not None:
        for number, token in _items(path, "added_tokens_decoder", decoder):
            if not number.isdecimal() or not isinstance(token, dict):
                raise InputError(
                    f"{path}: added_tokens_decoder: {number!r:.20} is no id of a token."
                )
            found.add(path, token, number=int(number), replace=True)
    named = {path: config}
    path = directory / "special_tokens_map.json"
    named[path] = read_if_there(path)
    # `transformers` 5 ignores additional_special_tokens of special_tokens_map.json here.
    lists = {name: v for name, v in named[path].items() if name != "additional_special_tokens"}
    named_here = [content(token) for _, token in _named({**named, path: lists})]
    special = {token for token in named_here if isinstance(token, str)}
    path = directory / "added_tokens.json"
    for token, number in _items(path, "it", read_if_there(path)):
        is_special = token in special
        fields = {"content": token, "special": is_special, "normalized": not is_special}
        found.add(path, fields, number=number)
    for path, token in _named(named):
        fields = dict(token) if isinstance(token, dict) else {"content": token}
        found.add(path, {"normalized": False} | fields | {"special": True})
    return found.in_order()


def _items(path, name, value):
    if not isinstance(value, dict):
        raise InputError(f"{path}: {name} must be an object, not {type(value).__name__}.")
    return value.items()


def _named(files):
    """Yields (path, token) for each special token that a configuration names."""
    for path, settings in files.items():
        for name, value in settings.items():
            if name.endswith("_token") and isinstance(value, (str, dict)):
                yield path, value
            elif name in _LISTS:
                tokens = list(value.values()) if isinstance(value, dict) else value or []
                if not isinstance(tokens, list):
                    raise InputError(f"{path}: {name} must be a list, not {type(value).__name__}.")
                yield from ((path, token) for token in tokens)


class _Found:
    """Added tokens by content; the first file that defines a token takes precedence."""

    def __init__(self, special_tokens):
        self._special = special_tokens
        self._tokens, self._numbers = {}, {}

    def add(self, path, fields, number=None, replace=False):
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
            raise InputError(f"{path}: the id of {token.content!r:.60} is {number!r:.20}.")
        if self._numbers.setdefault(token.content, number) != number:
            raise InputError(
                f"{path}: the added token {token.content!r:.60} has the id {number}, in another "
                f"file {self._numbers[token.content]}."
            )

    def in_order(self):
        found = [(token, self._numbers.get(name)) for name, token in self._tokens.items()]
        numbered = [pair for pair in found if pair[1] is not None]
        return sorted(numbered, key=lambda pair: pair[1]) + [p for p in found if p[1] is None]


def tells_flags(directory, name="mask_token"):
    """Returns whether the files define how a special token is matched, not just its name."""
    files = ("tokenizer_config.json", "special_tokens_map.json")
    config, names = (read_if_there(directory / file) for file in files)
    return "added_tokens_decoder" in config or any(
        isinstance(settings.get(name), dict) for settings in (config, names)
    )


def with_added_tokens(where, vocabulary, found, special_tokens):
    """Returns a vocabulary with added tokens at their ids.

    Args:
        where: `Path`, for error messages.
        vocabulary: list of str, with an empty string for an id without a token.
        found: As returned by `read_added_tokens`.
        special_tokens: tuple of str. These get no id from their name alone.

    Returns:
        list of str.

    Raises:
        InputError: If an id belongs to another token or is far beyond the vocabulary.
    """
    vocabulary = list(vocabulary)
    ids = {token: number for number, token in enumerate(vocabulary)}
    for token, number in found:
        name = token.content
        if number is None and name in special_tokens:
            continue
        number = ids.get(name, len(vocabulary)) if number is None else number
        if number > len(vocabulary) + MAX_TOKENS:
            raise InputError(f"{where}: the id {number} of {name!r:.60} is far beyond the others.")
        vocabulary += [""] * (number + 1 - len(vocabulary))
        if vocabulary[number] not in ("", name) or ids.get(name, number) != number:
            raise InputError(
                f"{where}: the added token {name!r:.60} has the id {number}, but in the vocabulary "
                f"that is {vocabulary[number]!r:.60}"
                + (f" and it has the id {ids[name]}." if name in ids else ".")
            )
        vocabulary[number], ids[name] = name, number
    return vocabulary


def settings_of(found, usual):
    """Returns the `added_tokens` setting of a tokenizer.

    Args:
        found: As returned by `read_added_tokens`.
        usual: list of `AddedToken`, the special tokens with the tokenizer's defaults.

    Returns:
        list of str and dicts, without the tokens in `usual`.
    """
    return [token.setting for token, _ in found if token not in usual]


def as_objects(special, added, ids):
    """Returns added tokens in the JSON format of `added_tokens` in tokenizer.json.

    Args:
        special, added: lists of `AddedToken`.
        ids: dict of str to int.

    Returns:
        list of dict, in id order.
    """
    changed = {token.content: token for token in (*special, *added)}
    objects = [{"id": ids[name]} | dataclasses.asdict(t) for name, t in changed.items()]
    return sorted(objects, key=lambda token: token["id"])


def added_settings(special, added, ids):
    """Returns the keys of tokenizer_config.json that define added tokens.

    Args:
        special, added: lists of `AddedToken`.
        ids: dict of str to int.

    Returns:
        dict, empty if there are only unchanged special tokens.
    """
    if not added:
        return {}
    objects = as_objects(special, added, ids)
    names = {token.content for token in special}
    extra = [t.content for t in added if t.special and t.content not in names]
    decoder = {str(token.pop("id")): token for token in objects}
    return {"added_tokens_decoder": decoder, "extra_special_tokens": extra}


def to_whole(tokenizer, special, added, ids):
    """Returns the text of a tokenizer.json with added tokens at their ids.

    Args:
        tokenizer: `tokenizers.Tokenizer`.
        special, added, ids: Same as in `as_objects`.
    """
    whole = json.loads(tokenizer.to_str())
    whole["added_tokens"] = as_objects(special, added, ids)
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"
