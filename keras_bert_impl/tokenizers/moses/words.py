"""Moses' tokenizer for French: splits a normalized text into words in the graph.

A rule of Moses inserts spaces into the text. This module does not insert spaces, but marks the
characters before which Moses inserts a space. Most rules apply only at commas, dots and
apostrophes, so only these characters are checked. Source: Koehn et al. 2007, "Moses: Open Source
Toolkit for Statistical Machine Translation". The rules and abbreviations are from the French
tokenizer of `sacremoses` 0.2.0.
"""

import dataclasses

import numpy as np
import tensorflow as tf

from keras_bert_impl.tokenizers.graphs import (
    after,
    before,
    chosen,
    leftmost,
    numbers_of,
    places_of,
    put,
    token_ends,
)
from keras_bert_impl.tokenizers.moses.characters import (
    DELETED,
    DIGIT,
    LETTER,
    LOWER,
    NUMBER,
    REMOVED,
    SECOND,
    SPACE,
    SPACED_QUOTE,
    SPECIAL,
    TEXT_END,
    TEXT_START,
    WORD,
    Characters,
    MosesTable,
    TokenFinder,
    decode,
    has,
    is_boundary,
)
from keras_bert_impl.tokenizers.unicode import utf8

_QUOTE, _GRAVE, _NBSP = ord('"'), ord("`"), 0xA0
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

_NOTHING = 256  # flag for the start or end of a text, and for a token
_COMMA, _DOT, _APOSTROPHE = map(ord, ",.'")

# Abbreviations that keep a final dot. Other rules apply to words that contain a dot or sign.
_ABBREVIATIONS = (
    "art ann apr av auj lib boul ca cf chap contr dir éd env al etc ex fasc fém fig fr hab ibid id "
    "inf masc MM ms pl pp SS sec sect sing sq sqq suiv sup suppl tél vb vol vs"
)
_KEEPS_DOT = "[A-Zb-z]|" + _ABBREVIATIONS.replace(" ", "|")


@dataclasses.dataclass
class MosesWords:
    """The words and special tokens of a batch of texts.

    Attributes:
        codes: int32 [characters], code points of all words.
        first, last: int32 [characters], start and end (exclusive) of each code point in the
            concatenated texts.
        starts, ends: int32 [words], start and end of each word in `codes`.
        texts: int64 [texts + 1], the index of each text's first word.
        text_starts: int32 [texts + 1], the start of each text in the concatenated texts.
    """

    codes: tf.Tensor
    first: tf.Tensor
    last: tf.Tensor
    starts: tf.Tensor
    ends: tf.Tensor
    texts: tf.Tensor
    text_starts: tf.Tensor

    def strings(self) -> tf.Tensor:  # [words]; a special token is one character
        return utf8.encode(self.codes, self.starts, self.ends)

    def characters_of(self, starts: tf.RaggedTensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns start and end of each token in the concatenated texts, int32 [tokens].

        `starts` contains the start of each token in its word, ragged [words, (tokens)].
        """
        word = numbers_of(starts.row_lengths())
        begin = tf.gather(self.starts, word) + starts.values
        end = token_ends(begin, word, self.ends)
        return tf.gather(self.first, begin), tf.gather(self.last, end - 1)


class MosesSplitter:
    """Splits texts into words. Special and added tokens are matched first."""

    def __init__(self, lowercase: bool, find: TokenFinder | None = None) -> None:
        self._table = MosesTable()
        find = find or TokenFinder(SPECIAL)
        self._normalize = PunctuationNormalizer(self._table, lowercase, find)

    def __call__(self, texts: tf.Tensor) -> MosesWords:
        characters, text_starts = self._normalize(texts)
        flags = self._table.lookup(characters.codes)
        flags = tf.where(is_boundary(characters.codes), _NOTHING, flags)
        is_space = has(flags, SPACE) & ~has(flags, REMOVED)
        spaces = tf.cumsum(tf.cast(is_space, tf.int32))
        visible = places_of(~has(flags, SPACE | REMOVED))
        characters, flags = characters.gather(visible), tf.gather(flags, visible)
        spaces = tf.gather(spaces, visible)
        line = _Line(characters.codes, flags, spaces != before(spaces, 0))
        line.set_apart_signs()
        line.set_apart_runs_of_dots()
        line.set_apart_commas()
        line.cut_at_apostrophes()
        line.set_apart_last_dots()
        breaks = line.breaks()
        starts = places_of(breaks)
        ends = tf.concat([starts, [tf.size(breaks)]], axis=0)[1:]
        texts = tf.concat([[0], characters.places(TEXT_END)], axis=0)
        is_end = (characters.codes == TEXT_START) | (characters.codes == TEXT_END)
        is_word = ~tf.gather(is_end, starts)
        starts, ends = chosen(starts, is_word), chosen(ends, is_word)
        return MosesWords(
            codes=tf.where(is_end, ord("\n"), characters.codes),
            first=characters.starts,
            last=characters.ends,
            starts=starts,
            ends=ends,
            texts=tf.searchsorted(starts, texts, out_type=tf.int64),
            text_starts=text_starts,
        )


class _Line:
    """Applies Moses' rules. Each rule adds spaces between characters.

    Args:
        codes: int32 [characters], without white space.
        flags: int32 [characters], flags from `MosesTable`; _NOTHING for tokens and for the start
            and end of a text.
        gaps: bool [characters], whether the text has white space before each character.
    """

    def __init__(self, codes: tf.Tensor, flags: tf.Tensor, gaps: tf.Tensor) -> None:
        self._codes, self._flags = codes, flags
        nothing = tf.equal(flags, _NOTHING)
        self._gaps = gaps & ~nothing & ~before(nothing, True)

    def breaks(self) -> tf.Tensor:
        nothing = tf.equal(self._flags, _NOTHING)
        return self._gaps | nothing | before(nothing, True)

    def set_apart_signs(self) -> None:
        """Separates all punctuation and symbols except dots, commas, apostrophes and hyphens."""
        apart = ~has(self._flags, WORD | _NOTHING)
        for code in map(ord, ".',-"):
            apart &= self._codes != code
        self._gaps |= apart | before(apart, False)

    def set_apart_runs_of_dots(self) -> None:
        dots = tf.equal(self._codes, _DOT)
        goes_on = dots & before(dots, False) & ~self._gaps  # The next character is also a dot.
        begins = dots & ~goes_on & after(goes_on, False)
        self._gaps |= begins | (before(goes_on, False) & ~goes_on)
        self._in_runs = begins | goes_on

    def set_apart_commas(self) -> None:
        """Separates commas, except between two digits."""
        places = self._find_code(_COMMA)
        first = chosen(places, ~has(self._gather_left(places), NUMBER | _NOTHING))
        place = tf.gather(self._compute_string_places(), first)
        first = chosen(first, leftmost(place - 1, place + 1))
        self._add_gaps(first, first + 1)
        second = chosen(places, ~has(self._gather_right(places), NUMBER | _NOTHING))
        self._add_gaps(second, second + 1)
        at_end = has(self._gather_right(places), _NOTHING) & has(self._gather_left(places), NUMBER)
        self._add_gaps(chosen(places, at_end))

    def cut_at_apostrophes(self) -> None:
        """Splits after an apostrophe between letters, and around other apostrophes in a text."""
        places = self._find_code(_APOSTROPHE)
        previous, following = self._gather_left(places), self._gather_right(places)
        neither = chosen(places, ~has(previous | following, LETTER | _NOTHING))
        place = tf.gather(self._compute_string_places(), neither)
        neither = chosen(neither, leftmost(place - 1, place + 2))
        self._add_gaps(neither, neither + 1)
        previous, following = self._gather_left(places), self._gather_right(places)
        inside = ~has(previous | following, _NOTHING)
        one_sided = chosen(places, inside & (has(previous, LETTER) != has(following, LETTER)))
        both = chosen(places, inside & has(previous, LETTER) & has(following, LETTER))
        both = chosen(both, leftmost(both - 1, both + 2))
        self._add_gaps(one_sided, one_sided + 1, both + 1)

    def set_apart_last_dots(self) -> None:
        """Separates a word's final dot, except in abbreviations and before lowercase letters."""
        breaks = self.breaks()
        ends_word = after(breaks, True) & ~breaks
        dots = places_of(tf.equal(self._codes, _DOT) & ends_word)
        dots = chosen(dots, ~tf.gather(self._in_runs, dots))
        words = places_of(breaks)
        starts = tf.gather(words, tf.searchsorted(words, dots, side="right") - 1)
        has_dot = self._count(tf.equal(self._codes, _DOT), starts, dots) > 0
        has_letter = self._count(has(self._flags, LETTER), starts, dots) > 0
        text = tf.ragged.range(starts, dots)  # characters of the word before each dot
        text = text.with_values(tf.gather(self._codes, text.values))
        listed = tf.strings.regex_full_match(tf.strings.unicode_encode(text, "UTF-8"), _KEEPS_DOT)
        next_is_lower = has(tf.gather(self._flags, dots + 1), LOWER)
        keeps = (has_dot & has_letter) | listed | next_is_lower
        quotes = self._find_code(_APOSTROPHE)
        at_end = has(self._gather_right(quotes), _NOTHING) & ~tf.gather(self._gaps, quotes)
        at_end &= tf.gather(self._codes, quotes - 1) == _DOT
        quotes = chosen(quotes, at_end)
        self._add_gaps(chosen(dots, ~keeps), quotes - 1, quotes)

    def _find_code(self, code):
        return places_of(tf.equal(self._codes, code))

    def _gather_left(self, places):
        gaps = tf.gather(self._gaps, places)
        return tf.where(gaps, SPACE, tf.gather(self._flags, places - 1))

    def _gather_right(self, places):
        gaps = tf.gather(self._gaps, places + 1)
        return tf.where(gaps, SPACE, tf.gather(self._flags, places + 1))

    def _add_gaps(self, *places):
        self._gaps = put(self._gaps, tf.concat(places, axis=0), True)

    def _compute_string_places(self):
        # In Moses, the spaces added so far are characters of the string.
        return tf.range(tf.size(self._codes)) + tf.cumsum(tf.cast(self._gaps, tf.int32))

    @staticmethod
    def _count(mask, starts, ends):
        total = tf.cumsum(tf.cast(mask, tf.int32), exclusive=True)
        return tf.gather(total, ends) - tf.gather(total, starts)


class PunctuationNormalizer:
    """Normalizes punctuation, in the same order as `transformers`.

    Wide punctuation becomes ASCII, and then Moses' normalizer for French is applied. Rules that
    only change the white space between words are omitted.
    """

    def __init__(self, table: MosesTable, lowercase: bool, find: TokenFinder) -> None:
        self._table = table
        self._find = find
        self._lowercase = lowercase

    def __call__(self, texts: tf.Tensor) -> tuple[Characters, tf.Tensor]:  # as in `decode`
        characters, text_starts = decode(texts, self._table, self._lowercase, self._find)
        characters = self._convert_punctuation(characters)
        characters = self._convert_quotes_and_spaces(characters).compacted()
        characters = _move_quotes_before_commas(characters)
        characters = self._move_quotes_before_dots(characters)
        codes = tf.where(characters.codes == SPACED_QUOTE, _QUOTE, characters.codes)
        return characters._replace(codes=codes), text_starts

    def _convert_punctuation(self, characters):
        """Converts wide and typographic punctuation to ASCII; deletes carriage returns."""
        is_space = has(self._table.lookup(characters.codes), SPACE)
        solid = places_of(~is_space)
        stops = characters.places(*map(ord, _FULL_STOPS))
        following = tf.gather(solid, tf.searchsorted(solid, stops + 1))
        spaces = tf.ragged.range(stops + 1, following).values
        characters = characters.joined(characters.places(SECOND)).with_codes(spaces, DELETED)
        characters = characters.with_codes(characters.places(ord("\r")), DELETED).compacted()
        places = places_of(characters.codes > 127)
        codes = characters.at(places)
        number = tf.minimum(tf.searchsorted(_OTHER_CODES, codes), len(_OTHER_CODES) - 1)
        codes = tf.where(tf.gather(_OTHER_CODES, number) == codes, tf.gather(_ASCII, number), codes)
        characters = characters.with_codes(places, codes)
        return _expand_characters(characters.with_codes(characters.places(_GRAVE), _APOSTROPHE))

    def _convert_quotes_and_spaces(self, characters):
        """Converts double apostrophes and guillemets to quotes, and no-break spaces to spaces."""
        # Moses puts spaces around a quote made of two apostrophes, so other rules do not apply to
        # it.
        characters = _replace_pairs(characters, _APOSTROPHE, SPACED_QUOTE)
        late = characters.places(*map(ord, _LATE_APOSTROPHES))
        characters = characters.with_codes(late, _APOSTROPHE)
        characters = _replace_pairs(characters, _APOSTROPHE, _QUOTE)
        places = characters.places(_NBSP)
        previous, following = characters.at(places - 1), characters.at(places + 1)
        inside = (previous == ord("«")) | (following == ord("»"))
        inside |= (following == ord("«")) & (characters.at(places + 2) == _NBSP)
        inside |= (previous == ord("»")) & (characters.at(places - 2) == _NBSP)
        are_digits = [
            has(self._table.lookup(tf.maximum(c, 0)), DIGIT) for c in (previous, following)
        ]
        numbers = chosen(places, are_digits[0] & are_digits[1])
        numbers = chosen(numbers, leftmost(numbers - 1, numbers + 2))
        characters = characters.with_codes(chosen(places, inside), DELETED)
        characters = characters.with_codes(numbers, ord(","))
        return characters.with_codes(characters.places(ord("«"), ord("»")), _QUOTE)

    def _move_quotes_before_dots(self, characters):
        """Moves a quote before the preceding dots, except at the end of a text or before `<`."""
        quotes = characters.places(_QUOTE)
        following = characters.at(quotes + 1)
        is_moved = (characters.at(quotes - 1) == ord(".")) & (following != ord("<"))
        quotes = chosen(quotes, is_moved & ~is_boundary(following))
        return tf.cond(
            tf.size(quotes) > 0,
            lambda: characters.gather(self._order_with_moved(quotes, characters)),
            lambda: characters,
        )

    def _order_with_moved(self, quotes, characters):
        # A match ends with the next character that is not a space, unless it is `<`. Matches do not
        # overlap.
        flags = self._table.lookup(characters.codes)
        bounds = places_of(~has(flags, SPACE))
        after = tf.gather(bounds, tf.searchsorted(bounds, quotes + 1))
        following = characters.at(after)
        after += tf.cast((following != ord("<")) & ~is_boundary(following), tf.int32)
        is_selected = leftmost(quotes - 1, after)
        quotes, after = chosen(quotes, is_selected), chosen(after, is_selected)
        bounds = places_of(characters.codes != ord("."))
        # start of the run of dots
        dots = tf.gather(bounds, tf.searchsorted(bounds, quotes - 1) - 1) + 1
        dots = tf.maximum(dots, before(after, 0))
        keys = put(2 * tf.range(tf.size(characters.codes)), quotes, 2 * dots - 1)
        return tf.argsort(keys)


def _replace_pairs(characters, code, new):
    places = characters.places(code)
    places = chosen(places, characters.at(places + 1) == code)
    places = chosen(places, leftmost(places, places + 2))
    return characters.with_codes(places, new).joined(places + 1)


def _expand_characters(characters):
    places = characters.places(*map(ord, _SEVERAL))

    def expand():
        index = characters.at(places)[:, tf.newaxis] == [ord(character) for character in _SEVERAL]
        number = tf.argmax(index, axis=1, output_type=tf.int32)  # [places]
        lengths = tf.gather([len(several) for several in _SEVERAL.values()], number)
        counts = put(tf.ones_like(characters.codes), places, lengths)
        begins = tf.gather(tf.cumsum(counts, exclusive=True), places)
        several = [[*map(ord, several.ljust(_LONGEST))] for several in _SEVERAL.values()]
        new = tf.RaggedTensor.from_tensor(tf.gather(several, number), lengths=lengths)
        longer = characters.gather(numbers_of(counts))
        return longer.with_codes(tf.ragged.range(begins, begins + lengths).values, new.values)

    return tf.cond(tf.size(places) > 0, expand, lambda: characters)


def _move_quotes_before_commas(characters):
    """Moves a quote before the preceding comma."""
    commas = characters.places(ord(","))
    commas = chosen(commas, characters.at(commas + 1) == _QUOTE)
    order = put(tf.range(tf.size(characters.codes)), commas, commas + 1)
    return characters.gather(put(order, commas + 1, commas))
