"""Reading the files of tokenizers: text and JSON that may be damaged or hostile."""

import json
from pathlib import Path

from keras_bert_impl.errors import InputError

_MAX_BYTES = 64 << 20  # the largest published files have some MiB
_FILES = {  # what a directory without tokenizer.json has
    "vocab.txt": "WordPiece",
    "merges.txt": "byte-level BPE",
    "spiece.model": "SentencePiece",
    "sentencepiece.bpe.model": "SentencePiece",
    "tokenizer.model": "SentencePiece",
}
_MODELS = {"WordPiece": "WordPiece", "BPE": "byte-level BPE"}  # types in tokenizer.json


def kind_of(directory):
    """What kind of tokenizer a model directory has: `"WordPiece"`, `"byte-level BPE"`, `"Moses BPE"`.

    Args:
        directory: str or `Path`.

    Raises:
        InputError: there is none, or one that is not supported; says which.
    """
    directory = Path(directory)
    if not directory.is_dir():
        raise InputError(f"{directory} is no directory; give a model directory with a tokenizer.")
    if _is_flaubert(directory):
        return "Moses BPE"
    whole = directory / "tokenizer.json"
    if whole.exists():
        model = read_json(whole).get("model")
        found = model.get("type") if isinstance(model, dict) else None
        if found not in list(_MODELS):
            raise InputError(f"{whole}: model {found} is not supported, only {_listed()}.")
        return _MODELS[found]
    for name, kind in _FILES.items():
        if (directory / name).exists():
            if kind not in _MODELS.values():
                raise InputError(
                    f"{directory / name}: {kind} is not supported, only {_listed()}."
                )
            return kind
    raise no_tokenizer(directory)


def _is_flaubert(directory):
    """Whether vocab.json and merges.txt are FlauBERT's: their names are those of RoBERTa's, too."""
    wanted = {"tokenizer_config.json": "tokenizer_class", "config.json": "model_type"}
    for name, key in wanted.items():
        kind = read_json(directory / name).get(key) if (directory / name).exists() else None
        if kind is not None:
            return kind in ("FlaubertTokenizer", "flaubert")
    return False


def no_tokenizer(directory):
    """The error for a directory without a tokenizer."""
    return InputError(
        f"{directory} has no tokenizer: neither tokenizer.json, vocab.txt nor merges.txt."
    )


def _listed():
    return " and ".join(_MODELS.values())


def read_text(path):
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise InputError(f"{path} has more than {_MAX_BYTES >> 20} MiB: no tokenizer file.")
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}.") from error
    try:
        text = data.decode("utf-8")
        bad = text.find("\0")
    except UnicodeDecodeError as error:
        bad, text = error.start, data
    if bad >= 0:
        line = text[:bad].count(b"\n" if text is data else "\n") + 1
        raise InputError(f"{path}, line {line}: not UTF-8 text; is it a binary file?")
    return text


def read_json(path):
    try:
        value = json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise InputError(f"{path}, line {error.lineno}: no valid JSON: {error.msg}.") from error
    except RecursionError as error:
        raise InputError(f"{path}: no valid JSON: nested too deeply.") from error
    if not isinstance(value, dict):
        raise InputError(f"{path}: expected a JSON object, got {type(value).__name__}.")
    return value


def check_settings(path, settings, wanted, inside=""):
    for name, allowed in wanted.items():
        if name in settings and settings[name] not in allowed:
            raise InputError(
                f"{path}: {inside}{name}={settings[name]!r} is not supported, "
                f"only {' or '.join(map(repr, allowed))}."
            )


def to_json(value):
    """str. The JSON text of a file."""
    return json.dumps(value, indent=2, sort_keys=True) + "\n"
