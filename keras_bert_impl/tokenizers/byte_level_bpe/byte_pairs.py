"""Byte-pair merges of many words at once, in the graph."""

import numpy as np
import tensorflow as tf

_NO_RANK = np.iinfo(np.int32).max


class BytePairMerger:
    """Splits words into tokens by byte-pair encoding of their bytes.

    In each round, every word merges all occurrences of its best-ranked pair, as the sequential
    algorithm does, until no neighbors can be merged.

    Args:
        byte_ids: list of 256 ints, the token id of each byte.
        merges: list of (left id, right id, merged id), best first.

    Source: Sennrich et al. 2016, "Neural Machine Translation of Rare Words with Subword Units",
    section 3.2; over bytes: Radford et al. 2019, section 2.2.
    """

    def __init__(self, byte_ids, merges):
        self._byte_ids = np.array(byte_ids, np.int32)
        merges = np.array(merges, np.int64).reshape(-1, 3)
        keys = (merges[:, 0] << 32) | merges[:, 1]
        order = np.argsort(keys)
        # A sentinel that no pair equals, so that a search never ends past the last entry.
        self._keys = np.append(keys[order], np.iinfo(np.int64).max)
        self._ranks = np.append(order, _NO_RANK).astype(np.int32)
        self._merged = np.append(merges[order, 2], -1).astype(np.int32)

    def __call__(self, words):
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
        return self._merged_pieces(ids, word, start, tf.size(words))

    def _merged_pieces(self, ids, word, start, num_words):
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
        chosen = without_overlaps((rank == best) & (rank != _NO_RANK))
        ids = tf.where(chosen, tf.gather(self._merged, number), ids)
        kept = tf.concat([[True], tf.logical_not(chosen[:-1])], axis=0)[: tf.size(ids)]
        return (
            tf.boolean_mask(ids, kept),
            tf.boolean_mask(word, kept),
            tf.boolean_mask(start, kept),
            tf.reduce_any(chosen),
        )

    def _look_up(self, ids, word):
        """Returns the merge of the pair at each position and its rank, or _NO_RANK."""
        right = tf.concat([ids[1:], [0]], axis=0)
        inside = tf.concat([word[1:] == word[:-1], [False]], axis=0)
        keys = tf.cast(ids, tf.int64) * (1 << 32) + tf.cast(right, tf.int64)
        number = tf.searchsorted(self._keys, keys)
        known = inside & tf.equal(tf.gather(self._keys, number), keys)
        return number, tf.where(known, tf.gather(self._ranks, number), _NO_RANK)


def without_overlaps(chosen):
    """Keeps the first, third, ... of consecutive positions, for pairs of equal tokens as in aaa."""
    place = tf.range(tf.size(chosen))
    begins = chosen & tf.concat([[True], tf.logical_not(chosen[:-1])], axis=0)[: tf.size(chosen)]
    begun = tf.concat([tf.boolean_mask(place, begins), [0]], axis=0)
    run = tf.maximum(tf.cumsum(tf.cast(begins, tf.int32)) - 1, 0)
    return chosen & ((place - tf.gather(begun, run)) % 2 == 0)
