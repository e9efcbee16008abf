"""Unicode normalization form C (composed characters) in the graph.

Most texts are already composed, so only the groups of characters that may change are processed. A
group begins at a character that never combines with the characters before it, and ends before the
next such character. Source: Unicode Standard Annex 15; Unicode Standard, section 3.12 for Hangul.
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
_BEGINS = -1  # rank of a group's first character, which never combines with characters before it
# first code points of Hangul initials, vowels, finals and syllables
_FIRST, _VOWEL, _FINAL, _SYLLABLE = 0x1100, 0x1161, 0x11A7, 0xAC00
_FIRSTS, _VOWELS, _FINALS = 19, 21, 28


def compose(codes: tf.Tensor, classes: CodePointTable | None = None) -> tuple[tf.Tensor, tf.Tensor]:
    """Composes characters.

    Args:
        codes: int32 [characters], with a newline after each text.
        classes: Default: `table.composition_table()`.

    Returns:
        (code points, originals), int32 [composed characters]. `originals` contains the index in
        `codes` of the character from which each code point comes.
    """
    classes = classes or composition_table()
    entries = classes.lookup(codes)
    joins = _has(entries, JOINS_BEFORE) & (before(codes, _NEWLINE) != _NEWLINE)
    may_change = joins | _has(entries, CHANGES)

    def changed():
        return _update_groups(codes, ~joins, may_change, classes)

    return tf.cond(tf.reduce_any(may_change), changed, lambda: (codes, tf.range(tf.size(codes))))


def _update_groups(codes, begins, may_change, classes):
    """Composes the groups that contain a character that may change. Copies the other groups."""
    group = tf.cumsum(tf.cast(begins, tf.int32)) - 1  # [characters]
    starts = tf.concat([places_of(begins), [tf.size(codes)]], axis=0)
    sizes = starts[1:] - starts[:-1]  # [groups]
    is_active = put(tf.fill(tf.shape(sizes), False), tf.gather(group, places_of(may_change)), True)
    inside = tf.gather(is_active, group)
    new, new_group, new_place = _compose(chosen(codes, inside), chosen(group, inside), classes)
    num_new = tf.math.unsorted_segment_sum(tf.ones_like(new), new_group, tf.size(sizes))
    counts = tf.where(is_active, num_new, sizes)
    group = numbers_of(counts)  # [composed characters]
    index = tf.range(tf.size(group)) - tf.gather(tf.cumsum(counts, exclusive=True), group)
    places = places_of(tf.gather(is_active, group))
    index = put(index, places, tf.clip_by_value(new_place, 0, tf.gather(sizes, new_group) - 1))
    origins = tf.gather(starts, group) + index
    return put(tf.gather(codes, origins), places, new), origins


def _compose(codes, group, classes):
    """Returns (codes, groups, positions in the original groups) of the composed characters."""
    codes, group, later = _decompose(codes, group)
    is_first = before(group, -1) != group
    ranks = tf.bitwise.bitwise_and(classes.lookup(codes), RANK)
    runs = tf.cumsum(tf.cast(tf.equal(ranks, 0) | is_first, tf.int32))
    order = tf.argsort(runs * (RANK + 1) + ranks, stable=True)
    codes, ranks, later = (tf.gather(part, order) for part in (codes, ranks, later))
    ranks = tf.where(is_first, _BEGINS, ranks)
    numbers = tf.range(tf.size(codes))
    state = tf.stack([codes, ranks, 1 - later, numbers, -tf.ones_like(numbers)])
    state, _ = tf.while_loop(
        lambda _, goes_on: goes_on,
        lambda state, _: _join(*tf.unstack(state, num=5)),
        (state, tf.constant(True)),
        (tf.TensorShape([5, None]), tf.TensorShape([])),
    )
    codes, _, uses, numbers, _ = tf.unstack(state, num=5)
    group = tf.gather(group, numbers)
    places = tf.cumsum(uses, exclusive=True)  # positions in the characters of all groups
    begin = tf.gather(places, tf.searchsorted(group, group))
    return codes, group, places - begin - tf.cast(tf.equal(uses, 0), tf.int32)


def _join(codes, ranks, uses, numbers, last):
    """Combines the first character of each run with at most one other character.

    Args:
        codes: int32 [characters].
        ranks: int32 [characters], the rank in canonical order; _BEGINS at the start of a group. A
            run begins at a rank of 0 or less.
        uses: int32 [characters], the number of input characters that each character replaces; 0 for
            all but the first part of a decomposed character.
        numbers: int32 [characters], index of each character before the first step.
        last: int32 [characters], at the start of a run, the `numbers` entry of the character that
            was combined last, or -1.

    Returns:
        The five arguments as int32 [5, remaining characters], and whether any characters were
        combined.
    """
    is_start = ranks <= 0
    starts = tf.concat([[0], places_of(is_start)], axis=0)
    # The last start of a run before each character.
    start = tf.gather(starts, tf.cumsum(tf.cast(is_start, tf.int32), exclusive=True))
    is_open = tf.equal(start, tf.range(tf.size(codes)) - 1) | (before(ranks, 0) < ranks)
    is_open &= (ranks != _BEGINS) & (numbers > tf.gather(last, start))
    joined = _combine_pair(tf.gather(codes, start), codes)
    joined_places = places_of(is_open & (joined > 0))
    first = tf.gather(start, joined_places)
    is_first = before(first, -1) != first
    joined_places, first = chosen(joined_places, is_first), chosen(first, is_first)
    codes = put(codes, first, tf.gather(joined, joined_places))
    last = put(last, first, tf.gather(numbers, joined_places))
    uses = put(uses, first, tf.gather(uses, first) + tf.gather(uses, joined_places))
    remaining = places_of(put(tf.fill(tf.shape(codes), True), joined_places, False))
    state = tf.stack([codes, ranks, uses, numbers, last])
    return tf.gather(state, remaining, axis=1), tf.size(joined_places) > 0


def _combine_pair(first, second):
    """Returns the character that two characters combine to, or 0."""
    composite = _look_up_pair(first, second)
    lead, vowel, final = first - _FIRST, second - _VOWEL, second - _FINAL
    is_syllable = (lead >= 0) & (lead < _FIRSTS) & (vowel >= 0) & (vowel < _VOWELS)
    composite = tf.where(is_syllable, _SYLLABLE + (lead * _VOWELS + vowel) * _FINALS, composite)
    open_syllable = first - _SYLLABLE
    closes = (open_syllable >= 0) & (open_syllable < _FIRSTS * _VOWELS * _FINALS)
    closes &= tf.equal(open_syllable % _FINALS, 0) & (final > 0) & (final < _FINALS)
    return tf.where(closes, first + final, composite)


def _decompose(codes, group):
    """Decomposes characters. Returns (codes, groups, 1 for all but the first part of a character).

    Hangul syllables stay as they are, because composition would restore them.
    """
    decomposable, rows = (read_composition()[name] for name in ("decomposed", "parts"))
    place = tf.minimum(tf.searchsorted(decomposable, codes), len(decomposable) - 1)
    nothing = tf.fill([tf.size(codes), rows.shape[1] - 1], -1)
    alone = tf.concat([codes[:, tf.newaxis], nothing], axis=1)
    is_known = tf.equal(tf.gather(decomposable, place), codes)[:, tf.newaxis]
    parts = tf.reshape(tf.where(is_known, tf.gather(rows, place), alone), [-1])
    group = tf.repeat(group, rows.shape[1])
    later = tf.cast(tf.range(tf.size(parts)) % rows.shape[1] > 0, tf.int32)
    return tuple(chosen(values, parts >= 0) for values in (parts, group, later))


def _look_up_pair(first, second):
    pairs, composites = (read_composition()[name] for name in ("pairs", "composites"))
    key = tf.bitwise.left_shift(tf.cast(first, tf.int64), np.int64(PAIR_SHIFT))
    key += tf.cast(second, tf.int64)
    place = tf.minimum(tf.searchsorted(pairs, key), len(pairs) - 1)
    return tf.where(tf.equal(tf.gather(pairs, place), key), tf.gather(composites, place), 0)


def _has(entries, flag):
    return tf.not_equal(tf.bitwise.bitwise_and(entries, flag), 0)
