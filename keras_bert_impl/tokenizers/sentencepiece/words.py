"""Words for a SentencePiece model, in the graph: normalized, each with a mark for its space.

As in the `tokenizers` library, added tokens are matched first, exactly as written. The text between
them is normalized and split at white space, and each word gets a leading `▁` unless it has one. A
`▁` inside a word begins another word.
"""

import dataclasses

import numpy as np
import tensorflow as tf

from keras_bert_impl.tokenizers.added_tokens import (
    INSIDE,
    NO_TOKEN,
    AddedToken,
    AddedTokens,
    in_place,
)
from keras_bert_impl.tokenizers.sentencepiece.character_map import CharacterMap, CharacterTable
from keras_bert_impl.tokenizers.sentencepiece.unigram import SPACE_MARK
from keras_bert_impl.tokenizers.unicode import utf8
from keras_bert_impl.tokenizers.unicode.places import (
    after,
    before,
    chosen,
    numbers_of,
    places_of,
    put,
    without_overlaps,
)
from keras_bert_impl.tokenizers.unicode.table import CODE_POINTS, SPACE, class_table, read_folding

_QUOTES = ("`", "'")  # ALBERT joins two of them into one "


@dataclasses.dataclass
class MarkedWords:
    """Words of a batch of texts, including added tokens, as flat tensors.

    Attributes:
        strings: string [words], the UTF-8 of each word: without the leading mark if each word gets
            one, else unchanged.
        added: int32 [words], the index of the word's added token, or negative.
        starts, ends: int32 [words], the span of each word in `places`, including its own mark.
        own_mark: int32 [words], 1 if the leading mark is in the text but not in the string, -1 if
            it is in the string but not in the text, else 0.
        texts: int64 [texts + 1], the index of each text's first word.
        text_starts: int32 [texts + 1], the index of each text's first code point.
        places, place_ends: int32 [characters], the code points at which each normalized character
            begins and before which it ends.
    """

    strings: tf.Tensor
    added: tf.Tensor
    starts: tf.Tensor
    ends: tf.Tensor
    own_mark: tf.Tensor
    texts: tf.Tensor
    text_starts: tf.Tensor
    places: tf.Tensor
    place_ends: tf.Tensor

    def characters_of(
        self, starts: tf.RaggedTensor, ends: tf.RaggedTensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Converts spans in words, ragged [words, (pieces)], to code points of all texts."""
        word = numbers_of(starts.row_lengths())
        begin = tf.gather(self.starts, word)
        # A mark that is not in the text takes the position of the character after it.
        mark = begin + tf.gather(self.own_mark, word) - 1
        first = tf.maximum(mark + starts.values, begin)
        last = tf.maximum(mark + ends.values - 1, begin)
        return tf.gather(self.places, first), tf.gather(self.place_ends, last)


class MarkedWordSplitter:
    """Normalizes texts and splits them into words."""

    def __init__(
        self,
        tokens: list[AddedToken],
        changes: dict[str, str],
        folds: bool,
        prepend_scheme: str = "always",
    ) -> None:
        self._prepend_scheme = prepend_scheme
        self._folding = CharacterTable(read_folding()) if folds else None
        self._map = CharacterMap(changes)
        first = {number: token for number, token in enumerate(tokens) if not token.normalized}
        self._find = AddedTokens(first)
        self._find_later = None
        self.written: dict[str, str] = {}
        later = {number: token for number, token in enumerate(tokens) if token.normalized}
        if later:
            contents = self._normalized_texts([token.content for token in later.values()])
            pairs = [(item, text) for item, text in zip(later.items(), contents) if text]
            self.written = {token.content: text for (_, token), text in pairs}
            self._find_later = AddedTokens(
                {n: dataclasses.replace(token, content=text) for (n, token), text in pairs}
            )

    def _normalized_texts(self, texts):
        """Returns texts as they are when words are searched for, a list of str."""
        with tf.init_scope():
            code_points, text_starts = utf8.decode(tf.constant(texts))
            marked = put(code_points, text_starts[1:] - 1, CODE_POINTS)
            places = tf.range(tf.size(marked))
            codes = self._normalize(marked, places, places + 1)[0].numpy()
        ends = np.flatnonzero(codes == CODE_POINTS)
        starts = [0, *(ends + 1)]
        return ["".join(map(chr, codes[start:end])) for start, end in zip(starts, ends)]

    def __call__(self, texts: tf.Tensor) -> MarkedWords:
        code_points, text_starts = utf8.decode(texts)  # with a newline after each text
        marked = put(code_points, text_starts[1:] - 1, CODE_POINTS)
        places = tf.range(tf.size(marked))
        line = self._normalize(*_as_one(self._find(marked), marked, places, places + 1))
        if self._find_later is not None:
            line = _as_one(self._find_later(line[0]), *line)
        characters, places, place_ends = line
        added = characters - CODE_POINTS - 1
        is_mark = tf.equal(characters, ord(SPACE_MARK))
        is_gap = tf.equal(class_table().lookup(characters), SPACE) | (characters >= CODE_POINTS)
        begins = ~is_gap & (before(is_gap, True) | is_mark) | (added >= 0)
        starts = places_of(begins)
        ends = places_of(tf.concat([begins | is_gap, [True]], axis=0))
        ends = tf.gather(ends, tf.searchsorted(ends, starts, side="right"))
        own_mark = tf.gather(tf.cast(is_mark, tf.int32), starts)
        texts = tf.searchsorted(tf.gather(places, starts), text_starts, out_type=tf.int64)
        if self._prepend_scheme == "always":
            written = tf.where(is_gap | is_mark, 0, characters)
            strings = utf8.encode(written, starts + own_mark, ends)
        else:
            strings = utf8.encode(tf.where(is_gap, 0, characters), starts, ends)
            place = tf.gather(places, starts)
            text = tf.searchsorted(text_starts, place)
            is_first = tf.equal(tf.gather(text_starts, text), place) & (own_mark == 0)
            is_first &= self._prepend_scheme == "first"
            strings = tf.where(is_first, tf.strings.join([SPACE_MARK, strings]), strings)
            own_mark = -tf.cast(is_first, tf.int32)
        return MarkedWords(
            strings=strings,
            added=tf.gather(added, starts),
            starts=starts,
            ends=ends,
            own_mark=own_mark,
            texts=texts,
            text_starts=text_starts,
            places=places,
            place_ends=place_ends,
        )

    def _normalize(self, characters, places, place_ends):
        if self._folding is not None:
            characters, places, place_ends = _join_quotes(characters, places, place_ends)
            characters, source = self._folding.put_in(*self._folding.replace(characters))
            places, place_ends = tf.gather(places, source), tf.gather(place_ends, source)
        characters, source = self._map(characters)
        places, place_ends = tf.gather(places, source), tf.gather(place_ends, source)
        return characters, places, place_ends


def _as_one(found, characters, places, place_ends):
    """Replaces each match of `AddedTokens` by one code beyond Unicode."""
    starts, ends, numbers = found
    tokens = in_place(tf.fill(tf.shape(characters), NO_TOKEN), starts, ends, numbers)
    characters = tf.where(tokens >= 0, CODE_POINTS + 1 + tokens, characters)
    place_ends = put(place_ends, starts, tf.gather(place_ends, ends - 1))
    kept = places_of(tf.not_equal(tokens, INSIDE))
    return [tf.gather(values, kept) for values in (characters, places, place_ends)]


def _join_quotes(characters, places, place_ends):
    """Joins two equal consecutive quotes into one "."""
    is_quote = tf.reduce_any(tf.equal(characters, [[ord(quote)] for quote in _QUOTES]), axis=0)
    pairs = without_overlaps(is_quote & (characters == after(characters, 0)))

    def join():  # the second quote is kept
        new = tf.where(before(pairs, False), ord('"'), characters)
        return [chosen(values, ~pairs) for values in (new, places, place_ends)]

    return tf.cond(tf.reduce_any(pairs), join, lambda: [characters, places, place_ends])
