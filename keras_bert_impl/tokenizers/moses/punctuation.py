"""Punctuation normalization of the text that FlauBERT's words are split from, in the graph.

Follows the order of `transformers`: wide punctuation to ASCII, then Moses' normalizer for French.
Omits those of its rules that only move white space next to characters that are separate words
anyway.
"""

import numpy as np
import tensorflow as tf

from keras_bert_impl.tokenizers.moses.characters import (
    DELETED,
    SECOND,
    SPACED_QUOTE,
    Characters,
    TokenFinder,
    decode,
    is_boundary,
)
from keras_bert_impl.tokenizers.moses.table import DIGIT, SPACE, MosesTable, has
from keras_bert_impl.tokenizers.unicode.places import (
    before,
    chosen,
    leftmost,
    numbers_of,
    places_of,
    put,
)

_APOSTROPHE, _QUOTE, _GRAVE, _NBSP = ord("'"), ord('"'), ord("`"), 0xA0
_LATE_APOSTROPHES = "´‘‚"
_OTHERS = {
    "，": ",", "、": ",", "∶": ":", "：": ":", "？": "?", "！": "!", "；": ";", "％": "%",
    "（": "(", "）": ")", "〈": "<", "〉": ">", "【": "[", "】": "]", "～": "~", "━": "-", "–": "-",
    "“": '"', "”": '"', "„": '"', "《": '"', "》": '"', "「": '"', "」": '"', "’": "'",
    **{chr(0xFF10 + digit): str(digit) for digit in range(10)},
}  # fmt: skip
_OTHER_CODES = np.array(sorted(map(ord, _OTHERS)), np.int32)
_ASCII = np.array([ord(_OTHERS[chr(code)]) for code in _OTHER_CODES], np.int32)
_SEVERAL = {"…": "...", "。": ". ", "．": ". ", "—": " - "}
_LONGEST = max(map(len, _SEVERAL.values()))
_FULL_STOPS = "。．"


class PunctuationNormalizer:
    """Normalizes the punctuation of texts."""

    def __init__(self, table: MosesTable, lowercase: bool, find: TokenFinder) -> None:
        self._table = table
        self._find = find
        self._lowercase = lowercase

    def __call__(self, texts: tf.Tensor) -> tuple[Characters, tf.Tensor]:
        """Normalizes string [texts] to the form that `characters.decode` returns."""
        characters, text_starts = decode(texts, self._table, self._lowercase, self._find)
        characters = self._ascii_punctuation(characters)
        characters = self._apostrophes_and_spaces(characters).compacted()
        characters = _quotes_after_commas(characters)
        characters = self._quotes_after_dots(characters)
        codes = tf.where(characters.codes == SPACED_QUOTE, _QUOTE, characters.codes)
        return characters._replace(codes=codes), text_starts

    def _ascii_punctuation(self, characters):
        """Converts wide and typographic punctuation to ASCII and deletes carriage returns."""
        is_space = has(self._table.lookup(characters.codes), SPACE)
        others = places_of(~is_space)
        stops = characters.places(*map(ord, _FULL_STOPS))
        following = tf.gather(others, tf.searchsorted(others, stops + 1))
        spaces = tf.ragged.range(stops + 1, following).values
        characters = characters.joined(characters.places(SECOND)).having(spaces, DELETED)
        characters = characters.having(characters.places(ord("\r")), DELETED).compacted()
        places = places_of(characters.codes > 127)
        codes = characters.at(places)
        number = tf.minimum(tf.searchsorted(_OTHER_CODES, codes), len(_OTHER_CODES) - 1)
        codes = tf.where(tf.gather(_OTHER_CODES, number) == codes, tf.gather(_ASCII, number), codes)
        characters = characters.having(places, codes)
        return _expanded(characters.having(characters.places(_GRAVE), _APOSTROPHE))

    def _apostrophes_and_spaces(self, characters):
        """Turns apostrophe pairs into quotes and handles no-break spaces."""
        # Moses puts spaces around a quote of two apostrophes, so no rule joins it to others.
        characters = _paired(characters, _APOSTROPHE, SPACED_QUOTE)
        late = characters.places(*map(ord, _LATE_APOSTROPHES))
        characters = characters.having(late, _APOSTROPHE)
        characters = _paired(characters, _APOSTROPHE, _QUOTE)
        places = characters.places(_NBSP)
        left, right = characters.at(places - 1), characters.at(places + 1)
        inside = (left == ord("«")) | (right == ord("»"))
        inside |= (right == ord("«")) & (characters.at(places + 2) == _NBSP)
        inside |= (left == ord("»")) & (characters.at(places - 2) == _NBSP)
        are_digits = [has(self._table.lookup(tf.maximum(c, 0)), DIGIT) for c in (left, right)]
        numbers = chosen(places, are_digits[0] & are_digits[1])
        numbers = chosen(numbers, leftmost(numbers - 1, numbers + 2))
        characters = characters.having(chosen(places, inside), DELETED)
        characters = characters.having(numbers, ord(","))
        return characters.having(characters.places(ord("«"), ord("»")), _QUOTE)

    def _quotes_after_dots(self, characters):
        """Moves a quote before the dots it follows, unless the text ends or `<` follows."""
        quotes = characters.places(_QUOTE)
        following = characters.at(quotes + 1)
        wanted = (characters.at(quotes - 1) == ord(".")) & (following != ord("<"))
        quotes = chosen(quotes, wanted & ~is_boundary(following))
        return tf.cond(
            tf.size(quotes) > 0,
            lambda: characters.gather(self._order_with_moved(quotes, characters)),
            lambda: characters,
        )

    def _order_with_moved(self, quotes, characters):
        # A match extends to the next character that is not a space, excluding `<`. The next match
        # does not move its quote before dots that this one has consumed.
        flags = self._table.lookup(characters.codes)
        others = places_of(~has(flags, SPACE))
        after = tf.gather(others, tf.searchsorted(others, quotes + 1))
        following = characters.at(after)
        after += tf.cast((following != ord("<")) & ~is_boundary(following), tf.int32)
        found = leftmost(quotes - 1, after)
        quotes, after = chosen(quotes, found), chosen(after, found)
        others = places_of(characters.codes != ord("."))
        dots = tf.gather(others, tf.searchsorted(others, quotes - 1) - 1) + 1  # start of the run
        dots = tf.maximum(dots, before(after, 0))
        keys = put(2 * tf.range(tf.size(characters.codes)), quotes, 2 * dots - 1)
        return tf.argsort(keys)


def _paired(characters, code, new):
    """Replaces each pair of equal characters by one new one; the second is marked as deleted."""
    places = characters.places(code)
    places = chosen(places, characters.at(places + 1) == code)
    places = chosen(places, leftmost(places, places + 2))
    return characters.having(places, new).joined(places + 1)


def _expanded(characters):
    """Expands characters that represent several."""
    places = characters.places(*map(ord, _SEVERAL))

    def expand():
        index = characters.at(places)[:, tf.newaxis] == [ord(one) for one in _SEVERAL]
        number = tf.argmax(index, axis=1, output_type=tf.int32)  # [found]
        lengths = tf.gather([len(several) for several in _SEVERAL.values()], number)
        counts = put(tf.ones_like(characters.codes), places, lengths)
        begins = tf.gather(tf.cumsum(counts, exclusive=True), places)
        several = [[*map(ord, several.ljust(_LONGEST))] for several in _SEVERAL.values()]
        new = tf.RaggedTensor.from_tensor(tf.gather(several, number), lengths=lengths)
        longer = characters.gather(numbers_of(counts))
        return longer.having(tf.ragged.range(begins, begins + lengths).values, new.values)

    return tf.cond(tf.size(places) > 0, expand, lambda: characters)


def _quotes_after_commas(characters):
    """Moves a quote before the comma that it follows."""
    commas = characters.places(ord(","))
    commas = chosen(commas, characters.at(commas + 1) == _QUOTE)
    order = put(tf.range(tf.size(characters.codes)), commas, commas + 1)
    return characters.gather(put(order, commas + 1, commas))
