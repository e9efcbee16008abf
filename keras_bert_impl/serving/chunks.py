"""Processing of a request's rows in chunks, to bound its memory."""

import tensorflow as tf

from keras_bert_impl.serving.buckets import rows_of_part

_TOKENS = 8192  # per chunk, padding included: about 300 MB for BERT-base


def in_chunks(function, rows, tokens=None, buckets=()):
    """Applies a function to rows in chunks and concatenates the results; in any graph.

    The function never gets an empty batch, which some layers cannot handle.

    Args:
        function: `tf.function` of a dict of tensors; returns a dict of tensors, whose first
            dimension follows the order of the rows.
        rows: dict of tensors `[rows, ...]`.
        tokens: int32. Tokens per row. Default: that of `rows["token_ids"]`, which is
            `[rows, ..., length]`.
        buckets: list of (rows, length) that chunks of `token_ids` `[rows, length]` should fill; see
            `serving.buckets`.

    Returns:
        dict of tensors: the concatenated results of all chunks.
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
    is_none = tf.cast(tf.equal(count, 0), tf.int32)

    def one_more(number, arrays):
        part = {}
        for name, row in rows.items():
            # An empty batch becomes one row of zeros; its length may also have been 0.
            missing = is_none * tf.cast(tf.equal(tf.shape(row), 0), tf.int32)
            padding = tf.stack([tf.zeros_like(missing), missing], axis=1)
            padded = tf.pad(row[number * size : (number + 1) * size], padding)
            part[name] = tf.ensure_shape(padded, specs[name].shape)
        made = function(part)
        return number + 1, {name: array.write(number, made[name]) for name, array in arrays.items()}

    # Sequential: parallel chunks would need the memory that this saves.
    _, arrays = tf.while_loop(
        lambda number, _: number < num_chunks, one_more, (0, arrays), parallel_iterations=1
    )
    made = {name: array.concat() for name, array in arrays.items()}
    return {
        name: tf.ensure_shape(
            made[name][: (1 - is_none) * tf.shape(made[name])[0]], [None, *kind.shape[1:]]
        )
        for name, kind in kinds.items()
    }
