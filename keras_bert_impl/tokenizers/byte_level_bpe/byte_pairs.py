"""Byte-pair merges of many words at once, in the graph."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from keras_bert_impl.tokenizers.unicode.places import after, before, chosen, without_overlaps

_NO_RANK = np.iinfo(np.int32).max


class BytePairMerger:
    """Splits words into tokens by byte-pair encoding of their bytes.

    In each round, every word merges all occurrences of its best-ranked pair, as the sequential
    algorithm does, until no neighbors can be merged.

    Args:
        byte_ids: The token id of each byte.
        merges: (left id, right id, merged id), best first.

    Source: Sennrich et al. 2016, "Neural Machine Translation of Rare Words with Subword Units",
    section 3.2; over bytes: Radford et al. 2019, section 2.2.
    """

    def __init__(self, byte_ids: Sequence[int], merges: Sequence[Sequence[int]]) -> None:
        self._byte_ids = np.array(byte_ids, np.int32)
        left, right, merged = np.array(merges, np.int64).reshape(-1, 3).T
        keys = (left << 32) | right
        order = np.argsort(keys)
        # A sentinel that no pair equals, so that a search never ends past the last entry.
        self._keys = np.append(keys[order], np.iinfo(np.int64).max)
        self._ranks = np.append(order, _NO_RANK).astype(np.int32)
        self._merged = np.append(merged[order], -1).astype(np.int32)

    def __call__(self, words: tf.Tensor) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
        """Splits words into tokens.

        Args:
            words: string [words], not empty.

        Returns:
            (ids, starts): int32 `tf.RaggedTensor`s [words, (tokens)]; `starts` in bytes.
        """
        lengths = tf.strings.length(words)
        data = tf.io.decode_raw(tf.strings.reduce_join(words), tf.uint8)
        ids = tf.gather(self._byte_ids, tf.cast(data, tf.int32))
        word = tf.repeat(tf.range(tf.size(words)), lengths)
        start = tf.range(tf.size(ids)) - tf.gather(tf.cumsum(lengths, exclusive=True), word)
        return self._merged_ids(ids, word, start, tf.size(words))

    def _merged_ids(self, ids, word, start, num_words):
        """Merges flat tokens; returns ids and start offsets, ragged [words, (tokens)]."""
        ids, word, start, _ = tf.while_loop(
            lambda ids, word, start, more: more,
            self._round,
            (ids, word, start, tf.constant(True)),
            shape_invariants=(*3 * [tf.TensorShape([None])], tf.TensorShape([])),
        )
        splits = tf.searchsorted(word, tf.range(num_words + 1), out_type=tf.int64)
        ids = tf.RaggedTensor.from_row_splits(ids, splits, validate=False)
        return ids, ids.with_values(start)

    def _round(self, ids, word, start, _):
        number, rank = self._look_up(ids, word)  # [tokens], of the pair that begins there
        # The best rank of each word. Words are in order, so segments are sorted.
        best = tf.gather(tf.math.segment_min(rank, word), word)
        merges = without_overlaps((rank == best) & (rank != _NO_RANK))
        ids = tf.where(merges, tf.gather(self._merged, number), ids)
        kept = ~before(merges, False)
        return *(chosen(values, kept) for values in (ids, word, start)), tf.reduce_any(merges)

    def _look_up(self, ids, word):
        """Returns the merge of the pair at each position and its rank, or _NO_RANK."""
        keys = tf.cast(ids, tf.int64) * (1 << 32) + tf.cast(after(ids, 0), tf.int64)
        number = tf.searchsorted(self._keys, keys)
        known = (after(word, -1) == word) & tf.equal(tf.gather(self._keys, number), keys)
        return number, tf.where(known, tf.gather(self._ranks, number), _NO_RANK)
