"""Words for a SentencePiece model, in the graph: normalized, each with a mark for its space.

As in the `tokenizers` library, added tokens are matched first, exactly as written. The text between
them is normalized and split at white space, and each word gets a leading `▁` unless it has one. A
`▁` inside a word begins another word.
"""

import dataclasses

import numpy as np
import tensorflow as tf

from keras_bert_impl.tokenizers.added_tokens import INSIDE, NO_TOKEN, AddedTokens, in_place
from keras_bert_impl.tokenizers.byte_level_bpe.byte_pairs import without_overlaps
from keras_bert_impl.tokenizers.sentencepiece.character_map import CharacterMap, CharacterTable
from keras_bert_impl.tokenizers.sentencepiece.unigram import SPACE_MARK
from keras_bert_impl.tokenizers.unicode import utf8
from keras_bert_impl.tokenizers.unicode.places import places_of, put
from keras_bert_impl.tokenizers.unicode.table import CODE_POINTS, SPACE, ClassTable, read_folding

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

    def characters_of(self, starts, ends):
        """Returns the spans of the words' pieces among the code points of all texts.

        Args:
            starts, ends: int32 ragged [words, (pieces)], character positions in the word, 0 is its
                mark.

        Returns:
            (starts, ends): int32 [pieces].
        """
        word = starts.value_rowids()
        begin = tf.gather(self.starts, word)
        # A mark that is not in the text takes the position of the character after it.
        mark = begin + tf.gather(self.own_mark, word) - 1
        first = tf.maximum(mark + starts.values, begin)
        last = tf.maximum(mark + ends.values - 1, begin)
        return tf.gather(self.places, first), tf.gather(self.place_ends, last)


class MarkedWordSplitter:
    """Normalizes texts and splits them into words.

    Args:
        tokens: list of `AddedToken`.
        changes: dict of str to str, the model's own normalization.
        folds: bool. Whether to prepare the text as ALBERT does: join two quotes into one ",
            decompose compatibility forms, remove marks, lowercase.
        prepend_scheme: str, the words without a mark that get one: "always", "first" (the word at
            the start of a text) or "never".
    """

    def __init__(self, tokens, changes, folds, prepend_scheme="always"):
        self._prepend_scheme = prepend_scheme
        self._folding = CharacterTable(read_folding()) if folds else None
        self._map = CharacterMap(changes)
        self._classes = ClassTable()
        first = [number for number, token in enumerate(tokens) if not token.normalized]
        self._first = np.array(first, np.int32)
        self._find = AddedTokens([tokens[number] for number in first])
        self._find_later, self.written = None, {}
        later = [number for number, token in enumerate(tokens) if token.normalized]
        if later:
            contents = self._normalized_texts([tokens[number].content for number in later])
            found = [(number, text) for number, text in zip(later, contents) if text]
            self.written = {tokens[number].content: text for number, text in found}
            self._later = np.array([number for number, _ in found], np.int32)
            self._find_later = AddedTokens(
                [dataclasses.replace(tokens[number], content=text) for number, text in found]
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

    def __call__(self, texts):
        code_points, text_starts = utf8.decode(texts)  # with a newline after each text
        characters, places, place_ends = self._mark(code_points, text_starts)
        characters, places, place_ends = self._normalize(characters, places, place_ends)
        if self._find_later is not None:
            characters, places, place_ends = self._mark_normalized(characters, places, place_ends)
        added = characters - CODE_POINTS - 1
        is_mark = tf.equal(characters, ord(SPACE_MARK))
        is_gap = tf.equal(self._classes.lookup(tf.minimum(characters, CODE_POINTS)), SPACE)
        is_gap |= characters >= CODE_POINTS
        is_first = tf.concat([[True], is_gap[:-1]], axis=0)[: tf.size(is_gap)]
        begins = tf.logical_not(is_gap) & (is_first | is_mark) | (added >= 0)
        breaks = tf.concat([begins | is_gap, [True]], axis=0)
        starts = tf.cast(tf.where(begins)[:, 0], tf.int32)
        ends = tf.cast(tf.where(breaks)[:, 0], tf.int32)
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
            characters, source = self._folding.put_in(*self._folding.lookup(characters))
            places, place_ends = tf.gather(places, source), tf.gather(place_ends, source)
        characters, source = self._map(characters)
        places, place_ends = tf.gather(places, source), tf.gather(place_ends, source)
        return characters, places, place_ends

    def _mark(self, code_points, text_starts):
        """Replaces each added token and each text end by one code beyond Unicode."""
        marked = put(code_points, text_starts[1:] - 1, CODE_POINTS)
        places = tf.range(tf.size(marked))
        return _as_one(self._find(marked), self._first, marked, places, places + 1)

    def _mark_normalized(self, characters, places, place_ends):
        """Same as `_mark` for tokens that are matched in the normalized text."""
        found = self._find_later(characters)
        return _as_one(found, self._later, characters, places, place_ends)


def _as_one(found, all_numbers, characters, places, place_ends):
    """Replaces each added token by one character."""
    starts, ends, numbers = found
    numbers = tf.gather(all_numbers, numbers)
    tokens = in_place(tf.fill(tf.shape(characters), NO_TOKEN), starts, ends, numbers)
    characters = tf.where(tokens >= 0, CODE_POINTS + 1 + tokens, characters)
    place_ends = put(place_ends, starts, tf.gather(place_ends, ends - 1))
    kept = places_of(tf.not_equal(tokens, INSIDE))
    return [tf.gather(values, kept) for values in (characters, places, place_ends)]


def _join_quotes(characters, places, place_ends):
    """Joins two equal consecutive quotes into one "."""
    following = tf.concat([characters[1:], [0]], axis=0)[: tf.size(characters)]
    is_quote = tf.reduce_any(tf.equal(characters, [[ord(quote)] for quote in _QUOTES]), axis=0)
    chosen = without_overlaps(is_quote & (characters == following))

    def join():
        joined = tf.concat([[False], chosen[:-1]], axis=0)  # the second one is kept
        kept = tf.logical_not(chosen)
        new = tf.where(joined, ord('"'), characters)
        return [tf.boolean_mask(values, kept) for values in (new, places, place_ends)]

    return tf.cond(tf.reduce_any(chosen), join, lambda: [characters, places, place_ends])
