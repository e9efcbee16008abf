"""Graphs of exported encoders: one for all signatures, and XLA's for static shapes."""

import contextlib
import functools
from collections.abc import Iterator, Sequence

import tensorflow as tf

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.models.encoder import encoders_run_by

Bucket = tuple[int, int]  # (rows, length)


@contextlib.contextmanager
def encoders_traced_once(buckets: Sequence[Bucket] = ()) -> Iterator[None]:
    """Traces encoders once for all graphs traced inside the context, for inference."""
    buckets = sorted(buckets, key=lambda bucket: bucket[0] * bucket[1])

    @functools.cache  # one function for all signatures that call the same encoder
    def graph(compute, by_xla):
        inference = functools.partial(compute, training=False)
        return tf.function(inference, jit_compile=by_xla, autograph=False)

    def run(compute, features):
        features = {name: value for name, value in features.items() if value is not None}
        plain = functools.partial(graph(compute, None), features)
        if not buckets:
            return plain()
        rows, length = tf.unstack(tf.shape(features["token_ids"]))
        branches = [_branch(graph(compute, True), features, rows, length, b) for b in buckets]
        fits = [
            (rows <= most) & (length <= longest) & (most * longest <= 2 * rows * length)
            for most, longest in buckets
        ]
        first = tf.argmax(tf.stack([*fits, True]), output_type=tf.int32)
        return tf.switch_case(first, [*branches, plain])

    with encoders_run_by(run):
        yield


def check_buckets(buckets: Sequence[Bucket], max_length: int) -> None:
    """Raises an `InputError` for empty buckets or buckets longer than `max_length` tokens."""
    for rows, length in buckets:
        if rows < 1 or not 1 <= length <= max_length:
            raise InputError(
                f"a bucket must have at least 1 row, and 1 to {max_length} tokens in a row. "
                f"Received: {rows}x{length}"
            )


def rows_of_part(buckets: Sequence[Bucket], rows: tf.Tensor, length: tf.Tensor) -> tf.Tensor:
    """Returns the number of rows per chunk that best fills a bucket, int32, in any graph."""
    fitting = [
        tf.where((length <= longest) & (longest <= 2 * length) & (rows <= 2 * most), most, 0)
        for most, longest in buckets
    ]
    largest = tf.reduce_max(fitting)
    return tf.where(largest > 0, largest, rows)


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
        return tf.nest.map_structure(cut, compiled(padded))

    return compute
