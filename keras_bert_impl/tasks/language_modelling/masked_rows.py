"""Rows of texts with one token masked, for a masked language model to guess."""

import tensorflow as tf

from keras_bert_impl.training.steps.data_options import without_autotuner


def masked_batches(tokenized, rows, places, mask_id, batch_size):
    """Batches of rows, each with one of its tokens masked.

    Args:
        tokenized: `TokenizedTexts`.
        rows, places: int64 [masks], which row, and which of its tokens.
        mask_id: int.
        batch_size: int.

    Returns:
        `tf.data.Dataset` of (features of `MaskedLM` with one masked position a row, int32 [rows]
        with the ids that stood there), in the order given.
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
