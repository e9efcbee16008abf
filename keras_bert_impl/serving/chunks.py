"""Work on the rows of a request a part at a time, so that no request needs more memory than one."""

import tensorflow as tf

from keras_bert_impl.serving.buckets import rows_of_part

_TOKENS = 8192  # of a part, padding included: on BERT-base some 300 MB


def in_chunks(function, rows, tokens=None, buckets=()):
    """What a function makes of rows, a few of them at a time; in any graph.

    The function never sees a batch of none, which not every layer takes.

    Args:
        function: `tf.function` of a dict of tensors; returns a dict of tensors, each of which has
            in its first dimension what belongs to the rows, in their order.
        rows: dict of tensors `[rows, ...]`.
        tokens: int32, how many tokens a row counts for. Default: those of `rows["token_ids"]`,
            which is `[rows, ..., length]`.
        buckets: list of (rows, length), as of `serving.buckets`, which parts of `token_ids`
            `[rows, length]` are to fill.

    Returns:
        dict of tensors: the results of all parts, one behind the other.
    """
    specs = {name: tf.TensorSpec([None, *row.shape[1:]], row.dtype) for name, row in rows.items()}
    with tf.init_scope():  # a graph of its own, which all signatures share
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
            # Of none, one of zeros; its length, too, may have been none.
            missing = is_none * tf.cast(tf.equal(tf.shape(row), 0), tf.int32)
            padding = tf.stack([tf.zeros_like(missing), missing], axis=1)
            padded = tf.pad(row[number * size : (number + 1) * size], padding)
            part[name] = tf.ensure_shape(padded, specs[name].shape)
        made = function(part)
        return number + 1, {name: array.write(number, made[name]) for name, array in arrays.items()}

    # One after the other: side by side they would need the memory that this is to save.
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
