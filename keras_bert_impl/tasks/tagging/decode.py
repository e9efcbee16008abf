"""Converts token scores to labels and entities, for `predict` and exported graphs."""

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from keras_bert_impl.data.tags.spans import read_labels
from keras_bert_impl.tokenizers.graphs import places_of
from keras_bert_impl.tokenizers.text_words import TextWords, WordTokens
from keras_bert_impl.utils.one_graph import in_one_graph


class Units(NamedTuple):
    """Groups of consecutive words that share a token. Most groups contain one word.

    Attributes:
        firsts: int32 [units], index of the first word of each unit.
        of_words: int32 [words], index of the unit of each word.
        is_known: bool [units], False for words without a token.
    """

    firsts: tf.Tensor
    of_words: tf.Tensor
    is_known: tf.Tensor


@in_one_graph
def find_units(tokens: tf.Tensor) -> Units:
    """Groups words into units.

    Args:
        tokens: int32 [words], index of the token of each word; -1 for words without a token.
    """
    differs = tf.concat([[True], tokens[1:] != tokens[:-1]], axis=0)[: tf.size(tokens)]
    differs |= tokens < 0
    firsts = places_of(differs)
    return Units(firsts, tf.cumsum(tf.cast(differs, tf.int32)) - 1, tf.gather(tokens, firsts) >= 0)


def scores_of_words(
    scores: tf.Tensor, tokens: WordTokens, aggregation: str, unknown: int
) -> tf.Tensor:
    """Computes the label scores of each word from the scores of its tokens.

    Args:
        scores: float32 [tokens, num_labels].

    Returns:
        float32 [words, num_labels].
    """
    firsts, num_tokens = tokens.firsts, tf.shape(scores)[0]
    with_unknown = tf.concat([scores, tf.one_hot([unknown], scores.shape[-1])], axis=0)
    first = tf.gather(with_unknown, tf.where(firsts >= 0, firsts, num_tokens))
    if aggregation == "first":
        return first
    word_indices, count = tokens.words, tf.size(firsts)
    segments = tf.where(word_indices >= 0, word_indices, count), count + 1
    if aggregation == "mean":
        combined = tf.math.unsorted_segment_mean(scores, *segments)[:-1]
    else:
        peaks = tf.reduce_max(scores, axis=-1)  # [tokens]
        highest = tf.gather(tf.math.unsorted_segment_max(peaks, *segments), segments[0])
        is_best = (peaks == highest) & (word_indices >= 0)
        best = tf.math.unsorted_segment_min(
            tf.range(num_tokens), tf.where(is_best, word_indices, count), count + 1
        )[:-1]
        combined = tf.gather(with_unknown, tf.minimum(best, num_tokens))
    return tf.where(tokens.owns[:, tf.newaxis], combined, first)


def over_sequences(
    function: Callable[[tf.Tensor, tf.Tensor], tf.Tensor],
    scores: tf.Tensor,
    units: Units,
    texts: tf.Tensor,
    num_texts: tf.Tensor,
    unknown: tf.Tensor,
) -> tf.Tensor:
    """Applies a function to the label scores of texts, with one position for each unit.

    Args:
        function: function of scores, float32 [batch, length, num_labels], and of a mask, float32
            [batch, length]. Returns a tensor [batch, length, ...].
        scores: float32 [words, num_labels].
        texts: int64 [words], index of the text of each word.
        unknown: tensor [...], the result for words without a token.

    Returns:
        Tensor [words, ...], the result for the unit of each word.
    """
    firsts = tf.boolean_mask(units.firsts, units.is_known)  # [known units], first word of each
    rows = tf.RaggedTensor.from_value_rowids(
        tf.gather(scores, firsts), tf.gather(texts, firsts), num_texts, validate=False
    )
    longest = tf.maximum(rows.bounding_shape(axis=1), 1)
    mask = tf.sequence_mask(rows.row_lengths(), longest)
    emissions = rows.to_tensor(shape=tf.stack([-1, longest, scores.shape[-1]]))
    results = function(emissions, tf.cast(mask, tf.float32))
    results = tf.concat([tf.boolean_mask(results, mask), unknown[tf.newaxis]], axis=0)
    numbers = tf.cumsum(tf.cast(units.is_known, tf.int32)) - 1
    numbers = tf.where(units.is_known, numbers, tf.size(firsts))  # indices into the known units
    return tf.gather(results, tf.gather(numbers, units.of_words))


class Entities(NamedTuple):
    """Entities in texts.

    Attributes:
        types: int32 [entities], index of the entity type in `LabelParts.types`.
        starts, ends: int32 [entities], start and end in the code points of all texts, concatenated.
        scores: float32 [entities], mean probability of the labels of the entity.
        texts: int64 [entities], index of the text of each entity.
    """

    types: tf.Tensor
    starts: tf.Tensor
    ends: tf.Tensor
    scores: tf.Tensor
    texts: tf.Tensor


class LabelParts:
    """Lookup tables of the prefix and the entity type of each label."""

    def __init__(self, labels: list[str]):
        parts = read_labels(labels).parts
        prefixes, names = zip(*(parts[label] for label in labels))
        self.types = sorted(set(names))
        self._types = [self.types.index(name) for name in names]
        self._is_out = [prefix == "O" for prefix in prefixes]
        self._begins = [prefix in "BS" for prefix in prefixes]
        self._ends = [prefix in "OES" for prefix in prefixes]  # labels that end an entity

    def entities(
        self, words: TextWords, units: Units, labels: tf.Tensor, probabilities: tf.Tensor
    ) -> Entities:
        """Extracts entities from word labels in the graph. Follows the rules of `spans.spans_of`.

        Args:
            labels: int32 [words].
            probabilities: float32 [words, num_labels].
        """
        count = tf.size(units.firsts)
        labels, texts = tf.gather(labels, units.firsts), tf.gather(words.texts, units.firsts)
        scores = tf.gather(probabilities, units.firsts)
        scores = tf.gather(scores, labels, batch_dims=1)  # [units]
        is_in = ~tf.gather(self._is_out, labels)
        types = tf.gather(self._types, labels)

        def move_right(values, first):
            return tf.concat([[first], values[:-1]], axis=0)[:count]

        begins = tf.gather(self._begins, labels) | move_right(tf.gather(self._ends, labels), True)
        begins |= types != move_right(types, -1)
        begins |= texts != move_right(texts, tf.constant(-1, tf.int64))
        begins &= is_in

        inside = places_of(is_in)  # units of all entities
        numbers = tf.gather(tf.cumsum(tf.cast(begins, tf.int32)) - 1, inside)
        firsts = places_of(begins)  # [entities], first unit of each
        lasts = tf.math.segment_max(inside, numbers)
        # The last word of a unit is before the first word of the next unit.
        next_words = tf.concat([units.firsts[1:], [tf.size(words.starts)]], axis=0)
        return Entities(
            tf.gather(types, firsts),
            tf.gather(words.starts, tf.gather(units.firsts, firsts)),
            tf.gather(words.ends, tf.gather(next_words, lasts) - 1),
            tf.math.segment_mean(tf.gather(scores, inside), numbers),
            tf.gather(texts, firsts),
        )
