"""Normalization of texts to composed characters (NFC), in graph, and where they came from."""

import tensorflow as tf
import tensorflow_text


def normalize(texts):
    """The texts in Unicode's normalization form C.

    Args:
        texts: string tensor [texts]. Every invalid part of UTF-8 becomes one U+FFFD.

    Source: Unicode Standard Annex 15.
    """
    return tensorflow_text.normalize_utf8(_valid(texts), "NFC")


def origins(texts):
    """Where the characters of `normalize(texts)` came from.

    A character that was composed came from the first of its own; the others of such a sequence
    have one original each, from its end, as `tokenizers` counts them.

    Args:
        texts: string tensor [texts].

    Returns:
        int32 [characters + 1]: for each normalized character of all texts the original one, both
        counted over all texts with a line end after each; the last entry is for the end.
    """
    # TF-Text fails on empty texts and batches; the last line end is what stands for the end.
    texts = tf.strings.join([tf.concat([_valid(texts), [""]], axis=0), "\n"])
    normalized, offsets = tensorflow_text.normalize_utf8_with_offsets_map(texts, "NFC")
    _, places = tf.strings.unicode_decode_with_offsets(normalized, "UTF-8")
    _, starts = tf.strings.unicode_decode_with_offsets(texts, "UTF-8")
    # A change of several characters has its end here for all of them but the first.
    places = tensorflow_text.find_source_offsets(offsets, places)  # [texts, (characters)], in bytes
    before = tf.cumsum(tf.strings.length(texts), exclusive=True)  # in bytes, of all texts
    original = tf.searchsorted(_over_all(starts, before), _over_all(places, before))
    # Characters with the same end, and the one that begins there.
    after = tf.searchsorted(original, original, side="right") - 1
    first = tf.maximum(tf.searchsorted(original, original) - 1, 0)
    from_end = original - (after - tf.range(tf.size(original)))
    return tf.maximum(from_end, tf.gather(original, first))


def _valid(texts):
    return tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", errors="replace")


def _over_all(places, before):
    """Bytes of each text to bytes of all texts."""
    return places.values + tf.cast(tf.gather(before, places.value_rowids()), places.dtype)
