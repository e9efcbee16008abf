"""The words that byte-level BPE sees, in graph: where GPT-2's regular expression cuts a text.

    's|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+

In words: a run of letters, of digits or of other characters, with the one space before it; English
contractions; and runs of white space, which leave their last character to the word that follows.
"""

import dataclasses

import tensorflow as tf

from keras_bert_impl.tokenizers import utf8
from keras_bert_impl.tokenizers.added_tokens import NO_TOKEN, AddedTokens, in_place
from keras_bert_impl.tokenizers.places import chosen, places_of, put
from keras_bert_impl.tokenizers.unicode_table import BOUNDARY, CODE_POINTS, SPACE, ClassTable

_CONTRACTIONS = ("'s", "'t", "'re", "'ve", "'m", "'ll", "'d")


@dataclasses.dataclass
class ByteLevelWords:
    """Words of a batch of texts, added tokens among them, as flat tensors.

    Attributes:
        strings: string [words], the UTF-8 of each word.
        tokens: int32 [words], the number of the added token that it is, or less than 0.
        starts: int32 [words], the code point that each word begins with.
        ends: int32 [words], the code point after each word.
        texts: int64 [texts + 1], where each text begins among the words.
        text_starts: int32 [texts + 1], where each text begins among the code points.
        code_points: int32 [code points] of all texts, with a line end after each.
    """

    strings: tf.Tensor
    tokens: tf.Tensor
    starts: tf.Tensor
    ends: tf.Tensor
    texts: tf.Tensor
    text_starts: tf.Tensor
    code_points: tf.Tensor

    def characters_of(self, starts):
        """Where the pieces of the words stand among the code points of all texts.

        Args:
            starts: int32 ragged [words, (pieces)], bytes of the word at which pieces begin.

        Returns:
            (starts, ends): int32 [pieces].
        """
        size = 1 + sum(tf.cast(self.code_points >= limit, tf.int32) for limit in (128, 2048, 65536))
        place = tf.cumsum(size, exclusive=True)  # [code points], where each begins, in bytes
        word = starts.value_rowids()
        first = tf.gather(tf.gather(place, self.starts), word) + starts.values  # in bytes
        is_last = tf.concat([word[1:] != word[:-1], [True]], axis=0)[: tf.size(word)]
        last = tf.concat([first[1:], [0]], axis=0)[: tf.size(word)]
        last = tf.where(is_last, tf.gather(tf.gather(place, self.ends), word), last) - 1
        begin = tf.searchsorted(place, first, side="right") - 1
        return begin, tf.searchsorted(place, last, side="right")


class ByteLevelSplitter:
    """Splits texts into words, with the added tokens found first, exactly as they are written.

    Args:
        added_tokens: list of str.
        strips_left: str, the added token, such as `<mask>`, that takes white space before it
            along, or None.
        trim_offsets: bool. Whether the offsets of that token leave the white space out.

    Example:
        words = ByteLevelSplitter(["<mask>"], "<mask>")(tf.constant(["it's <mask>"]))
        words.strings  # ["it", "'s", "<mask>"]
    """

    def __init__(self, added_tokens, strips_left=None, trim_offsets=True):
        self._table = ClassTable()
        self._trim_offsets = trim_offsets
        self._find = AddedTokens(added_tokens, strips_left)
        self._lengths = [len(token) for token in added_tokens]

    def __call__(self, texts):
        code_points, text_starts = utf8.decode(texts)  # with a line end after each text
        # What nothing joins, and nothing looks beyond, has codes after Unicode's.
        marked = put(code_points, text_starts[1:] - 1, CODE_POINTS)
        tokens = in_place(marked, *self._find(marked))
        is_token = tf.not_equal(tokens, NO_TOKEN)
        marked = tf.where(is_token, CODE_POINTS, marked)
        classes = self._table.lookup(marked)
        breaks = tf.where(is_token, tokens >= 0, _breaks(marked, classes))
        starts = places_of(breaks)  # of words and of text ends
        ends = tf.concat([starts, [tf.size(marked)]], axis=0)[1:]
        tokens = tf.gather(tokens, starts)
        is_word = (tf.gather(classes, starts) != BOUNDARY) | (tokens >= 0)
        starts, ends, tokens = (chosen(values, is_word) for values in (starts, ends, tokens))
        if self._trim_offsets:  # white space that a token has taken along is in no word
            token_starts = ends - tf.gather(self._lengths, tf.maximum(tokens, 0))
            starts = tf.where(tokens >= 0, token_starts, starts)
        return ByteLevelWords(
            strings=utf8.encode(code_points, starts, ends),
            tokens=tokens,
            starts=starts,
            ends=ends,
            texts=tf.searchsorted(starts, text_starts, out_type=tf.int64),
            text_starts=text_starts,
            code_points=code_points,
        )


def _matches(code_points, text):
    """bool [code points], where `text` stands."""
    found = tf.equal(code_points, ord(text[0]))
    for distance, character in enumerate(text[1:], 1):
        found &= tf.equal(_ahead(code_points, distance, -1), ord(character))
    return found


def _breaks(code_points, classes):
    """bool [code points], where a word begins."""
    before = _behind(classes, 1, BOUNDARY)
    after_space = tf.equal(_behind(code_points, 1, -1), ord(" "))
    is_space, was_space = tf.equal(classes, SPACE), tf.equal(before, SPACE)
    is_boundary, was_boundary = tf.equal(classes, BOUNDARY), tf.equal(before, BOUNDARY)
    changes = tf.not_equal(classes, before)
    # A space joins the word after it.
    changes &= tf.logical_not(after_space & tf.logical_not(is_space | is_boundary))
    # The last of several white space characters is left to what follows.
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
    """What stands `distance` places later."""
    return tf.concat([values[distance:], tf.fill([tf.minimum(distance, tf.size(values))], fill)], 0)


def _behind(values, distance, fill):
    """What stands `distance` places before."""
    return tf.concat([tf.fill([distance], fill), values[: tf.size(values) - distance]], axis=0)


def _shifted(found, distance):
    return tf.concat([tf.zeros([distance], tf.bool), found], axis=0)[: tf.size(found)]
