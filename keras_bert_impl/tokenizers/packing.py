"""Packing segments into encoder rows: [CLS] first [SEP] second [SEP], truncated and padded."""

import tensorflow as tf

from keras_bert_impl.io.errors import InputError


def pack_segments(
    first: tf.RaggedTensor,
    second: tf.RaggedTensor | None = None,
    *,
    cls_id: int,
    sep_id: int,
    pad_id: int,
    is_pair: tf.Tensor | None = None,
    length: int | None = None,
    multiple_of: int = 1,
    num_separators: int = 1,
    segment_of_second: int = 1,
) -> dict[str, tf.Tensor]:
    """Packs one or two segments of token ids per row, with core TensorFlow ops only.

    Rows that are too long are truncated as with `truncation=True` of `transformers`: the longer
    segment first, then both to equal lengths. If the remaining room is odd, the segment that was
    longer gets the extra token (the second one if they were equally long).

    Args:
        first, second: int32 [batch, (tokens)].
        cls_id, sep_id, pad_id: The ids of [CLS], [SEP] and [PAD].
        is_pair: bool [batch], rows that have a second segment. Default: all, if `second` is given.
        length: Row length in tokens. Default: the length of the longest row.
        multiple_of: Without `length`, rows are padded to a multiple of this.
        num_separators: [SEP]s between two segments; RoBERTa has 2.
        segment_of_second: The segment id of the second segment; RoBERTa has 0.

    Returns:
        dict of int32 tensors [batch, length]: `token_ids`; `segment_ids`, `segment_of_second` for
        the second segment and its [SEP], else 0; `padding_mask`, 1 for real tokens.

    Raises:
        InputError: If `length` has no room for the special tokens.

    Example:
        from keras_bert_impl.tokenizers import pack_segments
        rows = tf.ragged.constant([[7, 8], [9]])
        pack_segments(rows, cls_id=2, sep_id=3, pad_id=0)["token_ids"]
        # [[2, 7, 8, 3], [2, 9, 3, 0]]
    """
    num_special = 2 if second is None else 2 + num_separators
    if length is not None and length < num_special:
        raise InputError(f"length={length} has no room for {num_special} special tokens.")
    first_length = first.row_lengths()  # [batch]
    second_length = tf.zeros_like(first_length) if second is None else second.row_lengths()
    if is_pair is None:
        is_pair = tf.fill(tf.shape(first_length), second is not None)
    second_length = tf.where(is_pair, second_length, 0)
    more_separators = num_separators * tf.cast(is_pair, tf.int64)  # [batch], besides the final one
    if length is not None:
        room = length - 2 - more_separators
        first_length, second_length = _longest_first(first_length, second_length, room, is_pair)
    used = 2 + more_separators + first_length + second_length
    if length is None:
        longest = tf.reduce_max(tf.pad(used, [[0, 1]]))  # 0 for an empty batch
        length = (longest + multiple_of - 1) // multiple_of * multiple_of
    place = tf.range(length, dtype=tf.int64)[tf.newaxis, :]  # [1, length]
    used, first_length, second_length = (
        lengths[:, tf.newaxis] for lengths in (used, first_length, second_length)
    )
    second_start = first_length + 1 + num_separators
    is_real = place < used
    # One gather builds the rows, from these three ids and the segments' tokens.
    tokens = [tf.constant([pad_id, cls_id, sep_id], tf.int32), first.values]
    index = tf.where(is_real, tf.constant(2, tf.int64), 0)  # [batch, length]
    index = tf.where(place <= first_length, place + 2 + first.row_starts()[:, tf.newaxis], index)
    index = tf.where(place > 0, index, 1)
    if second is not None:
        start = 3 + tf.size(first.values, tf.int64) + second.row_starts()[:, tf.newaxis]
        in_second = (place >= second_start) & (place < second_start + second_length)
        index = tf.where(in_second, place - second_start + start, index)
        tokens.append(second.values)
    return {
        "token_ids": tf.gather(tf.concat(tokens, axis=0), index),
        "segment_ids": segment_of_second * tf.cast((place >= second_start) & is_real, tf.int32),
        "padding_mask": tf.cast(is_real, tf.int32),
    }


def _longest_first(first, second, room, is_pair):
    """Returns the lengths of both segments after truncation, all int64 [batch]."""
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
