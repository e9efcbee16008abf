"""TensorFlow graphs and tensor operations of tokenizers."""

import contextlib
import contextvars
import functools
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

_CORE_ONLY = contextvars.ContextVar("core operations only", default=False)


@contextlib.contextmanager
def core_operations(only: bool = True) -> Iterator[None]:
    """Context manager in which tokenizers use core operations instead of TensorFlow Text."""
    token = _CORE_ONLY.set(only)
    try:
        yield
    finally:
        _CORE_ONLY.reset(token)


def core_operations_only() -> bool:
    return _CORE_ONLY.get()


def graph_of_ids(split: Callable, subwords: Callable) -> Callable:
    def tokenize(texts):
        words = split(texts)
        return _group_by_text(subwords(words)[0], words)

    return _trace(tokenize)


def graph_of_offsets(split: Callable, subwords: Callable, trimmed: Callable) -> Callable:
    """Traces `Tokenizer.tokenize_with_offsets` as a graph function of a string tensor [batch].

    Args:
        split: Function that splits a string tensor [batch] into words. The result has the
            attributes `texts` and `text_starts` and the method `characters_of`, as `ByteLevelWords`
            does.
        subwords: Function that splits the words into tokens. Returns ragged tensors [words,
            (tokens)]: the ids, followed by the arguments of `characters_of`.
    """

    def tokenize_with_offsets(texts):
        words = split(texts)
        ids, *spans = subwords(words)
        starts, ends = words.characters_of(*spans)
        ids = _group_by_text(ids, words)
        first = tf.gather(words.text_starts, numbers_of(ids.row_lengths()))
        starts, ends = trimmed(ids.values, starts - first, ends - first)
        return ids, ids.with_values(starts), ids.with_values(ends)

    return _trace(tokenize_with_offsets)


def _trace(function):
    """Compiles a function of texts in two versions: with and without TensorFlow Text."""

    def on_cpu(texts):
        with tf.device("CPU:0"):
            return function(texts)

    @functools.cache
    def graph(_):
        texts = tf.TensorSpec([None], tf.string, name="texts")
        with tf.init_scope():  # The first use may be inside another graph.
            return tf.function(on_cpu, autograph=False).get_concrete_function(texts)

    return lambda texts: graph(core_operations_only())(texts)


def _group_by_text(subwords, words):
    """Converts ragged tokens [words, (tokens)] to [texts, (tokens)]."""
    splits = tf.gather(subwords.row_splits, words.texts)
    return tf.RaggedTensor.from_row_splits(subwords.values, splits, validate=False)


def subwords_of_unique(words: Any, split: Callable, added_ids: list[int]) -> list[tf.RaggedTensor]:
    """Splits words into subwords. Equal words are split only once. Added tokens are not split.

    Args:
        words: Object with the attributes `strings` and `added` of `ByteLevelWords`.
        split: Function that splits a string tensor [words] into subwords. Returns ragged tensors
            [words, (tokens)]: ids, starts and, if `characters_of` has this argument, ends.
    """
    strings, number = tf.unique(words.strings)
    number = tf.where(words.added >= 0, tf.size(strings) + words.added, number)
    whole = tf.constant([*zip(added_ids)])  # [added tokens, 1]
    whole = [tf.RaggedTensor.from_tensor(part) for part in (whole, 0 * whole, 0 * whole + 1)]
    return [tf.gather(tf.concat(parts, axis=0), number) for parts in zip(split(strings), whole)]


def places_of(mask: tf.Tensor) -> tf.Tensor:
    """Returns the positions of True in a bool vector as int32."""
    return tf.cast(tf.squeeze(tf.where(mask), axis=1), tf.int32)


def chosen(values: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Like `tf.boolean_mask` for vectors, but with fewer graph nodes."""
    return tf.gather(values, places_of(mask))


def put(values: tf.Tensor, places: tf.Tensor, new: Any) -> tf.Tensor:
    """Returns a copy of a vector with new values at the given positions."""
    new = tf.broadcast_to(new, tf.shape(places))
    return tf.tensor_scatter_nd_update(values, places[:, tf.newaxis], new)


def numbers_of(counts: tf.Tensor) -> tf.Tensor:
    """Converts group sizes to the group index of each item, such as [2, 0, 1] to [0, 0, 2]."""
    starts = tf.cumsum(counts, exclusive=True)[1:]
    ends = tf.reduce_sum(counts)
    begun = tf.math.unsorted_segment_sum(tf.ones_like(starts), starts, ends + 1)
    return tf.cumsum(begun[:-1])


def before(values: tf.Tensor, fill: int | bool, distance: int = 1) -> tf.Tensor:
    """Shifts values to later positions: `before([1, 2, 3], 0)` is [0, 1, 2]."""
    filling = tf.fill([distance], tf.cast(fill, values.dtype))
    return tf.concat([filling, values], axis=0)[: tf.size(values)]


def after(values: tf.Tensor, fill: int | bool, distance: int = 1) -> tf.Tensor:
    """Shifts values to earlier positions: `after([1, 2, 3], 0)` is [2, 3, 0]."""
    filling = tf.fill([distance], tf.cast(fill, values.dtype))
    return tf.concat([values[distance:], filling], axis=0)[: tf.size(values)]


def token_ends(starts: tf.Tensor, words: tf.Tensor, word_ends: tf.Tensor) -> tf.Tensor:
    """Returns the end of each token: the start of the next token, or the end of the word."""
    is_last = after(words, -1) != words
    return tf.where(is_last, tf.gather(word_ends, words), after(starts, 0))


def without_overlaps(pairs: tf.Tensor) -> tf.Tensor:
    """Removes overlapping pairs. For example, `aaa` has two pairs `aa`, and the first is kept."""
    places = tf.range(tf.size(pairs))
    begins = pairs & ~before(pairs, False)
    begun = tf.concat([chosen(places, begins), [0]], axis=0)
    run = tf.maximum(tf.cumsum(tf.cast(begins, tf.int32)) - 1, 0)
    return pairs & ((places - tf.gather(begun, run)) % 2 == 0)


def leftmost(starts: tf.Tensor, ends: tf.Tensor) -> tf.Tensor:
    """Selects matches from left to right, without overlaps. Returns bool [matches]."""
    size = tf.size(starts)
    overlap = tf.reduce_any(starts[1:] < ends[:-1])
    # After n rounds, 2^n matches are found, and `jumps` skips 2^n matches.
    jumps = tf.concat([tf.searchsorted(starts, ends), [size]], axis=0)
    is_selected = tf.equal(tf.range(size + 1), 0) | ~overlap

    def double(is_selected, jumps):
        return put(is_selected, chosen(jumps, is_selected), True), tf.gather(jumps, jumps)

    is_selected, _ = tf.while_loop(
        lambda is_selected, jumps: overlap & (jumps[0] < size), double, (is_selected, jumps)
    )
    return is_selected[:-1]
