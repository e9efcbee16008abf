"""Splits a request into chunks, to limit memory and padding."""

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import tensorflow as tf

from keras_bert_impl.models.encoder import encoders_run_by
from keras_bert_impl.utils.errors import InputError

Bucket = tuple[int, int]  # (rows, length)


@contextlib.contextmanager
def encoders_traced_once(buckets: Sequence[Bucket] = ()) -> Iterator[Callable]:
    """Context in which each encoder is traced once, and all signatures use this graph.

    Yields the function that is passed to `encoders_run_by`.
    """
    buckets = sorted(buckets, key=lambda bucket: bucket[0] * bucket[1])

    @functools.cache  # All signatures of an encoder use one function.
    def graph(compute, by_xla):
        inference = functools.partial(compute, training=False)
        return tf.function(inference, jit_compile=by_xla, autograph=False)

    def run(compute, features):
        features = {name: value for name, value in features.items() if value is not None}
        plain = functools.partial(graph(compute, None), features)
        if not buckets:
            return plain()
        rows, length = tf.unstack(tf.shape(features["token_ids"]))
        branches = [_make_branch(graph(compute, True), features, rows, length, b) for b in buckets]
        fits = [
            (rows <= most) & (length <= longest) & (most * longest <= 2 * rows * length)
            for most, longest in buckets
        ]
        first = tf.argmax(tf.stack([*fits, True]), output_type=tf.int32)
        return tf.switch_case(first, [*branches, plain])

    with encoders_run_by(run):
        yield run


def check_buckets(buckets: Sequence[Bucket], max_length: int) -> None:
    """Raises `InputError` if a bucket is empty or longer than `max_length` tokens."""
    for rows, length in buckets:
        if rows < 1 or not 1 <= length <= max_length:
            raise InputError(
                f"a bucket must have at least 1 row, and 1 to {max_length} tokens in a row. "
                f"Received: {rows}x{length}"
            )


def rows_of_part(buckets: Sequence[Bucket], rows: tf.Tensor, length: tf.Tensor) -> tf.Tensor:
    """Returns the number of rows per chunk.

    This is the number of rows of the largest suitable bucket, or `rows` if no bucket is suitable.
    """
    fitting = [
        tf.where((length <= longest) & (longest <= 2 * length) & (rows <= 2 * most), most, 0)
        for most, longest in buckets
    ]
    largest = tf.reduce_max(fitting)
    return tf.where(largest > 0, largest, rows)


def _make_branch(compiled, features, rows, length, bucket):
    """Returns a function that pads the features to the shape of a bucket and runs the encoder."""
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


Function: TypeAlias = tf.types.experimental.PolymorphicFunction
Rows: TypeAlias = dict[str, tf.Tensor]

_TOKENS = 8192  # maximum tokens per chunk, including padding; about 300 MB for BERT-base
# On a CPU, a network call costs about as much time as this number of tokens; see
# docs/decisions/mixed-lengths.md.
_TOKENS_OF_A_RUN = 64


def in_chunks(
    function: Function,
    rows: Rows,
    tokens: tf.Tensor | None = None,
    buckets: Sequence[Bucket] = (),
) -> Rows:
    """Applies a function to chunks of rows and concatenates the results.

    Args:
        rows: tensors `[rows, ...]`.
        tokens: int32, the number of tokens per row. Default: the lengths of `rows["token_ids"]`,
            which is `[rows, ..., length]`.
        buckets: preferred shapes (rows, length) of `token_ids` in a chunk; see
            `encoders_traced_once`.
    """
    count = _count(rows)
    if tokens is None:
        tokens = tf.reduce_prod(tf.shape(rows["token_ids"])[1:])
    size = tf.maximum(_TOKENS // tf.maximum(tokens, 1), 1)
    if buckets and rows["token_ids"].shape.rank == 2:
        size = rows_of_part(buckets, tf.maximum(tf.minimum(size, count), 1), tokens)

    def take_chunk(start):
        return size, {name: row[start : start + size] for name, row in rows.items()}

    return _apply_in_turn(function, rows, take_chunk)


def in_chunks_by_length(function: Function, rows: Rows, least_length: int = 1) -> Rows:
    """Applies a function to chunks of rows with similar lengths, to reduce padding.

    Args:
        rows: tensors `[rows, ..., length]` from `sorted_by_length`.
    """
    lengths = _measure_lengths(rows["padding_mask"])
    shape = tf.shape(rows["padding_mask"])
    rows_of_one, full = tf.reduce_prod(shape[1:-1]), shape[-1]

    def take_chunk(start):
        length = tf.reduce_max(lengths[start : start + 1])  # The first row is the longest.
        length = tf.minimum(tf.maximum(length, least_length), full)
        padding = rows_of_one * tf.cumsum(tf.maximum(length - lengths[start:], 0))
        size = tf.reduce_sum(tf.cast(padding <= _TOKENS_OF_A_RUN, tf.int32))
        most = _TOKENS // tf.maximum(rows_of_one * length, 1)
        size = tf.maximum(tf.minimum(size, most), 1)
        end = start + size
        return size, {name: row[start:end, ..., :length] for name, row in rows.items()}

    return _apply_in_turn(function, rows, take_chunk)


def sorted_by_length(rows: Rows) -> tuple[Rows, tf.Tensor]:
    """Sorts rows by the position of their last token, longest first.

    Args:
        rows: tensors `[rows, ...]`; `padding_mask` `[rows, ..., length]` is required.

    Returns:
        (sorted rows, int32 `[rows]` with the original index of each row).
    """
    order = tf.argsort(_measure_lengths(rows["padding_mask"]), direction="DESCENDING", stable=True)
    return {name: tf.gather(row, order) for name, row in rows.items()}, order


def _measure_lengths(mask):
    """Returns the length of each row without the padding, int32 [rows].

    For a row without tokens, returns the padded length.
    """
    full = tf.shape(mask)[-1]
    places = tf.where(tf.not_equal(mask, 0), tf.range(1, full + 1), 0)
    last = tf.reduce_max(places, axis=list(range(1, mask.shape.rank)))
    return tf.where(last > 0, last, full)


def _count(rows):
    return tf.shape(next(iter(rows.values())))[0]


def _apply_in_turn(function: Function, rows: Rows, chunk: Callable) -> Rows:
    """Applies a function to the chunks one after the other, to limit memory."""
    specs = {name: tf.TensorSpec([None, *row.shape[1:]], row.dtype) for name, row in rows.items()}
    with tf.init_scope():  # All signatures use this graph.
        function = function.get_concrete_function(specs)
    kinds = function.structured_outputs
    arrays = {
        name: tf.TensorArray(
            kind.dtype,
            size=1,
            dynamic_size=True,
            element_shape=[None, *kind.shape[1:]],
            infer_shape=False,
        )
        for name, kind in kinds.items()
    }
    count = _count(rows)
    is_empty = tf.cast(tf.equal(count, 0), tf.int32)

    def run_next(number, start, arrays):
        size, part = chunk(start)
        for name, row in part.items():
            # An empty batch becomes one row of zeros, of at least length 1.
            missing = is_empty * tf.cast(tf.equal(tf.shape(row), 0), tf.int32)
            padding = tf.stack([tf.zeros_like(missing), missing], axis=1)
            part[name] = tf.ensure_shape(tf.pad(row, padding), specs[name].shape)
        outputs = function(part)
        written = {name: array.write(number, outputs[name]) for name, array in arrays.items()}
        return number + 1, start + size, written

    _, _, arrays = tf.while_loop(
        lambda number, start, _: (start < count) | tf.equal(number, 0),
        run_next,
        (0, 0, arrays),
        parallel_iterations=1,
    )
    results = {name: array.concat() for name, array in arrays.items()}
    return {
        name: tf.ensure_shape(
            result[: (1 - is_empty) * tf.shape(result)[0]], [None, *kinds[name].shape[1:]]
        )
        for name, result in results.items()
    }
