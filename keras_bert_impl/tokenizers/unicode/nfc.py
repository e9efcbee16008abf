"""Normalization to composed characters (NFC) in the graph, with character origins."""

import tensorflow as tf
import tensorflow_text

from keras_bert_impl.tokenizers.unicode.places import numbers_of


def normalize(texts: tf.Tensor) -> tf.Tensor:
    """Normalizes texts to Unicode's normalization form C.

    Args:
        texts: string tensor [texts]. Each invalid UTF-8 sequence becomes one U+FFFD.

    Source: Unicode Standard Annex 15.
    """
    return tensorflow_text.normalize_utf8(_valid(texts), "NFC")


def origins(texts: tf.Tensor) -> tf.Tensor:
    """Maps the characters of `normalize(texts)` to the original characters.

    Args:
        texts: string tensor [texts].

    Returns:
        int32 [characters + 1], the original index of each normalized character, both counted over
        all texts with a newline after each; the last entry marks the end.
    """
    # TF-Text fails on empty texts and batches; the last newline marks the end.
    texts = tf.strings.join([tf.concat([_valid(texts), [""]], axis=0), "\n"])
    normalized, offsets = tensorflow_text.normalize_utf8_with_offsets_map(texts, "NFC")
    _, places = tf.strings.unicode_decode_with_offsets(normalized, "UTF-8")
    _, starts = tf.strings.unicode_decode_with_offsets(texts, "UTF-8")
    # All characters of a changed sequence but the first map to its end here.
    places = tensorflow_text.find_source_offsets(offsets, places)  # [texts, (characters)], in bytes
    before = tf.cumsum(tf.strings.length(texts), exclusive=True)  # in bytes, of all texts
    original = tf.searchsorted(_over_all(starts, before), _over_all(places, before))
    # The character that begins at this position, and the one that begins the sequence.
    after = tf.searchsorted(original, original, side="right") - 1
    first = tf.maximum(tf.searchsorted(original, original) - 1, 0)
    from_end = original - (after - tf.range(tf.size(original)))
    return tf.maximum(from_end, tf.gather(original, first))


def _valid(texts):
    return tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", errors="replace")


def _over_all(places, before):
    """Converts byte offsets in each text to byte offsets in all texts."""
    text = numbers_of(places.row_lengths())
    return places.values + tf.cast(tf.gather(before, text), places.dtype)
