"""Conversion between texts and code points, optimized for ASCII.

The functions in this module copy ASCII bytes, because TensorFlow's conversions would take as long
as the rest of tokenization. For texts with many non-ASCII characters, the functions call
TensorFlow's conversions, which are then faster.
"""

import tensorflow as tf

from keras_bert_impl.tokenizers.graphs import places_of, put


def decode(texts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Decodes texts to code points, with a newline after each text.

    Args:
        texts: string tensor [texts]. Invalid UTF-8 becomes U+FFFD.

    Returns:
        (code_points, text_starts): int32 [code points]; int32 [texts + 1], the start of each text.
    """
    texts = tf.strings.join([texts, "\n"])
    data = tf.io.decode_raw(tf.strings.reduce_join(texts), tf.uint8)  # [bytes]
    num_others = tf.math.count_nonzero(data > 127, dtype=tf.int32)

    def converted():
        ragged = tf.strings.unicode_decode(texts, "UTF-8", errors="replace")
        return ragged.flat_values, tf.cast(ragged.row_splits, tf.int32)

    def copied():
        code_points, is_valid = _decode_bytes(data)
        lengths = tf.strings.length(texts, unit="UTF8_CHAR")
        starts = tf.concat([[0], tf.cumsum(lengths)], axis=0)
        return tf.cond(is_valid, lambda: (code_points, starts), converted)

    return tf.cond(num_others < tf.size(data) // 8, copied, converted)


def _decode_bytes(data):
    """Returns (code points, whether the bytes are valid UTF-8).

    The last byte of `data` must be ASCII.
    """
    # A byte 10xxxxxx continues a character. Every other byte begins a character.
    places = places_of(tf.bitwise.bitwise_and(data, 0xC0) != 0x80)
    code_points = tf.cast(tf.gather(data, places), tf.int32)
    non_ascii = places_of(code_points > 127)
    start, end = tf.gather(places, non_ascii), tf.gather(places, non_ascii + 1)
    lead = tf.gather(code_points, non_ascii)  # [non_ascii]
    size = 2 + tf.cast(lead >= 0xE0, tf.int32) + tf.cast(lead >= 0xF0, tf.int32)
    parts = tf.gather(data, tf.minimum(start[:, tf.newaxis] + [1, 2, 3], tf.size(data) - 1))
    parts = tf.bitwise.bitwise_and(tf.cast(parts, tf.int32), 0x3F)  # [non_ascii, 3]
    # Each character is decoded as if it had four bytes. A shift removes the excess bytes.
    value = tf.bitwise.bitwise_and(lead, tf.bitwise.right_shift(127, size)) * (1 << 18)
    value += tf.reduce_sum(parts * [1 << 12, 1 << 6, 1], axis=1)
    value = tf.bitwise.right_shift(value, 6 * (4 - size))
    is_valid = (end - start == size) & (value >= tf.gather([0x80, 0x800, 0x10000], size - 2))
    is_valid &= (lead < 0xF8) & (value < 0x110000) & ((value < 0xD800) | (value > 0xDFFF))
    nothing_astray = tf.size(data) == tf.size(places) + tf.reduce_sum(size - 1)
    return put(code_points, non_ascii, value), tf.reduce_all(is_valid) & nothing_astray


def encode(characters: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor) -> tf.Tensor:
    """Encodes words as strings.

    Args:
        characters: int32 [characters], code points.
        starts, ends: int32 [words], the span of each word, ascending.
    """
    data = tf.cast(tf.minimum(characters, 127), tf.uint8)
    # A serialized tensor ends with the bytes of its values.
    whole = tf.io.serialize_tensor(data)
    header = tf.strings.length(whole) - tf.size(data)
    strings = tf.strings.substr(whole[tf.newaxis], header + starts, ends - starts)

    def with_others():
        non_ascii = places_of(characters > 127)
        words, _ = tf.unique(tf.searchsorted(starts, non_ascii, side="right") - 1)
        places = tf.ragged.range(tf.gather(starts, words), tf.gather(ends, words))
        rows = places.with_values(tf.gather(characters, places.values))
        encoded = tf.strings.unicode_encode(rows, "UTF-8")
        return put(strings, words, encoded)

    return tf.cond(tf.reduce_any(characters > 127), with_others, lambda: strings)


def byte_lengths(characters: tf.Tensor) -> tf.Tensor:
    return 1 + sum(tf.cast(characters >= limit, tf.int32) for limit in (128, 2048, 65536))
