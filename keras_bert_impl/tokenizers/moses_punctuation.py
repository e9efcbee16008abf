"""The text that FlauBERT's words are cut from, in graph: normalized, with one kind of punctuation.

In the order in which `transformers` does it: special tokens are found; double quotes; Unicode's
composed form (NFC); lowercase; wide punctuation as ASCII; then what Moses' normalizer does for French.
Of that one's rules those are left out that only move white space beside characters which are words of
their own in any case. Every character keeps the place of the original that it stands for.
"""

import functools
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_text

from keras_bert_impl.tokenizers import utf8
from keras_bert_impl.tokenizers.moses_table import DIGIT, JOINS, SPACE, has

SPECIAL_TOKENS = ("<s>", "</s>", "<pad>", "<unk>", *(f"<special{number}>" for number in range(10)))

# Codes of our own are noncharacters of Unicode; those in a text become _JUNK, and are dropped.
FIRST_SPECIAL = 0xFDD0  # of the special tokens, which take one character each
TEXT_END = FIRST_SPECIAL + len(SPECIAL_TOKENS)
TEXT_START = TEXT_END + 1
_SECOND, _SPACED_QUOTE, _JUNK = 0xFDED, 0xFDEE, 0xFDEF
_DELETED = -1

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
_FULL_STOPS = "。．"


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
        return tf.cast(tf.where(found)[:, 0], tf.int32)

    def having(self, places, codes):
        """The same characters, with other codes at the given places."""
        codes = tf.broadcast_to(codes, tf.shape(places))
        codes = tf.tensor_scatter_nd_update(self.codes, places[:, tf.newaxis], codes)
        return self._replace(codes=codes)

    def gather(self, order):
        """Characters in another order, or some more or less often."""
        return Characters(*(tf.gather(part, order) for part in self))

    def compacted(self):
        """Without the deleted ones."""
        kept = tf.where(tf.not_equal(self.codes, _DELETED))[:, 0]
        return self.gather(kept)


class PunctuationNormalizer:
    """Normalizes texts.

    Args:
        table: a `MosesTable`.
        lowercase: bool.

    Example:
        characters, _ = PunctuationNormalizer(MosesTable(), True)(tf.constant(["L’HOMME"]))
        characters.codes  # of "l'homme", between two codes of our own
    """

    def __init__(self, table, lowercase):
        self._table = table
        self._lowercase = lowercase

    def __call__(self, texts):
        """Normalized texts.

        Args:
            texts: string [texts].

        Returns:
            (characters, text_starts): `Characters`; int32 [texts + 1], where each text begins
            among the characters of all texts, of which each has one more at its end.
        """
        characters, text_starts = self._composed(_marked(texts))
        characters = self._ascii_punctuation(characters)
        characters = self._apostrophes_and_spaces(characters).compacted()
        characters = _quotes_after_commas(characters)
        characters = self._quotes_after_dots(characters)
        codes = tf.where(characters.codes == _SPACED_QUOTE, _QUOTE, characters.codes)
        return characters._replace(codes=codes), text_starts

    def _composed(self, strings):
        """NFC and lowercase, with what each character of the outcome was before."""
        before, _ = utf8.decode(strings)
        strings = tensorflow_text.normalize_utf8(strings, "NFC")
        if self._lowercase:
            strings = tf.strings.lower(strings, encoding="utf-8")
        after, new_starts = utf8.decode(strings)
        first, last = self._align(before, after)
        special = tf.clip_by_value(before - FIRST_SPECIAL, -1, len(SPECIAL_TOKENS))
        widths = np.array([1, *map(len, SPECIAL_TOKENS), 1], np.int32)
        place = tf.concat([[0], tf.cumsum(tf.gather(widths, special + 1))], axis=0)
        starts, ends = tf.gather(place, first), tf.gather(place, last + 1)
        text_starts = tf.gather(tf.concat([starts, place[-1:]], axis=0), new_starts)
        text_ends = new_starts[1:, tf.newaxis] - 1
        codes = tf.tensor_scatter_nd_update(after, text_ends, tf.fill(tf.shape(text_ends)[:1], TEXT_END))
        parts = ([TEXT_START], codes), ([0], starts), ([0], ends)
        return Characters(*(tf.concat(part, axis=0) for part in parts)), text_starts

    def _align(self, before, after):
        """For each character after normalization the first and the last one that it was made of.

        A group is a character and those that may join it. Normalization changes groups one by one;
        characters of one whose length stays correspond in order, others stand for the whole group.
        """
        group_before, group_after = self._groups(before), self._groups(after)
        num_groups = tf.reduce_max(tf.concat([[0], group_before], axis=0)) + 1
        # Both have the same groups, as long as TensorFlow and our table know the same characters.
        group_after = tf.minimum(group_after, num_groups - 1)
        size_before = tf.math.bincount(group_before, minlength=num_groups)
        size_after = tf.math.bincount(group_after, minlength=num_groups)
        begin_before = tf.gather(tf.cumsum(size_before, exclusive=True), group_after)
        begin_after = tf.gather(tf.cumsum(size_after, exclusive=True), group_after)
        inside = tf.range(tf.size(after)) - begin_after
        last = tf.gather(size_before, group_after) - 1
        same = tf.gather(tf.equal(size_before, size_after), group_after)
        first_inside = tf.where(same, inside, 0)
        return begin_before + first_inside, begin_before + tf.where(same, inside, last)

    def _groups(self, codes):
        """int32 [characters], the number of the group that each belongs to."""
        ends = (codes == ord("\n")) | is_boundary(codes)  # nothing joins these
        follows = tf.concat([[True], ends[:-1]], axis=0)[: tf.size(codes)]
        return tf.cumsum(tf.cast(follows | ~has(self._table.lookup(codes), JOINS), tf.int32))

    def _ascii_punctuation(self, characters):
        """Wide and typographic punctuation as ASCII, carriage returns deleted."""
        is_space = has(self._table.lookup(characters.codes), SPACE)
        others = tf.cast(tf.where(~is_space)[:, 0], tf.int32)
        stops = characters.places(*map(ord, _FULL_STOPS))
        following = tf.gather(others, tf.searchsorted(others, stops + 1))
        spaces = tf.ragged.range(stops + 1, following).values
        characters = _joined(characters, characters.places(_SECOND)).having(spaces, _DELETED)
        characters = characters.having(characters.places(ord("\r")), _DELETED).compacted()
        places = tf.cast(tf.where(characters.codes > 127)[:, 0], tf.int32)
        codes = characters.at(places)
        number = tf.minimum(tf.searchsorted(_OTHER_CODES, codes), len(_OTHER_CODES) - 1)
        codes = tf.where(tf.gather(_OTHER_CODES, number) == codes, tf.gather(_ASCII, number), codes)
        characters = characters.having(places, codes)
        characters = characters.having(characters.places(_GRAVE), _APOSTROPHE)
        for one, several in _SEVERAL.items():
            characters = _expanded(characters, ord(one), [ord(part) for part in several])
        return characters

    def _apostrophes_and_spaces(self, characters):
        """Pairs of apostrophes are quotes; no-break spaces inside of quotes and of numbers go."""
        # Moses puts spaces around a quote of two apostrophes, so that no rule joins it to others.
        characters = _paired(characters, _APOSTROPHE, _SPACED_QUOTE)
        late = characters.places(*map(ord, _LATE_APOSTROPHES))
        characters = characters.having(late, _APOSTROPHE)
        characters = _paired(characters, _APOSTROPHE, _QUOTE)
        places = characters.places(_NBSP)
        before, after = characters.at(places - 1), characters.at(places + 1)
        inside = (before == ord("«")) | (after == ord("»"))
        inside |= (after == ord("«")) & (characters.at(places + 2) == _NBSP)
        inside |= (before == ord("»")) & (characters.at(places - 2) == _NBSP)
        are_digits = [has(self._table.lookup(tf.maximum(c, 0)), DIGIT) for c in (before, after)]
        numbers = tf.boolean_mask(places, are_digits[0] & are_digits[1])
        numbers = tf.boolean_mask(numbers, leftmost(numbers - 1, numbers + 2))
        characters = characters.having(tf.boolean_mask(places, inside), _DELETED)
        characters = characters.having(numbers, ord(","))
        return characters.having(characters.places(ord("«"), ord("»")), _QUOTE)

    def _quotes_after_dots(self, characters):
        """Moves a quote before the dots that it follows, unless the text ends there or `<` comes."""
        quotes = characters.places(_QUOTE)
        following = characters.at(quotes + 1)
        wanted = (characters.at(quotes - 1) == ord(".")) & (following != ord("<"))
        quotes = tf.boolean_mask(quotes, wanted & ~is_boundary(following))
        moved = lambda: characters.gather(self._order_with_moved(quotes, characters))  # noqa: E731
        return tf.cond(tf.size(quotes) > 0, moved, lambda: characters)

    def _order_with_moved(self, quotes, characters):
        # Each match goes on to the next character that is no space, `<` left out: dots that one
        # match has used the next one does not move its quote before.
        flags = self._table.lookup(characters.codes)
        others = tf.cast(tf.where(~has(flags, SPACE))[:, 0], tf.int32)
        after = tf.gather(others, tf.searchsorted(others, quotes + 1))
        following = characters.at(after)
        after += tf.cast((following != ord("<")) & ~is_boundary(following), tf.int32)
        found = leftmost(quotes - 1, after)
        quotes, after = tf.boolean_mask(quotes, found), tf.boolean_mask(after, found)
        others = tf.cast(tf.where(characters.codes != ord("."))[:, 0], tf.int32)
        dots = tf.gather(others, tf.searchsorted(others, quotes - 1) - 1) + 1  # begin of the run
        dots = tf.maximum(dots, tf.concat([[0], after], axis=0)[: tf.size(quotes)])
        keys = 2 * tf.range(tf.size(characters.codes))
        keys = tf.tensor_scatter_nd_update(keys, quotes[:, tf.newaxis], 2 * dots - 1)
        return tf.argsort(keys)


def is_boundary(codes):
    """bool, where a special token stands or a text begins or ends."""
    return (codes >= FIRST_SPECIAL) & (codes <= TEXT_START)


def leftmost(starts, ends):
    """Of matches of a pattern those that a search from the left finds, each after the one before.

    Args:
        starts: int32 [matches], ascending: the last place where the match may begin.
        ends: int32 [matches], ascending: where the search goes on.

    Returns:
        bool [matches].
    """
    size = tf.size(starts)

    def search():
        # Doubling: after n rounds 2^n matches are found, and `jumps` leads as many further.
        jumps = tf.concat([tf.searchsorted(starts, ends), [size]], axis=0)
        found = tf.concat([[True], tf.zeros([size], tf.bool)], axis=0)

        def double(found, jumps):
            reached = tf.boolean_mask(jumps, found)[:, tf.newaxis]
            found = tf.tensor_scatter_nd_update(found, reached, tf.ones_like(reached[:, 0], tf.bool))
            return found, tf.gather(jumps, jumps)

        more = lambda found, jumps: jumps[0] < size  # noqa: E731
        return tf.while_loop(more, double, (found, jumps))[0][:-1]

    overlap = tf.reduce_any(starts[1:] < ends[:-1])
    return tf.cond(overlap, search, lambda: tf.ones_like(starts, tf.bool))


def _marked(texts):
    """Strings in which special tokens are one character, and two apostrophes or graves a quote."""
    strings = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8")
    own = f"[\\x00{chr(FIRST_SPECIAL)}-{chr(_JUNK)}]"
    strings = tf.strings.regex_replace(strings, own, chr(_JUNK))
    for number, token in enumerate(SPECIAL_TOKENS):
        strings = tf.strings.regex_replace(strings, token, chr(FIRST_SPECIAL + number))
    return tf.strings.regex_replace(strings, "``|''", chr(_QUOTE) + chr(_SECOND))


def _paired(characters, code, new):
    """Makes one new character of each pair of the same ones; the second is marked as deleted."""
    places = characters.places(code)
    places = tf.boolean_mask(places, characters.at(places + 1) == code)
    places = tf.boolean_mask(places, leftmost(places, places + 2))
    return _joined(characters.having(places, new), places + 1)


def _joined(characters, places):
    """Deletes characters; those before them stand for what they stood for, too."""
    ends = tf.tensor_scatter_nd_update(
        characters.ends, places[:, tf.newaxis] - 1, tf.gather(characters.ends, places)
    )
    return characters._replace(ends=ends).having(places, _DELETED)


def _expanded(characters, one, several):
    """Characters of which each that has the code `one` is replaced by several."""
    found = tf.equal(characters.codes, one)

    def expand():
        counts = tf.where(found, len(several), 1)
        index = tf.repeat(tf.range(tf.size(counts)), counts)
        longer = characters.gather(index)
        inside = tf.range(tf.size(index)) - tf.gather(tf.cumsum(counts, exclusive=True), index)
        codes = tf.where(longer.codes == one, tf.gather(several, inside), longer.codes)
        return longer._replace(codes=codes)

    return tf.cond(tf.reduce_any(found), expand, lambda: characters)


def _quotes_after_commas(characters):
    """Puts a quote before the comma that it follows."""
    commas = characters.places(ord(","))
    commas = tf.boolean_mask(commas, characters.at(commas + 1) == _QUOTE)
    order = tf.range(tf.size(characters.codes))
    order = tf.tensor_scatter_nd_update(order, commas[:, tf.newaxis], commas + 1)
    order = tf.tensor_scatter_nd_update(order, commas[:, tf.newaxis] + 1, commas)
    return characters.gather(order)
