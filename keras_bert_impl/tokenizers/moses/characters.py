"""Characters of texts, with their positions and the properties that Moses' rules use.

`tools/make_moses_table.py` writes the table of properties: uint8 flags for each code point.
"""

import functools
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_bert_impl.tokenizers.added_tokens import (
    INSIDE,
    NO_TOKEN,
    AddedToken,
    AddedTokens,
    in_place,
    special_tokens,
)
from keras_bert_impl.tokenizers.graphs import before, places_of, put
from keras_bert_impl.tokenizers.unicode import utf8
from keras_bert_impl.tokenizers.unicode.composition import compose
from keras_bert_impl.tokenizers.unicode.table import (
    BLOCK,
    CODE_POINTS,
    JOINS_BEFORE,
    CodePointTable,
)

SPACE = 1  # white space as defined by Python's `str.isspace`
REMOVED = 2  # category C: control, format, private and unassigned characters
WORD = 4  # letters and digits in Moses; every other character is a separate word
LETTER = 8
NUMBER = 16  # Moses' numbers
LOWER = 32  # Moses' lowercase letters
DIGIT = 64  # category Nd, as matched by Python's `\d`

_FILE = Path(__file__).with_name("table.npz")


class MosesTable(CodePointTable):
    def __init__(self) -> None:
        with np.load(_FILE, allow_pickle=False) as stored:
            flags, composition = (
                (stored[f"{name}index"].astype(np.int32) * BLOCK, stored[f"{name}blocks"])
                for name in ("", "composition_")
            )
        super().__init__(*flags)
        self.composition = CodePointTable(*composition)


def has(flags: tf.Tensor, wanted: int) -> tf.Tensor:
    return tf.not_equal(tf.bitwise.bitwise_and(flags, wanted), 0)


SPECIAL_TOKENS = ("<s>", "</s>", "<pad>", "<unk>", *(f"<special{number}>" for number in range(10)))

# Internal codes are Unicode noncharacters and private-use code points of planes 15 and 16. In
# texts, they become _JUNK, because Moses removes both.
FIRST_SPECIAL = 0xFDD0  # code of the first special token
FIRST_ADDED = 0xF0000  # code of the first added token
TEXT_END = FIRST_SPECIAL + len(SPECIAL_TOKENS)
TEXT_START = TEXT_END + 1
SECOND = 0xFDED  # second character of a pair that became a quote
SPACED_QUOTE = 0xFDEE
_JUNK = 0xFDEF
DELETED = -1
SPECIAL = special_tokens(SPECIAL_TOKENS)


class Characters(NamedTuple):
    """The characters of a batch of texts: TEXT_START, then each text followed by TEXT_END.

    Attributes:
        codes: int32 [characters], code points.
        starts, ends: int32 [characters], the span of each character in the input texts.
    """

    codes: tf.Tensor
    starts: tf.Tensor
    ends: tf.Tensor

    def at(self, places: tf.Tensor) -> tf.Tensor:
        return tf.gather(self.codes, tf.clip_by_value(places, 0, tf.size(self.codes) - 1))

    def places(self, *codes: int) -> tf.Tensor:
        is_match = functools.reduce(tf.logical_or, [tf.equal(self.codes, code) for code in codes])
        return places_of(is_match)

    def with_codes(self, places: tf.Tensor, codes: tf.Tensor | int) -> "Characters":
        return self._replace(codes=put(self.codes, places, codes))

    def joined(self, places: tf.Tensor) -> "Characters":
        """Marks characters as deleted, and extends the preceding characters over their spans."""
        ends = put(self.ends, places - 1, tf.gather(self.ends, places))
        return self._replace(ends=ends).with_codes(places, DELETED)

    def gather(self, order: tf.Tensor) -> "Characters":
        return Characters(*(tf.gather(part, order) for part in self))

    def compacted(self) -> "Characters":
        return self.gather(places_of(tf.not_equal(self.codes, DELETED)))


class TokenFinder(AddedTokens):
    """Finds FlauBERT's special and added tokens in texts.

    The result is the same as in `transformers`.
    """

    def __init__(self, tokens: list[AddedToken]) -> None:
        count = len(SPECIAL_TOKENS)
        codes = [*range(FIRST_SPECIAL, FIRST_SPECIAL + count)]
        codes += range(FIRST_ADDED, FIRST_ADDED + len(tokens) - count)
        super().__init__(dict(zip(codes, tokens)))
        self.by_code = {code: token.content for code, token in zip(codes, tokens)}

    def _is_word(self, code_points, is_apart):
        return (code_points != ord(" ")) & (code_points != CODE_POINTS)


def decode(
    texts: tf.Tensor, table: MosesTable, lowercase: bool, find: TokenFinder
) -> tuple[Characters, tf.Tensor]:
    """Decodes texts to NFC. Returns (characters, index of the first character of each text)."""
    strings, places = _replace_tokens(texts, find)
    strings = tf.strings.regex_replace(strings, "``|''", '"' + chr(SECOND))
    before, starts_of_texts = utf8.decode(strings)  # A newline follows each text.
    codes, origins = compose(before, table.composition)
    starts_of_texts = tf.searchsorted(origins, starts_of_texts)
    if lowercase:
        strings = utf8.encode(codes, starts_of_texts[:-1], starts_of_texts[1:] - 1)
        codes, starts_of_texts = utf8.decode(tf.strings.lower(strings, encoding="utf-8"))
    first, last = _align(before, codes, table)
    starts, ends = tf.gather(places, first), tf.gather(places, last + 1)
    text_starts = tf.gather(tf.concat([starts, places[-1:]], axis=0), starts_of_texts)
    parts = ([TEXT_START], codes), ([0], starts), ([0], ends)
    characters = Characters(*(tf.concat(part, axis=0) for part in parts))
    return characters.with_codes(starts_of_texts[1:], TEXT_END), text_starts


def _replace_tokens(texts, find):
    """Replaces each special or added token with one character.

    Returns (texts, int32 positions of the characters in the original texts).
    """
    code_points, text_starts = utf8.decode(texts)
    is_reserved = (code_points >= FIRST_SPECIAL) & (code_points <= _JUNK)
    is_reserved |= (code_points == 0) | (code_points >= FIRST_ADDED)
    matches = starts, *_ = find(put(code_points, text_starts[1:] - 1, CODE_POINTS))
    size = tf.size(code_points)

    def as_one():
        codes = tf.where(is_reserved, _JUNK, code_points)
        tokens = in_place(tf.fill([size], NO_TOKEN), *matches)
        places = places_of(tf.not_equal(tokens, INSIDE))
        codes = tf.gather(tf.where(tokens >= 0, tokens, codes), places)
        bounds = tf.searchsorted(places, text_starts)
        strings = utf8.encode(codes, bounds[:-1], bounds[1:] - 1)
        return strings, tf.concat([places, [size]], axis=0)

    def as_they_are():
        return tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8"), tf.range(size + 1)

    return tf.cond((tf.size(starts) > 0) | tf.reduce_any(is_reserved), as_one, as_they_are)


def _align(before, after, table):
    """Returns the indices of the first and last original character of each normalized character."""
    group_before, group_after = _index_groups(before, table), _index_groups(after, table)
    num_groups = tf.reduce_max(tf.concat([[0], group_before], axis=0)) + 1
    # The groups are equal if TensorFlow and this package's table have the same Unicode version.
    group_after = tf.minimum(group_after, num_groups - 1)
    size_before = tf.math.bincount(group_before, minlength=num_groups)
    size_after = tf.math.bincount(group_after, minlength=num_groups)
    begin = tf.gather(tf.cumsum(size_before, exclusive=True), group_after)
    begin_after = tf.gather(tf.cumsum(size_after, exclusive=True), group_after)
    inside = tf.range(tf.size(after)) - begin_after
    last = tf.gather(size_before, group_after) - 1
    same = tf.gather(tf.equal(size_before, size_after), group_after)
    return begin + tf.where(same, inside, 0), begin + tf.where(same, inside, last)


def _index_groups(codes, table):
    ends = (codes == ord("\n")) | is_boundary(codes)  # No character combines with these.
    joins = ~before(ends, True) & has(table.composition.lookup(codes), JOINS_BEFORE)
    return tf.cumsum(tf.cast(~joins, tf.int32))


def is_boundary(codes: tf.Tensor) -> tf.Tensor:
    # special and added tokens, and the start and end of a text
    is_special = (codes >= FIRST_SPECIAL) & (codes <= TEXT_START)
    return is_special | (codes >= FIRST_ADDED)
