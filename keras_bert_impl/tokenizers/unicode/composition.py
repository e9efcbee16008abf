"""Unicode's normalization form C (composed characters) in the graph.

Most texts are composed already. In others, only groups that may change are computed: a character,
and those after it that may join it or change places.
Source: Unicode Standard Annex 15; Unicode Standard, section 3.12 for Hangul.
"""

import numpy as np
import tensorflow as tf

from keras_bert_impl.tokenizers.graphs import before, chosen, numbers_of, places_of, put
from keras_bert_impl.tokenizers.unicode.table import (
    CHANGES,
    JOINS_BEFORE,
    PAIR_SHIFT,
    RANK,
    CodePointTable,
    composition_table,
    read_composition,
)

_NEWLINE = ord("\n")
_FIRST, _VOWEL, _FINAL, _SYLLABLE = 0x1100, 0x1161, 0x11A7, 0xAC00  # of Hangul
_FIRSTS, _VOWELS, _FINALS = 19, 21, 28


def compose(codes: tf.Tensor, classes: CodePointTable | None = None) -> tuple[tf.Tensor, tf.Tensor]:
    """Composes characters.

    Args:
        codes: int32 [characters], with a newline after each text.
        classes: entries as of `table.composition_table`, the default.

    Returns:
        (composed, origins): int32 [composed characters], code points; the index in `codes` of the
        character that each comes from, ascending.
    """
    classes = classes or composition_table()
    entries = classes.lookup(codes)
    joins = _has(entries, JOINS_BEFORE) & (before(codes, _NEWLINE) != _NEWLINE)
    may_change = joins | _has(entries, CHANGES)

    def changed():
        return _composed_groups(codes, ~joins, may_change, classes)

    return tf.cond(tf.reduce_any(may_change), changed, lambda: (codes, tf.range(tf.size(codes))))


def _composed_groups(codes, begins, may_change, classes):
    """Composes the groups that may change, and merges them with the others."""
    group = tf.cumsum(tf.cast(begins, tf.int32)) - 1  # [characters]
    starts = tf.concat([places_of(begins), [tf.size(codes)]], axis=0)
    sizes = starts[1:] - starts[:-1]  # [groups]
    is_active = put(tf.fill(tf.shape(sizes), False), tf.gather(group, places_of(may_change)), True)
    inside = tf.gather(is_active, group)
    new, new_group = _compose(chosen(codes, inside), chosen(group, inside), classes)
    num_new = tf.math.unsorted_segment_sum(tf.ones_like(new), new_group, tf.size(sizes))
    counts = tf.where(is_active, num_new, sizes)
    group = numbers_of(counts)  # [composed characters]
    index = tf.range(tf.size(group)) - tf.gather(tf.cumsum(counts, exclusive=True), group)
    # The first character of a group stands for those that vanish.
    vanished = tf.gather(sizes - counts, group)
    origins = tf.gather(starts, group) + tf.where(index > 0, tf.maximum(index + vanished, 0), 0)
    places = places_of(tf.gather(is_active, group))
    return put(tf.gather(codes, origins), places, new), origins


def _compose(codes, group, classes):
    """Composes characters; returns them with the group of each."""
    codes, group = _decompose(codes, group)
    ranks = tf.bitwise.bitwise_and(classes.lookup(codes), RANK)
    begins = tf.equal(ranks, 0) | (before(group, -1) != group)
    order = tf.argsort(tf.cumsum(tf.cast(begins, tf.int32)) * (RANK + 1) + ranks, stable=True)
    codes, ranks = tf.gather(codes, order), tf.gather(ranks, order)
    numbers = tf.range(tf.size(codes))

    def join(codes, ranks, group, numbers, last, _):
        """Joins the first possible character of each run to the one at its start."""
        is_start = tf.equal(ranks, 0) | (before(group, -1) != group)
        starts = tf.concat([[0], places_of(is_start)], axis=0)
        # The start of the run before each character.
        start = tf.gather(starts, tf.cumsum(tf.cast(is_start, tf.int32), exclusive=True))
        is_next = tf.equal(start, tf.range(tf.size(codes)) - 1)
        is_open = tf.equal(before(group, -1), group)
        is_open &= is_next | (before(ranks, 0) < ranks) & (ranks > 0)
        is_open &= numbers > tf.gather(last, start)
        joined = _pair(tf.gather(codes, start), codes)
        can = is_open & (joined > 0)
        found = places_of(can)
        first = tf.gather(start, found)
        is_first = before(first, -1) != first
        found, first = chosen(found, is_first), chosen(first, is_first)
        codes = put(codes, first, tf.gather(joined, found))
        last = put(last, first, tf.gather(numbers, found))
        kept = places_of(put(tf.fill(tf.shape(codes), True), found, False))
        state = (tf.gather(part, kept) for part in (codes, ranks, group, numbers, last))
        return *state, tf.size(found) > 0

    vector = tf.TensorShape([None])
    codes, _, group, *_ = tf.while_loop(
        lambda *state: state[-1],
        join,
        (codes, ranks, group, numbers, -tf.ones_like(numbers), tf.constant(True)),
        (*[vector] * 5, tf.TensorShape([])),
    )
    return codes, group


def _pair(first, second):
    """Returns what two characters compose to, 0 if nothing; int32."""
    found = _stored_pair(first, second)
    one, two, three = first - _FIRST, second - _VOWEL, second - _FINAL
    is_syllable = (one >= 0) & (one < _FIRSTS) & (two >= 0) & (two < _VOWELS)
    found = tf.where(is_syllable, _SYLLABLE + (one * _VOWELS + two) * _FINALS, found)
    open_syllable = first - _SYLLABLE
    closes = (open_syllable >= 0) & (open_syllable < _FIRSTS * _VOWELS * _FINALS)
    closes &= tf.equal(open_syllable % _FINALS, 0) & (three > 0) & (three < _FINALS)
    return tf.where(closes, first + three, found)


def _decompose(codes, group):
    """Decomposes characters except Hangul syllables, which would become the same again."""
    known, rows = (read_composition()[name] for name in ("decomposed", "parts"))
    place = tf.minimum(tf.searchsorted(known, codes), len(known) - 1)
    nothing = tf.fill([tf.size(codes), rows.shape[1] - 1], -1)
    alone = tf.concat([codes[:, tf.newaxis], nothing], axis=1)
    is_known = tf.equal(tf.gather(known, place), codes)[:, tf.newaxis]
    parts = tf.reshape(tf.where(is_known, tf.gather(rows, place), alone), [-1])
    group = tf.repeat(group, rows.shape[1])
    return chosen(parts, parts >= 0), chosen(group, parts >= 0)


def _stored_pair(first, second):
    pairs, composites = (read_composition()[name] for name in ("pairs", "composites"))
    key = tf.bitwise.left_shift(tf.cast(first, tf.int64), np.int64(PAIR_SHIFT))
    key += tf.cast(second, tf.int64)
    place = tf.minimum(tf.searchsorted(pairs, key), len(pairs) - 1)
    return tf.where(tf.equal(tf.gather(pairs, place), key), tf.gather(composites, place), 0)


def _has(entries, flag):
    return tf.not_equal(tf.bitwise.bitwise_and(entries, flag), 0)
