"""Rows for the encoder: [CLS] first [SEP] second [SEP], truncated and padded."""

import tensorflow as tf

from keras_bert_impl.errors import InputError


def pack_segments(
    first,
    second=None,
    *,
    cls_id,
    sep_id,
    pad_id,
    is_pair=None,
    length=None,
    multiple_of=1,
    num_separators=1,
    segment_of_second=1,
):
    """Packs one or two segments of token ids into a row each, with core TensorFlow ops only.

    A row that is too long is cut as `truncation=True` of `transformers` does it: the longer
    segment first, then both to equal lengths; where an odd number of places is left, the segment
    that was longer gets the one more (the second where they were equally long).

    Args:
        first: int32 `tf.RaggedTensor` [batch, (tokens)].
        second: the same for the second segments, or None.
        cls_id: int, id of [CLS]. Likewise `sep_id` and `pad_id`.
        is_pair: bool [batch]: which rows have a second segment. Default: all, if `second` is given.
        length: int, tokens in a row. Default None: as many as the longest row needs.
        multiple_of: int: without `length`, rows are padded to a multiple of this. Default 1.
        num_separators: int, [SEP]s between two segments. Default 1; RoBERTa has 2.
        segment_of_second: int, the segment id of the second segment. Default 1; RoBERTa has 0.

    Returns:
        A dict of int32 tensors [batch, length]: `token_ids`; `segment_ids`, that of the second
        segment and its [SEP], else 0; `padding_mask`, 1 for real tokens.

    Raises:
        InputError: `length` has no room for the special tokens.

    Example:
        rows = tf.ragged.constant([[7, 8], [9]])
        pack_segments(rows, cls_id=2, sep_id=3, pad_id=0)["token_ids"]
        # [[2, 7, 8, 3], [2, 9, 3, 0]]
    """
    num_special = 2 if second is None else 2 + num_separators
    if length is not None and length < num_special:
        raise InputError(f"length={length} has no room for {num_special} special tokens.")
    if second is None:
        second = tf.RaggedTensor.from_row_splits(
            tf.constant([], first.dtype), tf.zeros_like(first.row_splits), validate=False
        )
        is_pair = tf.zeros_like(second.row_lengths(), tf.bool)
    elif is_pair is None:
        is_pair = tf.ones_like(second.row_lengths(), tf.bool)
    more_separators = num_separators * tf.cast(is_pair, tf.int64)  # [batch], than the one
    if length is not None:
        room = length - 2 - more_separators
        first_length, second_length = _longest_first(
            first.row_lengths(), second.row_lengths(), room, is_pair
        )
        first, second = _cut(first, first_length), _cut(second, second_length)
    cls, sep = (tf.fill([first.nrows(), 1], tf.constant(i, tf.int32)) for i in (cls_id, sep_id))
    last = _cut(tf.RaggedTensor.from_tensor(sep), tf.cast(is_pair, tf.int64))
    between = tf.repeat(sep, num_separators - 1, axis=1)
    between = _cut(tf.RaggedTensor.from_tensor(between), more_separators)
    rows = tf.concat([cls, first, sep, between, second, last], axis=1)
    shape = [None, length]  # known in graph
    if length is None:
        length = (rows.bounding_shape(axis=1) + multiple_of - 1) // multiple_of * multiple_of
        shape = tf.stack([-1, length])
    place = tf.range(tf.cast(length, tf.int64))[tf.newaxis, :]  # [1, length]
    used = rows.row_lengths()[:, tf.newaxis]
    second_start = first.row_lengths()[:, tf.newaxis] + 1 + num_separators
    is_second = (place >= second_start) & (place < used)
    return {
        "token_ids": rows.to_tensor(pad_id, shape=shape),
        "segment_ids": segment_of_second * tf.cast(is_second, tf.int32),
        "padding_mask": tf.cast(place < used, tf.int32),
    }


def _longest_first(first, second, room, is_pair):
    """Lengths of both segments after the cut; all int64 [batch]."""
    shorter = tf.minimum(first, second)
    longer = tf.where(shorter > room, shorter, tf.maximum(shorter, room - shorter))
    half = room // 2
    both = shorter + longer > room
    shorter = tf.where(both, half, shorter)
    longer = tf.where(both, half + room % 2, longer)
    swapped = first > second
    alone = tf.minimum(first, room)
    return (
        tf.where(is_pair, tf.minimum(first, tf.where(swapped, longer, shorter)), alone),
        tf.where(is_pair, tf.minimum(second, tf.where(swapped, shorter, longer)), 0),
    )


def _cut(rows, lengths):
    """The first `lengths` tokens of each row."""
    keep = tf.range(tf.size(rows.values, out_type=tf.int64))
    keep = keep - tf.gather(rows.row_starts(), rows.value_rowids())
    keep = keep < tf.gather(lengths, rows.value_rowids())
    return tf.ragged.boolean_mask(rows, rows.with_values(keep))
