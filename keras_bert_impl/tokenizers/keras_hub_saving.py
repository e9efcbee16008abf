"""Converts tokenizers to KerasHub objects and presets."""

import base64
import io
import json
import logging
import tempfile
from pathlib import Path
from typing import Any

from keras_bert_impl.tokenizers.byte_level_bpe.tokenizer import ByteLevelBPETokenizer
from keras_bert_impl.tokenizers.keras_hub_files import NOTES
from keras_bert_impl.tokenizers.sentencepiece.families import FAMILIES
from keras_bert_impl.tokenizers.sentencepiece.files import AVOIDED, is_avoided
from keras_bert_impl.tokenizers.sentencepiece.tokenizer import SentencePieceTokenizer
from keras_bert_impl.tokenizers.sentencepiece.words import read_map
from keras_bert_impl.tokenizers.tokenizer import Tokenizer
from keras_bert_impl.tokenizers.unicode.table import read_folding
from keras_bert_impl.tokenizers.wordpiece.tokenizer import WordPieceTokenizer
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.io.paths import local_path
from keras_bert_impl.utils.io.reading import read_json
from keras_bert_impl.utils.optional_libraries import import_keras_hub

_log = logging.getLogger(__name__)
_KINDS = {
    "WordPiece": WordPieceTokenizer,
    "byte-level BPE": ByteLevelBPETokenizer,
    "SentencePiece": SentencePieceTokenizer,
}
_CLASSES = {  # architecture of an encoder -> (KerasHub's tokenizer class, our tokenizer class)
    "bert": ("BertTokenizer", WordPieceTokenizer),
    "distilbert": ("DistilBertTokenizer", WordPieceTokenizer),
    "electra": ("ElectraTokenizer", WordPieceTokenizer),
    "roberta": ("RobertaTokenizer", ByteLevelBPETokenizer),
    "xlm-roberta": ("XLMRobertaTokenizer", SentencePieceTokenizer),
    "albert": ("AlbertTokenizer", SentencePieceTokenizer),
}

_NORMAL, _UNKNOWN, _CONTROL, _UNUSED = 1, 2, 3, 5  # piece types in sentencepiece_model.proto
_QUOTES = {"``": '"', "''": '"'}
_SPACES = "\t\n\v\f\r\x85\u1680\u2028\u2029"  # white space that NFKD does not change


def to_keras_hub(tokenizer: Tokenizer, architecture: str) -> Any:
    name, kind = _CLASSES.get(architecture, (f"tokenizer of {architecture}", None))
    if kind is None or type(tokenizer) is not kind or not _is_family(tokenizer, name):
        raise InputError(f"a {_describe(tokenizer)} cannot be converted to KerasHub's {name}.")
    return getattr(import_keras_hub().models, name)(**_collect_arguments(tokenizer))


def _is_family(tokenizer, name):
    family = getattr(tokenizer, "family", None)
    return family is None or FAMILIES[family].tokenizer_class == name


def _describe(tokenizer):
    family = getattr(tokenizer, "family", None)
    return type(tokenizer).__name__ + (f" of {family}" if family else "")


def _collect_arguments(tokenizer):
    if tokenizer.added_tokens:
        tokens = ", ".join(token.content for token in tokenizer.added_tokens)
        _log.warning("KerasHub's tokenizer treats these tokens as ordinary text: %s", tokens)
    if isinstance(tokenizer, SentencePieceTokenizer):
        return {"proto": make_model(tokenizer)}
    if isinstance(tokenizer, ByteLevelBPETokenizer):
        return {
            "vocabulary": {token: number for number, token in enumerate(tokenizer.vocabulary)},
            "merges": [" ".join(pair) for pair in tokenizer.merges],
            "add_prefix_space": tokenizer.add_prefix_space,
        }
    strips = tokenizer.strip_accents
    return {
        "vocabulary": tokenizer.vocabulary,
        "lowercase": tokenizer.lowercase,
        "strip_accents": strips if strips is not None else tokenizer.lowercase,
        "split_on_cjk": tokenizer.split_on_cjk,
        "special_tokens_in_strings": True,
    }


def write_notes(directory: str | Path, tokenizer: Tokenizer) -> None:
    """Adds settings that only this package supports to a preset.

    KerasHub ignores these settings.
    """
    config = tokenizer.get_config()
    (kind,) = [name for name, cls in _KINDS.items() if type(tokenizer) is cls]
    notes = {name: config[name] for name in NOTES[kind]}
    if isinstance(tokenizer, SentencePieceTokenizer):
        if not FAMILIES[tokenizer.family].folds:
            del notes["character_map"]  # The SentencePiece model contains the same map.
    else:  # removes settings that the preset already contains
        usual = {"mask_strips_left": True} | tokenizer.later_settings | {"added_tokens": []}
        notes = {name: value for name, value in notes.items() if value != usual[name]}
    if notes:
        path = local_path(directory) / "tokenizer.json"
        settings = read_json(path) | {"keras_bert_impl": notes}
        path.write_text(json.dumps(settings, indent=4), encoding="utf-8")


def make_model(tokenizer: SentencePieceTokenizer) -> bytes:
    """Creates a SentencePiece model that gives KerasHub's tokenizer the same ids as `tokenizer`."""
    # Only SentencePiece models need protobuf.
    from sentencepiece import sentencepiece_model_pb2

    facts = FAMILIES[tokenizer.family]
    model = sentencepiece_model_pb2.ModelProto()  # type: ignore[attr-defined]  # made at import
    rounded = []
    for piece, score in _list_pieces(tokenizer, facts):
        kind = _infer_kind(piece, facts)
        score += AVOIDED if kind == _UNUSED else 0.0
        stored = model.pieces.add(piece=piece, score=score, type=kind)
        if stored.score != score:
            rounded.append(piece)
    if rounded:
        _log.warning("%d scores of the tokenizer are rounded to float32.", len(rounded))
    model.trainer_spec.vocab_size = len(model.pieces)
    character_map = base64.b64decode(tokenizer.character_map)
    if facts.folds:
        character_map = _add_folding(tokenizer.character_map)
    model.normalizer_spec.precompiled_charsmap = character_map
    return model.SerializeToString()


def _list_pieces(tokenizer, facts):
    """Returns (token, score) pairs, without the special tokens of XLM-RoBERTa."""
    pieces = list(zip(tokenizer.vocabulary, tokenizer.scores))
    if "" in tokenizer.vocabulary:
        raise InputError(
            "the vocabulary has an id without a token, which a SentencePiece model cannot have."
        )
    if not facts.first_tokens:
        return pieces
    first, mask = len(facts.first_tokens), facts.special_tokens[-1]
    outer_tokens = [*tokenizer.vocabulary[:first], tokenizer.vocabulary[-1]]
    if outer_tokens != [*facts.first_tokens, mask]:
        raise InputError(
            f"KerasHub's tokenizer of {tokenizer.family} needs a vocabulary from "
            f"{' '.join(facts.first_tokens)} to {mask}. This vocabulary begins with "
            f"{' '.join(outer_tokens[:-1])} and ends with {outer_tokens[-1]}."
        )
    return [(piece, 0.0) for piece in ("<unk>", "<s>", "</s>")] + pieces[first:-1]


def _infer_kind(piece, facts):
    if piece == facts.special_tokens[1]:
        return _UNKNOWN
    if piece in facts.special_tokens:
        return _CONTROL
    return _UNUSED if facts.folds and is_avoided(piece) else _NORMAL


def _add_folding(character_map):
    """Compiles a character map that lowercases texts and strips accents, as ALBERT does."""
    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2

    # Without combining marks, only single characters can match.
    replacements = {key: text for key, text in read_map(character_map).items() if len(key) == 1}
    replacements = dict.fromkeys(_SPACES, " ") | replacements
    folding = read_folding()
    changes = dict(_QUOTES)
    for character in {*folding, *replacements}:
        folded = folding.get(character, character)
        changes[character] = "".join(replacements.get(part, part) for part in folded)
    rows = [
        "\t".join(" ".join(f"{ord(character):X}" for character in text) for text in row)
        for row in sorted(changes.items())
    ]
    # In all versions of the library, a map is compiled only by training a model.
    trained = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder:
        rules = Path(folder, "rules.tsv")
        rules.write_text("\n".join(rows) + "\n", encoding="ascii")
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(["a"]),
            model_writer=trained,
            model_type="char",
            vocab_size=8,
            hard_vocab_limit=False,
            normalization_rule_tsv=str(rules),
            minloglevel=2,
        )
    model = sentencepiece_model_pb2.ModelProto.FromString(trained.getvalue())
    return model.normalizer_spec.precompiled_charsmap
