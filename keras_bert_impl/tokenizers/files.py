"""Reading tokenizer files: text and JSON that may be damaged or hostile."""

import json
from pathlib import Path

from keras_bert_impl.io.errors import InputError, shown
from keras_bert_impl.io.reading import file_within

KIND_OF_FILE = {  # files in a directory without tokenizer.json
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


def has_tokenizer(directory):
    """Returns whether a directory has tokenizer files of any kind.

    Args:
        directory: str or `Path`.
    """
    names = ("tokenizer.json", *KIND_OF_FILE)
    return any((Path(directory) / name).exists() for name in names)


def no_tokenizer(directory):
    """Creates the error for a directory without a tokenizer."""
    return InputError(
        f"{directory} has no tokenizer: neither tokenizer.json nor {' nor '.join(KIND_OF_FILE)}."
    )


def tokenizer_directory(directory):
    """Returns a directory as a `Path` and checks that its tokenizer files do not lie outside it.

    Args:
        directory: str or `Path`.

    Raises:
        InputError: If there is no such directory, or a link leads out of it.
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
    """Returns the tokens of a {token: id} object in a file, in id order.

    Args:
        path: `Path` of the file, for error messages.
        ids: The value to check, which should be such a dict.

    Returns:
        list of str, with an empty string for an id without a token.

    Raises:
        InputError: If it is not such a dict, an id occurs twice, or more than a tenth of the ids,
            and more than 10, are missing.
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
    """Converts a user's vocabulary to a list of tokens in id order.

    Args:
        vocabulary: list or array of str, or a dict of token -> id, such as `get_vocab()` of
            `transformers` returns.

    Returns:
        list.

    Raises:
        InputError: If it has no order, or its ids are not 0, 1, 2, ...
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
    """Returns the {token: id} object of a file.

    Args:
        vocabulary: list of str. If a token occurs twice, its last id is used. An id without a token
            gets a placeholder that no text contains, since `tokenizers` counts tokens to find the
            next id.
    """
    last = {token: number for number, token in enumerate(vocabulary) if token}
    return {
        token if last.get(token) == number else _no_token(number): number
        for number, token in enumerate(vocabulary)
    }


def _no_token(number):
    return f" {number}"  # words have no spaces


def without_last(vocabulary, added):
    """Returns a vocabulary without the added tokens at its end, which are listed in other files.

    Args:
        vocabulary: list of str.
        added: set of str.

    Returns:
        list of str.
    """
    size = len(vocabulary)
    while size and vocabulary[size - 1] in added | {""}:
        size -= 1
    return vocabulary[:size]


def to_json(value):
    """Returns a value as the JSON text of a file."""
    return json.dumps(value, indent=2, sort_keys=True) + "\n"
