"""Conversion of our tokenizers to KerasHub's, in memory and in presets."""

import json
import logging
from pathlib import Path
from typing import Any

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.io.paths import local_path
from keras_bert_impl.io.reading import read_json
from keras_bert_impl.tokenizers.byte_level_bpe.tokenizer import ByteLevelBPETokenizer
from keras_bert_impl.tokenizers.keras_hub.sentencepiece import make_model
from keras_bert_impl.tokenizers.keras_hub_files import NOTES
from keras_bert_impl.tokenizers.sentencepiece.families import FAMILIES
from keras_bert_impl.tokenizers.sentencepiece.tokenizer import SentencePieceTokenizer
from keras_bert_impl.tokenizers.tokenizer import Tokenizer
from keras_bert_impl.tokenizers.wordpiece.tokenizer import WordPieceTokenizer

_log = logging.getLogger(__name__)
_KINDS = {
    "WordPiece": WordPieceTokenizer,
    "byte-level BPE": ByteLevelBPETokenizer,
    "SentencePiece": SentencePieceTokenizer,
}
_CLASSES = {  # architecture of an encoder -> KerasHub's tokenizer class and ours
    "bert": ("BertTokenizer", WordPieceTokenizer),
    "distilbert": ("DistilBertTokenizer", WordPieceTokenizer),
    "electra": ("ElectraTokenizer", WordPieceTokenizer),
    "roberta": ("RobertaTokenizer", ByteLevelBPETokenizer),
    "xlm-roberta": ("XLMRobertaTokenizer", SentencePieceTokenizer),
    "albert": ("AlbertTokenizer", SentencePieceTokenizer),
}


def to_keras_hub(tokenizer: Tokenizer, architecture: str) -> Any:
    """Converts a tokenizer to KerasHub's class with the same vocabulary."""
    name, kind = _CLASSES.get(architecture, (f"tokenizer of {architecture}", None))
    if kind is None or type(tokenizer) is not kind or not _is_family(tokenizer, name):
        raise InputError(f"a {_describe(tokenizer)} cannot be converted to KerasHub's {name}.")
    import keras_hub

    return getattr(keras_hub.models, name)(**_arguments(tokenizer))


def _is_family(tokenizer, name):
    family = getattr(tokenizer, "family", None)
    return family is None or FAMILIES[family].tokenizer_class == name


def _describe(tokenizer):
    family = getattr(tokenizer, "family", None)
    return type(tokenizer).__name__ + (f" of {family}" if family else "")


def _arguments(tokenizer):
    """Returns the arguments of KerasHub's class."""
    if tokenizer.added_tokens:
        tokens = ", ".join(token.content for token in tokenizer.added_tokens)
        _log.warning("KerasHub's tokenizer treats these tokens as ordinary text: %s", tokens)
    if isinstance(tokenizer, SentencePieceTokenizer):
        return {"proto": make_model(tokenizer)}
    if isinstance(tokenizer, ByteLevelBPETokenizer):
        return {
            "vocabulary": {token: number for number, token in enumerate(tokenizer.vocabulary)},
            "merges": [" ".join(pair) for pair in tokenizer.merges],
            "add_prefix_space": tokenizer.add_prefix_space,
        }
    strips = tokenizer.strip_accents
    return {
        "vocabulary": tokenizer.vocabulary,
        "lowercase": tokenizer.lowercase,
        "strip_accents": strips if strips is not None else tokenizer.lowercase,
        "split_on_cjk": tokenizer.split_on_cjk,
        "special_tokens_in_strings": True,
    }


def write_notes(directory: str | Path, tokenizer: Tokenizer) -> None:
    """Adds to a preset the settings that only our tokenizer needs to load it unchanged."""
    config = tokenizer.get_config()
    (kind,) = [name for name, cls in _KINDS.items() if type(tokenizer) is cls]
    notes = {name: config[name] for name in NOTES[kind]}
    if isinstance(tokenizer, SentencePieceTokenizer):
        if not FAMILIES[tokenizer.family].folds:
            del notes["character_map"]  # the model stores it unchanged
    else:  # only settings that a preset cannot express
        usual = {"mask_strips_left": True} | tokenizer.later_settings | {"added_tokens": []}
        notes = {name: value for name, value in notes.items() if value != usual[name]}
    if notes:
        path = local_path(directory) / "tokenizer.json"
        settings = read_json(path) | {"keras_bert_impl": notes}
        path.write_text(json.dumps(settings, indent=4), encoding="utf-8")
