"""FlauBERT's tokenizer files of a model directory, in Hugging Face's layout."""

import dataclasses
import json
from pathlib import Path
from typing import Any

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.io.reading import read_json, read_text
from keras_bert_impl.tokenizers import added_files
from keras_bert_impl.tokenizers.added_tokens import as_added_tokens
from keras_bert_impl.tokenizers.files import (
    ids_by_token,
    last_ids,
    to_json,
    tokenizer_directory,
    tokens_by_id,
    without_last,
    write_files,
)
from keras_bert_impl.tokenizers.moses.characters import SPECIAL, SPECIAL_TOKENS

_EXTRA = [token for token in SPECIAL_TOKENS if token.startswith("<special")]
_NAMES = {
    "bos_token": "<s>",
    "cls_token": "</s>",  # its name there, although rows begin with <s>
    "mask_token": "<special1>",
    "pad_token": "<pad>",
    "sep_token": "</s>",
    "unk_token": "<unk>",
}


def read(directory: str | Path) -> dict[str, Any]:
    """Reads the arguments of `MosesBPETokenizer` from a model directory."""
    directory = tokenizer_directory(directory)
    lowercase = _read_config(directory / "tokenizer_config.json")
    vocabulary = tokens_by_id(directory / "vocab.json", read_json(directory / "vocab.json"))
    found = added_files.read_added_tokens(directory, SPECIAL_TOKENS)
    usual = [*SPECIAL, *(dataclasses.replace(token, normalized=True) for token in SPECIAL)]
    return {
        "vocabulary": added_files.with_added_tokens(directory, vocabulary, found, SPECIAL_TOKENS),
        "merges": _read_merges(directory / "merges.txt"),
        "lowercase": lowercase,
        "added_tokens": added_files.settings_of(found, usual),
    }


def write(directory: str | Path, settings: dict[str, Any], **entries: Any) -> None:
    """Writes the arguments of `MosesBPETokenizer` to files."""
    ids = last_ids(settings["vocabulary"])
    added = as_added_tokens(settings["added_tokens"])
    config = {
        "do_lowercase": settings["lowercase"],
        "tokenizer_class": "FlaubertTokenizer",
        **_NAMES,
        **added_files.added_settings(SPECIAL, added, ids),
        **entries,
    }
    config["extra_special_tokens"] = [*_EXTRA, *config.get("extra_special_tokens", [])]
    vocabulary = without_last(settings["vocabulary"], {token.content for token in added})
    files = {
        "vocab.json": json.dumps(ids_by_token(vocabulary), ensure_ascii=False) + "\n",
        "merges.txt": "".join(f"{left} {right}\n" for left, right in settings["merges"]),
        "tokenizer_config.json": to_json(config),
    }
    write_files(directory, files)


def _read_config(path):
    """Returns whether the text is lowercased; checks the other settings."""
    config = added_files.read_if_there(path)
    wanted = {"tokenizer_class": ("FlaubertTokenizer", None), "do_lowercase": (True, False)}
    added_files.check_config(path, config, wanted, _NAMES)
    for name in ("additional_special_tokens", "extra_special_tokens"):
        tokens = config.get(name)
        if tokens is None:
            continue
        names = list(map(added_files.content, tokens)) if isinstance(tokens, list) else []
        if not all(token in names for token in _EXTRA):
            raise InputError(f"{path}: {name} must contain {', '.join(_EXTRA)}.")
    return config.get("do_lowercase", False)


def _read_merges(path):
    """Reads pairs of str. A line may have a third field, fastBPE's count of the pair."""
    merges: dict[tuple[str, ...], int] = {}
    # `transformers` also ignores text after the last newline.
    for number, line in enumerate(read_text(path).split("\n")[:-1], 1):
        parts = line.split()
        if number == 1 and line.startswith("#version"):
            continue
        if len(parts) not in (2, 3):
            raise InputError(f"{path}, line {number}: expected a pair of tokens, not {line!r:.60}")
        first = merges.setdefault(tuple(parts[:2]), number)
        if first != number:
            raise InputError(f"{path}, line {number} repeats the pair of line {first}.")
    return list(merges)
