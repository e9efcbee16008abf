"""The words that a SentencePiece model sees, in graph: normalized, each with a mark for its space.

As the `tokenizers` library has it, added tokens are found first, exactly as they are written; what
stands between them is normalized, split at white space, and each word is given a `▁` in front, unless
it has one. A `▁` inside begins another word.
"""

import dataclasses

import tensorflow as tf

from keras_bert_impl.tokenizers import utf8
from keras_bert_impl.tokenizers.added_tokens import INSIDE, AddedTokens, in_place
from keras_bert_impl.tokenizers.byte_pairs import without_overlaps
from keras_bert_impl.tokenizers.character_map import CharacterMap, CharacterTable
from keras_bert_impl.tokenizers.places import places_of, put
from keras_bert_impl.tokenizers.unicode_table import CODE_POINTS, SPACE, ClassTable, read_folding
from keras_bert_impl.tokenizers.unigram import SPACE_MARK

_QUOTES = ("`", "'")  # ALBERT writes two of them as one "


@dataclasses.dataclass
class MarkedWords:
    """Words of a batch of texts, added tokens among them, as flat tensors.

    Attributes:
        strings: string [words], the UTF-8 of each word without the mark in front.
        added: int32 [words], the number of the added token that it is, or less than 0.
        starts, ends: int32 [words], where each word stands in `places`, its own mark included.
        own_mark: int32 [words], 1 where the mark in front is part of the text, else 0.
        texts: int64 [texts + 1], where each text begins among the words.
        text_starts: int32 [texts + 1], where each text begins among the code points.
        places, place_ends: int32 [characters], the code points that each normalized character
            begins with and ends before.
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
        """Where the pieces of the words stand among the code points of all texts.

        Args:
            starts, ends: int32 ragged [words, (pieces)], characters of the word, 0 its mark.

        Returns:
            (starts, ends): int32 [pieces].
        """
        word = starts.value_rowids()
        begin = tf.gather(self.starts, word)
        # A mark that is no part of the text stands where the character after it does.
        mark = begin + tf.gather(self.own_mark, word) - 1
        first = tf.maximum(mark + starts.values, begin)
        last = tf.maximum(mark + ends.values - 1, begin)
        return tf.gather(self.places, first), tf.gather(self.place_ends, last)


class MarkedWordSplitter:
    """Normalizes texts and splits them into words.

    Args:
        tokens: list of str, the added tokens.
        changes: dict of str to str, the model's own normalization.
        folds: bool. Whether the text is prepared as ALBERT's: two quotes as one ", compatibility
            forms decomposed, marks removed, lowercase.
        strips_left: str, the added token, such as `<mask>`, that takes white space before it
            along, or None.
    """

    def __init__(self, tokens, changes, folds, strips_left=None):
        self._find = AddedTokens(tokens, strips_left)
        self._folding = CharacterTable(read_folding()) if folds else None
        self._map = CharacterMap(changes)
        self._classes = ClassTable()

    def __call__(self, texts):
        code_points, text_starts = utf8.decode(texts)  # with a line end after each text
        characters, places, place_ends = self._mark(code_points, text_starts)
        if self._folding is not None:
            characters, places, place_ends = _join_quotes(characters, places, place_ends)
            characters, source = self._folding.put_in(*self._folding.lookup(characters))
            places, place_ends = tf.gather(places, source), tf.gather(place_ends, source)
        characters, source = self._map(characters)
        places, place_ends = tf.gather(places, source), tf.gather(place_ends, source)
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
        return MarkedWords(
            strings=utf8.encode(tf.where(is_gap | is_mark, 0, characters), starts + own_mark, ends),
            added=tf.gather(added, starts),
            starts=starts,
            ends=ends,
            own_mark=own_mark,
            texts=tf.searchsorted(tf.gather(places, starts), text_starts, out_type=tf.int64),
            text_starts=text_starts,
            places=places,
            place_ends=place_ends,
        )

    def _mark(self, code_points, text_starts):
        """Added tokens and ends of texts become codes after Unicode's, one each."""
        marked = put(code_points, text_starts[1:] - 1, CODE_POINTS)
        added = in_place(marked, *self._find(marked))
        marked = tf.where(added >= 0, CODE_POINTS + 1 + added, marked)
        places = places_of(added != INSIDE)
        place_ends = tf.concat([places[1:], [tf.size(code_points)]], axis=0)
        return tf.gather(marked, places), places, place_ends


def _join_quotes(characters, places, place_ends):
    """Makes one " of two equal quotes that follow each other."""
    following = tf.concat([characters[1:], [0]], axis=0)[: tf.size(characters)]
    is_quote = tf.reduce_any(tf.equal(characters, [[ord(quote)] for quote in _QUOTES]), axis=0)
    chosen = without_overlaps(is_quote & (characters == following))

    def join():
        joined = tf.concat([[False], chosen[:-1]], axis=0)  # the second one stays
        kept = tf.logical_not(chosen)
        new = tf.where(joined, ord('"'), characters)
        return [tf.boolean_mask(values, kept) for values in (new, places, place_ends)]

    return tf.cond(tf.reduce_any(chosen), join, lambda: [characters, places, place_ends])
