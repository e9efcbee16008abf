"""The files of a tokenizer in a KerasHub preset: `tokenizer.json` and `assets/tokenizer`."""

from pathlib import Path

from keras_bert_impl.errors import InputError
from keras_bert_impl.reading import read_json
from keras_bert_impl.tokenizers.files import check_settings

_PACKAGES = ("keras_hub", "keras_nlp")  # the second one is the name that old presets have
_KINDS = {
    "BertTokenizer": "WordPiece",
    "DistilBertTokenizer": "WordPiece",
    "ElectraTokenizer": "WordPiece",
    "RobertaTokenizer": "byte-level BPE",
    "XLMRobertaTokenizer": "SentencePiece",
    "AlbertTokenizer": "SentencePiece",
}
_ASSETS = Path("assets", "tokenizer")
# Arguments of our SentencePiece tokenizer that KerasHub's files cannot say. They stand beside its
# own settings in tokenizer.json, where KerasHub does not look.
NOTES = {"extra_tokens": list, "mask_strips_left": bool, "character_map": str}


def is_preset(settings):
    """bool. Whether a `tokenizer.json` (a dict) is KerasHub's and not Hugging Face's."""
    return "registered_name" in settings


def kind_of(path):
    """`"WordPiece"`, `"byte-level BPE"` or `"SentencePiece"`.

    Args:
        path: `Path` of KerasHub's `tokenizer.json`.

    Raises:
        InputError: another class of tokenizer.
    """
    name = read_json(path).get("registered_name")
    package, _, kind = str(name).partition(">")
    if package not in _PACKAGES or kind not in _KINDS:
        raise InputError(
            f"{path}: registered_name {name!r:.80} is not supported: {', '.join(_KINDS)} are."
        )
    return _KINDS[kind]


def read_wordpiece(directory):
    """Where the vocabulary is, and whether the text is lowercased.

    KerasHub keeps the accents of a text in lowercase, by which its pieces become [UNK]; accents
    are stripped here as the published models did in training.

    Args:
        directory: `Path` of a preset.

    Returns:
        (path, lowercase): `Path` of a file with a token on each line; bool.

    Raises:
        InputError: a setting that is not supported.
    """
    path = directory / "tokenizer.json"
    settings = _settings(path)
    wanted = {"lowercase": (True, False), "split": (True,), "split_on_cjk": (True,)}
    wanted |= {"suffix_indicator": ("##",), "oov_token": ("[UNK]",), "special_tokens": (None, [])}
    # Without lowercase, nobody strips accents.
    wanted["strip_accents"] = (False, bool(settings.get("lowercase")))
    check_settings(path, settings, wanted)
    return directory / _ASSETS / "vocabulary.txt", settings.get("lowercase", False)


def read_byte_pairs(directory):
    """Where vocabulary and merges are.

    Args:
        directory: `Path` of a preset.

    Returns:
        (vocabulary, merges): `Path`s of a JSON and a text file, as Hugging Face's.

    Raises:
        InputError: a setting that is not supported.
    """
    path = directory / "tokenizer.json"
    check_settings(path, _settings(path), {"add_prefix_space": (False,)})
    return directory / _ASSETS / "vocabulary.json", directory / _ASSETS / "merges.txt"


def sentencepiece_model(directory):
    """`Path` of the SentencePiece model of an ALBERT or XLM-RoBERTa preset."""
    return Path(directory) / _ASSETS / "vocabulary.spm"


def sentencepiece_notes(path):
    """Arguments of `SentencePieceTokenizer` that are not in the SentencePiece model.

    Args:
        path: `Path` of KerasHub's `tokenizer.json`.

    Returns:
        dict.

    Raises:
        InputError: a setting that is not supported, or damaged notes.
    """
    check_settings(path, _settings(path), {"add_bos": (False,), "add_eos": (False,)})
    notes = read_json(path).get("keras_bert_impl", {})
    if not isinstance(notes, dict) or not all(
        isinstance(notes.get(name, kind()), kind) for name, kind in NOTES.items()
    ):
        raise InputError(f"{path}: keras_bert_impl is damaged.")
    tokens = notes.get("extra_tokens", [])
    if not all(isinstance(token, str) for token in tokens):
        raise InputError(f"{path}: an extra token is no text.")
    return {"extra_tokens": tokens} | {name: notes[name] for name in NOTES if name in notes}


def _settings(path):
    settings = read_json(path).get("config")
    if not isinstance(settings, dict):
        raise InputError(f"{path} has no config.")
    return settings
