"""The files of a SentencePiece tokenizer in a model directory: Hugging Face's layout."""

import base64
import dataclasses
from pathlib import Path

from keras_bert_impl.errors import InputError
from keras_bert_impl.files import replace_file
from keras_bert_impl.reading import read_json
from keras_bert_impl.tokenizers import keras_hub_files
from keras_bert_impl.tokenizers.files import (
    check_settings,
    no_tokenizer,
    to_json,
    tokenizer_directory,
)
from keras_bert_impl.tokenizers.sentencepiece_model import read_model


@dataclasses.dataclass(frozen=True)
class Family:
    """What the tokenizers of a family of models have in common.

    Attributes:
        tokenizer_class: str, the class of `transformers`.
        model_types: tuple of str, `model_type` in config.json.
        file: str, the name of the SentencePiece model.
        special_tokens: tuple of str: padding, unknown, first, separator, mask.
        num_separators, segment_of_second: ints, as `Tokenizer` has them.
        folds: bool, whether the text is decomposed, stripped of marks and lowercased.
        first_tokens: tuple of str, which stand before the pieces of the SentencePiece model.
        num_replaced: int, how many of the first pieces they take the place of.
    """

    tokenizer_class: str
    model_types: tuple
    file: str
    special_tokens: tuple
    num_separators: int = 2
    segment_of_second: int = 0
    folds: bool = False
    first_tokens: tuple = ()
    num_replaced: int = 0


_NOT_USED = ("<s>NOTUSED", "</s>NOTUSED", "<unk>NOTUSED")
FAMILIES = {
    "ALBERT": Family(
        tokenizer_class="AlbertTokenizer",
        model_types=("albert",),
        file="spiece.model",
        special_tokens=("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"),
        num_separators=1,
        segment_of_second=1,
        folds=True,
    ),
    "XLM-RoBERTa": Family(
        tokenizer_class="XLMRobertaTokenizer",
        model_types=("xlm-roberta", "xlm-roberta-xl"),
        file="sentencepiece.bpe.model",
        special_tokens=("<pad>", "<unk>", "<s>", "</s>", "<mask>"),
        first_tokens=("<s>", "<pad>", "</s>", "<unk>"),
        num_replaced=3,
    ),
    "CamemBERT": Family(
        tokenizer_class="CamembertTokenizer",
        model_types=("camembert",),
        file="sentencepiece.bpe.model",
        special_tokens=("<pad>", "<unk>", "<s>", "</s>", "<mask>"),
        first_tokens=("<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED"),
        num_replaced=1,
    ),
}
_GENERIC_CLASSES = ("PreTrainedTokenizer", "TokenizersBackend")
_NAMES = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
_SAME = {"bos_token": 2, "eos_token": 3}  # as these special tokens
_NOT_USED_SCORE = -100.0
_AVOIDED = 100.0  # taken from the score of a piece that ALBERT does not use
_FOLDING = ("NFKD", "StripAccents", "Lowercase")


def read(directory):
    """Reads the tokenizer of a directory.

    Args:
        directory: str or `Path` with `tokenizer.json`, `spiece.model` or
            `sentencepiece.bpe.model`; and `tokenizer_config.json` or `config.json`, which say
            which family it is of. Without them the layout of tokenizer.json or the name of the
            file says it: ALBERT's is `spiece.model`, XLM-RoBERTa's the other.

    Returns:
        dict of the arguments of `SentencePieceTokenizer`.

    Raises:
        InputError: a file is missing or damaged or asks for something that is not supported.
    """
    directory = tokenizer_directory(directory)
    whole = directory / "tokenizer.json"
    if whole.exists() and keras_hub_files.is_preset(read_json(whole)):
        return _read_preset(directory, whole)
    settings = _read_if_there(directory / "tokenizer_config.json")
    model = _read_if_there(directory / "config.json")
    family = _family_named(directory, settings, model)
    if whole.exists():
        arguments, extra = _read_whole(whole, family)
    else:
        arguments, extra = _read_model(directory, family, settings)
    family = arguments["family"]
    _check_config(directory / "tokenizer_config.json", settings, FAMILIES[family])
    configured = settings.get("extra_special_tokens", settings.get("additional_special_tokens"))
    if configured is None and family == "CamemBERT" and whole.exists():
        configured = _NOT_USED  # as CamembertTokenizer has it
    for tokens in (settings.get("added_tokens_decoder"), configured):
        extra += [_content(token) for token in (_values(tokens))]
    size = len(arguments["vocabulary"])
    if isinstance(model.get("vocab_size"), int) and model["vocab_size"] < size:
        raise InputError(
            f"{directory}: the tokenizer has {size} tokens, but config.json says "
            f"vocab_size={model['vocab_size']}."
        )
    special = FAMILIES[family].special_tokens
    extra = [token for token in dict.fromkeys(extra) if token not in special]
    return {**arguments, "extra_tokens": extra}


def write(directory, family, vocabulary, scores, character_map, extra_tokens, mask_strips_left):
    """Writes tokenizer.json, tokenizer_config.json and special_tokens_map.json.

    Args:
        directory: str or `Path`; made if needed.
        family, vocabulary, scores, character_map, extra_tokens, mask_strips_left: as
            `SentencePieceTokenizer` has them.
    """
    facts = FAMILIES[family]
    special = dict(zip(_NAMES, facts.special_tokens))
    special |= {name: facts.special_tokens[number] for name, number in _SAME.items()}
    config = {
        "add_prefix_space": True,
        "additional_special_tokens": list(extra_tokens),
        "tokenizer_class": facts.tokenizer_class,
        **special,
    }
    if facts.folds:
        config |= {"do_lower_case": True, "keep_accents": False}
    files = {
        "tokenizer_config.json": to_json(config),
        "special_tokens_map.json": to_json(special),
        "tokenizer.json": _whole(
            facts, vocabulary, scores, character_map, extra_tokens, mask_strips_left
        ),
    }
    for name, text in files.items():
        with replace_file(Path(directory) / name) as temporary:
            temporary.write_text(text, encoding="utf-8", newline="\n")


def _whole(facts, vocabulary, scores, character_map, extra_tokens, mask_strips_left):
    """tokenizer.json, as the `tokenizers` library itself writes it."""
    import tokenizers
    from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

    pad, unk, cls, sep, mask = facts.special_tokens
    pieces = list(zip(vocabulary, scores))
    whole = tokenizers.Tokenizer(models.Unigram(pieces, vocabulary.index(unk), False))
    steps = []
    if facts.folds:
        steps += [normalizers.Replace("``", '"'), normalizers.Replace("''", '"')]
        steps += [getattr(normalizers, name)() for name in _FOLDING]
    if character_map:
        steps.append(normalizers.Precompiled(base64.b64decode(character_map)))
    if steps:
        whole.normalizer = normalizers.Sequence(steps)
    marks = {"replacement": "▁", "prepend_scheme": "always"}
    whole.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(**marks)]
    )
    whole.decoder = decoders.Metaspace(**marks)
    second = facts.segment_of_second
    between = " ".join([sep] * facts.num_separators)
    whole.post_processor = processors.TemplateProcessing(
        single=f"{cls} $A {sep}",
        pair=f"{cls} $A {between} $B:{second} {sep}:{second}",
        special_tokens=[(token, vocabulary.index(token)) for token in (cls, sep)],
    )
    for token in [*facts.special_tokens, *extra_tokens]:
        strips = mask_strips_left and token == mask
        whole.add_special_tokens(
            [tokenizers.AddedToken(token, lstrip=strips, normalized=False, special=True)]
        )
    return whole.to_str(pretty=True) + "\n"


def _read_if_there(path):
    return read_json(path) if path.exists() else {}


def _family_named(directory, settings, model):
    """The family that the configurations name, or None where they name none."""
    name = str(settings.get("tokenizer_class") or "").removesuffix("Fast")
    if name and name not in _GENERIC_CLASSES:
        for family, facts in FAMILIES.items():
            if name == facts.tokenizer_class:
                return family
        raise InputError(
            f"{directory / 'tokenizer_config.json'}: tokenizer_class {name} is not supported, of "
            f"SentencePiece only {', '.join(FAMILIES)}."
        )
    if not model.get("model_type"):
        return None
    for family, facts in FAMILIES.items():
        if model["model_type"] in facts.model_types:
            return family
    raise InputError(
        f"{directory / 'config.json'}: the tokenizer of model_type {model['model_type']} is not "
        f"supported, of SentencePiece only {', '.join(FAMILIES)}."
    )


def _check_config(path, settings, facts):
    wanted = {"add_prefix_space": (True,)}
    if facts.folds:
        wanted |= {"do_lower_case": (True,), "keep_accents": (False,)}
    special = dict(zip(_NAMES, facts.special_tokens))
    special |= {name: facts.special_tokens[number] for name, number in _SAME.items()}
    wanted |= {name: (token, None) for name, token in special.items()}
    settings = {
        name: _content(value) if name in special else value for name, value in settings.items()
    }
    check_settings(path, settings, wanted)


def _content(token):
    return token.get("content") if isinstance(token, dict) else token


def _values(tokens):
    """A list of what may be a list, an object or nothing."""
    return list(tokens.values()) if isinstance(tokens, dict) else list(tokens or ())


def _read_preset(directory, whole):
    """The arguments of a tokenizer in a preset of KerasHub, whose classes are named as these."""
    name = read_json(whole)["registered_name"].partition(">")[2]
    family = _family_named(directory, {"tokenizer_class": name}, {})
    path = keras_hub_files.sentencepiece_model(directory)
    return {**_of_model(path, family, {}), "extra_tokens": []}


def _read_model(directory, family, settings):
    """The arguments of a tokenizer whose SentencePiece model is all there is."""
    names = {facts.file: family for family, facts in reversed(FAMILIES.items())}
    if family is not None:
        names = {FAMILIES[family].file: family}
    for name, family in names.items():
        if (directory / name).exists():
            return _of_model(directory / name, family, settings), []
    raise no_tokenizer(directory)


def _of_model(path, family, settings):
    """The arguments that follow from the SentencePiece model of a family."""
    facts = FAMILIES[family]
    pieces, scores, character_map = read_model(path)
    if facts.first_tokens:
        if tuple(pieces[:3]) != ("<unk>", "<s>", "</s>"):
            raise InputError(
                f"{path}: the first pieces of a model of {family} are <unk>, <s> and "
                f"</s>, but these are {' '.join(pieces[:3])}."
            )
        first_scores = [_NOT_USED_SCORE if t == "<unk>NOTUSED" else 0.0 for t in facts.first_tokens]
        pieces = [*facts.first_tokens, *pieces[facts.num_replaced :], "<mask>"]
        scores = [*first_scores, *scores[facts.num_replaced :], 0.0]
    if facts.folds:
        scores = [s - _AVOIDED if _is_avoided(p) else s for p, s in zip(pieces, scores)]
    mask = settings.get("mask_token")
    strips = bool(mask.get("lstrip")) if isinstance(mask, dict) else True
    return {
        "family": family,
        "vocabulary": pieces,
        "scores": scores,
        "character_map": character_map,
        "mask_strips_left": strips,
    }


def _is_avoided(piece):
    """Whether ALBERT cuts the comma off a piece: after a digit."""
    return len(piece) > 1 and piece[-1] == "," and piece[-2].isdigit()


def _read_whole(path, family):
    """The arguments of a tokenizer.json; checks that it does what ours does."""
    whole = read_json(path)
    model = whole.get("model") if isinstance(whole.get("model"), dict) else {}
    check_settings(path, {"type": None} | model, {"type": ("Unigram",)}, "model.")
    check_settings(path, model, {"byte_fallback": (False, None)}, "model.")
    vocabulary, scores = _pieces(path, model.get("vocab"))
    if family is None:
        family = _family_of(path, vocabulary)
    facts = FAMILIES[family]
    unk = facts.special_tokens[1]
    if unk in vocabulary:
        check_settings(path, model, {"unk_id": (vocabulary.index(unk),)}, "model.")
    normalizers = _parts(path, whole, "normalizer", "normalizers")
    kinds = {"Precompiled", "Replace", "Strip", *(_FOLDING if facts.folds else ())}
    character_map = ""
    for part in normalizers:
        check_settings(path, part, {"type": tuple(sorted(kinds))}, "normalizer.")
        if part["type"] == "Precompiled":
            character_map = part.get("precompiled_charsmap") or ""
    for kind in _FOLDING if facts.folds else ():
        if kind not in [part["type"] for part in normalizers]:
            raise InputError(f"{path}: normalizer {kind} is missing; {family}'s has it.")
    wanted = {"type": ("Metaspace", "WhitespaceSplit"), "replacement": ("▁",)}
    wanted |= {"prepend_scheme": ("always",), "add_prefix_space": (True,), "split": (True,)}
    for part in _parts(path, whole, "pre_tokenizer", "pretokenizers"):
        check_settings(path, part, wanted, "pre_tokenizer.")
    extra, strips = _added_tokens(path, whole.get("added_tokens") or [], facts.special_tokens[-1])
    arguments = {
        "family": family,
        "vocabulary": vocabulary,
        "scores": scores,
        "character_map": character_map,
        "mask_strips_left": strips,
    }
    return arguments, extra


def _parts(path, whole, name, inside):
    """The list of steps of a normalizer or pre-tokenizer, one or a sequence."""
    part = whole.get(name)
    if isinstance(part, dict) and part.get("type") == "Sequence":
        part = part.get(inside)
    parts = part if isinstance(part, list) else [part] * (part is not None)
    if not all(isinstance(part, dict) and "type" in part for part in parts):
        raise InputError(f"{path}: {name} is damaged.")
    return parts


def _pieces(path, vocabulary):
    """(pieces, scores) of a list of pairs."""
    if not isinstance(vocabulary, list) or not vocabulary:
        raise InputError(f"{path}: there is no vocabulary in it.")
    for number, pair in enumerate(vocabulary):
        if not (
            isinstance(pair, list)
            and len(pair) == 2
            and isinstance(pair[0], str)
            and isinstance(pair[1], (int, float))
        ):
            raise InputError(f"{path}: token {number} is no piece and score: {pair!r:.60}")
    pieces, scores = zip(*vocabulary)
    return list(pieces), list(scores)


def _family_of(path, vocabulary):
    """The family that has such a vocabulary."""
    for family, facts in FAMILIES.items():
        first = facts.first_tokens or facts.special_tokens
        if tuple(vocabulary[: len(first)]) == first:
            return family
    raise InputError(
        f"{path}: the vocabulary is laid out as none of {', '.join(FAMILIES)}; it begins with "
        f"{' '.join(vocabulary[:5])!r:.80}."
    )


def _added_tokens(path, added_tokens, mask):
    """The added tokens, and whether the mask strips white space."""
    strips, contents = False, []
    for token in added_tokens:
        contents.append(_content(token))
        if not isinstance(token, dict) or not isinstance(token.get("content"), str):
            raise InputError(f"{path}: the added token {token!r:.60} is damaged.")
        wanted = dict.fromkeys(("single_word", "rstrip"), (False,))
        if contents[-1] == mask:
            strips = bool(token.get("lstrip"))
        else:
            wanted["lstrip"] = (False,)
        check_settings(path, token, wanted, f"added token {contents[-1]}: ")
    return contents, strips
