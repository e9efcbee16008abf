"""Masking of text batches."""

import numpy as np
import tensorflow as tf

from keras_bert_impl.data.batches.batching import TokenizedTexts
from keras_bert_impl.pretraining.masking.masking import Masking, mask_rows, replacement_ids
from keras_bert_impl.pretraining.masking.token_masks import NO_LABEL, rows_of_one_example
from keras_bert_impl.tokenizers import Tokenizer
from keras_bert_impl.utils.one_graph import without_autotuner

EVALUATION = 1 << 62  # number of the first evaluation batch; training batches have smaller numbers


class RowMasks:
    """Masks tokens. The masked positions depend only on the seed and the batch number."""

    def __init__(self, tokenizer: Tokenizer, masking: Masking, max_length: int) -> None:
        self._tokenizer = tokenizer
        self._masking = masking
        self._max_length = max_length
        self._slots = masking.num_slots(max_length, 1)

    def of_batches(
        self, dataset: tf.data.Dataset, seed: int, first: int | tf.Variable | None = None
    ) -> tf.data.Dataset:
        if first is None:
            numbers = tf.data.Dataset.random(seed=seed, rerandomize_each_iteration=True)
        else:
            last = np.iinfo(np.int64).max
            numbers = tf.data.Dataset.range(1).flat_map(
                lambda _: tf.data.Dataset.range(tf.cast(first, tf.int64), last)
            )

        @tf.autograph.experimental.do_not_convert
        def mask_batch(number, batch):
            features, *weights = batch if isinstance(batch, tuple) else (batch,)
            return (*self(features, seed, number), *weights)

        data = tf.data.Dataset.zip((numbers, dataset))
        data = data.map(mask_batch, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
        count = dataset.cardinality()
        if count >= 0:  # `flat_map` makes it unknown
            data = data.apply(tf.data.experimental.assert_cardinality(count))
        return without_autotuner(data.prefetch(tf.data.AUTOTUNE))

    def __call__(
        self, features: dict[str, tf.Tensor], seed: int, number: tf.Tensor
    ) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
        """Returns features with `masked_positions`, and labels int32 `[batch, predictions]`.

        Args:
            features: dict of int32 `[batch, length]`.
        """
        ids = features["token_ids"]
        width = tf.shape(ids)[1]
        wide = [[0, 0], [0, self._max_length - width]]
        rows = tf.pad(ids, wide, constant_values=self._tokenizer.pad_id)
        rows = tf.ensure_shape(rows, [None, self._max_length])
        masked = mask_rows(
            **rows_of_one_example(rows, self._tokenizer, self._masking.unit),
            epochs=tf.repeat(tf.cast(number, tf.int64), tf.shape(rows)[0]),
            seed=seed,
            masking=self._masking,
            mask_id=self._tokenizer.mask_id,
            replacements=replacement_ids(self._tokenizer),
            slots=self._slots,
        )
        # Number of slots for rows of this width: rate * width, plus one.
        slots = tf.cast(self._masking.rate * tf.cast(width, tf.float32), tf.int32) + 1
        slots = tf.minimum(slots, self._slots) if ids.shape[1] is None else self._slots
        labels = tf.where(masked.weights > 0, masked.ids, NO_LABEL)
        hidden = {
            "token_ids": masked.token_ids[:, :width],
            "masked_positions": masked.positions[:, :slots],
        }
        return features | hidden, labels[:, :slots]


def masked_batches(
    tokenized: TokenizedTexts,
    rows: np.ndarray,
    positions: np.ndarray,
    mask_id: int,
    batch_size: int,
) -> tf.data.Dataset:
    """Creates batches of sequences; in each sequence, one token is masked.

    Args:
        rows, positions: int64 [masks]. Row and position of each mask.

    Returns:
        `tf.data.Dataset` of (features, ids), in the given order: features of `MaskedLM`, and the
        original ids, int32 [rows].
    """
    data = tf.data.Dataset.from_tensor_slices((rows, positions)).batch(batch_size)

    @tf.autograph.experimental.do_not_convert
    def mask_tokens(rows, positions):
        features = tokenized.features(rows)
        ids = features["token_ids"]
        is_masked = tf.range(tf.shape(ids, tf.int64)[1]) == positions[:, tf.newaxis]
        features["token_ids"] = tf.where(is_masked, mask_id, ids)
        features["masked_positions"] = tf.cast(positions[:, tf.newaxis], tf.int32)
        return features, tf.gather(ids, positions, batch_dims=1)

    batches = data.map(mask_tokens, num_parallel_calls=tf.data.AUTOTUNE)
    return without_autotuner(batches.prefetch(tf.data.AUTOTUNE))
