"""BERT's basic tokenization in the graph: texts to normalized words with their origins."""

import dataclasses
import string

import numpy as np
import tensorflow as tf

from keras_bert_impl.tokenizers.added_tokens import AddedToken, AddedTokens
from keras_bert_impl.tokenizers.unicode import utf8
from keras_bert_impl.tokenizers.unicode.places import put
from keras_bert_impl.tokenizers.unicode.table import (
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
SPECIAL = [AddedToken(token, normalized=False, special=True) for token in SPECIAL_TOKENS]
MAX_CHARACTERS = 100  # a longer word is [UNK]
# Characters that are always separate words. Brackets may be part of a special token.
WORD_BREAKS = "".join(sorted(set(string.punctuation) - set("[]")))

# Cleaning removes control and private-use characters, so no text can produce words with these.
UNKNOWN_WORD, TEXT_END = "\1", "\2"  # first character of a too long word; text end in `Translation`
_FIRST_TOKEN = 0xF0000  # first and last character of the word for the first added token
_FIRST_UNREACHABLE = 0x100000
_FIRST_CJK = 0x3400  # among connecting punctuation, only that from U+FE00 on is greater
_NOTHING = make_entry(0, DROPPED, CLEANED)


@dataclasses.dataclass
class Words:
    """Words of a batch of texts, as flat tensors.

    Attributes:
        characters: int32 [characters], normalized code points of all texts.
        starts, ends: int32 [words], the span of each word in `characters`.
        originals: int32 [characters], the index of each one's original code point in all texts.
        texts: int64 [texts + 1], the index of each text's first word.
        text_starts: int32 [texts + 1], the index of each text's first code point.
    """

    characters: tf.Tensor
    starts: tf.Tensor
    ends: tf.Tensor
    originals: tf.Tensor
    texts: tf.Tensor
    text_starts: tf.Tensor

    def strings(self):
        """Returns the words as a string tensor [words]."""
        return utf8.encode(self.characters, self.starts, self.ends)

    def ordinary(self):
        """Returns the words as strings, without added tokens and words that are too long."""
        first = tf.gather(self.characters, self.starts)
        is_ordinary = (first > ord(UNKNOWN_WORD)) & (first < _FIRST_TOKEN)
        return tf.boolean_mask(self.strings(), is_ordinary)

    def per_text(self, pieces):
        """Regroups ragged [words, (tokens)] to [texts, (tokens)]."""
        splits = tf.gather(pieces.row_splits, self.texts)
        return tf.RaggedTensor.from_row_splits(pieces.values, splits, validate=False)

    def offsets(self, starts, ends):
        """Converts byte offsets in words, ragged [words, (tokens)], to characters in the texts."""
        size = 1 + sum(tf.cast(self.characters >= limit, tf.int64) for limit in (128, 2048, 65536))
        place = tf.cumsum(size, exclusive=True)  # [characters], byte offset of each
        word = tf.gather(tf.gather(place, self.starts), starts.value_rowids())  # [tokens]
        first = tf.searchsorted(place, word + starts.values)
        last = tf.searchsorted(place, word + ends.values) - 1
        starts = self.per_text(starts)
        text = tf.gather(self.text_starts, starts.value_rowids())  # [tokens]
        ends = starts.with_values(tf.gather(self.originals, last) + 1 - text)
        return starts.with_values(tf.gather(self.originals, first) - text), ends


def word_of_token(number):
    """Returns the word that represents an added token of two or more characters.

    Args:
        number: int, the index in the `tokens` of a `WordSplitter`.
    """
    return 2 * chr(_FIRST_TOKEN + number)


def unreachable_word(number):
    """Returns a word that no text contains, a different one for each number."""
    return chr(_FIRST_UNREACHABLE + number % 0xFFFE) * (1 + number // 0xFFFE)


class WordSplitter:
    """Splits texts into words as BERT does: clean, normalize, split at spaces and punctuation.

    Follows BertNormalizer and BertPreTokenizer of `tokenizers`, with added tokens matched first.

    Args:
        lowercase: bool.
        strip_accents: bool. Default None: same as `lowercase`.
        split_on_cjk: bool. Whether each Chinese character is a word. Default True.
        tokens: list of `AddedToken`. Default: BERT's special tokens.

    Attributes:
        written: dict of the content of each token to normalize to its normalized form.

    Example:
        from keras_bert_impl.tokenizers.wordpiece.words import WordSplitter
        words = WordSplitter(lowercase=True)(tf.constant(["Déjà vu!"]))
        words.strings()  # ["deja", "vu", "!"]
    """

    def __init__(self, lowercase, strip_accents=None, split_on_cjk=True, tokens=SPECIAL):
        self.table = UnicodeTable(lowercase, strip_accents, split_on_cjk)
        as_written = [number for number, token in enumerate(tokens) if not token.normalized]
        self._find = AddedTokens([tokens[number] for number in as_written])
        self._as_written = np.array(as_written, np.int32)
        self._find_normalized, self.written = None, {}
        normalized = [number for number, token in enumerate(tokens) if token.normalized]
        if normalized:
            self._prepare_normalized(tokens, normalized)

    def _prepare_normalized(self, tokens, normalized):
        with tf.init_scope():
            contents = self._normalized_texts([tokens[number].content for number in normalized])
            found = [(n, text) for n, (text, _) in zip(normalized, contents) if text]
            self.written = {
                tokens[n].content: text for n, (_, text) in zip(normalized, contents) if text
            }
        if found:
            self._normalized = np.array([number for number, _ in found], np.int32)
            self._find_normalized = AddedTokens(
                [dataclasses.replace(tokens[number], content=text) for number, text in found]
            )

    def _normalized_texts(self, texts):
        """Returns a list of (normalized text, the same with spaces around Chinese characters)."""
        code_points, text_starts = utf8.decode(tf.constant(texts))
        entries, originals = self._normalize(self.table.lookup(code_points))
        characters = [*map(chr, _codes(entries)[0].numpy())]
        spaced = [f" {c} " if apart else c for c, apart in zip(characters, _codes(entries)[1])]
        splits = np.searchsorted(originals, text_starts)
        return [
            ("".join(characters[first : end - 1]), "".join(spaced[first : end - 1]))
            for first, end in zip(splits, splits[1:])
        ]

    def __call__(self, texts):
        # The newline keeps words and added tokens from extending into the next text.
        code_points, text_starts = utf8.decode(texts)
        ends = text_starts[1:] - 1
        found = self._find(put(code_points, ends, CODE_POINTS))
        entries = _mark(self.table.lookup(code_points), self._as_written, *found)
        entries, originals = self._normalize(entries)
        if self._find_normalized is not None:
            codes, is_apart = _codes(entries)
            codes = put(codes, tf.searchsorted(originals, ends), CODE_POINTS)
            found = self._find_normalized(codes, is_apart)
            entries = _mark(entries, self._normalized, *found)
            entries, originals = _drop(entries, originals)
        return _split(entries, originals, text_starts)

    def _normalize(self, entries):
        """Returns (entries, originals) of the normalized text, with each one's original index."""
        originals = tf.range(tf.size(entries))
        entries, originals = self._expand(entries, originals)
        entries, originals = _order_marks(entries, originals)
        return _drop(entries, originals)

    def _expand(self, entries, originals):
        """Gives every character SLOTS positions if some character becomes several."""
        is_sequence = flags_of(entries, SEQUENCE) != 0

        def expand():
            rows = self.table.sequence(tf.where(is_sequence, value_of(entries), 0))
            nothing = tf.fill([tf.size(entries), SLOTS - 1], _NOTHING)
            single = tf.concat([entries[:, tf.newaxis], nothing], axis=1)
            slots = tf.where(is_sequence[:, tf.newaxis], rows, single)  # [characters, SLOTS]
            return tf.reshape(slots, [-1]), tf.repeat(originals, SLOTS)

        return tf.cond(tf.reduce_any(is_sequence), expand, lambda: (entries, originals))


def _mark(entries, numbers, starts, ends, found):
    """Turns each token into a word of two characters, or of one if the token has only one.

    Args:
        entries: int32 [characters].
        numbers: int32 array, the indices of the tokens searched for.
        starts, ends, found: As returned by `AddedTokens`.
    """
    entries = put(entries, tf.ragged.range(starts, ends).values, _NOTHING)
    codes = (_FIRST_TOKEN + tf.gather(numbers, found)) * make_entry(1, 0)
    entries = put(entries, ends - 1, codes + BREAK_AFTER)
    is_single = tf.cast(tf.equal(starts, ends - 1), tf.int32)
    return put(entries, starts, codes + BREAK_BEFORE + BREAK_AFTER * is_single)


def _codes(entries):
    """Returns (code points of the normalized text, bool: which have spaces around them there)."""
    is_space = tf.equal(flags_of(entries, DROPPED), DROPPED)
    codes = tf.where(is_space, ord(" "), value_of(entries))
    breaks = tf.not_equal(flags_of(entries, BREAK_BEFORE), 0)
    is_cjk = (codes >= _FIRST_CJK) & ((codes < 0xFE00) | (codes >= 0x10000))
    return codes, breaks & is_cjk


def _order_marks(entries, originals):
    """Puts runs of combining marks into canonical order if some mark survives normalization."""
    ranks = rank_of(entries)
    survives = (ranks > 0) & (flags_of(entries, DROPPED) == 0)

    def order():
        present = tf.where(ranks != CLEANED)[:, 0]
        kept_ranks, kept_originals = tf.gather(ranks, present), tf.gather(originals, present)
        runs = tf.cumsum(tf.cast(kept_ranks == 0, tf.int32))
        new_order = tf.argsort(runs * (CLEANED + 1) + kept_ranks, stable=True)
        # `tokenizers` assigns the original positions one by one, in the new order.
        is_first = tf.concat([[True], kept_originals[1:] != kept_originals[:-1]], axis=0)
        consumed = tf.cumsum(tf.cast(tf.gather(is_first, new_order), tf.int32)) - 1
        places = tf.gather(tf.boolean_mask(kept_originals, is_first), consumed)
        return tf.gather(entries, tf.gather(present, new_order)), places

    return tf.cond(tf.reduce_any(survives), order, lambda: (entries, originals))


def _drop(entries, originals):
    """Removes accents and the characters that cleaning removes, so that words are contiguous."""
    dropped = flags_of(entries, DROPPED | BREAK_BEFORE) == DROPPED

    def drop():
        kept = tf.where(tf.logical_not(dropped))[:, 0]
        return tf.gather(entries, kept), tf.gather(originals, kept)

    return tf.cond(tf.reduce_any(dropped), drop, lambda: (entries, originals))


def _split(entries, originals, text_starts):
    """Finds the words; one that is too long gets a first character that no token has."""
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
