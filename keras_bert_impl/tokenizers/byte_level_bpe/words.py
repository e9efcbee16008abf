"""Words for byte-level BPE, in the graph: splits texts as GPT-2's regular expression does.

    's|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+

In words: a run of letters, digits or other characters, with one space before it; English
contractions; and runs of white space, which leave their last character to the following word.
"""

import dataclasses
import unicodedata
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_bert_impl.tokenizers.added_tokens import INSIDE, NO_TOKEN, AddedTokens, in_place
from keras_bert_impl.tokenizers.unicode import nfc, utf8
from keras_bert_impl.tokenizers.unicode.places import chosen, places_of, put
from keras_bert_impl.tokenizers.unicode.table import BOUNDARY, CODE_POINTS, SPACE, ClassTable

_TOKEN = 0xFDD0  # represents a token during normalization, which does not change it
_CONTRACTIONS = ("'s", "'t", "'re", "'ve", "'m", "'ll", "'d")


@dataclasses.dataclass
class ByteLevelWords:
    """Words of a batch of texts, including added tokens, as flat tensors.

    Attributes:
        strings: string [words], the UTF-8 of each word.
        tokens: int32 [words], the index of the word's added token, or negative.
        starts: int32 [words], the index of each word's first code point.
        ends: int32 [words], the index of the code point after each word.
        texts: int64 [texts + 1], the index of each text's first word.
        code_points: int32 [code points] of all texts, with a newline after each, normalized and
            with prefix spaces.
        text_starts: int32 [texts + 1], the index of each text's first input code point.
        first, last: int32 [code points], the span of input code points of each code point, from
            `first` to before `last`.
    """

    strings: tf.Tensor
    tokens: tf.Tensor
    starts: tf.Tensor
    ends: tf.Tensor
    texts: tf.Tensor
    code_points: tf.Tensor
    text_starts: tf.Tensor
    first: tf.Tensor
    last: tf.Tensor

    def characters_of(self, starts):
        """Returns the spans of the words' tokens among the input code points of all texts.

        Args:
            starts: int32 ragged [words, (tokens)], byte offsets of the tokens in their words.

        Returns:
            (starts, ends): int32 [tokens].
        """
        size = 1 + sum(tf.cast(self.code_points >= limit, tf.int32) for limit in (128, 2048, 65536))
        place = tf.cumsum(size, exclusive=True)  # [code points], byte offset of each
        word = starts.value_rowids()
        first = tf.gather(tf.gather(place, self.starts), word) + starts.values  # in bytes
        is_last = tf.concat([word[1:] != word[:-1], [True]], axis=0)[: tf.size(word)]
        last = tf.concat([first[1:], [0]], axis=0)[: tf.size(word)]
        last = tf.where(is_last, tf.gather(tf.gather(place, self.ends), word), last) - 1
        begin = tf.searchsorted(place, first, side="right") - 1
        end = tf.searchsorted(place, last, side="right") - 1
        return tf.gather(self.first, begin), tf.gather(self.last, end)


class ByteLevelSplitter:
    """Splits texts into words, with added tokens matched first.

    Args:
        tokens: list of `AddedToken`.
        num_special: int, how many of the first tokens are the tokenizer's own. These are matched
            first, whether normalized or not.
        normalize: bool. Whether texts are normalized to composed characters (NFC). Default False.
        trim_offsets: bool. Whether tokens' offsets exclude the white space they include. Default
            True.
        add_prefix_space: bool. Whether a space is inserted at the start of a text, and of each part
            between added tokens, that has none. Default False.

    Example:
        from keras_bert_impl.tokenizers.added_tokens import AddedToken
        from keras_bert_impl.tokenizers.byte_level_bpe.words import ByteLevelSplitter
        tokens = [AddedToken("<mask>", lstrip=True)]
        words = ByteLevelSplitter(tokens, 1)(tf.constant(["it's <mask>"]))
        words.strings  # ["it", "'s", " <mask>"]
    """

    def __init__(
        self, tokens, num_special, normalize=False, trim_offsets=True, add_prefix_space=False
    ):
        self._table = ClassTable()
        self._normalize = normalize
        self._trim_offsets = trim_offsets
        self._add_prefix_space = add_prefix_space
        self.written = {}
        first, later = [], []
        for number, token in enumerate(tokens):
            if not token.normalized or number < num_special and not normalize:
                first.append((number, token))
                continue
            if normalize:
                content = unicodedata.normalize("NFC", token.content)
                self.written[token.content] = content
                token = dataclasses.replace(token, content=content)
            later.append((number, token))
        self._find_first = _Finder(first)
        self._find_later = _Finder(later) if later else None

    def __call__(self, texts):
        code_points, text_starts = utf8.decode(texts)  # with a newline after each text
        tokens = tf.fill(tf.shape(code_points), NO_TOKEN)
        tokens = self._find_first(_marked(code_points, text_starts, tokens), tokens)
        first = tf.range(tf.size(code_points))
        line = _Line(code_points, tokens, text_starts, first, first + 1)
        if self._trim_offsets:
            line = self._trimmed(line)
        if self._normalize:  # ASCII does not change
            line = tf.cond(
                tf.reduce_any(code_points > 127), lambda: _normalized(texts, line), lambda: line
            )
        if self._find_later is not None:
            marked = _marked(line.code_points, line.text_starts, line.tokens)
            line = line._replace(tokens=self._find_later(marked, line.tokens))
            if self._trim_offsets:
                line = self._trimmed(line)
        if self._add_prefix_space:
            line = _with_prefix_spaces(line)
        return self._words(line, text_starts)

    def _words(self, line, text_starts):
        marked = _marked(line.code_points, line.text_starts, line.tokens)
        classes = self._table.lookup(marked)
        is_token = tf.not_equal(line.tokens, NO_TOKEN)
        breaks = tf.where(is_token, line.tokens >= 0, _breaks(marked, classes))
        starts = places_of(breaks)  # of words and text ends
        ends = tf.concat([starts, [tf.size(marked)]], axis=0)[1:]
        tokens = tf.gather(line.tokens, starts)
        is_word = (tf.gather(classes, starts) != BOUNDARY) | (tokens >= 0)
        starts, ends, tokens = (chosen(values, is_word) for values in (starts, ends, tokens))
        texts = tf.searchsorted(starts, line.text_starts, out_type=tf.int64)
        return ByteLevelWords(
            strings=utf8.encode(line.code_points, starts, ends),
            tokens=tokens,
            starts=starts,
            ends=ends,
            texts=texts,
            code_points=line.code_points,
            text_starts=text_starts,
            first=line.first,
            last=line.last,
        )

    def _trimmed(self, line):
        """Excludes the white space that added tokens include from their positions."""

        def trim():
            size = tf.size(line.tokens)
            starts = places_of(line.tokens >= 0)
            others = tf.concat([places_of(tf.not_equal(line.tokens, INSIDE)), [size]], axis=0)
            ends = tf.gather(others, tf.searchsorted(others, starts, side="right"))
            solid = places_of(tf.not_equal(self._table.lookup(line.code_points), SPACE))
            solid = tf.concat([[-1], solid, [size]], axis=0)
            first = tf.minimum(tf.gather(solid, tf.searchsorted(solid, starts)), ends)
            if self._add_prefix_space:  # `tokenizers` treats one at the start as its own
                is_first = tf.gather(_is_in(line.text_starts, size), starts)
                first -= tf.cast(is_first & (first > starts), tf.int32)
            last = tf.gather(solid, tf.searchsorted(solid, ends) - 1)
            begin = tf.gather(line.first, first)
            end = tf.where(last >= first, tf.gather(line.last, tf.maximum(last, 0)), begin)
            return line._replace(
                first=put(line.first, starts, begin), last=put(line.last, ends - 1, end)
            )

        return tf.cond(tf.reduce_any(line.tokens >= 0), trim, lambda: line)


def _is_in(places, size):
    """Returns bool [size], true at those of the positions, which may go up to `size`."""
    return put(tf.fill([size + 1], False), places, True)


class _Finder:
    """Finds some of the added tokens.

    Args:
        tokens: list of (index among all tokens, `AddedToken`).
    """

    def __init__(self, tokens):
        self._numbers = np.array([number for number, _ in tokens], np.int32)
        self._find = AddedTokens([token for _, token in tokens])

    def __call__(self, marked, tokens):
        """Adds the matches to `tokens`, int32 [code points]; see `in_place`."""
        starts, ends, found = self._find(marked)
        return in_place(tokens, starts, ends, tf.gather(self._numbers, found))


class _Line(NamedTuple):
    """Texts before they become words; for the fields see `ByteLevelWords` and `in_place`."""

    code_points: tf.Tensor
    tokens: tf.Tensor
    text_starts: tf.Tensor
    first: tf.Tensor
    last: tf.Tensor


def _marked(code_points, text_starts, tokens):
    """Puts CODE_POINTS at tokens and text ends, which words and matches never cross."""
    marked = put(code_points, text_starts[1:] - 1, CODE_POINTS)
    return tf.where(tf.equal(tokens, NO_TOKEN), marked, CODE_POINTS)


def _normalized(texts, line):
    """Normalizes a line to composed characters (NFC); each matched token becomes one code point."""
    is_token = line.tokens >= 0

    def with_tokens_as_one():
        places = places_of(tf.not_equal(line.tokens, INSIDE))
        codes = tf.gather(tf.where(is_token, _TOKEN, line.code_points), places)
        starts = tf.searchsorted(places, line.text_starts)
        return utf8.encode(codes, starts[:-1], starts[1:] - 1), places

    def as_they_are():
        return texts, line.first

    texts, places = tf.cond(tf.reduce_any(is_token), with_tokens_as_one, as_they_are)
    # A token stays one code point, in order among equal code points of the text.
    is_one = is_token | tf.equal(line.code_points, _TOKEN) & tf.not_equal(line.tokens, INSIDE)
    numbers = tf.gather(line.tokens, places_of(is_one))
    code_points, text_starts = utf8.decode(nfc.normalize(texts))
    nothing = tf.fill(tf.shape(code_points), NO_TOKEN)
    tokens = put(nothing, places_of(tf.equal(code_points, _TOKEN)), numbers)
    places = tf.concat([places, [tf.size(line.code_points)]], axis=0)
    origins = nfc.origins(texts)[:-1]
    first = tf.gather(line.first, tf.gather(places, origins))
    last = tf.gather(line.last, tf.gather(places, origins + 1) - 1)
    return _Line(code_points, tokens, text_starts, first, last)


def _with_prefix_spaces(line):
    """Inserts a space before each part of a text that has none."""
    marked = _marked(line.code_points, line.text_starts, line.tokens)
    is_boundary = marked >= CODE_POINTS
    begins = ~is_boundary & tf.concat([[True], is_boundary[:-1]], axis=0)[: tf.size(marked)]
    begins &= marked != ord(" ")
    origins = tf.repeat(tf.range(tf.size(marked)), 1 + tf.cast(begins, tf.int32))
    is_new = tf.concat([origins[1:] == origins[:-1], [False]], axis=0)[: tf.size(origins)]
    code_points, tokens, first, last = (
        tf.gather(values, origins)
        for values in (line.code_points, line.tokens, line.first, line.last)
    )
    code_points = tf.where(is_new, ord(" "), code_points)
    return _Line(code_points, tokens, tf.searchsorted(origins, line.text_starts), first, last)


def _matches(code_points, text):
    """Returns where `text` occurs, bool [code points]."""
    found = tf.equal(code_points, ord(text[0]))
    for distance, character in enumerate(text[1:], 1):
        found &= tf.equal(_ahead(code_points, distance, -1), ord(character))
    return found


def _breaks(code_points, classes):
    """Returns where words begin, bool [code points]."""
    before = _behind(classes, 1, BOUNDARY)
    after_space = tf.equal(_behind(code_points, 1, -1), ord(" "))
    is_space, was_space = tf.equal(classes, SPACE), tf.equal(before, SPACE)
    is_boundary, was_boundary = tf.equal(classes, BOUNDARY), tf.equal(before, BOUNDARY)
    changes = tf.not_equal(classes, before)
    # A space joins the following word.
    changes &= tf.logical_not(after_space & tf.logical_not(is_space | is_boundary))
    # The last of several white space characters is left to the following word.
    following = _ahead(classes, 1, BOUNDARY)
    is_last = is_space & (following != SPACE) & (following != BOUNDARY)
    breaks = changes | (is_last & was_space) | is_boundary | was_boundary
    starts_contraction = breaks & tf.equal(code_points, ord("'"))
    for contraction in _CONTRACTIONS:
        found = starts_contraction & _matches(code_points, contraction)
        for distance in range(1, len(contraction)):
            breaks &= tf.logical_not(_shifted(found, distance))
        breaks |= _shifted(found, len(contraction))
    return breaks


def _ahead(values, distance, fill):
    """Returns the values `distance` positions later."""
    return tf.concat([values[distance:], tf.fill([tf.minimum(distance, tf.size(values))], fill)], 0)


def _behind(values, distance, fill):
    """Returns the values `distance` positions earlier."""
    return tf.concat([tf.fill([distance], fill), values[: tf.size(values) - distance]], axis=0)


def _shifted(found, distance):
    return tf.concat([tf.zeros([distance], tf.bool), found], axis=0)[: tf.size(found)]
