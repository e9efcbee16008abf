"""Computes masking units (tokens, words or several consecutive words) in a TensorFlow graph.

B is the batch size, L the sequence length.
"""

from typing import Any

import numpy as np
import tensorflow as tf

_RESOLUTION = 1 << 30

# Unit -> the probability of each number of words, starting with one word.
WORDS_OF = {
    unit: weights / weights.sum()
    for unit, weights in {"ngram": 1 / np.arange(1, 4), "span": 0.8 ** np.arange(10)}.items()
}
_GAMMA = 0x9E3779B97F4A7C15


def units_of(
    unit: str, is_special: tf.Tensor, is_word_start: tf.Tensor | None, keys: tf.Tensor, counter: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """Computes the masking unit that contains each token.

    Each special token and each padding token is a unit of one token.

    Returns:
        (starts, ends), int32 [B, L]: the masking unit of each token as a range [start, end).

    Source: "ngram": Lan et al. 2019, "ALBERT", section 4.1, one to three words; "span": Joshi et
    al. 2019, "SpanBERT", section 3.1, a geometric distribution (0.2) truncated after ten words.
    """
    if unit == "token":
        return _find_bounds(tf.ones_like(is_special))
    after_special = tf.pad(is_special[:, :-1], [[0, 0], [1, 0]], constant_values=True)
    is_segment_start = is_special | after_special
    is_start = is_segment_start | is_word_start
    if unit in WORDS_OF:
        words = _draw_words(WORDS_OF[unit], is_special.shape[1], keys, counter)
        is_start = _join_words(is_start, is_segment_start, words)
    return _find_bounds(is_start)


def take_units(
    is_open: tf.Tensor,
    sizes: tf.Tensor,
    places_in_unit: tf.Tensor,
    first: tf.Tensor,
    last: tf.Tensor,
    left: tf.Tensor,
) -> tf.Tensor:
    """Chooses units in the given order, at most `left` tokens. Skips units that do not fit."""

    def take_round(is_open, is_chosen, budgets):
        opened = tf.cumsum(tf.cast(is_open, tf.int32), axis=1)
        before = tf.gather(opened - tf.cast(is_open, tf.int32), first, batch_dims=1)
        num_tokens = opened - before - 1 - places_in_unit + sizes  # tokens if chosen
        is_taken = is_open & (num_tokens <= budgets)
        num_taken = tf.cumsum(tf.cast(is_taken, tf.int32), axis=1)
        before = tf.gather(num_taken - tf.cast(is_taken, tf.int32), first, batch_dims=1)
        budgets -= tf.gather(num_taken, last, batch_dims=1) - before
        return is_open & ~is_taken & (sizes <= budgets), is_chosen | is_taken, budgets

    is_open &= sizes <= left
    _, is_chosen, _ = tf.while_loop(
        lambda is_open, *_: tf.reduce_any(is_open),
        take_round,
        (is_open, tf.zeros_like(is_open), left),
    )
    return is_chosen


def _locate_units(is_start):
    """Returns the unit starts [B, L + 1], padded with L, and each token's unit index [B, L]."""
    length = is_start.shape[1]
    places = tf.sort(tf.where(is_start, tf.range(length), length), axis=1)
    number = tf.cumsum(tf.cast(is_start, tf.int32), axis=1) - 1
    return tf.pad(places, [[0, 0], [0, 1]], constant_values=length), number


def _find_bounds(is_start):
    places, number = _locate_units(is_start)
    return tf.gather(places, number, batch_dims=1), tf.gather(places, number + 1, batch_dims=1)


def _draw_words(probabilities, length, keys, counter):
    """Draws the number of words in a unit that starts at each token: int32 [B, L]."""
    draws = below(random_bits(keys, counter + tf.range(length, dtype=tf.int64)), _RESOLUTION)
    limits = np.round(np.cumsum(probabilities)[:-1] * _RESOLUTION).astype(np.int64)
    return 1 + tf.reduce_sum(tf.cast(draws[..., tf.newaxis] >= limits, tf.int32), axis=-1)


def _join_words(is_word_start, is_segment_start, words):
    """Joins consecutive words to units. Returns whether each token is the start of a unit."""
    length = words.shape[1]
    places, number = _locate_units(is_word_start)
    _, segment_ends = _find_bounds(is_segment_start)
    after = tf.gather(places, tf.minimum(number + words, length), batch_dims=1)
    after = tf.minimum(after, segment_ends)  # start of the next unit [B, L]
    # Pointer jumping marks all units reachable from the first units, in jumps of 1, 2, 4, 8, ...
    # units. All chains end at L.
    after = tf.pad(after, [[0, 0], [0, 1]], constant_values=length)
    is_start = tf.pad(is_segment_start, [[0, 0], [0, 1]])
    for _ in range(int(np.ceil(np.log2(length)))):
        is_start |= _move_flags(is_start, after)
        after = tf.gather(after, after, batch_dims=1)
    return is_start[:, :length]


def _move_flags(flags, places):
    batch, width = tf.shape(flags)[0], flags.shape[1]
    row = width * tf.range(batch)[:, tf.newaxis]
    counts = tf.math.unsorted_segment_sum(tf.cast(flags, tf.int32), places + row, batch * width)
    return tf.reshape(counts, [batch, width]) > 0


def row_keys(*name: Any) -> tf.Tensor:
    """Hashes integers with broadcastable shapes, such as `(seed, epochs, row_ids)`, to uint64."""
    key = tf.constant(0, tf.uint64)
    for part in name:
        key = _mix(key + tf.cast(tf.cast(part, tf.int64), tf.uint64) + _u64(_GAMMA))
    return key


def random_bits(keys: tf.Tensor, counters: tf.Tensor) -> tf.Tensor:
    """Returns a random uint64 for each pair of key and counter. Keys and counters are broadcast.

    Source: Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators"
    (SplitMix64): the value at `counter` of the stream that starts at `key`.
    """
    return _mix(keys + tf.cast(counters + 1, tf.uint64) * _u64(_GAMMA))


def below(bits: tf.Tensor, limit: int) -> tf.Tensor:
    """Converts 64 random bits to a random int64 in [0, limit). `limit` is at most 2³¹."""
    upper = tf.bitwise.right_shift(bits, _u64(32))
    return tf.cast(tf.bitwise.right_shift(upper * tf.cast(limit, tf.uint64), _u64(32)), tf.int64)


def permutation(key: tf.Tensor, count: Any) -> tf.Tensor:
    """Returns a random permutation of `range(count)`, int32 [count]. `key` is a scalar seed."""
    bits = random_bits(key, tf.range(tf.cast(count, tf.int64)))
    return tf.argsort(tf.cast(tf.bitwise.right_shift(bits, _u64(1)), tf.int64), stable=True)


def _mix(x):
    x = tf.bitwise.bitwise_xor(x, tf.bitwise.right_shift(x, _u64(30))) * _u64(0xBF58476D1CE4E5B9)
    x = tf.bitwise.bitwise_xor(x, tf.bitwise.right_shift(x, _u64(27))) * _u64(0x94D049BB133111EB)
    return tf.bitwise.bitwise_xor(x, tf.bitwise.right_shift(x, _u64(31)))


def _u64(value):
    return tf.constant(value, tf.uint64)
