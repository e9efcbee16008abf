"""Batches whose number of rows is no multiple of the number of JAX devices.

JAX distributes an array only in equal parts. A batch such as the last one of an epoch is therefore
sent with additional rows, which the step removes before it computes anything. The result is that of
the batch as given.
"""

from typing import Any

import keras

from keras_bert_impl.training.jax_devices import JaxDevices, num_hosts

_BATCH, _ROWS = "batch", "rows"


def padded_for_devices(data: Any) -> Any:
    """Adds rows to the batches of a `tf.data.Dataset` so that each device gets as many as another.

    Returns:
        Data set of `{"batch": the batch with additional rows, "rows": int8 [parts, rows]}`, in
        which `rows` has no values but the number of rows as its shape, where a program for XLA can
        read it. `data` itself if it is no data set, or on one device, or with several processes,
        which prepare their shares themselves.
    """
    parts = JaxDevices().num_replicas_in_sync
    if parts == 1 or num_hosts() > 1:
        return data
    import tensorflow as tf

    if not isinstance(data, tf.data.Dataset):
        return data

    @tf.autograph.experimental.do_not_convert
    def with_more_rows(*batch):
        batch = batch if len(batch) > 1 else batch[0]
        count = tf.shape(tf.nest.flatten(batch)[0])[0]

        def padded(leaf):
            more = [[0, -count % parts]] + [[0, 0]] * (leaf.shape.rank - 1)
            return tf.pad(leaf, more)

        return {
            _BATCH: tf.nest.map_structure(padded, batch),
            _ROWS: tf.zeros([parts, count], tf.int8),
        }

    return data.map(with_more_rows)


def without_padding(data: Any) -> Any:
    """Returns a batch of `padded_for_devices` as it was before; other batches as they are."""
    if not isinstance(data, dict) or data.keys() != {_BATCH, _ROWS}:
        return data
    count = data[_ROWS].shape[1]
    return keras.tree.map_structure(lambda leaf: leaf[:count], data[_BATCH])
