"""Reads and writes byte-level BPE tokenizer files in the Hugging Face format."""

import dataclasses
import json
import logging
from pathlib import Path
from typing import Any

from keras_bert_impl.tokenizers import added_files, keras_hub_files
from keras_bert_impl.tokenizers.added_tokens import as_added_tokens, special_tokens
from keras_bert_impl.tokenizers.files import (
    check_settings,
    ids_by_token,
    is_preset,
    last_ids,
    model_of,
    no_tokenizer,
    row_template,
    to_json,
    tokenizer_directory,
    tokens_by_id,
    without_last,
    write_files,
)
from keras_bert_impl.tokenizers.row_files import (
    GENERIC,
    input_names,
    is_generic,
    read_rows,
    unsupported_class,
    warn_of_class,
)
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.io.reading import read_json, read_text

_log = logging.getLogger(__name__)

# Padding, unknown, first, separator and mask token.
ROBERTA = ("<pad>", "<unk>", "<s>", "</s>", "<mask>")
BERT = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
GPT2 = ("<|endoftext|>",) * 5
_CLASSES = ("LongformerTokenizer", "RobertaTokenizer", "GPT2Tokenizer", *GENERIC)


def byte_characters() -> list[str]:
    """Returns the printable character of each of the 256 bytes."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    substitutes = iter(range(256, 512))
    return [chr(byte if byte in printable else next(substitutes)) for byte in range(256)]


def usual_rows(special: tuple[str, ...]) -> tuple[int, int]:
    """Returns the default number of separators and the default segment id of the second text."""
    if special == ROBERTA:
        return 2, 0
    return (1, 0) if special == GPT2 else (1, 1)


def read(directory: str | Path) -> dict[str, Any]:
    directory = tokenizer_directory(directory)
    whole = directory / "tokenizer.json"
    if whole.exists() and is_preset(read_json(whole)):
        *files, arguments = keras_hub_files.read_byte_pairs(directory)
        return _read_parts(*files) | arguments
    if whole.exists():
        arguments = _read_whole(whole)
    elif (directory / "merges.txt").exists():
        arguments = _read_parts(directory / "vocab.json", directory / "merges.txt")
    else:
        raise no_tokenizer(directory)
    special = _read_special(whole, arguments["vocabulary"])
    added = added_files.read_added_tokens(directory, special)
    if special == GPT2:
        arguments = {"trim_offsets": False} | arguments
    arguments = _read_config(directory / "tokenizer_config.json", arguments, special)
    strips, usual = added_files.special_as_matched(directory, added, special)
    # Without normalization, the `normalized` flag has no effect.
    if not arguments.get("normalize"):
        usual += [dataclasses.replace(token, normalized=True) for token in usual]
    vocabulary = added_files.with_added_tokens(directory, arguments["vocabulary"], added, special)
    rows = usual_rows(special)
    if special != GPT2:  # GPT-2's files add no special tokens; this package adds one at each end.
        rows = read_rows(directory, vocabulary, special, rows, separators=(1, 2))
    return arguments | {
        "vocabulary": vocabulary,
        "num_separators": rows[0],
        "segment_of_second": rows[1],
        "special_tokens": special,
        "mask_strips_left": strips,
        "added_tokens": added_files.settings_of(added, usual),
    }


def _read_special(whole, vocabulary):
    added = added_files.read_if_there(whole).get("added_tokens") or []
    names = [added_files.content(token) for token in added] if isinstance(added, list) else []
    if BERT[-1] in names:
        return BERT
    tokens = [*names, *vocabulary]
    return GPT2 if GPT2[0] in tokens and ROBERTA[-1] not in tokens else ROBERTA


def write(directory: str | Path, settings: dict[str, Any], **entries: Any) -> None:
    special, trim_offsets = settings["special_tokens"], settings["trim_offsets"]
    named = _name_special_tokens(special)
    ids = last_ids(settings["vocabulary"])
    added = as_added_tokens(settings["added_tokens"])
    tokens = special_tokens(special, settings["mask_strips_left"])
    # RobertaTokenizer of `transformers` always does this, regardless of tokenizer.json.
    rows = settings["num_separators"], settings["segment_of_second"]
    is_roberta = special == ROBERTA and rows == (2, 0)
    is_usual = not settings["normalize"] and not settings["keeps_unknown_bytes"]
    is_roberta &= is_usual
    name = "RobertaTokenizer" if is_roberta else "PreTrainedTokenizerFast"
    is_gpt2 = special == GPT2 and is_usual
    name = "GPT2Tokenizer" if is_gpt2 else name
    config = {
        "add_prefix_space": settings["add_prefix_space"],
        "tokenizer_class": name,
        "trim_offsets": trim_offsets,
        **named,
        **added_files.added_settings(tokens, added, ids),
        **entries,
    }
    if not is_roberta:
        config |= input_names(settings["segment_of_second"])
    whole = _build_whole(ids, settings, {token.content for token in added} - set(special))
    files = {
        "tokenizer_config.json": to_json(config),
        "special_tokens_map.json": to_json(named),
        "tokenizer.json": added_files.to_whole(whole, tokens, added, ids),
    }
    # vocab.json and merges.txt cannot express other settings.
    if (is_gpt2 or is_roberta and trim_offsets) and not added:
        pairs = settings["merges"]
        files["vocab.json"] = json.dumps(ids, ensure_ascii=False) + "\n"
        files["merges.txt"] = "#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in pairs)
    write_files(directory, files)


def _name_special_tokens(special):
    if special == GPT2:
        names = ("bos_token", "eos_token", "unk_token", "pad_token")
        return dict.fromkeys(names, special[0])
    settings = dict(zip(added_files.SPECIAL_NAMES, special))
    if special == ROBERTA:
        settings |= {"bos_token": "<s>", "eos_token": "</s>"}
    return settings


def _build_whole(ids, settings, added):
    import tokenizers
    from tokenizers import decoders, models, normalizers, pre_tokenizers

    vocabulary = without_last(settings["vocabulary"], added)
    unk = settings["special_tokens"][1] if settings["keeps_unknown_bytes"] else None
    whole = tokenizers.Tokenizer(
        models.BPE(vocab=ids_by_token(vocabulary), merges=settings["merges"], unk_token=unk)
    )
    whole.normalizer = normalizers.NFC() if settings["normalize"] else None
    prefix = {"add_prefix_space": settings["add_prefix_space"]}
    whole.pre_tokenizer = pre_tokenizers.ByteLevel(**prefix)
    whole.decoder = decoders.ByteLevel()
    whole.post_processor = _build_post_processor(ids, settings, prefix)
    return whole


def _build_post_processor(ids, settings, prefix):
    from tokenizers import processors

    special, trim_offsets = settings["special_tokens"], settings["trim_offsets"]
    rows = settings["num_separators"], settings["segment_of_second"]
    _, _, cls, sep, _ = special
    if special == ROBERTA and rows == (2, 0):
        return processors.RobertaProcessing(
            (sep, ids[sep]), (cls, ids[cls]), trim_offsets=trim_offsets, **prefix
        )
    if special == GPT2:
        return processors.ByteLevel(trim_offsets=trim_offsets, **prefix)
    frame = row_template(cls, sep, ids, *rows)
    trimming = processors.ByteLevel(trim_offsets=True, **prefix)
    return processors.Sequence([trimming, frame]) if trim_offsets else frame


def _has_trimming(processor):
    """Returns whether the post-processor removes leading spaces from the offsets."""
    if not isinstance(processor, dict):
        return False
    if processor.get("type") == "Sequence" and isinstance(processor.get("processors"), list):
        return any(map(_has_trimming, processor["processors"]))
    is_trimming = processor.get("type") in ("RobertaProcessing", "ByteLevel")
    return is_trimming and bool(processor.get("trim_offsets", True))


def _read_config(path, arguments, special):
    config = added_files.read_if_there(path)
    kind = str(config.get("tokenizer_class") or "RobertaTokenizer").removesuffix("Fast")
    if kind not in _CLASSES:
        raise unsupported_class(path, kind, "byte-level BPE", "RobertaTokenizer")
    supported = {"add_prefix_space": (True, False), "trim_offsets": (True, False)}
    added_files.check_config(path, config, supported, _name_special_tokens(special))
    settings = {name: config[name] for name in supported if name in config}
    if kind in GENERIC:
        return settings | arguments
    if not is_generic(path.parent):
        arguments.pop("keeps_unknown_bytes", None)  # RoBERTa's classes drop unknown bytes.
        if arguments.get("normalize"):
            _log.warning(
                "%s: texts are normalized to NFC, as in tokenizer.json, but not by %s of "
                "transformers. For the same normalization in transformers, set tokenizer_class "
                "to PreTrainedTokenizerFast.",
                path,
                kind,
            )
        if arguments.get("add_prefix_space") and "add_prefix_space" not in settings:
            warn_of_class(path, kind, "add_prefix_space", True, False)
    return arguments | settings


def _read_parts(vocabulary, merges):
    tokens = tokens_by_id(vocabulary, read_json(vocabulary))
    pairs = []
    for number, line in enumerate(read_text(merges).split("\n"), 1):
        if line and not (number == 1 and line.startswith("#version")):
            pairs.append(_parse_merge(line.removesuffix("\r"), merges, number))
    return {"vocabulary": tokens, "merges": pairs}


def _read_whole(path):
    whole = read_json(path)
    model = model_of(whole)
    splitter, normalizer = (
        whole[part] if isinstance(whole.get(part), dict) else {}
        for part in ("pre_tokenizer", "normalizer")
    )
    check_settings(path, {"type": None} | normalizer, {"type": (None, "NFC")}, "normalizer.")
    check_settings(
        path,
        {"type": None} | splitter,
        {"type": ("ByteLevel",), "add_prefix_space": (True, False), "use_regex": (True,)},
        "pre_tokenizer.",
    )
    supported = {
        "dropout": (None, 0.0),
        "byte_fallback": (False,),
        "ignore_merges": (False,),
        "continuing_subword_prefix": (None, ""),
        "end_of_word_suffix": (None, ""),
    }
    check_settings(path, model, supported, "model.")
    merges = model.get("merges")
    if not isinstance(merges, list):
        raise InputError(f"{path}: model.merges is missing.")
    unk = model.get("unk_token")
    lacks = unk is not None and not set(byte_characters()) <= set(model.get("vocab") or ())
    if lacks:
        check_settings(
            path, model, {"unk_token": (ROBERTA[1], BERT[1]), "fuse_unk": (False,)}, "model."
        )
    return {
        "vocabulary": tokens_by_id(path, model.get("vocab")),
        "merges": [_parse_merge(merge, path, number) for number, merge in enumerate(merges, 1)],
        "normalize": bool(normalizer),
        "keeps_unknown_bytes": lacks,
        "trim_offsets": _has_trimming(whole.get("post_processor")),
        "add_prefix_space": splitter.get("add_prefix_space", True),
    }


def _parse_merge(merge, path, number):
    parts = merge.split(" ") if isinstance(merge, str) else merge
    is_pair = isinstance(parts, list) and len(parts) == 2
    if not is_pair or not all(isinstance(part, str) and part for part in parts):
        raise InputError(f"{path}: merge {number} must be a pair of tokens, not {merge!r:.60}")
    return tuple(parts)
