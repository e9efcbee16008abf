"""Byte-pair merges of many words at once, in graph."""

import numpy as np
import tensorflow as tf

_NO_RANK = np.iinfo(np.int32).max


class BytePairMerger:
    """Cuts words into the pieces that byte-pair encoding merges their bytes to.

    In each round every word merges all occurrences of its pair of the best rank, as the algorithm
    does one after the other, until no pair of neighbours can be merged.

    Args:
        byte_ids: list of 256 ints, the id of the piece of each byte.
        merges: list of (left id, right id, merged id), best first.

    Source: Sennrich et al. 2016, "Neural Machine Translation of Rare Words with Subword Units",
    section 3.2; over bytes: Radford et al. 2019, section 2.2.
    """

    def __init__(self, byte_ids, merges):
        self._byte_ids = np.array(byte_ids, np.int32)
        merges = np.array(merges, np.int64).reshape(-1, 3)
        keys = (merges[:, 0] << 32) | merges[:, 1]
        order = np.argsort(keys)
        # One more, that no pair has, so that a search never ends past the last.
        self._keys = np.append(keys[order], np.iinfo(np.int64).max)
        self._ranks = np.append(order, _NO_RANK).astype(np.int32)
        self._merged = np.append(merges[order, 2], -1).astype(np.int32)

    def __call__(self, words):
        """Pieces of words.

        Args:
            words: string [words], none of them empty.

        Returns:
            (ids, starts): int32 `tf.RaggedTensor`s [words, (pieces)]; `starts` in bytes.
        """
        lengths = tf.strings.length(words)
        data = tf.io.decode_raw(tf.strings.reduce_join(words), tf.uint8)
        ids = tf.gather(self._byte_ids, tf.cast(data, tf.int32))
        word = tf.repeat(tf.range(tf.size(words)), lengths)
        start = tf.range(tf.size(ids)) - tf.gather(tf.cumsum(lengths, exclusive=True), word)
        return self._merged_pieces(ids, word, start, tf.size(words))

    def _merged_pieces(self, ids, word, start, num_words):
        """Pieces and where they begin, ragged [words, (pieces)], of flat ones not merged yet."""
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
        number, rank = self._look_up(ids, word)  # [pieces], of the pair that begins there
        # The best rank of each word: the words are in order, so sorted segments.
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
        """Which merge the pair at each place is, and its rank; _NO_RANK where there is none."""
        right = tf.concat([ids[1:], [0]], axis=0)
        inside = tf.concat([word[1:] == word[:-1], [False]], axis=0)
        keys = tf.cast(ids, tf.int64) * (1 << 32) + tf.cast(right, tf.int64)
        number = tf.searchsorted(self._keys, keys)
        known = inside & tf.equal(tf.gather(self._keys, number), keys)
        return number, tf.where(known, tf.gather(self._ranks, number), _NO_RANK)


def without_overlaps(chosen):
    """Of places that follow each other the first, the third, ...: a pair of equal pieces, aaa."""
    place = tf.range(tf.size(chosen))
    begins = chosen & tf.concat([[True], tf.logical_not(chosen[:-1])], axis=0)[: tf.size(chosen)]
    begun = tf.concat([tf.boolean_mask(place, begins), [0]], axis=0)
    run = tf.maximum(tf.cumsum(tf.cast(begins, tf.int32)) - 1, 0)
    return chosen & ((place - tf.gather(begun, run)) % 2 == 0)
