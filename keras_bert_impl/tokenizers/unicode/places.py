"""Places in flat vectors, in graph: where something is true, and which matches a search finds."""

import tensorflow as tf


def places_of(mask):
    """int32 [true ones], where a bool vector is true."""
    return tf.cast(tf.squeeze(tf.where(mask), axis=1), tf.int32)


def chosen(values, mask):
    """Those of the values where a bool vector is true; `tf.boolean_mask` makes larger graphs."""
    return tf.gather(values, places_of(mask))


def put(values, places, new):
    """The values, with new ones (or one for all) at the places."""
    new = tf.broadcast_to(new, tf.shape(places))
    return tf.tensor_scatter_nd_update(values, places[:, tf.newaxis], new)


def leftmost(starts, ends):
    """Of matches of a pattern those that a search from the left finds, each after the one before.

    Args:
        starts: int32 [matches], ascending: the last place where the match may begin.
        ends: int32 [matches], each after its start: where the search goes on.

    Returns:
        bool [matches].
    """
    size = tf.size(starts)
    overlap = tf.reduce_any(starts[1:] < ends[:-1])
    # Doubling: after n rounds 2^n matches are found, and `jumps` leads as many further.
    jumps = tf.concat([tf.searchsorted(starts, ends), [size]], axis=0)
    found = tf.equal(tf.range(size + 1), 0) | ~overlap

    def double(found, jumps):
        return put(found, chosen(jumps, found), True), tf.gather(jumps, jumps)

    found, _ = tf.while_loop(
        lambda found, jumps: overlap & (jumps[0] < size), double, (found, jumps)
    )
    return found[:-1]
