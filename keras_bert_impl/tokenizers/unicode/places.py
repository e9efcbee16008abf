"""Positions in flat vectors, in the graph: where a mask is true, and non-overlapping matches."""

import tensorflow as tf


def places_of(mask):
    """Returns the positions at which a bool vector is true, int32."""
    return tf.cast(tf.squeeze(tf.where(mask), axis=1), tf.int32)


def chosen(values, mask):
    """Returns the values where a mask is true; `tf.boolean_mask` makes larger graphs."""
    return tf.gather(values, places_of(mask))


def put(values, places, new):
    """Returns the values with new ones (or one for all) at the given positions."""
    new = tf.broadcast_to(new, tf.shape(places))
    return tf.tensor_scatter_nd_update(values, places[:, tf.newaxis], new)


def leftmost(starts, ends):
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
