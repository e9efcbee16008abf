"""The files of a byte-level BPE tokenizer in a model directory: Hugging Face's layout."""

import json
from pathlib import Path

from keras_bert_impl.errors import InputError
from keras_bert_impl.files import replace_file
from keras_bert_impl.reading import read_json, read_text
from keras_bert_impl.tokenizers import keras_hub_files
from keras_bert_impl.tokenizers.files import (
    check_settings,
    no_tokenizer,
    to_json,
    tokenizer_directory,
)

SPECIAL_TOKENS = ("<pad>", "<unk>", "<s>", "</s>", "<mask>")
_NAMES = ("pad_token", "unk_token", "bos_token", "eos_token", "mask_token")
_SAME = {"cls_token": "<s>", "sep_token": "</s>"}
_CLASSES = ("LongformerTokenizer", "PreTrainedTokenizer", "RobertaTokenizer", "TokenizersBackend")


def read(directory):
    """Reads vocabulary and merges.

    Args:
        directory: str or `Path` with `tokenizer.json`, or `vocab.json` and `merges.txt`.

    Returns:
        (vocabulary, merges, mask_strips_left): list of str; list of (left, right) pairs of str;
        bool, whether `<mask>` takes the white space before it along.

    Raises:
        InputError: a file is missing or damaged or asks for something that is not supported.
    """
    directory = tokenizer_directory(directory)
    if (directory / "tokenizer_config.json").exists():
        _check_config(directory / "tokenizer_config.json")
    if (directory / "tokenizer.json").exists():
        if keras_hub_files.is_preset(read_json(directory / "tokenizer.json")):
            return _read_two(*keras_hub_files.read_byte_pairs(directory))
        return _read_whole(directory / "tokenizer.json")
    if not (directory / "merges.txt").exists():
        raise no_tokenizer(directory)
    return _read_two(directory / "vocab.json", directory / "merges.txt")


def write(directory, vocabulary, merges, mask_strips_left):
    """Writes vocab.json, merges.txt, tokenizer_config.json, and so on, and tokenizer.json.

    Args:
        directory: str or `Path`; made if needed.
        vocabulary: list of str.
        merges: list of (left, right) pairs of str.
        mask_strips_left: bool.
    """
    special = dict(zip(_NAMES, SPECIAL_TOKENS)) | _SAME
    ids = {token: number for number, token in enumerate(vocabulary)}
    config = {"add_prefix_space": False, "tokenizer_class": "RobertaTokenizer", **special}
    files = {
        "vocab.json": json.dumps(ids, ensure_ascii=False) + "\n",
        "merges.txt": "#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in merges),
        "tokenizer_config.json": to_json(config),
        "special_tokens_map.json": to_json(special),
        "tokenizer.json": _whole(ids, merges, mask_strips_left),
    }
    for name, text in files.items():
        with replace_file(Path(directory) / name) as temporary:
            temporary.write_text(text, encoding="utf-8", newline="\n")


def _whole(ids, merges, mask_strips_left):
    """tokenizer.json, as the `tokenizers` library itself writes it."""
    import tokenizers
    from tokenizers import decoders, models, pre_tokenizers, processors

    whole = tokenizers.Tokenizer(models.BPE(vocab=ids, merges=merges))
    whole.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    whole.decoder = decoders.ByteLevel()
    whole.post_processor = processors.RobertaProcessing(
        ("</s>", ids["</s>"]), ("<s>", ids["<s>"]), trim_offsets=True, add_prefix_space=False
    )
    whole.add_special_tokens(
        [
            tokenizers.AddedToken(
                token, lstrip=mask_strips_left and token == "<mask>", special=True
            )
            for token in SPECIAL_TOKENS
        ]
    )
    return whole.to_str(pretty=True) + "\n"


def _read_two(vocabulary, merges):
    """What `read` returns, of the two files of RoBERTa's first tokenizer."""
    pairs = []
    for number, line in enumerate(read_text(merges).split("\n"), 1):
        if line and not (number == 1 and line.startswith("#version")):
            pairs.append(_pair(line.removesuffix("\r"), merges, number))
    return _in_order(vocabulary, read_json(vocabulary)), pairs, True


def _check_config(path):
    config = read_json(path)
    kind = str(config.get("tokenizer_class") or "RobertaTokenizer").removesuffix("Fast")
    if kind not in _CLASSES:
        raise InputError(f"{path}: tokenizer_class {kind} is not supported, only RoBERTa's BPE.")
    wanted = {"add_prefix_space": (False,), "trim_offsets": (True,)}
    for name, token in (dict(zip(_NAMES, SPECIAL_TOKENS)) | _SAME).items():
        if isinstance(config.get(name), dict):
            config[name] = config[name].get("content")
        wanted[name] = (token, None)
    check_settings(path, config, wanted)


def _read_whole(path):
    """Vocabulary and merges of a tokenizer.json; checks that it does what ours does."""
    whole = read_json(path)
    model, splitter = (
        whole[part] if isinstance(whole.get(part), dict) else {}
        for part in ("model", "pre_tokenizer")
    )
    check_settings(path, whole, {"normalizer": (None,)})
    check_settings(
        path,
        {"type": None} | splitter,
        {"type": ("ByteLevel",), "add_prefix_space": (False,), "use_regex": (True,)},
        "pre_tokenizer.",
    )
    nothing = (None, "")
    wanted = {"dropout": (None, 0.0), "byte_fallback": (False,), "ignore_merges": (False,)}
    wanted |= {"continuing_subword_prefix": nothing, "end_of_word_suffix": nothing}
    check_settings(path, model, wanted, "model.")
    mask_strips_left = _check_added_tokens(path, whole.get("added_tokens") or [])
    merges = model.get("merges")
    if not isinstance(merges, list):
        raise InputError(f"{path}: model.merges is missing.")
    merges = [_pair(merge, path, number) for number, merge in enumerate(merges, 1)]
    return _in_order(path, model.get("vocab")), merges, mask_strips_left


def _check_added_tokens(path, added_tokens):
    """Whether `<mask>` strips; checks the others."""
    mask_strips_left = False
    for token in added_tokens:
        content = token.get("content") if isinstance(token, dict) else token
        if content not in SPECIAL_TOKENS:
            raise InputError(f"{path}: the added token {content!r} is not supported.")
        wanted = dict.fromkeys(("single_word", "rstrip"), (False,))
        if content == "<mask>":
            mask_strips_left = bool(token.get("lstrip"))
        else:
            wanted["lstrip"] = (False,)
        check_settings(path, token, wanted, f"added token {content}: ")
    return mask_strips_left


def _pair(merge, path, number):
    parts = merge.split(" ") if isinstance(merge, str) else merge
    if not isinstance(parts, list) or len(parts) != 2 or not all(map(_is_token, parts)):
        raise InputError(f"{path}: merge {number} is no pair of tokens: {merge!r:.60}")
    return tuple(parts)


def _is_token(part):
    return isinstance(part, str) and part != ""


def _in_order(path, ids):
    """The tokens of a {token: id} object, by their ids."""
    if not isinstance(ids, dict) or not ids:
        raise InputError(f"{path}: there is no vocabulary in it.")
    tokens = dict(zip(ids.values(), ids)) if all(type(i) is int for i in ids.values()) else {}
    if sorted(tokens) != list(range(len(ids))):
        raise InputError(f"{path}: the ids are not 0 to {len(ids) - 1}, each once.")
    return [tokens[number] for number in range(len(ids))]
