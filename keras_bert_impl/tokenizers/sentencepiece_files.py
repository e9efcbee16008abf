"""The files of a SentencePiece tokenizer in a model directory: Hugging Face's layout."""


from keras_bert_impl.errors import InputError, shown
from keras_bert_impl.files import replace_directory
from keras_bert_impl.reading import read_json
from keras_bert_impl.tokenizers import keras_hub_files
from keras_bert_impl.tokenizers.files import (
    check_settings,
    no_tokenizer,
    to_json,
    tokenizer_directory,
)
from keras_bert_impl.tokenizers.sentencepiece_families import FAMILIES
from keras_bert_impl.tokenizers.sentencepiece_model import read_model
from keras_bert_impl.tokenizers.sentencepiece_whole import content, make_whole, read_whole

_NOT_USED = ["<s>NOTUSED", "</s>NOTUSED", "<unk>NOTUSED"]
_GENERIC_CLASSES = ("PreTrainedTokenizer", "TokenizersBackend")
_NAMES = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
_SAME = {"bos_token": 2, "eos_token": 3}  # as these special tokens
_NOT_USED_SCORE = -100.0
AVOIDED = 100.0  # taken from the score of a piece that ALBERT does not use


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
        arguments, extra = read_whole(whole, family)
    else:
        arguments, extra = _read_model(directory, family, settings)
    family = arguments["family"]
    _check_config(directory / "tokenizer_config.json", settings, FAMILIES[family])
    configured = settings.get("extra_special_tokens", settings.get("additional_special_tokens"))
    if configured is None and family == "CamemBERT" and whole.exists():
        configured = _NOT_USED  # as CamembertTokenizer has it
    for tokens in (settings.get("added_tokens_decoder"), configured):
        extra += [content(token) for token in _values(tokens)]
    if not all(isinstance(token, str) for token in extra):
        raise InputError(f"{directory / 'tokenizer_config.json'}: an added token is no text.")
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
    if facts.segment_of_second:  # `transformers` leaves segments out of what it was not told of
        config["model_input_names"] = ["input_ids", "token_type_ids", "attention_mask"]
    files = {
        "tokenizer_config.json": to_json(config),
        "special_tokens_map.json": to_json(special),
        "tokenizer.json": make_whole(
            facts, vocabulary, scores, character_map, extra_tokens, mask_strips_left
        ),
    }
    with replace_directory(directory) as temporary:
        for name, text in files.items():
            (temporary / name).write_text(text, encoding="utf-8", newline="\n")


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
            f"{directory / 'tokenizer_config.json'}: tokenizer_class {shown(name)} is not supported, of "
            f"SentencePiece only {', '.join(FAMILIES)}."
        )
    if not model.get("model_type"):
        return None
    for family, facts in FAMILIES.items():
        if model["model_type"] in facts.model_types:
            return family
    raise InputError(
        f"{directory / 'config.json'}: the tokenizer of model_type {shown(model['model_type'])} is not "
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
        name: content(value) if name in special else value for name, value in settings.items()
    }
    check_settings(path, settings, wanted)


def _values(tokens):
    """The tokens of what may be a list, an object, one token or nothing."""
    if isinstance(tokens, dict):
        return list(tokens.values())
    return tokens if isinstance(tokens, list) else list(filter(None, [tokens]))


def _read_preset(directory, whole):
    """The arguments of a tokenizer in a preset of KerasHub, whose classes are named as these."""
    name = read_json(whole)["registered_name"].partition(">")[2]
    family = _family_named(directory, {"tokenizer_class": name}, {})
    path = keras_hub_files.sentencepiece_model(directory)
    return {**_of_model(path, family, {}), **keras_hub_files.sentencepiece_notes(whole)}


def _read_model(directory, family, settings):
    """The arguments of a tokenizer whose SentencePiece model is all there is."""
    # A name that two families have is that of the first.
    for candidate in [family] if family else FAMILIES:
        for name in FAMILIES[candidate].files:
            if (directory / name).exists():
                return _of_model(directory / name, candidate, settings), []
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
        scores = [s - AVOIDED if is_avoided(p) else s for p, s in zip(pieces, scores)]
    mask = settings.get("mask_token")
    strips = bool(mask.get("lstrip")) if isinstance(mask, dict) else True
    return {
        "family": family,
        "vocabulary": pieces,
        "scores": scores,
        "character_map": character_map,
        "mask_strips_left": strips,
    }


def is_avoided(piece):
    """Whether ALBERT cuts the comma off a piece: after a digit."""
    return len(piece) > 1 and piece[-1] == "," and piece[-2].isdigit()
