"""Reads the tokenizer files of KerasHub presets, `tokenizer.json` and `assets/tokenizer`."""

from pathlib import Path
from typing import Any

from keras_bert_impl.tokenizers.added_tokens import as_added_tokens, special_tokens
from keras_bert_impl.tokenizers.files import check_settings
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.io.paths import local_path
from keras_bert_impl.utils.io.reading import read_json

_PACKAGES = ("keras_hub", "keras_nlp")  # `keras_nlp` is the package name in old presets.
_KINDS = {
    "BertTokenizer": "WordPiece",
    "DistilBertTokenizer": "WordPiece",
    "ElectraTokenizer": "WordPiece",
    "RobertaTokenizer": "byte-level BPE",
    "XLMRobertaTokenizer": "SentencePiece",
    "AlbertTokenizer": "SentencePiece",
}
_ASSETS = Path("assets", "tokenizer")
# Kind of tokenizer -> arguments that KerasHub does not support. They are stored in tokenizer.json,
# and KerasHub ignores them.
NOTES: dict[str, dict[str, Any]] = {
    "WordPiece": {"strip_accents": (bool, type(None)), "split_on_cjk": bool, "added_tokens": list},
    "byte-level BPE": {"mask_strips_left": bool, "add_prefix_space": bool, "added_tokens": list},
    "SentencePiece": {
        "mask_strips_left": bool,
        "character_map": str,
        "added_tokens": list,
        "prepend_scheme": str,
    },
}


def kind_of(path: Path) -> str:
    """Returns the kind of tokenizer in a `tokenizer.json` of KerasHub, a key of `NOTES`."""
    name = read_json(path).get("registered_name")
    package, _, kind = str(name).partition(">")
    if package not in _PACKAGES or kind not in _KINDS:
        raise InputError(
            f"{path}: registered_name {name!r:.80} is not supported. Supported are "
            f"{', '.join(_KINDS)}."
        )
    return _KINDS[kind]


def read_wordpiece(directory: Path) -> tuple[Path, dict[str, Any]]:
    """Returns (path of the vocabulary, other arguments of `WordPieceTokenizer`)."""
    path = directory / "tokenizer.json"
    settings = _read_settings(path)
    supported: dict[str, tuple] = {
        "lowercase": (True, False),
        "split": (True,),
        "split_on_cjk": (True, False),
        "suffix_indicator": ("##",),
        "oov_token": ("[UNK]",),
        "special_tokens": (None, []),
        "strip_accents": (True, False),
    }
    check_settings(path, settings, supported)
    lowercase = settings.get("lowercase", False)
    arguments = {"lowercase": lowercase, "split_on_cjk": settings.get("split_on_cjk", True)}
    if settings.get("strip_accents") and not lowercase:
        arguments["strip_accents"] = True
    return directory / _ASSETS / "vocabulary.txt", arguments | notes(path, "WordPiece")


def read_byte_pairs(directory: Path) -> tuple[Path, Path, dict[str, Any]]:
    """Returns (path of vocab.json, path of merges.txt, other arguments of the tokenizer)."""
    path = directory / "tokenizer.json"
    settings = _read_settings(path)
    check_settings(path, settings, {"add_prefix_space": (True, False)})
    arguments = {"add_prefix_space": settings.get("add_prefix_space", False)}
    arguments |= notes(path, "byte-level BPE")
    return directory / _ASSETS / "vocabulary.json", directory / _ASSETS / "merges.txt", arguments


def sentencepiece_model(directory: str | Path) -> Path:
    return local_path(directory) / _ASSETS / "vocabulary.spm"


def sentencepiece_notes(path: Path) -> dict[str, Any]:
    """Reads the arguments of `SentencePieceTokenizer` that the model file does not contain."""
    check_settings(path, _read_settings(path), {"add_bos": (False,), "add_eos": (False,)})
    return notes(path, "SentencePiece")


def notes(path: Path, kind: str) -> dict[str, Any]:
    """Reads the arguments that this package adds to the `tokenizer.json` of KerasHub."""
    settings = read_json(path).get("keras_bert_impl", {})
    # `extra_tokens` is an old name for the setting in SentencePiece tokenizers.
    types = NOTES[kind] | {"extra_tokens": list}
    if not isinstance(settings, dict) or not all(
        isinstance(value, types.get(name, object)) for name, value in settings.items()
    ):
        raise InputError(f"{path}: keras_bert_impl must contain {', '.join(types)}.")
    arguments = {name: settings[name] for name in NOTES[kind] if name in settings}
    extra = special_tokens(settings.get("extra_tokens", []))
    try:
        as_added_tokens(arguments.get("added_tokens", extra))
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    return {"added_tokens": extra} | arguments


def _read_settings(path):
    settings = read_json(path).get("config")
    if not isinstance(settings, dict):
        raise InputError(f"{path} has no config object with the tokenizer settings.")
    return settings
