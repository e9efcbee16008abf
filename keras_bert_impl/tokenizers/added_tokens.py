"""Where tokens such as <mask> are written in texts, in graph."""

import tensorflow as tf

from keras_bert_impl.errors import InputError

NO_TOKEN, INSIDE = -2, -1


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
