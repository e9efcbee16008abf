"""Processing of a request's rows in chunks, to bound its memory."""

from collections.abc import Sequence

import tensorflow as tf

from keras_bert_impl.serving.buckets import Bucket, rows_of_part

_TOKENS = 8192  # per chunk, padding included: about 300 MB for BERT-base


def in_chunks(
    function: tf.types.experimental.PolymorphicFunction,
    rows: dict[str, tf.Tensor],
    tokens: tf.Tensor | None = None,
    buckets: Sequence[Bucket] = (),
) -> dict[str, tf.Tensor]:
    """Applies a function to rows in chunks and concatenates the results; in any graph.

    The function never gets an empty batch, which some layers cannot handle.

    Args:
        function: `tf.function` of a dict of tensors; returns a dict of tensors, whose first
            dimension follows the order of the rows.
        rows: tensors `[rows, ...]`.
        tokens: int32, tokens per row. Default: that of `rows["token_ids"]`, which is
            `[rows, ..., length]`.
        buckets: shapes that chunks of `token_ids` `[rows, length]` should fill; see
            `serving.buckets`.
    """
    specs = {name: tf.TensorSpec([None, *row.shape[1:]], row.dtype) for name, row in rows.items()}
    with tf.init_scope():  # a separate graph, shared by all signatures
        function = function.get_concrete_function(specs)
    count = tf.shape(next(iter(rows.values())))[0]
    if tokens is None:
        tokens = tf.reduce_prod(tf.shape(rows["token_ids"])[1:])
    size = tf.maximum(_TOKENS // tf.maximum(tokens, 1), 1)
    if buckets and rows["token_ids"].shape.rank == 2:
        size = rows_of_part(buckets, tf.maximum(tf.minimum(size, count), 1), tokens)
    num_chunks = tf.maximum((count + size - 1) // size, 1)
    kinds = function.structured_outputs
    arrays = {
        name: tf.TensorArray(
            kind.dtype, num_chunks, element_shape=[None, *kind.shape[1:]], infer_shape=False
        )
        for name, kind in kinds.items()
    }
    is_empty = tf.cast(tf.equal(count, 0), tf.int32)

    def next_chunk(number, arrays):
        part = {}
        for name, row in rows.items():
            # An empty batch becomes one row of zeros; its length may also have been 0.
            missing = is_empty * tf.cast(tf.equal(tf.shape(row), 0), tf.int32)
            padding = tf.stack([tf.zeros_like(missing), missing], axis=1)
            padded = tf.pad(row[number * size : (number + 1) * size], padding)
            part[name] = tf.ensure_shape(padded, specs[name].shape)
        outputs = function(part)
        return number + 1, {n: array.write(number, outputs[n]) for n, array in arrays.items()}

    # Sequential: parallel chunks would need the memory that this saves.
    _, arrays = tf.while_loop(
        lambda number, _: number < num_chunks, next_chunk, (0, arrays), parallel_iterations=1
    )
    results = {name: array.concat() for name, array in arrays.items()}
    return {
        name: tf.ensure_shape(
            result[: (1 - is_empty) * tf.shape(result)[0]], [None, *kinds[name].shape[1:]]
        )
        for name, result in results.items()
    }
