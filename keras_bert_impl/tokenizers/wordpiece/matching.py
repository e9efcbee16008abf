"""Splits words into WordPiece tokens.

TensorFlow Text is used if it is installed. Otherwise, core TensorFlow operations return the same
tokens.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from keras_bert_impl.tokenizers.graphs import numbers_of, places_of, put
from keras_bert_impl.tokenizers.unicode import utf8
from keras_bert_impl.tokenizers.wordpiece.words import (
    MAX_CHARACTERS,
    SPECIAL_TOKENS,
    Words,
    word_of_token,
)
from keras_bert_impl.utils.optional_libraries import tensorflow_text

_PREFIX = "##"
# Two odd multipliers for hashes, and the value added to the hash of a token that continues a word.
_BASE, _OTHER, _CONTINUED = 0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_MODULUS, _BLOCK = 1 << 64, 1024
_HASH_SHIFT = 36  # The upper bits of a product depend on all bits of its factors.
_ROUNDS = 500  # A table of 250,000 tokens needs fewer than 100 rounds.
# A match is an int32 with the length in the upper bits and the token in the lower bits.
_LENGTH_SHIFT = 24


_UNKNOWN = word_of_token(SPECIAL_TOKENS.index("[UNK]"))


def default(tokens: list[str], ids: np.ndarray) -> "TextMatcher | CoreMatcher":
    return (CoreMatcher if tensorflow_text is None else TextMatcher)(tokens, ids)


class TextMatcher:
    """Splits words into tokens with TensorFlow Text.

    Args:
        tokens: the vocabulary.
        ids: int32 [tokens].
    """

    def __init__(self, tokens: list[str], ids: np.ndarray) -> None:
        self._ids = ids
        with tf.init_scope():
            self._pieces: Any = tensorflow_text.FastWordpieceTokenizer(
                vocab=tokens,
                unknown_token=_UNKNOWN,
                max_bytes_per_word=4 * MAX_CHARACTERS,
                token_out_type=tf.int32,
                no_pretokenization=True,
            )

    def ids_of(self, words: tf.Tensor) -> tf.RaggedTensor:
        """Splits a string tensor [words] into ids, ragged [words, (tokens)]."""
        return self._tokenize_strings(words)[0]

    def __call__(self, words: Words) -> tuple[tf.RaggedTensor, tf.Tensor, tf.Tensor]:
        """Returns ids, ragged int32 [words, (tokens)], and starts and ends in characters."""
        ids, starts, ends = self._tokenize_strings(words.strings())
        sizes = tf.cast(utf8.byte_lengths(words.characters), tf.int64)
        places = tf.cumsum(sizes, exclusive=True)  # [characters], in bytes
        begin = tf.gather(tf.gather(places, words.starts), numbers_of(starts.row_lengths()))
        spans = (tf.searchsorted(places, begin + offsets.values) for offsets in (starts, ends))
        return ids, *spans

    def _tokenize_strings(self, strings):
        ids, *spans = self._pieces.tokenize_with_offsets(strings)
        return ids.with_values(tf.gather(self._ids, ids.values)), *spans


class _Pieces(NamedTuple):
    """The tokens of a list of words, as int32 vectors.

    Attributes:
        tokens: [tokens], the slot of each token in the hash table of `CoreMatcher`.
        starts, ends: [tokens], start and end of each token, in characters of its word.
        splits: [words + 1], the index of each word's first token.
    """

    tokens: tf.Tensor
    starts: tf.Tensor
    ends: tf.Tensor
    splits: tf.Tensor


class CoreMatcher:
    """Splits words into tokens by hashes of substrings, with core TensorFlow operations.

    Words that are tokens themselves are looked up first. Every other distinct word is split from
    left to right into the longest matching tokens.

    Let p[k] be the sum of c[i] * B^(i + 1) over the first k characters c, modulo 2^64. The hash of
    the characters from s to e is (p[e] - p[s]) * B^-s. The tokens are in a hash table with two
    possible slots per token (cuckoo hashing, Pagh and Rodler 2004).
    """

    def __init__(self, tokens: list[str], ids: np.ndarray) -> None:
        contents = [token.removeprefix(_PREFIX) for token in tokens]
        lengths = np.array([*map(len, contents)])
        self._longest = min(int(lengths.max()), MAX_CHARACTERS)
        keys = _hash_strings(contents, [token.startswith(_PREFIX) for token in tokens])
        slots = _assign_slots(keys, np.flatnonzero((lengths > 0) & (lengths <= self._longest)))
        self._unknown = int(np.flatnonzero(slots == tokens.index(_UNKNOWN))[0])
        self._keys, self._ids = keys[slots].view(np.int64), ids[slots]

    @functools.cached_property
    def ids_of(self) -> Callable[[tf.Tensor], tf.RaggedTensor]:
        """See `TextMatcher.ids_of`."""

        def ids_of(words):
            characters, starts = utf8.decode(words)  # A newline follows each word.
            tokens = self._split_words(characters, starts[:-1], starts[1:] - 1)
            return self._convert_to_ids(tokens)

        return tf.function(ids_of, [tf.TensorSpec([None], tf.string)], autograph=False)

    def __call__(self, words: Words) -> tuple[tf.RaggedTensor, tf.Tensor, tf.Tensor]:
        """See `TextMatcher`."""
        pieces = self._split_words(words.characters, words.starts, words.ends)
        begin = tf.gather(words.starts, numbers_of(pieces.splits[1:] - pieces.splits[:-1]))
        return self._convert_to_ids(pieces), begin + pieces.starts, begin + pieces.ends

    def _convert_to_ids(self, pieces):
        ids, splits = tf.gather(self._ids, pieces.tokens), tf.cast(pieces.splits, tf.int64)
        return tf.RaggedTensor.from_row_splits(ids, splits, validate=False)

    def _split_words(self, characters, starts, ends):
        """Splits the words from `starts` to `ends`, int32 [words], into tokens."""
        find, hashes = _Lookup(self._keys), _Hashes(characters, self._longest)
        keys = hashes.of(starts, ends)
        slots, is_token = find(keys)
        tokens = tf.reduce_max(tf.where(is_token, slots, -1), axis=0)  # [words]
        unmatched = places_of(tokens < 0)
        distinct, number = tf.unique(tf.gather(keys, unmatched))
        examples = put(tf.zeros_like(distinct, tf.int32), number, unmatched)
        parts = self._search(find, hashes, tf.gather(starts, examples), tf.gather(ends, examples))
        # A word is a single token, or has the tokens of an equal distinct word.
        num_words = tf.size(starts)
        counts = tf.gather(parts.splits[1:] - parts.splits[:-1], number)
        counts = put(tf.ones_like(starts), unmatched, counts)
        splits = tf.concat([[0], tf.cumsum(counts)], axis=0)
        source = put(tf.range(num_words), unmatched, num_words + tf.gather(parts.splits, number))
        word = numbers_of(counts)  # [tokens]
        place = tf.gather(source - splits[:-1], word) + tf.range(tf.size(word))
        whole = tokens, tf.zeros_like(starts), ends - starts
        pieces = (tf.gather(tf.concat(pair, axis=0), place) for pair in zip(whole, parts))
        return _Pieces(*pieces, splits)

    def _search(self, find, hashes, first, last):
        """Splits distinct words from `first` to `last`, int32 [words], none of which is a token."""
        size = tf.size(first)
        room = tf.reduce_max(tf.concat([[0], last - first], axis=0))
        lengths = 1 + tf.range(tf.minimum(room, self._longest))
        marks = tf.bitwise.left_shift(lengths, _LENGTH_SHIFT)

        def step(salt, state, records):
            numbers, starts, limits = tf.unstack(state, num=3)
            begin = starts[:, tf.newaxis]
            ends = begin + lengths  # [words, lengths]
            tokens, is_token = find(hashes.of(begin, ends) + salt)  # [2, words, lengths]
            is_token &= ends <= limits[:, tf.newaxis]
            best = tf.reduce_max(tf.where(is_token, marks + tokens, 0), axis=[0, 2])
            ends = starts + tf.bitwise.right_shift(best, _LENGTH_SHIFT)
            records = tf.concat([records, tf.stack([numbers, starts, best])], axis=1)
            goes_on = tf.squeeze(tf.where((best > 0) & (ends < limits)), axis=1)
            state = tf.gather(tf.stack([numbers + size, ends, limits]), goes_on, axis=1)
            return _wrap_int64(_CONTINUED), state, records

        rows = tf.TensorShape([3, None])
        *_, records = tf.while_loop(
            lambda salt, state, records: tf.size(state) > 0,
            step,
            (_wrap_int64(0), tf.stack([tf.range(size), first, last]), tf.zeros([3, 0], tf.int32)),
            (tf.TensorShape([]), rows, rows),
        )
        numbers, starts, matches = tf.unstack(records, num=3)
        turn, word = numbers // tf.maximum(size, 1), numbers % tf.maximum(size, 1)
        failed = tf.gather(word, places_of(tf.equal(matches, 0)))
        is_known = put(tf.fill([size], True), failed, False)
        counts = tf.where(is_known, tf.math.bincount(word, minlength=size, maxlength=size), 1)
        splits = tf.concat([[0], tf.cumsum(counts)], axis=0)
        # A word with an unknown character becomes a single unknown token.
        is_matched = tf.gather(is_known, word)
        lengths = tf.bitwise.right_shift(matches, _LENGTH_SHIFT)
        starts -= tf.gather(first, word)
        ends = tf.where(is_matched, starts + lengths, tf.gather(last - first, word))
        ids = tf.where(
            is_matched, matches - tf.bitwise.left_shift(lengths, _LENGTH_SHIFT), self._unknown
        )
        remaining = places_of(is_matched | tf.equal(turn, 0))
        place = tf.gather(tf.gather(splits, word) + turn, remaining)
        parts = tf.gather(tf.stack([ids, starts, ends], axis=1), remaining)
        parts = tf.scatter_nd(place[:, tf.newaxis], parts, [splits[-1], 3])
        return _Pieces(*tf.unstack(parts, num=3, axis=1), splits)


class _Lookup:
    def __init__(self, table):
        self._table = tf.constant(table)

    def __call__(self, keys):
        """Returns the two slots of each hash, and whether they contain the hash: both [2, ...]."""
        slots = tf.bitwise.right_shift(tf.stack([keys, keys * _wrap_int64(_OTHER)]), _HASH_SHIFT)
        slots = tf.cast(tf.bitwise.bitwise_and(slots, self._table.shape[0] - 1), tf.int32)
        return slots, tf.equal(tf.gather(self._table, slots), keys)


class _Hashes:
    def __init__(self, characters, margin):
        size = tf.size(characters)
        products = tf.cast(characters, tf.int64) * _compute_powers(_BASE, _BASE, size)[:size]
        nothing = tf.zeros([margin], tf.int64)  # Substrings may extend beyond the characters.
        self._sums = tf.concat([[0], tf.cumsum(products), nothing], axis=0)
        self._inverses = _compute_powers(1, pow(_BASE, -1, _MODULUS), size)

    def of(self, starts, ends):
        difference = tf.gather(self._sums, ends) - tf.gather(self._sums, starts)
        return difference * tf.gather(self._inverses, starts)


def _compute_powers(first, base, count):
    """Returns first * base^i modulo 2^64 for i = 0, 1, 2, ...: int64, at least `count` values."""
    low = np.array([first, *[base] * (_BLOCK - 1)], np.uint64).cumprod()
    high = tf.fill([(count + _BLOCK - 1) // _BLOCK], _wrap_int64(pow(base, _BLOCK, _MODULUS)))
    high = tf.math.cumprod(high, exclusive=True)
    return tf.reshape(high[:, tf.newaxis] * low.view(np.int64), [-1])


def _wrap_int64(number):
    return np.uint64(number).astype(np.int64)


def _hash_strings(strings, continue_word):
    codes = np.array([*map(ord, "".join(strings))], np.uint64)
    lengths = np.array([*map(len, strings)])
    starts = np.cumsum(lengths) - lengths
    powers = np.full(1 + lengths.max(), _BASE, np.uint64).cumprod()
    products = codes * powers[np.arange(len(codes)) - np.repeat(starts, lengths)]
    sums = np.append(np.uint64(0), products.cumsum())
    salts = np.where(continue_word, np.uint64(_CONTINUED), np.uint64(0))
    return sums[starts + lengths] - sums[starts] + salts


def _assign_slots(keys, tokens):
    """Returns int32 [2^n]: a hash table with each token in one of its two slots."""
    smallest = (2 * len(keys)).bit_length()
    for bits in range(smallest, smallest + 4):  # The first size is almost always large enough.
        slots = _place_tokens(keys, tokens, 1 << bits)
        if slots is not None:
            return slots
    raise AssertionError("no table size has a free slot for every token")


def _place_tokens(keys, tokens, size):
    """Returns a table of `size` slots, or None if the tokens do not fit."""
    both = np.stack([keys, keys * np.uint64(_OTHER)]) >> np.uint64(_HASH_SHIFT)
    both = (both & np.uint64(size - 1)).astype(np.int64)
    choice = np.zeros(len(keys), np.int64)
    moved = tokens[:0]
    for _ in range(_ROUNDS):
        slots = np.full(size, tokens[0], np.int32)
        slots[both[choice[tokens], tokens]] = tokens
        # A token that is moved to its other slot evicts the token there.
        slots[both[choice[moved], moved]] = moved
        moved = tokens[slots[both[choice[tokens], tokens]] != tokens]
        if not len(moved):
            return slots
        choice[moved] ^= 1
    return None
