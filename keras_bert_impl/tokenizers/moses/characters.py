"""Characters of a batch of texts that remember what they stand for; finding patterns in them."""

import functools
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_text

from keras_bert_impl.tokenizers.added_tokens import (
    INSIDE,
    NO_TOKEN,
    AddedToken,
    AddedTokens,
    in_place,
)
from keras_bert_impl.tokenizers.moses.table import CODE_POINTS, JOINS, has
from keras_bert_impl.tokenizers.unicode import utf8
from keras_bert_impl.tokenizers.unicode.places import places_of, put

SPECIAL_TOKENS = ("<s>", "</s>", "<pad>", "<unk>", *(f"<special{number}>" for number in range(10)))

# Codes of our own are noncharacters of Unicode, U+FDD0 to U+FDEF, and those for private use, planes
# 15 and 16; those in a text become _JUNK, which Moses removes as it removes them.
FIRST_SPECIAL = 0xFDD0  # the special tokens, which take one character each
FIRST_ADDED = 0xF0000  # further tokens
TEXT_END = FIRST_SPECIAL + len(SPECIAL_TOKENS)
TEXT_START = TEXT_END + 1
SECOND = 0xFDED  # after a quote, which was two characters
SPACED_QUOTE = 0xFDEE
_JUNK = 0xFDEF
DELETED = -1
SPECIAL = [AddedToken(token, normalized=False, special=True) for token in SPECIAL_TOKENS]


class Characters(NamedTuple):
    """Characters of a batch of texts, with TEXT_START before the first and TEXT_END after each.

    Attributes:
        codes: int32 [characters], code points.
        starts, ends: int32 [characters], what each stands for among the characters of all texts.
    """

    codes: tf.Tensor
    starts: tf.Tensor
    ends: tf.Tensor

    def at(self, places):
        """Codes at places, which may lie one or two beyond the ends."""
        return tf.gather(self.codes, tf.clip_by_value(places, 0, tf.size(self.codes) - 1))

    def places(self, *codes):
        """int32 [found], where one of the codes stands."""
        found = functools.reduce(tf.logical_or, [tf.equal(self.codes, code) for code in codes])
        return places_of(found)

    def having(self, places, codes):
        """The same characters, with other codes at the given places."""
        return self._replace(codes=put(self.codes, places, codes))

    def joined(self, places):
        """Deletes characters; those before them stand for what they stood for, too."""
        ends = put(self.ends, places - 1, tf.gather(self.ends, places))
        return self._replace(ends=ends).having(places, DELETED)

    def gather(self, order):
        """Characters in another order, or some more or less often."""
        return Characters(*(tf.gather(part, order) for part in self))

    def compacted(self):
        """Without the deleted ones."""
        return self.gather(places_of(tf.not_equal(self.codes, DELETED)))


class TokenFinder(AddedTokens):
    """Finds FlauBERT's special tokens and added ones, as `transformers` finds them in Python.

    A token with `single_word` is found only between spaces, texts' ends and nothing else.

    Args:
        tokens: list of `AddedToken`, the special ones first.
    """

    def __init__(self, tokens):
        super().__init__(tokens)
        self._contents = [token.content for token in tokens]
        count = len(SPECIAL_TOKENS)
        codes = [*range(FIRST_SPECIAL, FIRST_SPECIAL + count)]
        codes += range(FIRST_ADDED, FIRST_ADDED + len(tokens) - count)
        self.codes = np.array(codes, np.int32)

    def by_code(self):
        """dict of code point that stands for a token to its content."""
        return dict(zip(self.codes.tolist(), self._contents))

    def _is_word(self, code_points, is_apart):
        return (code_points != ord(" ")) & (code_points != CODE_POINTS)


def decode(texts, table, lowercase, find):
    """Characters in composed form (NFC), each token one character, double quotes one, too.

    Args:
        texts: string [texts].
        table: a `MosesTable`.
        lowercase: bool.
        find: a `TokenFinder`.

    Returns:
        (characters, text_starts): `Characters`; int32 [texts + 1], where each text begins among
        the characters of all texts, of which each has one more at its end.
    """
    strings, places = _with_tokens_as_one(texts, find)
    strings = tf.strings.regex_replace(strings, "``|''", '"' + chr(SECOND))
    before, _ = utf8.decode(strings)  # with a line end after each text
    strings = tensorflow_text.normalize_utf8(strings, "NFC")
    if lowercase:
        strings = tf.strings.lower(strings, encoding="utf-8")
    codes, starts_of_texts = utf8.decode(strings)
    first, last = _align(before, codes, table)
    starts, ends = tf.gather(places, first), tf.gather(places, last + 1)
    text_starts = tf.gather(tf.concat([starts, places[-1:]], axis=0), starts_of_texts)
    parts = ([TEXT_START], codes), ([0], starts), ([0], ends)
    characters = Characters(*(tf.concat(part, axis=0) for part in parts))
    return characters.having(starts_of_texts[1:], TEXT_END), text_starts


def _with_tokens_as_one(texts, find):
    """Texts with one character in place of each token, and where their characters begin.

    Returns:
        (strings, places): string [texts]; int32 [characters + 1], among those of the texts as given,
        with the end of all.
    """
    code_points, text_starts = utf8.decode(texts)
    own = (code_points >= FIRST_SPECIAL) & (code_points <= _JUNK)
    own |= (code_points == 0) | (code_points >= FIRST_ADDED)
    starts, ends, numbers = find(put(code_points, text_starts[1:] - 1, CODE_POINTS))
    size = tf.size(code_points)

    def as_one():
        codes = tf.where(own, _JUNK, code_points)
        tokens = in_place(tf.fill([size], NO_TOKEN), starts, ends, tf.gather(find.codes, numbers))
        places = places_of(tf.not_equal(tokens, INSIDE))
        codes = tf.gather(tf.where(tokens >= 0, tokens, codes), places)
        bounds = tf.searchsorted(places, text_starts)
        strings = utf8.encode(codes, bounds[:-1], bounds[1:] - 1)
        return strings, tf.concat([places, [size]], axis=0)

    def as_they_are():
        return tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8"), tf.range(size + 1)

    return tf.cond((tf.size(starts) > 0) | tf.reduce_any(own), as_one, as_they_are)


def _align(before, after, table):
    """For each character after normalization the first and the last one that it was made of.

    A group is a character and those that may join it. Normalization changes groups one by one;
    characters of one whose length stays correspond in order, others stand for the whole group.
    """
    group_before, group_after = _groups(before, table), _groups(after, table)
    num_groups = tf.reduce_max(tf.concat([[0], group_before], axis=0)) + 1
    # Both have the same groups, as long as TensorFlow and our table know the same characters.
    group_after = tf.minimum(group_after, num_groups - 1)
    size_before = tf.math.bincount(group_before, minlength=num_groups)
    size_after = tf.math.bincount(group_after, minlength=num_groups)
    begin = tf.gather(tf.cumsum(size_before, exclusive=True), group_after)
    begin_after = tf.gather(tf.cumsum(size_after, exclusive=True), group_after)
    inside = tf.range(tf.size(after)) - begin_after
    last = tf.gather(size_before, group_after) - 1
    same = tf.gather(tf.equal(size_before, size_after), group_after)
    return begin + tf.where(same, inside, 0), begin + tf.where(same, inside, last)


def _groups(codes, table):
    """int32 [characters], the number of the group that each belongs to."""
    ends = (codes == ord("\n")) | is_boundary(codes)  # nothing joins these
    begins = tf.concat([[True], ends[:-1]], axis=0)[: tf.size(codes)]
    return tf.cumsum(tf.cast(begins | ~has(table.lookup(codes), JOINS), tf.int32))


def is_boundary(codes):
    """bool, where a special token stands or a text begins or ends."""
    is_special = (codes >= FIRST_SPECIAL) & (codes <= TEXT_START)
    return is_special | (codes >= FIRST_ADDED)
