"""XLA compilation of exported encoders, which requires static shapes."""

import contextlib

import tensorflow as tf

from keras_bert_impl.io.errors import InputError


@contextlib.contextmanager
def compiled_in_buckets(encoders, buckets):
    """Compiles encoders with XLA, once per bucket, in graphs traced inside the context.

    Rows are padded to the smallest bucket that holds them, and the outputs are cut back. Rows that
    fit no bucket, or that fill less than half of it, run without XLA.

    Args:
        encoders: list of `Encoder`, or the results of its `with_outputs`.
        buckets: list of (rows, length). If empty, nothing is compiled.
    """
    if not buckets:
        yield
        return
    for encoder in encoders:
        encoder.call = _bucketed(encoder.call, buckets)  # shadows the class's method
    try:
        yield
    finally:
        for encoder in encoders:
            del encoder.call


def check_buckets(buckets, max_length):
    """Raises an `InputError` for empty buckets or buckets longer than `max_length` tokens."""
    for rows, length in buckets:
        if rows < 1 or not 1 <= length <= max_length:
            raise InputError(
                f"a bucket has 1 row or more, of 1 to {max_length} tokens. Received: "
                f"{rows}x{length}"
            )


def rows_of_part(buckets, rows, length):
    """Returns the number of rows per chunk that best fills a bucket, int32, in any graph.

    Args:
        buckets: list of (rows, length).
        rows: int32, rows per chunk without buckets. Returned unchanged if the buckets hold less
            than half of it, or if it would fill less than half of them.
        length: int32, row length.
    """
    fitting = [
        tf.where((length <= longest) & (longest <= 2 * length) & (rows <= 2 * most), most, 0)
        for most, longest in buckets
    ]
    largest = tf.reduce_max(fitting)
    return tf.where(largest > 0, largest, rows)


def _bucketed(plain, buckets):
    """Returns an `Encoder.call` that pads to buckets, in any graph."""
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
    """Returns a function without arguments that runs the encoder on rows padded to a bucket."""
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
