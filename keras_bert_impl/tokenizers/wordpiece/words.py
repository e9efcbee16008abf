"""BERT's basic tokenization in the graph: splits texts into normalized words."""

import dataclasses
import re
import string

import numpy as np
import tensorflow as tf

from keras_bert_impl.tokenizers.added_tokens import AddedToken, AddedTokens, special_tokens
from keras_bert_impl.tokenizers.graphs import before, chosen, places_of, put
from keras_bert_impl.tokenizers.unicode import utf8
from keras_bert_impl.tokenizers.unicode.table import (
    BREAK_AFTER,
    BREAK_BEFORE,
    CLEANED,
    CODE_POINTS,
    DROPPED,
    SEQUENCE,
    SLOTS,
    UnicodeTable,
    flags_of,
    make_entry,
    rank_of,
    value_of,
)

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
SPECIAL = special_tokens(SPECIAL_TOKENS)
MAX_CHARACTERS = 100  # A longer word becomes [UNK].
# Characters that are always separate words. Brackets may be part of a special token.
WORD_BREAKS = "".join(sorted(set(string.punctuation) - set("[]")))

# These characters mark a word that is too long, and the end of a text in `Translation`. Words never
# contain them, because cleaning removes control characters.
UNKNOWN_WORD, TEXT_END = "\1", "\2"
_FIRST_TOKEN = 0xF0000  # character of the word for the first added token
_FIRST_UNREACHABLE = 0x100000
_FIRST_CJK = 0x3400  # Connecting punctuation is below this code point or above U+FE00.
_NOTHING = make_entry(0, DROPPED, CLEANED)

_SPECIAL_TOKEN = re.compile("|".join(map(re.escape, SPECIAL_TOKENS)))


@dataclasses.dataclass
class Words:
    """The normalized words of a batch of texts.

    Attributes:
        characters: int32 [characters], normalized code points of all texts.
        starts, ends: int32 [words], the span of each word in `characters`.
        originals: int32 [characters], the index of the original code point of each character.
        texts: int64 [texts + 1], the index of each text's first word.
        text_starts: int32 [texts + 1], the index of each text's first code point.
    """

    characters: tf.Tensor
    starts: tf.Tensor
    ends: tf.Tensor
    originals: tf.Tensor
    texts: tf.Tensor
    text_starts: tf.Tensor

    def strings(self) -> tf.Tensor:
        """Returns the words as a string tensor [words]."""
        return utf8.encode(self.characters, self.starts, self.ends)

    def ordinary(self) -> tf.Tensor:
        """Returns the words as strings, without added tokens and words that are too long."""
        first = tf.gather(self.characters, self.starts)
        is_ordinary = (first > ord(UNKNOWN_WORD)) & (first < _FIRST_TOKEN)
        return chosen(self.strings(), is_ordinary)

    def characters_of(self, starts: tf.Tensor, ends: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return tf.gather(self.originals, starts), tf.gather(self.originals, ends - 1) + 1


def word_of_token(number: int) -> str:
    """Returns the word that replaces the special or added token with index `number` in texts."""
    return 2 * chr(_FIRST_TOKEN + number)


def unreachable_word(number: int) -> str:
    """Returns a word that never occurs in a text. Each number gives a different word."""
    return chr(_FIRST_UNREACHABLE + number % 0xFFFE) * (1 + number // 0xFFFE)


class WordSplitter:
    """Normalizes texts and splits them at spaces and punctuation, as BERT does."""

    def __init__(
        self,
        lowercase: bool,
        strip_accents: bool | None = None,
        split_on_cjk: bool = True,
        tokens: list[AddedToken] = SPECIAL,
    ) -> None:
        self.table = UnicodeTable(lowercase, strip_accents, split_on_cjk)
        as_written = {number: token for number, token in enumerate(tokens) if not token.normalized}
        self._find = AddedTokens(as_written)
        self._find_normalized = None
        self.written: dict[str, str] = {}
        normalized = {number: token for number, token in enumerate(tokens) if token.normalized}
        if normalized:
            self._prepare_normalized(normalized)

    def _prepare_normalized(self, tokens):
        with tf.init_scope():
            contents = self._normalize_texts([token.content for token in tokens.values()])
        normalized_tokens = {}
        for (number, token), (text, spaced) in zip(tokens.items(), contents):
            if text:
                normalized_tokens[number] = dataclasses.replace(token, content=text)
                self.written[token.content] = spaced
        if normalized_tokens:
            self._find_normalized = AddedTokens(normalized_tokens)

    def _normalize_texts(self, texts):
        """Returns pairs: (normalized text, this text with spaces around Chinese characters)."""
        code_points, text_starts = utf8.decode(tf.constant(texts))
        entries, originals = self._normalize(self.table.lookup(code_points))
        characters = [*map(chr, _read_codes(entries)[0].numpy())]
        spaced = [f" {c} " if apart else c for c, apart in zip(characters, _read_codes(entries)[1])]
        splits = np.searchsorted(originals, text_starts)
        return [
            ("".join(characters[first : end - 1]), "".join(spaced[first : end - 1]))
            for first, end in zip(splits, splits[1:])
        ]

    def __call__(self, texts: tf.Tensor) -> Words:
        # No word or added token crosses the newline.
        code_points, text_starts = utf8.decode(texts)
        ends = text_starts[1:] - 1
        matches = self._find(put(code_points, ends, CODE_POINTS))
        entries = _mark(self.table.lookup(code_points), *matches)
        entries, originals = self._normalize(entries)
        if self._find_normalized is not None:
            codes, is_apart = _read_codes(entries)
            codes = put(codes, tf.searchsorted(originals, ends), CODE_POINTS)
            entries = _mark(entries, *self._find_normalized(codes, is_apart))
            entries, originals = _drop(entries, originals)
        return _split(entries, originals, text_starts)

    def _normalize(self, entries):
        originals = tf.range(tf.size(entries))
        entries, originals = self._expand(entries, originals)
        entries, originals = _order_marks(entries, originals)
        return _drop(entries, originals)

    def _expand(self, entries, originals):
        """Replaces characters that are normalized to several characters.

        If there are any, every character becomes SLOTS entries, padded with dropped entries.
        """
        is_sequence = flags_of(entries, SEQUENCE) != 0

        def expand():
            rows = self.table.sequence(tf.where(is_sequence, value_of(entries), 0))
            nothing = tf.fill([tf.size(entries), SLOTS - 1], _NOTHING)
            single = tf.concat([entries[:, tf.newaxis], nothing], axis=1)
            slots = tf.where(is_sequence[:, tf.newaxis], rows, single)  # [characters, SLOTS]
            return tf.reshape(slots, [-1]), tf.repeat(originals, SLOTS)

        return tf.cond(tf.reduce_any(is_sequence), expand, lambda: (entries, originals))


def _mark(entries, starts, ends, numbers):
    """Replaces each special or added token with `word_of_token` of its number."""
    entries = put(entries, tf.ragged.range(starts, ends).values, _NOTHING)
    codes = (_FIRST_TOKEN + numbers) * make_entry(1, 0)
    entries = put(entries, ends - 1, codes + BREAK_AFTER)
    is_single = tf.cast(tf.equal(starts, ends - 1), tf.int32)
    return put(entries, starts, codes + BREAK_BEFORE + BREAK_AFTER * is_single)


def _read_codes(entries):
    is_space = tf.equal(flags_of(entries, DROPPED), DROPPED)
    codes = tf.where(is_space, ord(" "), value_of(entries))
    breaks = tf.not_equal(flags_of(entries, BREAK_BEFORE), 0)
    is_cjk = (codes >= _FIRST_CJK) & ((codes < 0xFE00) | (codes >= 0x10000))
    return codes, breaks & is_cjk


def _order_marks(entries, originals):
    """Sorts combining marks into canonical order, unless normalization removes all marks."""
    ranks = rank_of(entries)
    survives = (ranks > 0) & (flags_of(entries, DROPPED) == 0)

    def order():
        present = places_of(ranks != CLEANED)
        kept_ranks, kept_originals = tf.gather(ranks, present), tf.gather(originals, present)
        runs = tf.cumsum(tf.cast(kept_ranks == 0, tf.int32))
        new_order = tf.argsort(runs * (CLEANED + 1) + kept_ranks, stable=True)
        # `tokenizers` assigns the original positions, in order, to the sorted marks.
        is_first = before(kept_originals, -1) != kept_originals
        consumed = tf.cumsum(tf.cast(tf.gather(is_first, new_order), tf.int32)) - 1
        places = tf.gather(chosen(kept_originals, is_first), consumed)
        return tf.gather(entries, tf.gather(present, new_order)), places

    return tf.cond(tf.reduce_any(survives), order, lambda: (entries, originals))


def _drop(entries, originals):
    dropped = flags_of(entries, DROPPED | BREAK_BEFORE) == DROPPED

    def drop():
        return chosen(entries, ~dropped), chosen(originals, ~dropped)

    return tf.cond(tf.reduce_any(dropped), drop, lambda: (entries, originals))


def _split(entries, originals, text_starts):
    """Finds the words.

    In words that are too long, replaces the first character with UNKNOWN_WORD.
    """
    breaks_before = flags_of(entries, BREAK_BEFORE) != 0
    breaks_after = flags_of(entries, BREAK_AFTER) != 0
    breaks = tf.concat([breaks_before, [True]], axis=0) | tf.concat([[True], breaks_after], axis=0)
    is_word = flags_of(entries, DROPPED) == 0
    starts = places_of(is_word & breaks[:-1])
    ends = places_of(is_word & breaks[1:]) + 1
    too_long = chosen(starts, ends - starts > MAX_CHARACTERS)
    characters = put(value_of(entries), too_long, ord(UNKNOWN_WORD))
    texts = tf.searchsorted(tf.gather(originals, starts), text_starts, out_type=tf.int64)
    return Words(characters, starts, ends, originals, texts, text_starts)


class Translation(dict):
    """Normalizes and splits texts like `WordSplitter`, but faster, with `str.translate`.

    A call returns None for texts with special tokens, and if combining marks may have to be
    reordered.
    """

    def __init__(self, table: UnicodeTable) -> None:
        super().__init__({ord("\n"): f" {TEXT_END} "})
        self._table = table
        # Known marks that normalization keeps. Appending to a list is thread-safe.
        self._marks: list[str] = []

    def __call__(self, texts: list[str]) -> list[str] | None:
        text = "\n".join([*texts, ""])
        if _SPECIAL_TOKEN.search(text):
            return None
        text = text.translate(self)
        if self._marks and re.search(f"[{''.join(self._marks)}]{{2}}", text):
            return None
        words = text.split()
        if max(map(len, words), default=0) > MAX_CHARACTERS:
            words = [word if len(word) <= MAX_CHARACTERS else UNKNOWN_WORD for word in words]
        return words

    def __missing__(self, code_point):
        text = ""
        for character, flags, rank in self._table.characters(code_point):
            if rank and not flags & DROPPED:
                self._marks.append(chr(character))
            text += " " if flags & BREAK_BEFORE else ""
            text += "" if flags & DROPPED else chr(character)
            text += " " if flags & BREAK_AFTER else ""
        self[code_point] = text
        return text
