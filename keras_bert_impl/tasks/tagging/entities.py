"""Entity extraction from word labels."""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_bert_impl.tasks.tagging.decode import LabelParts
from keras_bert_impl.tasks.tagging.word_scores import flat_words, units_of


class Entity(NamedTuple):
    """An entity in a text.

    Attributes:
        type: str, such as `"PER"`.
        text: str, the text of the entity.
        start, end: int. Character offsets: `text[start:end]` of the input text.
        score: float, the mean label probability of its words.
    """

    type: str
    text: str
    start: int
    end: int
    score: float


def find_entities(sentences, answers, numbers, probabilities, labels):
    """Returns the entities of texts; see `decode.LabelParts`.

    Args:
        sentences: list of `Words`.
        answers: list of `WordScores`.
        numbers: list of int arrays [words], the label of each word.
        probabilities: list of float32 arrays [words, num_labels].
        labels: list of str, the label names.

    Returns:
        list (texts) of lists of `Entity`, in order.
    """
    if not sentences:
        return []
    words, bases = flat_words(sentences)
    parts = LabelParts(labels)
    numbers = tf.constant(np.concatenate(numbers), tf.int32)
    probabilities = tf.constant(np.concatenate(probabilities))
    found = parts.entities(words, units_of(answers), numbers, probabilities)
    entities = [[] for _ in sentences]
    for kind, start, end, score, text in zip(*(column.numpy().tolist() for column in found)):
        start, end = start - int(bases[text]), end - int(bases[text])
        name = parts.types[kind]
        entities[text].append(Entity(name, sentences[text].text[start:end], start, end, score))
    return entities
