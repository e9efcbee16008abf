"""SentencePiece tokenizers of model families: settings, and reading and writing tokenizer.json."""

import base64
import dataclasses
from pathlib import Path
from typing import Any

from keras_bert_impl.tokenizers.files import check_settings, last_ids, model_of, row_template
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.io.reading import read_json

SPACE_MARK = "▁"  # first character of every word


@dataclasses.dataclass(frozen=True)
class Family:
    """Settings of a model family's tokenizer.

    Attributes:
        tokenizer_class: The class of `transformers`.
        model_types: Values of `model_type` in config.json.
        files: Possible file names of the SentencePiece model.
        special_tokens: The padding, unknown, first, separator and mask token.
        num_separators, segment_of_second: See `Tokenizer`.
        folds: Whether to decompose the text, remove combining marks and lowercase.
        first_tokens: Tokens at the start of the vocabulary. The tokens of the SentencePiece model
            follow.
        num_replaced: Number of tokens at the start of the SentencePiece model that are not in the
            vocabulary, because `first_tokens` replaces them.
        first_pieces: The first tokens of the SentencePiece model. Default: the special tokens.
        named_ends: The settings `bos_token` and `eos_token`. Default: the first token and the
            separator in `special_tokens`.
        splits_at_spaces: Whether only spaces separate words. Line breaks, tabs and other white
            space are then unknown characters.
    """

    tokenizer_class: str
    model_types: tuple[str, ...]
    files: tuple[str, ...]
    special_tokens: tuple[str, ...]
    num_separators: int = 2
    segment_of_second: int = 0
    folds: bool = False
    first_tokens: tuple[str, ...] = ()
    num_replaced: int = 0
    first_pieces: tuple[str, ...] = ()
    named_ends: tuple[str, str] | None = None
    splits_at_spaces: bool = False

    @property
    def start(self) -> tuple[str, ...]:
        return self.first_tokens or self.first_pieces or self.special_tokens


FAMILIES = {
    "ALBERT": Family(
        tokenizer_class="AlbertTokenizer",
        model_types=("albert",),
        # The name from Hugging Face, then the name from Google and TF Hub.
        files=("spiece.model", "30k-clean.model", "assets/30k-clean.model"),
        special_tokens=("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"),
        num_separators=1,
        segment_of_second=1,
        folds=True,
    ),
    "XLM-RoBERTa": Family(
        tokenizer_class="XLMRobertaTokenizer",
        model_types=("xlm-roberta", "xlm-roberta-xl"),
        files=("sentencepiece.bpe.model",),
        special_tokens=("<pad>", "<unk>", "<s>", "</s>", "<mask>"),
        first_tokens=("<s>", "<pad>", "</s>", "<unk>"),
        num_replaced=3,
    ),
    "CamemBERT": Family(
        tokenizer_class="CamembertTokenizer",
        model_types=("camembert",),
        files=("sentencepiece.bpe.model",),
        special_tokens=("<pad>", "<unk>", "<s>", "</s>", "<mask>"),
        first_tokens=("<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED"),
        num_replaced=1,
    ),
    "BigBird": Family(
        tokenizer_class="BigBirdTokenizer",
        model_types=("big_bird",),
        files=("spiece.model",),
        special_tokens=("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"),
        num_separators=1,
        segment_of_second=1,
        first_pieces=("<pad>", "</s>", "<s>"),
        named_ends=("<s>", "</s>"),
        splits_at_spaces=True,
    ),
}

_SPACES = {"Regex": " {2,}"}
_QUOTES = ({"String": "``"}, {"String": "''"})
_FOLDING = ("NFKD", "StripAccents", "Lowercase")
_FOLDS = [
    *({"type": "Replace", "pattern": quotes, "content": '"'} for quotes in _QUOTES),
    *({"type": kind} for kind in _FOLDING),
]


def make_whole(facts: Family, settings: dict[str, Any]) -> Any:
    import tokenizers
    from tokenizers import decoders, models, normalizers, pre_tokenizers

    vocabulary, character_map = settings["vocabulary"], settings["character_map"]
    _, unk, cls, sep, _ = facts.special_tokens
    pieces = list(zip(vocabulary, settings["scores"]))
    whole = tokenizers.Tokenizer(models.Unigram(pieces, vocabulary.index(unk), False))
    steps: list[Any] = []
    if facts.folds:
        steps += [normalizers.Replace("``", '"'), normalizers.Replace("''", '"')]
        steps += [getattr(normalizers, name)() for name in _FOLDING]
    if character_map:
        steps.append(normalizers.Precompiled(base64.b64decode(character_map)))
    if steps:
        whole.normalizer = normalizers.Sequence(steps)
    marks = {"replacement": SPACE_MARK, "prepend_scheme": settings["prepend_scheme"]}
    split: Any = pre_tokenizers.WhitespaceSplit()
    if facts.splits_at_spaces:
        split = pre_tokenizers.Split(" ", "removed")
    whole.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.Metaspace(**marks)])
    whole.decoder = decoders.Metaspace(**marks)
    whole.post_processor = row_template(
        cls, sep, last_ids(vocabulary), facts.num_separators, settings["segment_of_second"]
    )
    return whole


def read_whole(path: Path, family: str | None) -> dict[str, Any]:
    whole = read_json(path)
    model = model_of(whole)
    check_settings(path, model, {"type": ("Unigram",)}, "model.")
    check_settings(path, model, {"byte_fallback": (False, None)}, "model.")
    vocabulary, scores = _read_pieces(path, model.get("vocab"))
    if family is None:
        family = _guess_family(path, vocabulary)
    facts = FAMILIES[family]
    unk = facts.special_tokens[1]
    if unk in vocabulary:
        check_settings(path, model, {"unk_id": (vocabulary.index(unk),)}, "model.")
    normalizers = _list_steps(path, whole, "normalizer", "normalizers")
    kinds = {"Precompiled", "Replace", "Strip", *(_FOLDING if facts.folds else ())}
    character_map, replaced = "", []
    for part in normalizers:
        check_settings(path, part, {"type": tuple(sorted(kinds))}, "normalizer.")
        if part["type"] == "Replace":
            replaced.append(part.get("pattern"))
            allowed = (_SPACES, *(_QUOTES if facts.folds else ()))
            check_settings(path, part, {"pattern": allowed}, "normalizer Replace: ")
        if part["type"] == "Precompiled":
            character_map = part.get("precompiled_charsmap") or ""
    if facts.folds:
        _check_folding(path, normalizers, family)
    supported = {
        "type": ("Metaspace", "WhitespaceSplit", *(("Split",) if facts.splits_at_spaces else ())),
        "pattern": ({"String": " "},),
        "behavior": ("Removed",),
        "invert": (False,),
        "replacement": ("▁",),
        "prepend_scheme": ("always", "first", "never"),
        "add_prefix_space": (True, False),
        "split": (True,),
    }
    splitters = _list_steps(path, whole, "pre_tokenizer", "pretokenizers")
    scheme = "always"
    for part in splitters:
        check_settings(path, part, supported, "pre_tokenizer.")
        if part["type"] == "Metaspace":
            usual = "always" if part.get("add_prefix_space", True) else "never"
            scheme = part.get("prepend_scheme", usual)
    # Without WhitespaceSplit, runs of spaces must be collapsed first.
    kinds = {part["type"] for part in splitters}
    if kinds.isdisjoint(("WhitespaceSplit", "Split")) and _SPACES not in replaced:
        raise InputError(
            f"{path}: pre_tokenizer Metaspace without WhitespaceSplit is not supported."
        )
    return {
        "family": family,
        "vocabulary": vocabulary,
        "scores": scores,
        "character_map": character_map,
        "prepend_scheme": scheme,
    }


def _check_folding(path, normalizers, family):
    for number, step in enumerate(_FOLDS):
        name = " ".join([step["type"], *step.get("pattern", {}).values()])
        if step not in normalizers:
            raise InputError(f"{path}: the normalizer of {family} must contain {name}.")
        if normalizers.index(step) != number:
            raise InputError(
                f"{path}: step {number + 1} of the normalizer of {family} must be {name}."
            )


def _list_steps(path, whole, name, inside):
    part = whole.get(name)
    if isinstance(part, dict) and part.get("type") == "Sequence":
        part = part.get(inside)
    parts = part if isinstance(part, list) else [part] * (part is not None)
    if not all(isinstance(part, dict) and "type" in part for part in parts):
        raise InputError(f"{path}: {name} is damaged.")
    return parts


def _read_pieces(path, vocabulary):
    if not isinstance(vocabulary, list) or not vocabulary:
        raise InputError(f"{path} has no vocabulary, which must be a list of pieces and scores.")
    for number, pair in enumerate(vocabulary):
        if not (
            isinstance(pair, list)
            and len(pair) == 2
            and isinstance(pair[0], str)
            and isinstance(pair[1], (int, float))
        ):
            raise InputError(
                f"{path}: token {number} must be a pair of piece and score, not {pair!r:.60}"
            )
    pieces, scores = zip(*vocabulary)
    return list(pieces), list(scores)


def _guess_family(path, vocabulary):
    for family, facts in FAMILIES.items():
        if tuple(vocabulary[: len(facts.start)]) == facts.start:
            return family
    raise InputError(
        f"{path}: the vocabulary does not have the layout of {' or '.join(FAMILIES)}. The first "
        f"tokens are {' '.join(vocabulary[:5])!r:.80}."
    )
