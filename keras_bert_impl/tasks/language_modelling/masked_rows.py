"""Batches of rows with one masked token each, for a masked language model to predict."""

import numpy as np
import tensorflow as tf

from keras_bert_impl.tasks.inputs.batching import TokenizedTexts
from keras_bert_impl.training.steps.data_options import without_autotuner


def masked_batches(
    tokenized: TokenizedTexts, rows: np.ndarray, places: np.ndarray, mask_id: int, batch_size: int
) -> tf.data.Dataset:
    """Returns batches of rows with one masked token each.

    Args:
        rows, places: int64 [masks], row numbers and token positions to mask.

    Returns:
        `tf.data.Dataset` of (features of `MaskedLM` with one masked position per row, int32 [rows]
        with the original ids), in the given order.
    """
    data = tf.data.Dataset.from_tensor_slices((rows, places)).batch(batch_size)

    @tf.autograph.experimental.do_not_convert
    def masked(rows, places):
        features = tokenized.features(rows)
        ids = features["token_ids"]
        is_masked = tf.range(tf.shape(ids, tf.int64)[1]) == places[:, tf.newaxis]
        features["token_ids"] = tf.where(is_masked, mask_id, ids)
        features["masked_positions"] = tf.cast(places[:, tf.newaxis], tf.int32)
        return features, tf.gather(ids, places, batch_dims=1)

    batches = data.map(masked, num_parallel_calls=tf.data.AUTOTUNE)
    return without_autotuner(batches.prefetch(tf.data.AUTOTUNE))
