"""Reading the files of tokenizers: text and JSON that may be damaged or hostile."""

import json
from pathlib import Path

from keras_bert_impl.io.errors import InputError, shown
from keras_bert_impl.io.reading import file_within

KIND_OF_FILE = {  # what a directory without tokenizer.json has
    "vocab.txt": "WordPiece",
    "merges.txt": "byte-level BPE",
    "spiece.model": "SentencePiece",
    "sentencepiece.bpe.model": "SentencePiece",
    "30k-clean.model": "SentencePiece",  # of Google's ALBERT
    "assets/vocab.txt": "WordPiece",  # of a SavedModel of TF Hub
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


def has_tokenizer(directory):
    """bool. Whether a directory has files of a tokenizer, whatever their kind.

    Args:
        directory: str or `Path`.
    """
    names = ("tokenizer.json", *KIND_OF_FILE)
    return any((Path(directory) / name).exists() for name in names)


def no_tokenizer(directory):
    """The error for a directory without a tokenizer."""
    return InputError(
        f"{directory} has no tokenizer: neither tokenizer.json nor {' nor '.join(KIND_OF_FILE)}."
    )


def tokenizer_directory(directory):
    """`Path` of a directory; what it has of a tokenizer's files lies in it, too.

    Args:
        directory: str or `Path`.

    Raises:
        InputError: there is no such directory, or a link leads out of it.
    """
    directory = Path(directory)
    if not directory.is_dir():
        raise InputError(f"{directory} is no directory; give a model directory with a tokenizer.")
    for name in (*KIND_OF_FILE, *_OTHER_FILES):
        file_within(directory, name)
    return directory


def check_settings(path, settings, wanted, inside=""):
    for name, allowed in wanted.items():
        if name in settings and not any(_equal(settings[name], value) for value in allowed):
            raise InputError(
                f"{path}: {inside}{name}={shown(settings[name])} is not supported, "
                f"only {' or '.join(map(repr, allowed))}."
            )


def _equal(one, other):
    return type(one) is type(other) and one == other  # 1 is not True


def tokens_by_id(path, ids):
    """The tokens of a {token: id} object in a file, in the order of their ids.

    Args:
        path: `Path` of the file, for errors.
        ids: what should be such a dict.

    Returns:
        list of str; an id that no token has is an empty string.

    Raises:
        InputError: it is none, an id is there twice, or a tenth of the ids are missing.
    """
    if not isinstance(ids, dict) or not ids:
        raise InputError(f"{path}: there is no vocabulary in it.")
    for token, number in ids.items():
        if type(number) is not int or number < 0:
            raise InputError(f"{path}: the id of {token!r:.40} is {number!r:.40}.")
    size = max(ids.values()) + 1
    if len(set(ids.values())) < len(ids) or size - len(ids) > max(10, size // 10):
        raise InputError(f"{path}: the ids are not 0 to {len(ids) - 1}, each once.")
    tokens = dict(zip(ids.values(), ids))
    tokens = [tokens.get(number, "") for number in range(size)]
    return ["" if token == _no_token(number) else token for number, token in enumerate(tokens)]


def in_order(vocabulary):
    """The tokens of a vocabulary that a user gives, in the order of their ids.

    Args:
        vocabulary: list or array of str, or a dict of token -> id, such as `get_vocab()` of
            `transformers` returns.

    Returns:
        list.

    Raises:
        InputError: it has no order, or ids that are not 0, 1, 2, ...
    """
    if isinstance(vocabulary, dict):
        return tokens_by_id("the vocabulary", vocabulary)
    if isinstance(vocabulary, (set, frozenset, bytes)) or not hasattr(vocabulary, "__len__"):
        raise InputError(
            "the vocabulary must be a list of tokens in the order of their ids. Received: "
            f"{type(vocabulary).__name__}"
        )
    return vocabulary.tolist() if hasattr(vocabulary, "tolist") else list(vocabulary)


def ids_by_token(vocabulary):
    """The {token: id} object of a file.

    Args:
        vocabulary: list of str. Of equal tokens the last counts. For an id that has no token there
            is one that no text has: `tokenizers` counts tokens to find the next id.
    """
    last = {token: number for number, token in enumerate(vocabulary) if token}
    return {
        token if last.get(token) == number else _no_token(number): number
        for number, token in enumerate(vocabulary)
    }


def _no_token(number):
    return f" {number}"  # words have no spaces


def without_last(vocabulary, added):
    """list of str: a vocabulary without the added tokens at its end, which other files name.

    Args:
        vocabulary: list of str.
        added: set of str.
    """
    size = len(vocabulary)
    while size and vocabulary[size - 1] in added | {""}:
        size -= 1
    return vocabulary[:size]


def to_json(value):
    """str. The JSON text of a file."""
    return json.dumps(value, indent=2, sort_keys=True) + "\n"
