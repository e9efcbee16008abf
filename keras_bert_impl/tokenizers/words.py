"""BERT's basic tokenization in graph: texts to normalized words that know where they came from."""

import dataclasses
import string

import tensorflow as tf

from keras_bert_impl.tokenizers import utf8
from keras_bert_impl.tokenizers.added_tokens import AddedTokens
from keras_bert_impl.tokenizers.places import put
from keras_bert_impl.tokenizers.unicode_table import (
    BREAK_AFTER,
    BREAK_BEFORE,
    CLEANED,
    CODE_POINTS,
    DROPPED,
    SEQUENCE,
    SLOTS,
    UnicodeTable,
    flags_of,
    make_entry,
    rank_of,
    value_of,
)

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
MAX_CHARACTERS = 100  # a longer word is unknown
# What is always a word of its own; brackets may be part of a special token.
WORD_BREAKS = "".join(sorted(set(string.punctuation) - set("[]")))

# Control characters never survive cleaning, so no text can produce these words.
SPECIAL_WORDS = {
    token: chr(1 + position) * len(token) for position, token in enumerate(SPECIAL_TOKENS)
}
UNKNOWN_WORD = chr(1 + len(SPECIAL_TOKENS))  # begins a word that is too long
EMPTY_WORD = chr(2 + len(SPECIAL_TOKENS))  # some vocabularies have an empty line
TEXT_END = chr(3 + len(SPECIAL_TOKENS))  # of `Translation`
RESERVED = [chr(code) for code in range(1, 4 + len(SPECIAL_TOKENS))]


@dataclasses.dataclass
class Words:
    """Words of a batch of texts, all as flat tensors.

    Attributes:
        characters: int32 [characters], normalized code points of all texts.
        starts, ends: int32 [words], where each word stands in `characters`.
        originals: int32 [characters], which code point of the texts each one came from.
        texts: int64 [texts + 1], where each text begins among the words.
        text_starts: int32 [texts + 1], where each text begins among the code points.
    """

    characters: tf.Tensor
    starts: tf.Tensor
    ends: tf.Tensor
    originals: tf.Tensor
    texts: tf.Tensor
    text_starts: tf.Tensor

    def strings(self):
        """The words as a string tensor [words]."""
        return utf8.encode(self.characters, self.starts, self.ends)

    def ordinary(self):
        """The same without special tokens and words that are too long."""
        first = tf.gather(self.characters, self.starts)
        return tf.boolean_mask(self.strings(), first > ord(RESERVED[-1]))

    def per_text(self, pieces):
        """Regroups a ragged [words, (pieces)] to [texts, (pieces)]."""
        splits = tf.gather(pieces.row_splits, self.texts)
        return tf.RaggedTensor.from_row_splits(pieces.values, splits, validate=False)

    def offsets(self, starts, ends):
        """Bytes in words, ragged [words, (pieces)], to characters in the original texts."""
        size = 1 + sum(tf.cast(self.characters >= limit, tf.int64) for limit in (128, 2048, 65536))
        place = tf.cumsum(size, exclusive=True)  # [characters], where each begins, in bytes
        word = tf.gather(tf.gather(place, self.starts), starts.value_rowids())  # [pieces]
        first = tf.searchsorted(place, word + starts.values)
        last = tf.searchsorted(place, word + ends.values) - 1
        starts = self.per_text(starts)
        text = tf.gather(self.text_starts, starts.value_rowids())  # [pieces]
        ends = starts.with_values(tf.gather(self.originals, last) + 1 - text)
        return starts.with_values(tf.gather(self.originals, first) - text), ends


class WordSplitter:
    """Splits texts into words as BERT does: clean, normalize, split at spaces and punctuation.

    Everything follows `tokenizers`' BertNormalizer and BertPreTokenizer, with the special tokens
    found first, exactly as they are written.

    Args:
        lowercase: bool: lowercase and strip accents.

    Example:
        words = WordSplitter(lowercase=True)(tf.constant(["Déjà vu!"]))
        words.strings()  # ["deja", "vu", "!"]
    """

    def __init__(self, lowercase):
        reserved = []
        for word in SPECIAL_WORDS.values():
            code_point = ord(word[0])
            reserved += [(code_point, BREAK_BEFORE), (code_point, 0), (code_point, BREAK_AFTER)]
        self.table = UnicodeTable(lowercase, reserved)
        self._find = AddedTokens(SPECIAL_TOKENS)

    def __call__(self, texts):
        # The line end keeps words and special tokens from reaching into the next text.
        code_points, text_starts = utf8.decode(texts)
        entries = self.table.lookup(self._mark_special_tokens(code_points))
        originals = tf.range(tf.size(entries))
        entries, originals = self._expand(entries, originals)
        entries, originals = _order_marks(entries, originals)
        entries, originals = _drop(entries, originals)
        return _split(entries, originals, text_starts)

    def _mark_special_tokens(self, code_points):
        """Rewrites them into the reserved codes of their first, inner and last characters."""
        starts, ends, numbers = self._find(code_points)
        first = CODE_POINTS + 3 * numbers  # [found]
        inner = tf.ragged.range(starts + 1, ends - 1)
        places = tf.concat([starts, inner.values, ends - 1], axis=0)
        codes = tf.concat([first, tf.gather(first, inner.value_rowids()) + 1, first + 2], axis=0)
        return put(code_points, places, codes)

    def _expand(self, entries, originals):
        """Gives every character SLOTS places where one becomes several."""
        is_sequence = flags_of(entries, SEQUENCE) != 0

        def expand():
            rows = self.table.sequence(tf.where(is_sequence, value_of(entries), 0))
            nothing = tf.fill([tf.size(entries), SLOTS - 1], make_entry(0, DROPPED, CLEANED))
            single = tf.concat([entries[:, tf.newaxis], nothing], axis=1)
            slots = tf.where(is_sequence[:, tf.newaxis], rows, single)  # [characters, SLOTS]
            return tf.reshape(slots, [-1]), tf.repeat(originals, SLOTS)

        return tf.cond(tf.reduce_any(is_sequence), expand, lambda: (entries, originals))


def _order_marks(entries, originals):
    """Puts runs of combining marks into canonical order where a mark survives normalization."""
    ranks = rank_of(entries)
    survives = (ranks > 0) & (flags_of(entries, DROPPED) == 0)

    def order():
        present = tf.where(ranks != CLEANED)[:, 0]
        kept_ranks, kept_originals = tf.gather(ranks, present), tf.gather(originals, present)
        runs = tf.cumsum(tf.cast(kept_ranks == 0, tf.int32))
        new_order = tf.argsort(runs * (CLEANED + 1) + kept_ranks, stable=True)
        # `tokenizers` hands out the original places one by one, in the new order.
        is_first = tf.concat([[True], kept_originals[1:] != kept_originals[:-1]], axis=0)
        consumed = tf.cumsum(tf.cast(tf.gather(is_first, new_order), tf.int32)) - 1
        places = tf.gather(tf.boolean_mask(kept_originals, is_first), consumed)
        return tf.gather(entries, tf.gather(present, new_order)), places

    return tf.cond(tf.reduce_any(survives), order, lambda: (entries, originals))


def _drop(entries, originals):
    """Removes accents and what cleaning removes, so that words are unbroken."""
    dropped = flags_of(entries, DROPPED | BREAK_BEFORE) == DROPPED

    def drop():
        kept = tf.where(tf.logical_not(dropped))[:, 0]
        return tf.gather(entries, kept), tf.gather(originals, kept)

    return tf.cond(tf.reduce_any(dropped), drop, lambda: (entries, originals))


def _split(entries, originals, text_starts):
    """Finds the words; one that is too long gets a first character that no piece has."""
    before = flags_of(entries, BREAK_BEFORE) != 0
    after = flags_of(entries, BREAK_AFTER) != 0
    breaks = tf.concat([before, [True]], axis=0) | tf.concat([[True], after], axis=0)
    is_word = flags_of(entries, DROPPED) == 0
    starts = tf.cast(tf.where(is_word & breaks[:-1])[:, 0], tf.int32)
    ends = tf.cast(tf.where(is_word & breaks[1:])[:, 0], tf.int32) + 1
    too_long = tf.boolean_mask(starts, ends - starts > MAX_CHARACTERS)
    characters = tf.tensor_scatter_nd_update(
        value_of(entries), too_long[:, tf.newaxis], tf.fill(tf.shape(too_long), ord(UNKNOWN_WORD))
    )
    texts = tf.searchsorted(tf.gather(originals, starts), text_starts, out_type=tf.int64)
    return Words(characters, starts, ends, originals, texts, text_starts)
