"""Detects the kind of tokenizer in a directory."""

from pathlib import Path

from keras_bert_impl.io.errors import InputError, shown
from keras_bert_impl.io.reading import read_json
from keras_bert_impl.tokenizers import keras_hub_files as keras_hub
from keras_bert_impl.tokenizers.added_files import read_if_there
from keras_bert_impl.tokenizers.files import (
    KIND_OF_FILE,
    model_of,
    no_tokenizer,
    tokenizer_directory,
)

_KINDS = {  # types in tokenizer.json
    "WordPiece": "WordPiece",
    "BPE": "byte-level BPE",
    "Unigram": "SentencePiece",
}


def kind_of(directory: str | Path) -> str:
    """Returns the kind of tokenizer in a directory: a value of `_KINDS`, or "Moses BPE"."""
    directory = tokenizer_directory(directory)
    if _is_flaubert(directory):
        return "Moses BPE"
    whole = directory / "tokenizer.json"
    if whole.exists():
        settings = read_json(whole)
        if keras_hub.is_preset(settings):
            return keras_hub.kind_of(whole)
        found = model_of(settings)["type"]
        if found not in list(_KINDS):
            raise InputError(
                f"{whole}: model {shown(found)} is not supported, only {', '.join(_KINDS)}."
            )
        return _KINDS[found]
    for name, kind in KIND_OF_FILE.items():
        if (directory / name).exists():
            return kind
    raise no_tokenizer(directory)


def _is_flaubert(directory):
    """Returns whether vocab.json and merges.txt, names that RoBERTa uses too, are FlauBERT's."""
    keys = {"tokenizer_config.json": "tokenizer_class", "config.json": "model_type"}
    for name, key in keys.items():
        kind = read_if_there(directory / name).get(key)
        if kind is not None:
            return kind in ("FlaubertTokenizer", "flaubert")
    return False
