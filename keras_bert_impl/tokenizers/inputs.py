"""Converts texts to string tensors, and token ids to padded model inputs."""

import re
import types
from typing import Annotated, Any

import numpy as np
import tensorflow as tf

from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.settings import OneOf

_CUT = re.compile(r"(?<=[A-Za-z0-9]) (?=[A-Za-z0-9])")  # No token extends over such a space.
_CHARACTERS_OF_TOKEN = 16  # Almost all texts have fewer characters per token.

SegmentId = Annotated[int, OneOf(0, 1)]

# On small arrays, NumPy is many times faster than eager TensorFlow.
_NUMPY = types.SimpleNamespace(
    cast=lambda values, dtype: np.asarray(values, dtype.as_numpy_dtype),
    concat=np.concatenate,
    fill=np.full,
    gather=np.take,
    maximum=np.maximum,
    minimum=np.minimum,
    pad=np.pad,
    range=lambda limit, dtype: np.arange(limit, dtype=dtype.as_numpy_dtype),
    reduce_max=np.max,
    shape=np.shape,
    size=lambda values, dtype: np.size(values),
    where=np.where,
    zeros_like=np.zeros_like,
)


def segments(texts: Any) -> tuple[Any, Any, list[bool] | None]:
    """Returns (first segments, second segments, whether each text has a second segment)."""
    if type(texts).__name__ == "KerasTensor":
        raise InputError(
            "a keras.Input has no strings to tokenize. Tokenize the data with dataset.map(lambda "
            "texts: tokenizer(texts, length=128)), and create a keras.Input for each feature."
        )
    if isinstance(texts, tuple):
        if len(texts) != 2:
            raise InputError(f"a tuple must have two segments. Received: {len(texts)}")
        first, second = map(_convert_to_batch, texts)
        sizes = [part.shape[0] if tf.is_tensor(part) else len(part) for part in (first, second)]
        if None not in sizes and sizes[0] != sizes[1]:
            raise InputError(
                f"there must be as many first segments as second segments. Received: {sizes[0]} "
                f"and {sizes[1]}"
            )
        return first, second, None
    if tf.is_tensor(texts) or isinstance(texts, (str, bytes)):
        return _convert_to_batch(texts), None, None
    _check_no_table(texts)
    texts = list(texts)
    is_pair = [isinstance(text, tuple) for text in texts]
    if not any(is_pair):
        return as_bytes(texts), None, None
    for position, text in enumerate(texts):
        if is_pair[position] and len(text) != 2:
            raise InputError(
                f"text {position} is a tuple of {len(text)}, but a pair has two segments."
            )
    pairs = [text if pair else (text, "") for text, pair in zip(texts, is_pair)]
    first, second = zip(*pairs)
    return as_bytes(first), as_bytes(second), is_pair


def as_strings(texts: Any) -> tf.Tensor:
    if not tf.is_tensor(texts):
        texts = as_bytes(texts)
        return tf.constant(texts, tf.string, shape=[len(texts)])
    if texts.dtype != tf.string or texts.shape.rank != 1:
        raise InputError(
            f"expected a string tensor of shape [batch]. Received: {texts.dtype.name} {texts.shape}"
        )
    return texts


def as_bytes(texts: Any) -> list[bytes]:
    if isinstance(texts, (str, bytes)):
        texts = [texts]
    _check_no_table(texts)
    texts = list(texts)
    try:
        return [*map(str.encode, texts)]
    # The list contains bytes, other types or unpaired surrogates.
    except (TypeError, UnicodeEncodeError):
        return [_encode_text(text, position) for position, text in enumerate(texts)]


def _convert_to_batch(texts):
    return as_strings(texts) if tf.is_tensor(texts) else as_bytes(texts)


def _check_no_table(texts):
    if isinstance(texts, dict) or hasattr(texts, "columns"):
        raise InputError(
            f"expected a list of texts. Received: {type(texts).__name__}. Pass one of its "
            'columns, such as table["text"].'
        )
    if not hasattr(texts, "__iter__"):
        raise InputError(f"expected a list of texts. Received: {texts!r:.60}")


def _encode_text(text, position):
    if isinstance(text, bytes):
        return text
    if not isinstance(text, str):
        raise InputError(
            f"text {position} must be a string, not {type(text).__name__}: {text!r:.60}"
        )
    try:
        return text.encode()
    except UnicodeEncodeError:  # An unpaired surrogate becomes U+FFFD.
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def beginning(text: str, num_tokens: int) -> str:
    """Returns the first part of a text, which is almost always longer than `num_tokens` tokens."""
    place = _CHARACTERS_OF_TOKEN * num_tokens
    cut = _CUT.search(text, place, 2 * place) if len(text) > 2 * place else None
    return text[: cut.start()] if cut else text


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
    """Packs one or two segments of token ids into each row, with core TensorFlow operations only.

    Long rows are truncated as with `truncation=True` in `transformers`: the longer segment is
    truncated first. If the row is still too long, both segments are truncated to the same length.
    If an odd number of tokens is available, the longer segment keeps one more token. If both
    segments have the same length, the second segment keeps one more token.

    Args:
        first, second: ragged int32 [batch, (tokens)], the token ids of the segments.
        cls_id, sep_id, pad_id: Ids of [CLS], [SEP] and [PAD].
        is_pair: bool [batch], whether each row has a second segment. Default: if `second` is given,
            all rows have a second segment.
        length: Sequence length. Default: the length of the longest row.
        multiple_of: If `length` is None, the sequence length is rounded up to a multiple of this
            number.
        num_separators: Number of [SEP] tokens between two segments. RoBERTa uses 2.
        segment_of_second: Segment id of the second segment. RoBERTa uses 0.

    Returns:
        dict of int32 tensors [batch, length]: `token_ids`; `segment_ids`; and `padding_mask`, 1 for
        real tokens and 0 for padding. In `segment_ids`, the second segment and the [SEP] after it
        have the value `segment_of_second`, and all other tokens have the value 0.

    Raises:
        InputError: `length` is less than the number of special tokens.

    Example:
        from keras_bert_impl.tokenizers import pack_segments
        rows = tf.ragged.constant([[7, 8], [9]])
        pack_segments(rows, cls_id=2, sep_id=3, pad_id=0)["token_ids"]
        # [[2, 7, 8, 3], [2, 9, 3, 0]]
    """
    num_special = 2 if second is None else 2 + num_separators
    if length is not None and length < num_special:
        raise InputError(f"length={length} has no room for {num_special} special tokens.")
    in_graph = not (tf.executing_eagerly() and hasattr(first.values, "numpy"))
    ops = tf if in_graph else _NUMPY
    values, starts, first_length = _unpack_segment(first, in_graph)
    tokens, row_starts = [[pad_id, cls_id, sep_id], values], [3 + starts]
    second_length = ops.zeros_like(first_length)
    if second is not None:
        second_values, starts, second_length = _unpack_segment(second, in_graph)
        tokens.append(second_values)
        row_starts.append(3 + ops.size(values, tf.int64) + starts)
    if is_pair is None:
        is_pair = ops.fill(ops.shape(first_length), second is not None)
    is_pair = ops.cast(is_pair, tf.bool)
    second_length = ops.where(is_pair, second_length, 0)
    # [batch], without the final [SEP]
    more_separators = num_separators * ops.cast(is_pair, tf.int64)
    if length is not None:
        room = length - 2 - more_separators
        lengths = first_length, second_length
        first_length, second_length = _truncate_longest_first(ops, *lengths, room, is_pair)
    used = 2 + more_separators + first_length + second_length
    if length is None:
        longest = ops.reduce_max(ops.pad(used, [[0, 1]]))  # An empty batch gets length 0.
        length = (longest + multiple_of - 1) // multiple_of * multiple_of
    place = ops.range(length, dtype=tf.int64)[tf.newaxis, :]  # [1, length]
    used, first_length, second_length, *row_starts = (
        column[:, tf.newaxis] for column in (used, first_length, second_length, *row_starts)
    )
    second_start = first_length + 1 + num_separators
    is_real = place < used
    # A single gather builds the rows from these three ids and the tokens of both segments.
    index = 2 * ops.cast(is_real, tf.int64)  # [batch, length]
    index = ops.where(place <= first_length, place - 1 + row_starts[0], index)
    index = ops.where(place > 0, index, 1)
    if second is not None:
        in_second = (place >= second_start) & (place < second_start + second_length)
        index = ops.where(in_second, place - second_start + row_starts[1], index)
    in_last = ops.cast((place >= second_start) & is_real, tf.int32)
    features = {
        "token_ids": ops.gather(ops.concat(tokens, axis=0), index),
        "segment_ids": segment_of_second * in_last,
        "padding_mask": ops.cast(is_real, tf.int32),
    }
    return {name: tf.convert_to_tensor(values, tf.int32) for name, values in features.items()}


def _unpack_segment(segment, in_graph):
    """Returns (values, row starts, row lengths), which are arrays if `in_graph` is False."""
    if in_graph:
        return segment.values, segment.row_starts(), segment.row_lengths()
    splits = segment.row_splits.numpy()
    return segment.values.numpy(), splits[:-1], np.diff(splits)


def _truncate_longest_first(ops, first, second, room, is_pair):
    """Returns the lengths of the first and the second segments after truncation, int64 [batch]."""
    shorter = ops.minimum(first, second)
    longer = ops.where(shorter > room, shorter, ops.maximum(shorter, room - shorter))
    half = room // 2
    both = shorter + longer > room
    shorter = ops.where(both, half, shorter)
    longer = ops.where(both, half + room % 2, longer)
    swapped = first > second
    alone = ops.minimum(first, room)
    return (
        ops.where(is_pair, ops.minimum(first, ops.where(swapped, longer, shorter)), alone),
        ops.where(is_pair, ops.minimum(second, ops.where(swapped, shorter, longer)), 0),
    )
