"""Rows that belong together: one for each choice of an example."""

import dataclasses

import numpy as np
import tensorflow as tf

from keras_bert_impl.tasks.batching import TokenizedTexts, splits_of, tokenize_texts


@dataclasses.dataclass(frozen=True)
class TokenizedChoices:
    """Examples of several rows each, which stay together in a batch; for `batching`.

    Attributes:
        rows: `TokenizedTexts`, the choices of all examples, one after the other.
        splits: int64 tensor [examples + 1]: example i has the rows from `splits[i]` to
            `splits[i + 1]`.
        counts: int64 array [examples], choices of each.
        lengths: int32 tensor [examples], tokens of the longest row of each.
    """

    rows: TokenizedTexts
    splits: tf.Tensor
    counts: np.ndarray
    lengths: tf.Tensor

    @property
    def num_texts(self):
        """int, the number of examples."""
        return len(self.counts)

    def features(self, numbers):
        """The features of a batch, in eager mode and in any graph.

        Args:
            numbers: int64 [batch], numbers of examples.

        Returns:
            dict of int32 [batch, choices, length]: `token_ids`, `segment_ids`, `padding_mask`. An
            example with fewer choices than another of the batch has copies of its first one
            behind them, where `padding_mask` is 0.
        """
        starts = tf.gather(self.splits, numbers)[:, tf.newaxis]  # [batch, 1]
        counts = tf.gather(self.splits, numbers + 1)[:, tf.newaxis] - starts
        most = self._static_choices() or tf.reduce_max(counts)
        choice = tf.range(most, dtype=tf.int64)[tf.newaxis, :]  # [1, choices]
        is_choice = choice < counts
        rows = tf.where(is_choice, starts + choice, starts)  # [batch, choices]
        features = self.rows.features(tf.reshape(rows, [-1]))
        shape = tf.concat([tf.shape(rows), [-1]], axis=0)
        features = {name: tf.reshape(feature, shape) for name, feature in features.items()}
        features["padding_mask"] *= tf.cast(is_choice, tf.int32)[:, :, tf.newaxis]
        # What is known before is a static shape, which a TPU needs.
        length = self.rows.widths[0] if len(self.rows.widths) == 1 else None
        static = [None, self._static_choices(), length]
        return {name: tf.ensure_shape(feature, static) for name, feature in features.items()}

    def _static_choices(self):
        """int, choices of every batch; None where each has as many as its examples need."""
        all_equal = len(set(self.counts.tolist())) == 1
        return int(self.counts.max()) if all_equal or len(self.rows.widths) == 1 else None


def tokenize_choices(examples, tokenizer, max_length, widths=None):
    """Tokenizes every pair of a prompt and one of its endings, once.

    Args:
        examples: list of (prompt, list of endings).
        tokenizer: `Tokenizer`.
        max_length: int. Longer rows are cut, the longer segment first.
        widths: list of int, as of `tokenize_texts`.

    Returns:
        `TokenizedChoices`.
    """
    pairs = [(prompt, ending) for prompt, endings in examples for ending in endings]
    counts = np.array([len(endings) for _, endings in examples])
    rows = tokenize_texts(pairs, tokenizer, max_length, widths)
    splits = splits_of(counts)
    longest = np.maximum.reduceat(rows.lengths.numpy(), splits[:-1])
    # On the host: a pipeline reads them, whatever the device of the model.
    with tf.device("CPU:0"):
        return TokenizedChoices(rows, tf.constant(splits), counts, tf.constant(longest))
