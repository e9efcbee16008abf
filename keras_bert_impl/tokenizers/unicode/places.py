"""Positions in flat vectors, in the graph: masks, neighbors, and non-overlapping matches."""

from typing import Any

import tensorflow as tf


def places_of(mask: tf.Tensor) -> tf.Tensor:
    """Returns the positions at which a bool vector is true, int32."""
    return tf.cast(tf.squeeze(tf.where(mask), axis=1), tf.int32)


def chosen(values: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Returns the values where a mask is true; `tf.boolean_mask` makes larger graphs."""
    return tf.gather(values, places_of(mask))


def put(values: tf.Tensor, places: tf.Tensor, new: Any) -> tf.Tensor:
    """Returns the values with new ones (or one for all) at the given positions."""
    new = tf.broadcast_to(new, tf.shape(places))
    return tf.tensor_scatter_nd_update(values, places[:, tf.newaxis], new)


def numbers_of(counts: tf.Tensor) -> tf.Tensor:
    """Returns the number of the part of each item, for parts of the given sizes: 0 0 2 for 2 0 1."""
    starts = tf.cumsum(counts, exclusive=True)[1:]
    ends = tf.reduce_sum(counts)
    begun = tf.math.unsorted_segment_sum(tf.ones_like(starts), starts, ends + 1)
    return tf.cumsum(begun[:-1])


def before(values: tf.Tensor, fill: int | bool, distance: int = 1) -> tf.Tensor:
    """Returns the value some positions earlier, and `fill` at the first positions."""
    filling = tf.fill([distance], tf.cast(fill, values.dtype))
    return tf.concat([filling, values], axis=0)[: tf.size(values)]


def after(values: tf.Tensor, fill: int | bool, distance: int = 1) -> tf.Tensor:
    """Returns the value some positions later, and `fill` at the last positions."""
    filling = tf.fill([distance], tf.cast(fill, values.dtype))
    return tf.concat([values[distance:], filling], axis=0)[: tf.size(values)]


def token_ends(starts: tf.Tensor, words: tf.Tensor, word_ends: tf.Tensor) -> tf.Tensor:
    """Returns where tokens end: where the next one of their word begins, or where the word ends.

    Args:
        starts: int32 [tokens].
        words: int64 [tokens], the word of each token, ascending.
        word_ends: int32 [words].
    """
    is_last = after(words, -1) != words
    return tf.where(is_last, tf.gather(word_ends, words), after(starts, 0))


def without_overlaps(pairs: tf.Tensor) -> tf.Tensor:
    """Keeps the first, third, ... of consecutive positions, for pairs of equal tokens as in aaa."""
    places = tf.range(tf.size(pairs))
    begins = pairs & ~before(pairs, False)
    begun = tf.concat([chosen(places, begins), [0]], axis=0)
    run = tf.maximum(tf.cumsum(tf.cast(begins, tf.int32)) - 1, 0)
    return pairs & ((places - tf.gather(begun, run)) % 2 == 0)


def leftmost(starts: tf.Tensor, ends: tf.Tensor) -> tf.Tensor:
    """Selects the non-overlapping matches that a search from the left finds.

    Args:
        starts: int32 [matches], ascending. The last position from which a search finds the match.
        ends: int32 [matches], each after its start. Where the search continues.

    Returns:
        bool [matches].
    """
    size = tf.size(starts)
    overlap = tf.reduce_any(starts[1:] < ends[:-1])
    # Doubling: after n rounds 2^n matches are found, and `jumps` skips as many.
    jumps = tf.concat([tf.searchsorted(starts, ends), [size]], axis=0)
    found = tf.equal(tf.range(size + 1), 0) | ~overlap

    def double(found, jumps):
        return put(found, chosen(jumps, found), True), tf.gather(jumps, jumps)

    found, _ = tf.while_loop(
        lambda found, jumps: overlap & (jumps[0] < size), double, (found, jumps)
    )
    return found[:-1]
