"""Encoders of an export compiled by XLA, which computes static shapes alone."""

import contextlib

import tensorflow as tf

from keras_bert_impl.io.errors import InputError


@contextlib.contextmanager
def compiled_in_buckets(encoders, buckets):
    """Graphs that are traced inside have encoders compiled by XLA, once for each bucket.

    Rows are padded to the smallest bucket that holds them, and its outputs cut to them again. Rows
    that no bucket holds, or that fill less than half of it, are computed as without this.

    Args:
        encoders: list of `Encoder`, or what its `with_outputs` returns.
        buckets: list of (rows, length). Of none, nothing is compiled.
    """
    if not buckets:
        yield
        return
    for encoder in encoders:
        encoder.call = _bucketed(encoder.call, buckets)  # until it is deleted, before the class's
    try:
        yield
    finally:
        for encoder in encoders:
            del encoder.call


def check_buckets(buckets, max_length):
    """Raises an `InputError` for buckets that hold nothing, or more than `max_length` tokens."""
    for rows, length in buckets:
        if rows < 1 or not 1 <= length <= max_length:
            raise InputError(
                f"a bucket has 1 row or more, of 1 to {max_length} tokens. Received: "
                f"{rows}x{length}"
            )


def rows_of_part(buckets, rows, length):
    """int32, in any graph: into parts of how many rows, to fill a bucket, many rows are to be cut.

    Args:
        buckets: list of (rows, length).
        rows: int32, of a part without buckets. It stays where these hold less than half of it, or
            where it would fill less than half of them.
        length: int32, of the rows.
    """
    fitting = [
        tf.where((length <= longest) & (longest <= 2 * length) & (rows <= 2 * most), most, 0)
        for most, longest in buckets
    ]
    largest = tf.reduce_max(fitting)
    return tf.where(largest > 0, largest, rows)


def _bucketed(plain, buckets):
    """`Encoder.call` that pads to buckets, in any graph."""
    compiled = tf.function(plain, jit_compile=True, autograph=False)
    buckets = sorted(buckets, key=lambda bucket: bucket[0] * bucket[1])

    def call(features, training=None, mask=None):
        features = {name: value for name, value in features.items() if value is not None}
        rows, length = tf.unstack(tf.shape(features["token_ids"]))
        branches = [_branch(compiled, features, rows, length, bucket) for bucket in buckets]
        holds = [
            (rows <= most) & (length <= longest) & (most * longest <= 2 * rows * length)
            for most, longest in buckets
        ]
        first = tf.argmax(tf.stack([*holds, True]), output_type=tf.int32)
        return tf.switch_case(first, [*branches, lambda: plain(features, training=False)])

    return call


def _branch(compiled, features, rows, length, bucket):
    """Function without arguments: what the encoder says of rows, padded to a bucket."""
    padding = [[0, bucket[0] - rows], [0, bucket[1] - length]]

    def cut(output):
        return output[:rows, :length] if output.shape.rank == 3 else output[:rows]

    def compute():
        padded = {
            name: tf.ensure_shape(tf.pad(feature, padding), bucket)
            for name, feature in features.items()
        }
        return tf.nest.map_structure(cut, compiled(padded, training=False))

    return compute
