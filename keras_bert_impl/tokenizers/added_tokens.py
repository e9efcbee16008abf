"""Tokens that are found in texts as they are written, before these are split into words.

All tokenizers find theirs here, among the code points, but FlauBERT's: its texts are normalized
while they are still strings, and regular expressions find its tokens before that.
"""

import functools

import numpy as np
import tensorflow as tf

from keras_bert_impl.errors import InputError
from keras_bert_impl.tokenizers.places import chosen, leftmost, places_of, put
from keras_bert_impl.tokenizers.unicode_table import SPACE, ClassTable

NO_TOKEN, INSIDE = -2, -1
_SHIFT = 21  # a code point has no more bits
_FEW = 8  # first characters


class AddedTokens:
    """Finds any number of tokens, which may overlap.

    Of tokens that begin at one place the longest is taken, and then what follows it is searched.

    Args:
        tokens: list of str, none of them empty.
        strips_left: str, the token, such as `<mask>`, that takes white space before it along, or
            None.

    Example:
        code_points = [ord(character) for character in "<s>a   b\\n"]
        AddedTokens(["<s>", "  "])(tf.constant(code_points))  # [0, 4], [3, 6], [0, 1]
    """

    def __init__(self, tokens, strips_left=None):
        tokens = list(tokens)
        self._first = sorted({ord(token[0]) for token in tokens})
        self._keys, self._children, self._tokens = _trie(tokens)
        self._lengths = np.array([len(token) for token in tokens], np.int32)
        self._strips_left = None if strips_left is None else tokens.index(strips_left)
        self._classes = ClassTable()

    def __call__(self, code_points):
        """The tokens in texts.

        Args:
            code_points: int32 [code points] of all texts, each with one after it that no token has.

        Returns:
            (starts, ends, numbers): int32 [found], in order: the code point that each begins with,
            white space that it takes along included; the one after it; which token it is.
        """
        starts, numbers = self._longest(code_points)

        def without_overlaps():
            if self._strips_left is None:
                return self._search(starts, starts, numbers)
            is_space = tf.equal(self._classes.lookup(code_points), SPACE)
            solid = tf.concat([[-1], places_of(tf.logical_not(is_space))], axis=0)
            strips = tf.equal(numbers, self._strips_left)
            spaces = tf.gather(solid, tf.searchsorted(solid, starts) - 1) + 1
            spaces = tf.where(strips, spaces, starts)
            # No token begins in white space that the next one takes along.
            last = tf.concat([chosen(spaces, strips), [tf.size(code_points)]], axis=0)
            following = tf.gather(last, tf.cumsum(tf.cast(strips, tf.int32), exclusive=True))
            kept = strips | (starts < following)
            return self._search(*(chosen(values, kept) for values in (spaces, starts, numbers)))

        nothing = starts, starts, numbers
        return tf.cond(tf.size(starts) > 0, without_overlaps, lambda: nothing)

    def _longest(self, code_points):
        """Where tokens begin, and which is the longest there: int32 [candidates] both."""
        candidates = places_of(self._may_begin(code_points))

        def step(depth, candidate, node, found):
            letter = tf.gather(code_points, tf.gather(candidates, candidate) + depth)
            key = tf.bitwise.left_shift(tf.cast(node, tf.int64), _SHIFT) + tf.cast(letter, tf.int64)
            row = tf.searchsorted(self._keys, key)
            goes_on = tf.equal(tf.gather(self._keys, row), key)
            candidate = chosen(candidate, goes_on)
            node = tf.gather(self._children, chosen(row, goes_on))
            token = tf.gather(self._tokens, node)
            found = put(found, chosen(candidate, token >= 0), chosen(token, token >= 0))
            return depth + 1, candidate, node, found

        nothing = tf.fill(tf.shape(candidates), -1)
        *_, found = tf.while_loop(
            lambda depth, candidate, *_: tf.size(candidate) > 0,
            step,
            (0, tf.range(tf.size(candidates)), tf.zeros_like(candidates), nothing),
            shape_invariants=(tf.TensorShape([]), *3 * [tf.TensorShape([None])]),
        )
        return chosen(candidates, found >= 0), chosen(found, found >= 0)

    def _may_begin(self, code_points):
        """bool [code points], true at least where a token begins."""
        # A few comparisons take a fifth of the time of a look-up in a table.
        if len(self._first) > _FEW:
            return (code_points >= self._first[0]) & (code_points <= self._first[-1])
        equal = [tf.equal(code_points, code_point) for code_point in self._first]
        return functools.reduce(tf.logical_or, equal)

    def _search(self, spaces, starts, numbers):
        """Those that do not overlap; a token takes white space along as far as it is free."""
        ends = starts + tf.gather(self._lengths, numbers)
        kept = leftmost(starts, ends)
        spaces, ends, numbers = (chosen(values, kept) for values in (spaces, ends, numbers))
        return tf.maximum(spaces, tf.concat([[0], ends[:-1]], axis=0)), ends, numbers


def in_place(code_points, starts, ends, numbers):
    """int32 [code points]: the number of the token that begins there, INSIDE one, or NO_TOKEN.

    Args:
        code_points: int32 [code points].
        starts, ends, numbers: as `AddedTokens` returns them.
    """
    nothing = tf.fill(tf.shape(code_points), NO_TOKEN)
    return put(put(nothing, tf.ragged.range(starts, ends).values, INSIDE), starts, numbers)


def _trie(tokens):
    """Where each node leads: (keys, children, tokens).

    `keys` int64, parent node << _SHIFT | letter, in order, and one more, that nothing has;
    `children` int32, the node of each; `tokens` int32 [nodes], the token that ends there, or -1.
    """
    nodes, edges = {"": 0}, {}
    for token in tokens:
        for end in range(1, len(token) + 1):
            node = nodes.setdefault(token[:end], len(nodes))
            edges[(nodes[token[: end - 1]] << _SHIFT) | ord(token[end - 1])] = node
    keys = np.array([*sorted(edges), np.iinfo(np.int64).max], np.int64)
    children = np.array([*(edges[key] for key in sorted(edges)), 0], np.int32)
    numbers = np.full(len(nodes), -1, np.int32)
    numbers[[nodes[token] for token in tokens]] = np.arange(len(tokens))
    return keys, children, numbers


def check(tokens):
    """Raises InputError where two of these tokens could stand in the same place of a text."""
    for token in tokens:
        for other in tokens:
            for start in range(1, len(token)):
                end = token[start:]
                if end.startswith(other) or other.startswith(end):
                    raise InputError(f"the tokens {token!r} and {other!r} may overlap in a text.")
