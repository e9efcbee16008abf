"""FlauBERT's tokenizer: Moses tokenization, then character-level BPE."""

import dataclasses
import functools
import itertools
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_bert_impl.tokenizers import added_files
from keras_bert_impl.tokenizers.added_tokens import as_added_tokens, found_tokens
from keras_bert_impl.tokenizers.byte_level_bpe.tokenizer import BytePairMerger
from keras_bert_impl.tokenizers.files import (
    as_vocabulary,
    ids_by_token,
    last_ids,
    to_json,
    tokenizer_directory,
    tokens_by_id,
    without_last,
    write_files,
)
from keras_bert_impl.tokenizers.graphs import put
from keras_bert_impl.tokenizers.moses.characters import SPECIAL, SPECIAL_TOKENS, TokenFinder
from keras_bert_impl.tokenizers.moses.words import MosesSplitter
from keras_bert_impl.tokenizers.tokenizer import Tokenizer
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.io.reading import read_json, read_text
from keras_bert_impl.utils.settings import check

_EXTRA = [token for token in SPECIAL_TOKENS if token.startswith("<special")]
_NAMES = {
    "bos_token": "<s>",
    "cls_token": "</s>",  # FlauBERT's files name `</s>`, although rows begin with `<s>`.
    "mask_token": "<special1>",
    "pad_token": "<pad>",
    "sep_token": "</s>",
    "unk_token": "<unk>",
}


def _read(directory: str | Path) -> dict[str, Any]:
    directory = tokenizer_directory(directory)
    lowercase = _read_config(directory / "tokenizer_config.json")
    vocabulary = tokens_by_id(directory / "vocab.json", read_json(directory / "vocab.json"))
    added = added_files.read_added_tokens(directory, SPECIAL_TOKENS)
    usual = [*SPECIAL, *(dataclasses.replace(token, normalized=True) for token in SPECIAL)]
    return {
        "vocabulary": added_files.with_added_tokens(directory, vocabulary, added, SPECIAL_TOKENS),
        "merges": _read_merges(directory / "merges.txt"),
        "lowercase": lowercase,
        "added_tokens": added_files.settings_of(added, usual),
    }


def _write(directory: str | Path, settings: dict[str, Any], **entries: Any) -> None:
    ids = last_ids(settings["vocabulary"])
    added = as_added_tokens(settings["added_tokens"])
    config = {
        "do_lowercase": settings["lowercase"],
        "tokenizer_class": "FlaubertTokenizer",
        **_NAMES,
        **added_files.added_settings(SPECIAL, added, ids),
        **entries,
    }
    config["extra_special_tokens"] = [*_EXTRA, *config.get("extra_special_tokens", [])]
    vocabulary = without_last(settings["vocabulary"], {token.content for token in added})
    files = {
        "vocab.json": json.dumps(ids_by_token(vocabulary), ensure_ascii=False) + "\n",
        "merges.txt": "".join(f"{first} {second}\n" for first, second in settings["merges"]),
        "tokenizer_config.json": to_json(config),
    }
    write_files(directory, files)


def _read_config(path):
    """Returns the value of `lowercase`.

    Raises an error if a setting in the file is not supported.
    """
    config = added_files.read_if_there(path)
    supported = {"tokenizer_class": ("FlaubertTokenizer", None), "do_lowercase": (True, False)}
    added_files.check_config(path, config, supported, _NAMES)
    for name in ("additional_special_tokens", "extra_special_tokens"):
        tokens = config.get(name)
        if tokens is None:
            continue
        names = list(map(added_files.content, tokens)) if isinstance(tokens, list) else []
        if not all(token in names for token in _EXTRA):
            raise InputError(f"{path}: {name} must contain {', '.join(_EXTRA)}.")
    return config.get("do_lowercase", False)


def _read_merges(path):
    """Reads pairs of tokens, one per line. A line may end with the frequency of the pair."""
    merges: dict[tuple[str, ...], int] = {}
    # `transformers` also ignores text after the last newline.
    for number, line in enumerate(read_text(path).split("\n")[:-1], 1):
        parts = line.split()
        if number == 1 and line.startswith("#version"):
            continue
        if len(parts) not in (2, 3):
            raise InputError(f"{path}, line {number}: expected a pair of tokens, not {line!r:.60}")
        first = merges.setdefault(tuple(parts[:2]), number)
        if first != number:
            raise InputError(f"{path}, line {number} repeats the pair of line {first}.")
    return list(merges)


_END = "</w>"  # suffix of the token that ends a word


@keras.saving.register_keras_serializable("keras_bert_impl")
class MosesBPETokenizer(Tokenizer):
    """FlauBERT's tokenizer, with the same ids as `transformers`.

    A text is normalized and split into words by Moses' rules for French. Words are split into
    tokens by byte-pair encoding of characters. A token outside the vocabulary becomes `<unk>`.
    Special tokens are also recognized in a text. Invalid UTF-8 becomes U+FFFD. The offsets of a
    token are its characters in the input text. Offsets are in ascending order, except where Moses
    moves a quote before a comma or dots. Source: Le et al. 2020, "FlauBERT: Unsupervised Language
    Model Pre-training for French", section 3.1; docs/decisions/tokenizers.md has the details.

    Args:
        vocabulary: The tokens in id order, or the path of a JSON file with the id of each token.
            The last token of a word ends with `</w>`. `<s>`, `</s>`, `<pad>`, `<unk>` and
            `<special0>` to `<special9>` are required; `<special1>` is the mask.
        merges: (left, right) pairs of tokens, best first.
        added_tokens: str, `AddedToken` or dicts of its fields: additional tokens matched literally
            in the text, without normalization. Tokens missing from the vocabulary get the next ids.

    Raises:
        InputError: The vocabulary contains a token twice or lacks a special token.

    Example:
        from keras_bert_impl.tokenizers.moses.tokenizer import SPECIAL_TOKENS
        tokenizer = MosesBPETokenizer([*SPECIAL_TOKENS, "l", "'</w>", "à</w>"], [("l", "'</w>")])
        tokenizer.tokenize(["l'à"])  # [[3, 16]]
        # 3 is <unk>: the vocabulary has no l'
    """

    kind = "moses bpe"
    _read, _write = staticmethod(_read), staticmethod(_write)
    segment_of_second = 0
    can_be_cut = False  # The next word determines whether a dot is a separate word.
    later_settings = {"added_tokens": []}
    special_tokens = ("<pad>", "<unk>", "<s>", "</s>", "<special1>")

    def __init__(
        self,
        vocabulary: Sequence[str] | dict[str, int] | str | Path,
        merges: Iterable[Sequence[str]],
        lowercase: bool = False,
        added_tokens: Iterable[Any] = (),
    ) -> None:
        self.merges = [tuple(pair) for pair in merges]
        self.lowercase = check("lowercase", lowercase, bool)
        vocabulary = as_vocabulary(vocabulary)
        missing = [token for token in SPECIAL_TOKENS if token not in vocabulary]
        if missing:
            raise InputError(
                f"the vocabulary lacks {' '.join(missing)}; FlauBERT needs these tokens."
            )
        self._set_vocabulary(vocabulary, added_tokens)
        find = TokenFinder(found_tokens(SPECIAL, self.added_tokens))
        self._split = MosesSplitter(self.lowercase, find)
        self._merge = _CharacterPairMerger(self._ids_of, self.merges, self.unk_id, find.by_code)

    def word_starts(self, token_ids: tf.Tensor) -> tf.Tensor:
        # A token ending in `</w>` ends a word, and the next token starts a word.
        return tf.roll(tf.gather(self._ends_word, token_ids), 1, axis=1)

    @functools.cached_property
    def _ends_word(self):
        return np.array([token.endswith(_END) for token in self.vocabulary])

    def _join(self, tokens):
        return "".join(tokens).replace(_END, " ").strip()

    def words(self, texts: tf.Tensor) -> tf.Tensor:
        return self._split(texts).strings()

    def word_ids(self, words: tf.Tensor) -> tf.RaggedTensor:
        return self._merge(words)[0]

    def _split_into_subwords(self, words):
        unique, number = tf.unique(words.strings())
        return [tf.gather(values, number) for values in self._merge(unique)]


class _CharacterPairMerger(BytePairMerger):
    """Splits words into tokens by byte-pair encoding of their characters.

    Source: Sennrich et al. 2016, section 3.2, with an end-of-word mark on the last character.
    """

    def __init__(
        self,
        ids: dict[str, int],
        merges: list[tuple[str, ...]],
        unk_id: int,
        tokens: dict[int, str],
    ) -> None:
        # A merged token may be missing from the vocabulary, and later merge again.
        triples = [(first, second, first + second) for first, second in merges]
        symbols = list(dict.fromkeys([*ids, *itertools.chain(*triples)]))
        number = {symbol: position for position, symbol in enumerate(symbols)}
        super().__init__([], [[number[symbol] for symbol in triple] for triple in triples])
        unknown = len(symbols)  # symbol for all other characters
        self._ids = np.array([*(ids.get(symbol, unk_id) for symbol in symbols), unk_id], np.int32)
        last = {symbol[0]: number[symbol] for symbol in symbols if symbol[1:] == _END}
        last |= {chr(code): number[token] for code, token in tokens.items()}
        characters = sorted({*last, *(symbol for symbol in symbols if len(symbol) == 1)})
        self._characters = np.array([*map(ord, characters)], np.int32)
        at_end = [last.get(character, unknown) for character in characters]
        inside = [number.get(character, unknown) for character in characters]
        self._symbols = np.array([[*inside, unknown], [*at_end, unknown]], np.int32)

    def __call__(self, words: tf.Tensor) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
        """Returns (ids, first character of each token), ragged int32 [words, (tokens)]."""
        codes = tf.strings.unicode_decode(words, "UTF-8")  # [words, (characters)]
        position = tf.searchsorted(self._characters, codes.values)
        unknown = len(self._characters)
        is_known = tf.gather(self._characters, tf.minimum(position, unknown - 1)) == codes.values
        ends = tf.cast(codes.row_splits, tf.int32)
        is_last = put(tf.zeros_like(position), ends[1:] - 1, 1)
        place = tf.stack([is_last, tf.where(is_known, position, unknown)], axis=1)
        lengths = ends[1:] - ends[:-1]
        symbols, starts = self._merge_ids(tf.gather_nd(self._symbols, place), lengths)
        return symbols.with_values(tf.gather(self._ids, symbols.values)), starts
