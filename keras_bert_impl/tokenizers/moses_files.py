"""The files of FlauBERT's tokenizer in a model directory: Hugging Face's layout."""

import json

from keras_bert_impl.errors import InputError
from keras_bert_impl.files import replace_directory
from keras_bert_impl.reading import read_json, read_text
from keras_bert_impl.tokenizers.files import (
    check_settings,
    to_json,
    tokenizer_directory,
    tokens_in_order,
)
from keras_bert_impl.tokenizers.moses_characters import SPECIAL_TOKENS

_EXTRA = [token for token in SPECIAL_TOKENS if token.startswith("<special")]
_NAMES = {
    "bos_token": "<s>",
    "cls_token": "</s>",  # so it is called there; rows begin with <s> in spite of it
    "mask_token": "<special1>",
    "pad_token": "<pad>",
    "sep_token": "</s>",
    "unk_token": "<unk>",
}


def read(directory):
    """Reads vocabulary, merges and settings.

    Args:
        directory: str or `Path` with `vocab.json`, `merges.txt` and, unless the text keeps its
            case, `tokenizer_config.json`.

    Returns:
        (vocabulary, merges, lowercase): list of str; list of (left, right) pairs of str; bool.

    Raises:
        InputError: a file is missing or damaged or asks for something that is not supported.
    """
    directory = tokenizer_directory(directory)
    lowercase = False
    if (directory / "tokenizer_config.json").exists():
        lowercase = _read_config(directory / "tokenizer_config.json")
    vocabulary = tokens_in_order(directory / "vocab.json", read_json(directory / "vocab.json"))
    return vocabulary, _read_merges(directory / "merges.txt"), lowercase


def write(directory, vocabulary, merges, lowercase):
    """Writes vocab.json, merges.txt and tokenizer_config.json.

    Args:
        directory: str or `Path`; made if needed.
        vocabulary: list of str.
        merges: list of (left, right) pairs of str.
        lowercase: bool.
    """
    ids = {token: number for number, token in enumerate(vocabulary)}
    config = {
        "do_lowercase": lowercase,
        "extra_special_tokens": _EXTRA,
        "tokenizer_class": "FlaubertTokenizer",
        **_NAMES,
    }
    files = {
        "vocab.json": json.dumps(ids, ensure_ascii=False) + "\n",
        "merges.txt": "".join(f"{left} {right}\n" for left, right in merges),
        "tokenizer_config.json": to_json(config),
    }
    with replace_directory(directory) as temporary:
        for name, text in files.items():
            (temporary / name).write_text(text, encoding="utf-8", newline="\n")


def _read_config(path):
    """Whether the text is lowercased; checks the other settings."""
    config = read_json(path)
    wanted = {
        "tokenizer_class": ("FlaubertTokenizer", None),
        "do_lowercase": (True, False),
        "additional_special_tokens": (_EXTRA, None),
        "extra_special_tokens": (_EXTRA, None),
        "split_special_tokens": (False, None),
    }
    for name, token in _NAMES.items():
        if isinstance(config.get(name), dict):
            config[name] = config[name].get("content")
        wanted[name] = (token, None)
    check_settings(path, config, wanted)
    added = config.get("added_tokens_decoder")
    for token in added.values() if isinstance(added, dict) else []:
        content = token.get("content") if isinstance(token, dict) else token
        if content not in SPECIAL_TOKENS:
            raise InputError(f"{path}: the added token {content!r:.60} is not supported.")
        wanted = dict.fromkeys(("single_word", "lstrip", "rstrip"), (False,))
        check_settings(path, token, wanted, f"added token {content}: ")
    return config.get("do_lowercase", False)


def _read_merges(path):
    """Pairs of str. A line may have a third part, how often fastBPE has met the pair."""
    merges = {}
    # What stands after the last line end is no line: `transformers` drops it too.
    for number, line in enumerate(read_text(path).split("\n")[:-1], 1):
        parts = line.split()
        if number == 1 and line.startswith("#version"):
            continue
        if len(parts) not in (2, 3):
            raise InputError(f"{path}, line {number}: no pair of pieces: {line!r:.60}")
        if merges.setdefault(tuple(parts[:2]), number) != number:
            first = merges[tuple(parts[:2])]
            raise InputError(f"{path}, line {number}: the pair stands in line {first} too.")
    return list(merges)
