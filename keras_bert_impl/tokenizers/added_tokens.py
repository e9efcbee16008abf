"""Tokens that are found in a text as they are written, before it is split into words.

Two ways: `AddedTokens` cuts texts at them, for any number of tokens that may overlap; `find` marks
them in place, for a tokenizer whose normalization has to see the text around them.
"""

import re

import numpy as np
import tensorflow as tf

from keras_bert_impl.errors import InputError

NO_TOKEN, INSIDE = -2, -1
# White space as Unicode has it, for RE2, whose \s is ASCII alone.
_SPACES = r"[\t-\r \x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]*"
_MARK = b"\xff"  # a byte that is in no UTF-8


class AddedTokens:
    """Cuts texts into tokens that are written in them and what stands between.

    Of tokens that begin at one place the longest is taken, and then what follows it is searched.

    Args:
        tokens: list of str.
        strips_left: str, the token, such as `<mask>`, that takes white space before it along, or
            None.

    Example:
        parts, numbers = AddedTokens(["<s>", "  "])(tf.constant(["<s>a  b"]))
        parts  # [["", "<s>", "a", "  ", "b"]]
        numbers  # [-1, 0, -1, 1, -1]
    """

    def __init__(self, tokens, strips_left=None):
        self._tokens = list(tokens)
        self._strips_left = None
        patterns = [re.escape(token) for token in sorted(self._tokens, key=len, reverse=True)]
        if strips_left is not None:
            self._strips_left = f"^{_SPACES}({re.escape(strips_left)})$"
            patterns.insert(0, _SPACES + re.escape(strips_left))
        self._pattern = f"({'|'.join(patterns)})"
        self._rows = self._table()

    def __call__(self, texts):
        """The parts of texts.

        Args:
            texts: string tensor [texts].

        Returns:
            (parts, numbers): string `tf.RaggedTensor` [texts, (parts)], some of them empty; int32
            [parts], which token each part is, or -1.
        """
        # In a text the mark's byte stands for one U+FFFD wherever it is.
        texts = tf.strings.reduce_join(tf.strings.split(texts, _MARK), -1, separator="\ufffd")
        marked = tf.strings.regex_replace(texts, self._pattern, _MARK + rb"\1" + _MARK)
        parts = tf.strings.split(marked, _MARK)
        strings = parts.values
        if self._strips_left is not None:
            strings = tf.strings.regex_replace(strings, self._strips_left, r"\1")
        bucket = tf.strings.to_hash_bucket_fast(strings, len(self._rows))
        row = tf.gather(self._rows, bucket)  # the only token that the part can be
        return parts, tf.where(tf.gather(self._tokens, row) == strings, row, -1)

    def _table(self):
        """For each hash the number of a token, in the smallest table that tells them apart."""
        size = len(self._tokens)
        buckets = []
        while len(set(buckets)) < len(self._tokens):
            size *= 2
            buckets = tf.strings.to_hash_bucket_fast(self._tokens, size).numpy().tolist()
        rows = np.zeros(size, np.int32)
        rows[buckets] = np.arange(len(self._tokens))
        return rows


def check(tokens):
    """Raises InputError where two of these tokens could stand in the same place of a text."""
    for token in tokens:
        for other in tokens:
            for start in range(1, len(token)):
                end = token[start:]
                if end.startswith(other) or other.startswith(end):
                    raise InputError(f"the tokens {token!r} and {other!r} may overlap in a text.")


def find(code_points, tokens):
    """Finds tokens exactly as they are written; of two that begin together, the longer one.

    Args:
        code_points: int32 [code points].
        tokens: list of str, no two of which overlap but from the start.

    Returns:
        int32 [code points]: the number of the token that begins there, INSIDE one, or NO_TOKEN.
    """
    longest = max(map(len, tokens))
    patterns, codes = [], []
    for number, token in sorted(enumerate(tokens), key=lambda item: -len(item[1])):
        padding = [NO_TOKEN] * (longest - len(token))
        patterns.append([ord(character) for character in token] + padding)
        codes.append([number] + [INSIDE] * (len(token) - 1) + padding)
    first = tf.constant(sorted({ord(token[0]) for token in tokens}))
    is_candidate = tf.reduce_any(tf.equal(code_points, first[:, tf.newaxis]), axis=0)
    starts = tf.where(is_candidate)  # [candidates, 1]
    places = starts + tf.range(longest, dtype=tf.int64)  # [candidates, longest]
    last = tf.size(code_points, out_type=tf.int64) - 1
    window = tf.gather(code_points, tf.minimum(places, last))[:, tf.newaxis]
    patterns = tf.constant(patterns)  # [tokens, longest]
    is_token = tf.reduce_all((window == patterns) | (patterns == NO_TOKEN), axis=-1)
    # Only the first, which is the longest, of those that begin in the same place.
    is_token &= tf.equal(tf.cumsum(tf.cast(is_token, tf.int32), axis=1), 1)
    matches = tf.where(is_token)
    codes = tf.gather(codes, matches[:, 1])  # [matches, longest]
    used = tf.where(codes != NO_TOKEN)
    places = tf.gather_nd(tf.gather(places, matches[:, 0]), used)
    nothing = tf.fill(tf.shape(code_points), NO_TOKEN)
    return tf.tensor_scatter_nd_update(nothing, places[:, tf.newaxis], tf.gather_nd(codes, used))
