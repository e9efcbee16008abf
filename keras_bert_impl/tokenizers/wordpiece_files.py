"""The files of a WordPiece tokenizer in a model directory: Hugging Face's layout."""

import logging
import string
from pathlib import Path

from keras_bert_impl.errors import InputError, shown
from keras_bert_impl.files import replace_directory
from keras_bert_impl.reading import read_json, read_text
from keras_bert_impl.tokenizers import keras_hub_files
from keras_bert_impl.tokenizers.files import (
    check_settings,
    no_tokenizer,
    to_json,
    tokenizer_directory,
    tokens_in_order,
)
from keras_bert_impl.tokenizers.words import MAX_CHARACTERS, SPECIAL_TOKENS

_log = logging.getLogger(__name__)

# Classes of `transformers` that do what ours does; other classes split words in other ways.
_CLASSES = (
    "BertTokenizer",
    "ConvBertTokenizer",
    "DistilBertTokenizer",
    "ElectraTokenizer",
    "LayoutLMTokenizer",
    "MobileBertTokenizer",
    "PreTrainedTokenizer",
    "SqueezeBertTokenizer",
    "TokenizersBackend",
)
_PARTS = {
    "model": "WordPiece",
    "normalizer": "BertNormalizer",
    "pre_tokenizer": "BertPreTokenizer",
}
_SPECIAL_NAMES = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")


def read(directory):
    """Reads vocabulary and settings.

    Args:
        directory: str or `Path` with `vocab.txt` or `tokenizer.json`, and `tokenizer_config.json`.

    Returns:
        (vocabulary, lowercase): list of str, bool.

    Raises:
        InputError: a file is missing or damaged or asks for something that is not supported.
    """
    directory = tokenizer_directory(directory)
    vocabulary, lowercase = None, None
    if (directory / "tokenizer.json").exists():
        if keras_hub_files.is_preset(read_json(directory / "tokenizer.json")):
            path, lowercase = keras_hub_files.read_wordpiece(directory)
            return read_vocabulary(path), lowercase
        vocabulary, lowercase = _read_whole(directory / "tokenizer.json")
    for path in (directory / "vocab.txt", directory / "assets" / "vocab.txt"):
        if path.exists():
            lines = read_vocabulary(path)
            if vocabulary not in (None, lines):
                raise InputError(f"{directory}: vocab.txt and tokenizer.json differ; remove one.")
            vocabulary = lines
            break
    if vocabulary is None:
        raise no_tokenizer(directory)
    if (directory / "tokenizer_config.json").exists():
        lowercase = _read_config(directory / "tokenizer_config.json", lowercase)
    if lowercase is None:  # as in Google's checkpoints
        lowercase = not _has_capitals(vocabulary)
        _log.warning(
            "%s: no tokenizer_config.json says do_lower_case; lowercase=%s by the vocabulary, "
            "which has %s capital letters.",
            directory,
            lowercase,
            "no" if lowercase else "the",
        )
    return vocabulary, lowercase


def _has_capitals(vocabulary):
    """Whether a cased tokenizer made it: others could never find A to Z."""
    return not set(string.ascii_uppercase).isdisjoint(vocabulary)


def read_vocabulary(path):
    """Reads a vocabulary file: UTF-8, a token on each line, the first has id 0.

    Args:
        path: str or `Path`.

    Returns:
        list of str.

    Raises:
        InputError: no text, empty, a token twice or a special token missing; with the line.
    """
    tokens = [line.removesuffix("\r") for line in read_text(Path(path)).split("\n")]
    if tokens[-1] == "":
        tokens.pop()
    check_vocabulary(tokens, path)
    return tokens


def check_vocabulary(vocabulary, path=None):
    """Raises InputError where a vocabulary is empty, has a token twice or lacks a special one.

    Args:
        vocabulary: list of str.
        path: the file it came from, for the message.
    """
    where = path or "the vocabulary"
    if not vocabulary:
        raise InputError(f"{where} is empty; a vocabulary has a token on each line.")
    first = {}
    for line, token in enumerate(vocabulary, 1):
        if not isinstance(token, str):
            raise InputError(f"{where}, line {line}: {token!r:.40} is no string.")
        if token in first:
            raise InputError(
                f"{where}, line {line}: the token {token!r:.40} stands in line {first[token]} too; "
                "remove one of them."
            )
        first[token] = line
    missing = [token for token in SPECIAL_TOKENS if token not in first]
    if missing:
        raise InputError(f"{where} lacks {' '.join(missing)}; BERT needs these tokens.")


def write(directory, vocabulary, lowercase):
    """Writes vocab.txt, tokenizer_config.json, special_tokens_map.json and tokenizer.json.

    Args:
        directory: str or `Path`; made if needed.
        vocabulary: list of str.
        lowercase: bool.
    """
    special = dict(zip(_SPECIAL_NAMES, SPECIAL_TOKENS))
    config = {
        "do_lower_case": lowercase,
        "strip_accents": None,
        "tokenize_chinese_chars": True,
        "tokenizer_class": "BertTokenizer",
        **special,
    }
    files = {
        "vocab.txt": "".join(f"{token}\n" for token in vocabulary),
        "tokenizer_config.json": to_json(config),
        "special_tokens_map.json": to_json(special),
        "tokenizer.json": _whole(vocabulary, lowercase),
    }
    with replace_directory(directory) as temporary:
        for name, text in files.items():
            (temporary / name).write_text(text, encoding="utf-8", newline="\n")


def _whole(vocabulary, lowercase):
    """tokenizer.json, as the `tokenizers` library itself writes it."""
    import tokenizers
    from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

    ids = {token: position for position, token in enumerate(vocabulary)}
    whole = tokenizers.Tokenizer(
        models.WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=MAX_CHARACTERS)
    )
    whole.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    whole.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    whole.decoder = decoders.WordPiece()
    whole.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(token, ids[token]) for token in ("[CLS]", "[SEP]")],
    )
    whole.add_special_tokens(list(SPECIAL_TOKENS))
    return whole.to_str(pretty=True) + "\n"


def _read_config(path, lowercase):
    """do_lower_case of tokenizer_config.json, or else what was given; checks the other settings."""
    config = read_json(path)
    kind = str(config.get("tokenizer_class") or "BertTokenizer").removesuffix("Fast")
    if kind not in _CLASSES:
        raise InputError(f"{path}: tokenizer_class {shown(kind)} is not supported, only BERT's WordPiece.")
    lowercase = config.get("do_lower_case", lowercase)
    wanted = {
        "do_lower_case": (True, False),
        "strip_accents": (None, lowercase),
        "tokenize_chinese_chars": (True,),
        "do_basic_tokenize": (True,),
        "never_split": (None, []),
    }
    for name, token in zip(_SPECIAL_NAMES, SPECIAL_TOKENS):
        if isinstance(config.get(name), dict):
            config[name] = config[name].get("content")
        wanted[name] = (token, None)
    check_settings(path, config, wanted)
    return lowercase


def _read_whole(path):
    """Vocabulary and lowercase of a tokenizer.json; checks that it does what ours does."""
    whole = read_json(path)
    parts = {}
    for name, kind in _PARTS.items():
        parts[name] = whole[name] if isinstance(whole.get(name), dict) else {}
        if parts[name].get("type") != kind:
            found = parts[name].get("type")
            raise InputError(f"{path}: {name} {shown(found)} is not supported, only {kind}.")
    model, normalizer = parts["model"], parts["normalizer"]
    wanted = {"unk_token": ("[UNK]",), "continuing_subword_prefix": ("##",)}
    wanted["max_input_chars_per_word"] = (MAX_CHARACTERS,)
    check_settings(path, model, wanted, "model.")
    lowercase = normalizer.get("lowercase", True)
    wanted = {"lowercase": (True, False), "strip_accents": (None, lowercase)}
    wanted |= {"handle_chinese_chars": (True,), "clean_text": (True,)}
    check_settings(path, normalizer, wanted, "normalizer.")
    _check_added_tokens(path, whole.get("added_tokens") or [])
    vocabulary = tokens_in_order(path, model.get("vocab"))
    check_vocabulary(vocabulary, path)
    return vocabulary, lowercase


def _check_added_tokens(path, added_tokens):
    if not isinstance(added_tokens, list):
        raise InputError(f"{path}: added_tokens must be a list. Received: {shown(added_tokens)}")
    for token in added_tokens:
        content = token.get("content") if isinstance(token, dict) else token
        if content not in SPECIAL_TOKENS:
            raise InputError(f"{path}: the added token {shown(content)} is not supported.")
        wanted = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), (False,))
        check_settings(path, token, wanted, f"added token {content}: ")
