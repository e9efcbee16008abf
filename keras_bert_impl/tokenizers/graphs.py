"""The graphs that every kind of tokenizer traces: texts to ids, with or without offsets."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from keras_bert_impl.tokenizers.unicode.places import numbers_of


def graph_of_ids(split: Callable, subwords: Callable) -> Callable:
    """Traces `Tokenizer.tokenize` for a string tensor [batch]; see `graph_of_offsets`."""

    def tokenize(texts):
        words = split(texts)
        return _per_text(subwords(words)[0], words)

    return _traced(tokenize)


def graph_of_offsets(split: Callable, subwords: Callable, trimmed: Callable) -> Callable:
    """Traces `Tokenizer.tokenize_with_offsets` for a string tensor [batch].

    Args:
        split: Function from a string tensor [batch] to words, an object with `texts`, int64
            [texts + 1], the index of each text's first word; `text_starts`, int32 [texts + 1], the
            index of each text's first character; and the method `characters_of`.
        subwords: Function from words to ragged [words, (tokens)] tensors: the ids, then the arguments
            of `characters_of`, which returns (starts, ends) int32 [tokens], the span of each token
            in the characters of all texts.
    """

    def tokenize_with_offsets(texts):
        words = split(texts)
        ids, *spans = subwords(words)
        starts, ends = words.characters_of(*spans)
        ids = _per_text(ids, words)
        first = tf.gather(words.text_starts, numbers_of(ids.row_lengths()))
        starts, ends = trimmed(ids.values, starts - first, ends - first)
        return ids, ids.with_values(starts), ids.with_values(ends)

    return _traced(tokenize_with_offsets)


def _traced(function):
    """Traces a function of texts for any batch size, on the CPU, the only device with these ops."""

    def on_cpu(texts):
        with tf.device("CPU:0"):
            return function(texts)

    texts = tf.TensorSpec([None], tf.string, name="texts")
    with tf.init_scope():  # the first use may be inside another graph
        return tf.function(on_cpu, autograph=False).get_concrete_function(texts)


def _per_text(subwords, words):
    """Regroups ragged [words, (tokens)] to [texts, (tokens)]."""
    splits = tf.gather(subwords.row_splits, words.texts)
    return tf.RaggedTensor.from_row_splits(subwords.values, splits, validate=False)


def subwords_of_unique(words: Any, split: Callable, added_ids: list[int]) -> list[tf.RaggedTensor]:
    """Splits each distinct word once; an added token has its own id and covers its whole word.

    Args:
        words: Object with `strings`, string [words], and `added`, int32 [words], the index of the
            word's added token, or negative.
        split: Function from string [words] to ragged [words, (tokens)]: ids, starts and, unless
            `characters_of` needs only the starts, ends.
    """
    strings, number = tf.unique(words.strings)
    number = tf.where(words.added >= 0, tf.size(strings) + words.added, number)
    whole = tf.constant([*zip(added_ids)])  # [added tokens, 1]
    whole = [tf.RaggedTensor.from_tensor(part) for part in (whole, 0 * whole, 0 * whole + 1)]
    return [tf.gather(tf.concat(parts, axis=0), number) for parts in zip(split(strings), whole)]
