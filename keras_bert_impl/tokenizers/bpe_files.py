"""The files of a byte-level BPE tokenizer in a model directory: Hugging Face's layout."""

import json

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

# Padding, unknown, start of a row, separator, mask.
ROBERTA = ("<pad>", "<unk>", "<s>", "</s>", "<mask>")
BERT = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_NAMES = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
_CLASSES = ("LongformerTokenizer", "PreTrainedTokenizer", "RobertaTokenizer", "TokenizersBackend")
_MAX_ADDED = 10_000  # published files have some hundreds; each makes the search slower


def read(directory):
    """Reads vocabulary, merges and settings.

    Args:
        directory: str or `Path` with `tokenizer.json`, or `vocab.json` and `merges.txt`.

    Returns:
        dict of the arguments of `ByteLevelBPETokenizer`.

    Raises:
        InputError: a file is missing or damaged or asks for something that is not supported.
    """
    directory = tokenizer_directory(directory)
    whole = directory / "tokenizer.json"
    if whole.exists() and keras_hub_files.is_preset(read_json(whole)):
        return _read_parts(*keras_hub_files.read_byte_pairs(directory))
    if whole.exists():
        arguments = _read_whole(whole)
    elif (directory / "merges.txt").exists():
        arguments = _read_parts(directory / "vocab.json", directory / "merges.txt")
    else:
        raise no_tokenizer(directory)
    if (directory / "tokenizer_config.json").exists():
        _check_config(directory / "tokenizer_config.json", arguments["special_tokens"])
    return arguments


def write(
    directory,
    vocabulary,
    merges,
    mask_strips_left,
    special_tokens,
    added_tokens,
    normalize,
    trim_offsets,
):
    """Writes tokenizer.json and tokenizer_config.json, and RoBERTa's vocab.json and merges.txt.

    Args:
        directory: str or `Path`; made if needed.
        vocabulary, ...: as of `ByteLevelBPETokenizer`.
    """
    special = _settings(special_tokens)
    ids = {token: number for number, token in enumerate(vocabulary)}
    is_roberta = special_tokens == ROBERTA
    kind = "RobertaTokenizer" if is_roberta else "PreTrainedTokenizerFast"
    whole = _whole(ids, merges, mask_strips_left, special_tokens, added_tokens, normalize)
    whole.post_processor = _post_processor(ids, special_tokens, trim_offsets)
    config = {"add_prefix_space": False, "tokenizer_class": kind, **special}
    if not is_roberta:  # `transformers` would add segments, which ModernBERT has not
        config["model_input_names"] = ["input_ids", "attention_mask"]
    files = {
        "tokenizer_config.json": to_json(config),
        "special_tokens_map.json": to_json(special),
        "tokenizer.json": whole.to_str(pretty=True) + "\n",
    }
    is_plain = trim_offsets and not added_tokens and not normalize
    if is_roberta and is_plain:  # these could not say otherwise
        files["vocab.json"] = json.dumps(ids, ensure_ascii=False) + "\n"
        files["merges.txt"] = "#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in merges)
    with replace_directory(directory) as temporary:
        for name, text in files.items():
            (temporary / name).write_text(text, encoding="utf-8", newline="\n")


def _settings(special_tokens):
    """The special tokens as `tokenizer_config.json` has them."""
    settings = dict(zip(_NAMES, special_tokens))
    if special_tokens == ROBERTA:
        settings |= {"bos_token": "<s>", "eos_token": "</s>"}
    return settings


def _whole(ids, merges, mask_strips_left, special_tokens, added_tokens, normalize):
    """tokenizer.json, as the `tokenizers` library itself makes it."""
    import tokenizers
    from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers

    whole = tokenizers.Tokenizer(models.BPE(vocab=ids, merges=merges))
    whole.normalizer = normalizers.NFC() if normalize else None
    whole.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    whole.decoder = decoders.ByteLevel()
    mask = special_tokens[-1]
    whole.add_special_tokens(
        [AddedToken(token, lstrip=mask_strips_left and token == mask) for token in special_tokens]
    )
    # Searched after the special ones, so that `<mask>` has taken its white space before.
    whole.add_tokens([AddedToken(token, normalized=True) for token in added_tokens])
    return whole


def _post_processor(ids, special_tokens, trim_offsets):
    """What begins and ends a row, and whether offsets leave out the space before a piece."""
    from tokenizers import processors

    _, _, cls, sep, _ = special_tokens
    if special_tokens == ROBERTA:
        return processors.RobertaProcessing(
            (sep, ids[sep]), (cls, ids[cls]), trim_offsets=trim_offsets, add_prefix_space=False
        )
    frame = processors.TemplateProcessing(
        single=f"{cls} $A {sep}",
        pair=f"{cls} $A {sep} $B:1 {sep}:1",
        special_tokens=[(token, ids[token]) for token in (cls, sep)],
    )
    trimming = processors.ByteLevel(trim_offsets=True, add_prefix_space=False)
    return processors.Sequence([trimming, frame]) if trim_offsets else frame


def _trims(processor):
    """Whether a post_processor of tokenizer.json leaves the space before a piece out of offsets."""
    if not isinstance(processor, dict):
        return False
    if processor.get("type") == "Sequence" and isinstance(processor.get("processors"), list):
        return any(map(_trims, processor["processors"]))
    is_trimming = processor.get("type") in ("RobertaProcessing", "ByteLevel")
    return is_trimming and bool(processor.get("trim_offsets", True))


def _check_config(path, special_tokens):
    config = read_json(path)
    kind = str(config.get("tokenizer_class") or "RobertaTokenizer").removesuffix("Fast")
    if kind not in _CLASSES:
        raise InputError(f"{path}: tokenizer_class {shown(kind)} is not supported, only byte-level BPE.")
    wanted = {"add_prefix_space": (False,), "trim_offsets": (True,)}
    for name, token in _settings(special_tokens).items():
        if isinstance(config.get(name), dict):
            config[name] = config[name].get("content")
        wanted[name] = (token, None)
    check_settings(path, config, wanted)


def _read_parts(vocabulary, merges):
    """Arguments from the files of the first tokenizer of RoBERTa."""
    tokens = tokens_in_order(vocabulary, read_json(vocabulary))
    pairs = []
    for number, line in enumerate(read_text(merges).split("\n"), 1):
        if line and not (number == 1 and line.startswith("#version")):
            pairs.append(_pair(line.removesuffix("\r"), merges, number))
    return {"vocabulary": tokens, "merges": pairs, "special_tokens": ROBERTA}


def _read_whole(path):
    """Arguments from a tokenizer.json; checks that it does what ours does."""
    whole = read_json(path)
    model, splitter, normalizer = (
        whole[part] if isinstance(whole.get(part), dict) else {}
        for part in ("model", "pre_tokenizer", "normalizer")
    )
    check_settings(path, {"type": None} | normalizer, {"type": (None, "NFC")}, "normalizer.")
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
    merges = model.get("merges")
    if not isinstance(merges, list):
        raise InputError(f"{path}: model.merges is missing.")
    added = _added_tokens(path, whole.get("added_tokens") or [])
    special = BERT if BERT[-1] in added else ROBERTA
    ids = model.get("vocab")
    if isinstance(ids, dict):
        ids = ids | {content: token["id"] for content, token in added.items()}
    return {
        "vocabulary": tokens_in_order(path, ids),
        "merges": [_pair(merge, path, number) for number, merge in enumerate(merges, 1)],
        "mask_strips_left": _mask_strips_left(path, added, special[-1]),
        "special_tokens": special,
        "added_tokens": [content for content in added if content not in special],
        "normalize": bool(normalizer),
        "trim_offsets": _trims(whole.get("post_processor")),
    }


def _added_tokens(path, tokens):
    """dict of content to the whole entry."""
    if not isinstance(tokens, list) or len(tokens) > _MAX_ADDED:
        raise InputError(f"{path}: added_tokens must be a list of at most {_MAX_ADDED}.")
    added = {}
    for token in tokens:
        content = token.get("content") if isinstance(token, dict) else None
        if not _is_token(content) or "id" not in token:
            raise InputError(f"{path}: an added token has no content or no id: {token!r:.60}")
        added[content] = token
    return added


def _mask_strips_left(path, added, mask):
    """Whether the mask takes white space before it along; that the others do not is checked."""
    for content, token in added.items():
        wanted = dict.fromkeys(("single_word", "rstrip", "lstrip"), (False,))
        if content == mask:
            del wanted["lstrip"]
        check_settings(path, token, wanted, f"added token {content}: ")
    return bool(added.get(mask, {}).get("lstrip"))


def _pair(merge, path, number):
    parts = merge.split(" ") if isinstance(merge, str) else merge
    if not isinstance(parts, list) or len(parts) != 2 or not all(map(_is_token, parts)):
        raise InputError(f"{path}: merge {number} is no pair of tokens: {merge!r:.60}")
    return tuple(parts)


def _is_token(part):
    return isinstance(part, str) and part != ""
