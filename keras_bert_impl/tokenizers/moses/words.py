"""Moses' tokenizer for French in the graph: splits a normalized text into words.

Moses inserts spaces, rule by rule. Here the characters stay in place, and a space is a gap: a flag
of a character that is separated from the previous one. Most rules only look at the neighbors of
commas, dots and apostrophes, which are few.
Source: Koehn et al. 2007, "Moses: Open Source Toolkit for Statistical Machine Translation"; the
rules and abbreviations are those of its tokenizer for French in `sacremoses` 0.2.0.
"""

import dataclasses

import tensorflow as tf

from keras_bert_impl.tokenizers.moses.characters import (
    SPECIAL,
    TEXT_END,
    TEXT_START,
    TokenFinder,
    is_boundary,
)
from keras_bert_impl.tokenizers.moses.punctuation import PunctuationNormalizer
from keras_bert_impl.tokenizers.moses.table import (
    LETTER,
    LOWER,
    NUMBER,
    REMOVED,
    SPACE,
    WORD,
    MosesTable,
    has,
)
from keras_bert_impl.tokenizers.unicode import utf8
from keras_bert_impl.tokenizers.unicode.places import (
    after,
    before,
    chosen,
    leftmost,
    numbers_of,
    places_of,
    put,
    token_ends,
)

_NOTHING = 256  # extra flag for a text's start or end, or a special token
_COMMA, _DOT, _APOSTROPHE = map(ord, ",.'")

# Words that keep a dot after them. Other rules handle words with a dot or a sign inside.
_ABBREVIATIONS = (
    "art ann apr av auj lib boul ca cf chap contr dir éd env al etc ex fasc fém fig fr hab ibid id "
    "inf masc MM ms pl pp SS sec sect sing sq sqq suiv sup suppl tél vb vol vs"
)
_KEEPS_DOT = "[A-Zb-z]|" + _ABBREVIATIONS.replace(" ", "|")


@dataclasses.dataclass
class MosesWords:
    """Words of a batch of texts, including special tokens, as flat tensors.

    Attributes:
        codes: int32 [characters], code points of all words.
        first, last: int32 [characters], the span of each one among the characters of all texts,
            from `first` to before `last`.
        starts, ends: int32 [words], the span of each word in `codes`.
        texts: int64 [texts + 1], the index of each text's first word.
        text_starts: int32 [texts + 1], the index of each text's first character in all texts.
    """

    codes: tf.Tensor
    first: tf.Tensor
    last: tf.Tensor
    starts: tf.Tensor
    ends: tf.Tensor
    texts: tf.Tensor
    text_starts: tf.Tensor

    def strings(self) -> tf.Tensor:
        """Returns the words as a string tensor [words]; a special token is one character."""
        return utf8.encode(self.codes, self.starts, self.ends)

    def characters_of(self, starts: tf.RaggedTensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Converts offsets in words, ragged [words, (tokens)], to characters of all texts."""
        word = numbers_of(starts.row_lengths())
        begin = tf.gather(self.starts, word) + starts.values
        end = token_ends(begin, word, self.ends)
        return tf.gather(self.first, begin), tf.gather(self.last, end - 1)


class MosesSplitter:
    """Splits texts into words, with FlauBERT's special tokens and added tokens matched first."""

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
        kept = places_of(~has(flags, SPACE | REMOVED))
        characters, flags = characters.gather(kept), tf.gather(flags, kept)
        spaces = tf.gather(spaces, kept)
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
    """Characters and the gaps before them; each rule adds gaps.

    Args:
        codes: int32 [characters], without white space.
        flags: int32 [characters], of the table, or _NOTHING at boundaries.
        gaps: bool [characters], whether white space preceded the character.
    """

    def __init__(self, codes: tf.Tensor, flags: tf.Tensor, gaps: tf.Tensor) -> None:
        self._codes, self._flags = codes, flags
        nothing = tf.equal(flags, _NOTHING)
        self._gaps = gaps & ~nothing & ~before(nothing, True)

    def breaks(self) -> tf.Tensor:
        """Returns where words begin, bool [characters]."""
        nothing = tf.equal(self._flags, _NOTHING)
        return self._gaps | nothing | before(nothing, True)

    def set_apart_signs(self) -> None:
        """Separates all but letters, digits, dots, commas, apostrophes and hyphens."""
        apart = ~has(self._flags, WORD | _NOTHING)
        for code in map(ord, ".',-"):
            apart &= self._codes != code
        self._gaps |= apart | before(apart, False)

    def set_apart_runs_of_dots(self) -> None:
        dots = tf.equal(self._codes, _DOT)
        goes_on = dots & before(dots, False) & ~self._gaps  # a run of dots
        begins = dots & ~goes_on & after(goes_on, False)
        self._gaps |= begins | (before(goes_on, False) & ~goes_on)
        self._in_runs = begins | goes_on

    def set_apart_commas(self) -> None:
        """Separates commas, except between two digits."""
        places = self._places(_COMMA)
        first = chosen(places, ~has(self._left(places), NUMBER | _NOTHING))
        place = tf.gather(self._places_in_string(), first)
        first = chosen(first, leftmost(place - 1, place + 1))
        self._add_gaps(first, first + 1)
        second = chosen(places, ~has(self._right(places), NUMBER | _NOTHING))
        self._add_gaps(second, second + 1)
        at_end = has(self._right(places), _NOTHING) & has(self._left(places), NUMBER)
        self._add_gaps(chosen(places, at_end))

    def cut_at_apostrophes(self) -> None:
        """Splits after an apostrophe between letters and around others, but not at text ends."""
        places = self._places(_APOSTROPHE)
        left, right = self._left(places), self._right(places)
        neither = chosen(places, ~has(left | right, LETTER | _NOTHING))
        place = tf.gather(self._places_in_string(), neither)
        neither = chosen(neither, leftmost(place - 1, place + 2))
        self._add_gaps(neither, neither + 1)
        left, right = self._left(places), self._right(places)
        inside = ~has(left | right, _NOTHING)
        one = chosen(places, inside & (has(left, LETTER) != has(right, LETTER)))
        both = chosen(places, inside & has(left, LETTER) & has(right, LETTER))
        both = chosen(both, leftmost(both - 1, both + 2))
        self._add_gaps(one, one + 1, both + 1)

    def set_apart_last_dots(self) -> None:
        """Separates a word's final dot, unless it is an abbreviation's or lowercase follows."""
        breaks = self.breaks()
        ends_word = after(breaks, True) & ~breaks
        dots = places_of(tf.equal(self._codes, _DOT) & ends_word)
        dots = chosen(dots, ~tf.gather(self._in_runs, dots))
        words = places_of(breaks)
        starts = tf.gather(words, tf.searchsorted(words, dots, side="right") - 1)
        has_dot = self._count(tf.equal(self._codes, _DOT), starts, dots) > 0
        has_letter = self._count(has(self._flags, LETTER), starts, dots) > 0
        text = tf.ragged.range(starts, dots)  # before each dot
        text = text.with_values(tf.gather(self._codes, text.values))
        listed = tf.strings.regex_full_match(tf.strings.unicode_encode(text, "UTF-8"), _KEEPS_DOT)
        next_is_lower = has(tf.gather(self._flags, dots + 1), LOWER)
        keeps = (has_dot & has_letter) | listed | next_is_lower
        quotes = self._places(_APOSTROPHE)
        at_end = has(self._right(quotes), _NOTHING) & ~tf.gather(self._gaps, quotes)
        at_end &= tf.gather(self._codes, quotes - 1) == _DOT
        quotes = chosen(quotes, at_end)
        self._add_gaps(chosen(dots, ~keeps), quotes - 1, quotes)

    def _places(self, code):
        return places_of(tf.equal(self._codes, code))

    def _left(self, places):
        """Returns the flags of the previous characters."""
        gaps = tf.gather(self._gaps, places)
        return tf.where(gaps, SPACE, tf.gather(self._flags, places - 1))

    def _right(self, places):
        """Returns the flags of the next characters."""
        gaps = tf.gather(self._gaps, places + 1)
        return tf.where(gaps, SPACE, tf.gather(self._flags, places + 1))

    def _add_gaps(self, *places):
        self._gaps = put(self._gaps, tf.concat(places, axis=0), True)

    def _places_in_string(self):
        """Returns the position of each character if gaps were spaces, int32 [characters]."""
        return tf.range(tf.size(self._codes)) + tf.cumsum(tf.cast(self._gaps, tf.int32))

    @staticmethod
    def _count(wanted, starts, ends):
        total = tf.cumsum(tf.cast(wanted, tf.int32), exclusive=True)
        return tf.gather(total, ends) - tf.gather(total, starts)
