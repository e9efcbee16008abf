"""Byte-level BPE tokenizer files of a model directory, in Hugging Face's layout."""

import dataclasses
import json
from pathlib import Path

from keras_bert_impl.io.errors import InputError, shown
from keras_bert_impl.io.files import replace_directory
from keras_bert_impl.io.reading import read_json, read_text
from keras_bert_impl.tokenizers import added_files, keras_hub_files
from keras_bert_impl.tokenizers.added_tokens import AddedToken, as_added_tokens
from keras_bert_impl.tokenizers.files import (
    check_settings,
    ids_by_token,
    in_order,
    no_tokenizer,
    to_json,
    tokenizer_directory,
    tokens_by_id,
    without_last,
)

# Padding, unknown, start of a row, separator, mask.
ROBERTA = ("<pad>", "<unk>", "<s>", "</s>", "<mask>")
BERT = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_CLASSES = ("LongformerTokenizer", "PreTrainedTokenizer", "RobertaTokenizer", "TokenizersBackend")
_GENERIC = ("PreTrainedTokenizer", "TokenizersBackend")  # with these, tokenizer.json wins


def read(directory):
    """Reads vocabulary, merges and settings.

    Args:
        directory: str or `Path` with `tokenizer.json`, or `vocab.json` and `merges.txt`.

    Returns:
        dict of the arguments of `ByteLevelBPETokenizer`.

    Raises:
        InputError: If a file is missing or damaged, or requires an unsupported feature.
    """
    directory = tokenizer_directory(directory)
    whole = directory / "tokenizer.json"
    if whole.exists() and keras_hub_files.is_preset(read_json(whole)):
        *files, arguments = keras_hub_files.read_byte_pairs(directory)
        return _read_parts(*files) | arguments
    added = added_files.read_if_there(whole).get("added_tokens") or []
    names = {added_files.content(token) for token in added} if isinstance(added, list) else set()
    special_tokens = BERT if BERT[-1] in names else ROBERTA
    found = added_files.read_added_tokens(directory, special_tokens)
    if whole.exists():
        arguments = _read_whole(whole)
    elif (directory / "merges.txt").exists():
        arguments = _read_parts(directory / "vocab.json", directory / "merges.txt")
    else:
        raise no_tokenizer(directory)
    arguments = _read_config(directory / "tokenizer_config.json", arguments, special_tokens)
    mask = {token.content: token for token, _ in found}.get(special_tokens[-1])
    tells = whole.exists() or added_files.tells_flags(directory)
    strips = mask.lstrip if mask and tells else not whole.exists()
    usual = special(special_tokens, strips)
    if not tells:
        usual += special(special_tokens, False)
    if not arguments.get("normalize"):  # then the `normalized` flag has no effect
        usual += [dataclasses.replace(token, normalized=True) for token in usual]
    return arguments | {
        "vocabulary": added_files.with_added_tokens(
            directory, arguments["vocabulary"], found, special_tokens
        ),
        "special_tokens": special_tokens,
        "mask_strips_left": strips,
        "added_tokens": added_files.settings_of(found, usual),
    }


def as_vocabulary(vocabulary):
    """Converts a vocabulary, or the path of a JSON file with one, to a list of str."""
    if isinstance(vocabulary, (str, Path)):
        return tokens_by_id(Path(vocabulary), read_json(Path(vocabulary)))
    return in_order(vocabulary)


def special(special_tokens, mask_strips_left):
    """Returns the special tokens, as they are matched, as a list of `AddedToken`."""
    return [
        AddedToken(
            token,
            lstrip=mask_strips_left and token == special_tokens[-1],
            normalized=False,
            special=True,
        )
        for token in special_tokens
    ]


def write(directory, settings):
    """Writes the tokenizer files: tokenizer.json, tokenizer_config.json, special_tokens_map.json.

    Also writes vocab.json and merges.txt if they can express a RoBERTa tokenizer's settings.

    Args:
        directory: str or `Path`; created if needed.
        settings: dict of the arguments of `ByteLevelBPETokenizer`.
    """
    special_tokens, trim_offsets = settings["special_tokens"], settings["trim_offsets"]
    named = _settings(special_tokens)
    ids = {token: number for number, token in enumerate(settings["vocabulary"]) if token}
    added = as_added_tokens(settings["added_tokens"])
    tokens = special(special_tokens, settings["mask_strips_left"])
    is_roberta = special_tokens == ROBERTA
    kind = "RobertaTokenizer" if is_roberta else "PreTrainedTokenizerFast"
    config = {
        "add_prefix_space": settings["add_prefix_space"],
        "tokenizer_class": kind,
        "trim_offsets": trim_offsets,
        **named,
        **added_files.added_settings(tokens, added, ids),
    }
    if not is_roberta:  # else `transformers` would add segments, which ModernBERT lacks
        config["model_input_names"] = ["input_ids", "attention_mask"]
    whole = _whole(ids, settings, {token.content for token in added} - set(special_tokens))
    files = {
        "tokenizer_config.json": to_json(config),
        "special_tokens_map.json": to_json(named),
        "tokenizer.json": added_files.to_whole(whole, tokens, added, ids),
    }
    is_plain = trim_offsets and not added and not settings["normalize"]
    if is_roberta and is_plain:  # these files cannot express other settings
        pairs = settings["merges"]
        files["vocab.json"] = json.dumps(ids, ensure_ascii=False) + "\n"
        files["merges.txt"] = "#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in pairs)
    with replace_directory(directory) as temporary:
        for name, text in files.items():
            (temporary / name).write_text(text, encoding="utf-8", newline="\n")


def _settings(special_tokens):
    """Returns the special tokens as in `tokenizer_config.json`."""
    settings = dict(zip(added_files.SPECIAL_NAMES, special_tokens))
    if special_tokens == ROBERTA:
        settings |= {"bos_token": "<s>", "eos_token": "</s>"}
    return settings


def _whole(ids, settings, added):
    """Creates the `tokenizers.Tokenizer`, without its added tokens."""
    import tokenizers
    from tokenizers import decoders, models, normalizers, pre_tokenizers

    vocabulary = without_last(settings["vocabulary"], added)
    whole = tokenizers.Tokenizer(
        models.BPE(vocab=ids_by_token(vocabulary), merges=settings["merges"])
    )
    whole.normalizer = normalizers.NFC() if settings["normalize"] else None
    prefix = {"add_prefix_space": settings["add_prefix_space"]}
    whole.pre_tokenizer = pre_tokenizers.ByteLevel(**prefix)
    whole.decoder = decoders.ByteLevel()
    whole.post_processor = _post_processor(
        ids, settings["special_tokens"], settings["trim_offsets"], prefix
    )
    return whole


def _post_processor(ids, special_tokens, trim_offsets, prefix):
    """Creates the post-processor, which adds special tokens to rows and may trim offsets."""
    from tokenizers import processors

    _, _, cls, sep, _ = special_tokens
    if special_tokens == ROBERTA:
        return processors.RobertaProcessing(
            (sep, ids[sep]), (cls, ids[cls]), trim_offsets=trim_offsets, **prefix
        )
    frame = processors.TemplateProcessing(
        single=f"{cls} $A {sep}",
        pair=f"{cls} $A {sep} $B:1 {sep}:1",
        special_tokens=[(token, ids[token]) for token in (cls, sep)],
    )
    trimming = processors.ByteLevel(trim_offsets=True, **prefix)
    return processors.Sequence([trimming, frame]) if trim_offsets else frame


def _trims(processor):
    """Returns whether a post_processor of tokenizer.json excludes leading spaces from offsets."""
    if not isinstance(processor, dict):
        return False
    if processor.get("type") == "Sequence" and isinstance(processor.get("processors"), list):
        return any(map(_trims, processor["processors"]))
    is_trimming = processor.get("type") in ("RobertaProcessing", "ByteLevel")
    return is_trimming and bool(processor.get("trim_offsets", True))


def _read_config(path, arguments, special_tokens):
    """Merges the settings of tokenizer_config.json into the arguments; checks all others."""
    config = added_files.read_if_there(path)
    kind = str(config.get("tokenizer_class") or "RobertaTokenizer").removesuffix("Fast")
    if kind not in _CLASSES:
        raise InputError(
            f"{path}: tokenizer_class {shown(kind)} is not supported, only byte-level BPE."
        )
    both = (True, False)
    wanted = {"add_prefix_space": both, "trim_offsets": both, **added_files.ROWS}
    named = _settings(special_tokens)
    for name, token in named.items():
        config[name] = added_files.content(config.get(name))
        wanted[name] = (token, None)
    check_settings(path, config, wanted)
    added_files.check_special_names(path.parent, named)
    said = {name: config[name] for name in ("add_prefix_space", "trim_offsets") if name in config}
    return said | arguments if kind in _GENERIC else arguments | said


def _read_parts(vocabulary, merges):
    """Reads the arguments from vocab.json and merges.txt, RoBERTa's original files."""
    tokens = tokens_by_id(vocabulary, read_json(vocabulary))
    pairs = []
    for number, line in enumerate(read_text(merges).split("\n"), 1):
        if line and not (number == 1 and line.startswith("#version")):
            pairs.append(_pair(line.removesuffix("\r"), merges, number))
    return {"vocabulary": tokens, "merges": pairs}


def _read_whole(path):
    """Reads the arguments from a tokenizer.json; checks that it is equivalent to ours."""
    whole = read_json(path)
    model, splitter, normalizer = (
        whole[part] if isinstance(whole.get(part), dict) else {}
        for part in ("model", "pre_tokenizer", "normalizer")
    )
    check_settings(path, {"type": None} | normalizer, {"type": (None, "NFC")}, "normalizer.")
    check_settings(
        path,
        {"type": None} | splitter,
        {"type": ("ByteLevel",), "add_prefix_space": (True, False), "use_regex": (True,)},
        "pre_tokenizer.",
    )
    nothing = (None, "")
    wanted = {"dropout": (None, 0.0), "byte_fallback": (False,), "ignore_merges": (False,)}
    wanted |= {"continuing_subword_prefix": nothing, "end_of_word_suffix": nothing}
    check_settings(path, model, wanted, "model.")
    merges = model.get("merges")
    if not isinstance(merges, list):
        raise InputError(f"{path}: model.merges is missing.")
    return {
        "vocabulary": tokens_by_id(path, model.get("vocab")),
        "merges": [_pair(merge, path, number) for number, merge in enumerate(merges, 1)],
        "normalize": bool(normalizer),
        "trim_offsets": _trims(whole.get("post_processor")),
        "add_prefix_space": splitter.get("add_prefix_space", True),
    }


def _pair(merge, path, number):
    parts = merge.split(" ") if isinstance(merge, str) else merge
    if not isinstance(parts, list) or len(parts) != 2 or not all(map(_is_token, parts)):
        raise InputError(f"{path}: merge {number} is no pair of tokens: {merge!r:.60}")
    return tuple(parts)


def _is_token(part):
    return isinstance(part, str) and part != ""
