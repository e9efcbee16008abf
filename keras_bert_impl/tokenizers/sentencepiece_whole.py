"""tokenizer.json of a SentencePiece tokenizer: reading and making it."""

import base64

from keras_bert_impl.errors import InputError
from keras_bert_impl.reading import read_json
from keras_bert_impl.tokenizers.files import check_settings
from keras_bert_impl.tokenizers.sentencepiece_families import FAMILIES

_FOLDING = ("NFKD", "StripAccents", "Lowercase")


def make_whole(facts, vocabulary, scores, character_map, extra_tokens, mask_strips_left):
    """The text of tokenizer.json, as the `tokenizers` library itself writes it.

    Args:
        facts: `Family`.
        vocabulary, scores, character_map, extra_tokens, mask_strips_left: as
            `SentencePieceTokenizer` has them.
    """
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


def read_whole(path, family):
    """Reads a tokenizer.json; checks that it does what ours does.

    Args:
        path: `Path`.
        family: str, or None: follows from how the vocabulary begins.

    Returns:
        (arguments, tokens): dict of arguments of `SentencePieceTokenizer`; list of str, the added
        tokens.

    Raises:
        InputError: it is damaged or asks for something that is not supported.
    """
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
    if not isinstance(added_tokens, list):
        raise InputError(f"{path}: added_tokens is no list.")
    strips, contents = False, []
    for token in added_tokens:
        contents.append(content(token))
        if not isinstance(token, dict) or not isinstance(token.get("content"), str):
            raise InputError(f"{path}: the added token {token!r:.60} is damaged.")
        wanted = dict.fromkeys(("single_word", "rstrip"), (False,))
        if contents[-1] == mask:
            strips = bool(token.get("lstrip"))
        else:
            wanted["lstrip"] = (False,)
        check_settings(path, token, wanted, f"added token {contents[-1]}: ")
    return contents, strips


def content(token):
    """The text of an added token, which may be an object."""
    return token.get("content") if isinstance(token, dict) else token
