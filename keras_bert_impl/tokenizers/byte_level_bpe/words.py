"""Splits texts into words for byte-level BPE, like the regular expression of GPT-2.

    's|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+

A word is a sequence of letters, of digits, or of other characters, and may start with one space.
English contractions such as `'ll` and sequences of white space are also words. The last character
of a sequence of white space belongs to the next word.
"""

import dataclasses
import unicodedata
from typing import NamedTuple

import tensorflow as tf

from keras_bert_impl.tokenizers.added_tokens import (
    INSIDE,
    NO_TOKEN,
    AddedToken,
    AddedTokens,
    in_place,
)
from keras_bert_impl.tokenizers.graphs import (
    after,
    before,
    chosen,
    numbers_of,
    places_of,
    put,
    token_ends,
)
from keras_bert_impl.tokenizers.unicode import utf8
from keras_bert_impl.tokenizers.unicode.composition import compose
from keras_bert_impl.tokenizers.unicode.table import BOUNDARY, CODE_POINTS, SPACE, class_table

_TOKEN = 0xFDD0  # code point of a token during normalization, which does not change the code point
_CONTRACTIONS = ("'s", "'t", "'re", "'ve", "'m", "'ll", "'d")


@dataclasses.dataclass
class ByteLevelWords:
    """The words and added tokens of a batch of texts, as flat tensors.

    Attributes:
        strings: string [words], the UTF-8 of each word.
        added: int32 [words], the index of the added token; negative if the word is not an added
            token.
        starts, ends: int32 [words], start and end of each word in `code_points`.
        texts: int64 [texts + 1], the index of each text's first word.
        code_points: int32 [code points], the code points of all texts, after normalization and with
            prefix spaces. Each text is followed by a newline.
        text_starts: int32 [texts + 1], the index of each text's first input code point.
        first, last: int32 [code points]. A code point was normalized from the input code points
            `[first:last]`.
    """

    strings: tf.Tensor
    added: tf.Tensor
    starts: tf.Tensor
    ends: tf.Tensor
    texts: tf.Tensor
    code_points: tf.Tensor
    text_starts: tf.Tensor
    first: tf.Tensor
    last: tf.Tensor

    def characters_of(self, starts: tf.RaggedTensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns (starts, ends) of the tokens in the input code points, int32 [tokens].

        Args:
            starts: ragged int32 [words, (tokens)], the byte offsets of the tokens in their words.
        """
        # byte offset of each code point
        place = tf.cumsum(utf8.byte_lengths(self.code_points), exclusive=True)
        word = numbers_of(starts.row_lengths())
        # first byte of each token
        first = tf.gather(tf.gather(place, self.starts), word) + starts.values
        last = token_ends(first, word, tf.gather(place, self.ends)) - 1
        begin = tf.searchsorted(place, first, side="right") - 1
        end = tf.searchsorted(place, last, side="right") - 1
        return tf.gather(self.first, begin), tf.gather(self.last, end)


class ByteLevelSplitter:
    def __init__(
        self,
        tokens: list[AddedToken],
        num_special: int,
        normalize: bool = False,
        trim_offsets: bool = True,
        add_prefix_space: bool = False,
    ) -> None:
        self._normalize = normalize
        self._trim_offsets = trim_offsets
        self._add_prefix_space = add_prefix_space
        self.written: dict[str, str] = {}
        first, later = {}, {}
        for number, token in enumerate(tokens):
            if not token.normalized or number < num_special and not normalize:
                first[number] = token
                continue
            if normalize:
                content = unicodedata.normalize("NFC", token.content)
                self.written[token.content] = content
                token = dataclasses.replace(token, content=content)
            later[number] = token
        self._find_first = AddedTokens(first)
        self._find_later = AddedTokens(later) if later else None

    def __call__(self, texts: tf.Tensor) -> ByteLevelWords:
        code_points, text_starts = utf8.decode(texts)  # A newline follows each text.
        tokens = tf.fill(tf.shape(code_points), NO_TOKEN)
        matches = self._find_first(_mark_tokens(code_points, text_starts, tokens))
        tokens = in_place(tokens, *matches)
        first = tf.range(tf.size(code_points))
        line = _Line(code_points, tokens, text_starts, first, first + 1)
        if self._trim_offsets:
            line = self._trim_spaces(line)
        if self._normalize:  # ASCII texts are already normalized.
            line = tf.cond(
                tf.reduce_any(code_points > 127), lambda: _normalize_line(line), lambda: line
            )
        if self._find_later is not None:
            marked = _mark_tokens(line.code_points, line.text_starts, line.tokens)
            line = line._replace(tokens=in_place(line.tokens, *self._find_later(marked)))
            if self._trim_offsets:
                line = self._trim_spaces(line)
        if self._add_prefix_space:
            line = _add_prefix_spaces(line)
        return self._split_words(line, text_starts)

    def _split_words(self, line, text_starts):
        marked = _mark_tokens(line.code_points, line.text_starts, line.tokens)
        classes = class_table().lookup(marked)
        is_token = tf.not_equal(line.tokens, NO_TOKEN)
        breaks = tf.where(is_token, line.tokens >= 0, _find_breaks(marked, classes))
        starts = places_of(breaks)  # starts of words, and of text ends
        ends = tf.concat([starts, [tf.size(marked)]], axis=0)[1:]
        tokens = tf.gather(line.tokens, starts)
        is_word = (tf.gather(classes, starts) != BOUNDARY) | (tokens >= 0)
        starts, ends, tokens = (chosen(values, is_word) for values in (starts, ends, tokens))
        texts = tf.searchsorted(starts, line.text_starts, out_type=tf.int64)
        return ByteLevelWords(
            strings=utf8.encode(line.code_points, starts, ends),
            added=tokens,
            starts=starts,
            ends=ends,
            texts=texts,
            code_points=line.code_points,
            text_starts=text_starts,
            first=line.first,
            last=line.last,
        )

    def _trim_spaces(self, line):
        """Excludes white space around added tokens from `line.first` and `line.last`."""

        def trim():
            size = tf.size(line.tokens)
            starts = places_of(line.tokens >= 0)
            bounds = tf.concat([places_of(tf.not_equal(line.tokens, INSIDE)), [size]], axis=0)
            ends = tf.gather(bounds, tf.searchsorted(bounds, starts, side="right"))
            solid = places_of(tf.not_equal(class_table().lookup(line.code_points), SPACE))
            solid = tf.concat([[-1], solid, [size]], axis=0)
            first = tf.minimum(tf.gather(solid, tf.searchsorted(solid, starts)), ends)
            # `tokenizers` takes a leading space for the prefix space, and removes it.
            if self._add_prefix_space:
                is_start = put(tf.fill([size + 1], False), line.text_starts, True)
                is_first = tf.gather(is_start, starts)
                first -= tf.cast(is_first & (first > starts), tf.int32)
            last = tf.gather(solid, tf.searchsorted(solid, ends) - 1)
            begin = tf.gather(line.first, first)
            end = tf.where(last >= first, tf.gather(line.last, tf.maximum(last, 0)), begin)
            return line._replace(
                first=put(line.first, starts, begin), last=put(line.last, ends - 1, end)
            )

        return tf.cond(tf.reduce_any(line.tokens >= 0), trim, lambda: line)


class _Line(NamedTuple):
    # `ByteLevelWords` documents the other fields.
    code_points: tf.Tensor
    tokens: tf.Tensor  # index of the added token at each code point; see `in_place`
    text_starts: tf.Tensor
    first: tf.Tensor
    last: tf.Tensor


def _mark_tokens(code_points, text_starts, tokens):
    """Replaces added tokens and ends of texts by CODE_POINTS, which is never part of a word."""
    marked = put(code_points, text_starts[1:] - 1, CODE_POINTS)
    return tf.where(tf.equal(tokens, NO_TOKEN), marked, CODE_POINTS)


def _normalize_line(line):
    """Normalizes texts to NFC. Added tokens are not changed."""
    places = places_of(tf.not_equal(line.tokens, INSIDE))
    codes = tf.gather(tf.where(line.tokens >= 0, _TOKEN, line.code_points), places)
    code_points, origins = compose(codes)
    text_starts = tf.searchsorted(origins, tf.searchsorted(places, line.text_starts))
    tokens = tf.gather(line.tokens, tf.gather(places, origins))
    tokens = tf.where(tf.equal(code_points, _TOKEN), tokens, NO_TOKEN)
    places = tf.concat([places, [tf.size(line.code_points)]], axis=0)
    first = tf.gather(line.first, tf.gather(places, origins))
    last = tf.gather(line.last, tf.gather(places, origins + 1) - 1)
    return _Line(code_points, tokens, text_starts, first, last)


def _add_prefix_spaces(line):
    """Adds missing spaces at the start of each text and after each added token."""
    marked = _mark_tokens(line.code_points, line.text_starts, line.tokens)
    is_boundary = marked >= CODE_POINTS
    begins = ~is_boundary & before(is_boundary, True) & (marked != ord(" "))
    origins = numbers_of(1 + tf.cast(begins, tf.int32))
    is_new = after(origins, -1) == origins
    code_points, tokens, first, last = (
        tf.gather(values, origins)
        for values in (line.code_points, line.tokens, line.first, line.last)
    )
    code_points = tf.where(is_new, ord(" "), code_points)
    return _Line(code_points, tokens, tf.searchsorted(origins, line.text_starts), first, last)


def _mark_matches(code_points, text):
    """Returns bool [code points], True at the start of each occurrence of `text`."""
    is_match = tf.equal(code_points, ord(text[0]))
    for distance, character in enumerate(text[1:], 1):
        is_match &= tf.equal(after(code_points, -1, distance), ord(character))
    return is_match


def _find_breaks(code_points, classes):
    """Returns bool [code points], True where a word begins."""
    previous, following = before(classes, BOUNDARY), after(classes, BOUNDARY)
    after_space = tf.equal(before(code_points, -1), ord(" "))
    is_space, was_space = tf.equal(classes, SPACE), tf.equal(previous, SPACE)
    is_boundary, was_boundary = tf.equal(classes, BOUNDARY), tf.equal(previous, BOUNDARY)
    # A space belongs to the next word.
    changes = tf.not_equal(classes, previous) & ~(after_space & ~(is_space | is_boundary))
    # The last white space character of a run belongs to the next word.
    is_last = is_space & (following != SPACE) & (following != BOUNDARY)
    breaks = changes | (is_last & was_space) | is_boundary | was_boundary
    starts_contraction = breaks & tf.equal(code_points, ord("'"))
    for contraction in _CONTRACTIONS:
        is_contraction = starts_contraction & _mark_matches(code_points, contraction)
        for distance in range(1, len(contraction)):
            breaks &= ~before(is_contraction, False, distance)
        breaks |= before(is_contraction, False, len(contraction))
    return breaks
