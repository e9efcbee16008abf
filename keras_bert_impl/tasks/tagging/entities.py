"""Entity extraction from word labels."""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_bert_impl.data.batches.words import Words
from keras_bert_impl.tasks.tagging.decode import LabelParts
from keras_bert_impl.tasks.tagging.word_scores import WordScores, units_of
from keras_bert_impl.tokenizers.text_words import TextWords
from keras_bert_impl.utils.one_graph import in_one_graph


class Entity(NamedTuple):
    """An entity in a text.

    Attributes:
        type: entity type, such as `"PER"`.
        text: the text of the entity.
        start, end: character offsets; the entity is `text[start:end]` of the input text.
        score: mean probability of the labels of the words.
    """

    type: str
    text: str
    start: int
    end: int
    score: float


def find_entities(
    sentences: list[Words],
    answers: list[WordScores],
    numbers: list[np.ndarray],
    probabilities: list[np.ndarray],
    labels: list[str],
) -> list[list[Entity]]:
    """Returns the entities of each text.

    Args:
        numbers: class indices, one int array [words] per text.
        probabilities: one float32 array [words, num_labels] per text.
    """
    if not sentences:
        return []
    # Starts of the concatenated texts.
    bases = np.cumsum([0, *(len(words.text) + 1 for words in sentences)])
    counts = [len(words.starts) for words in sentences]
    shifts = np.repeat(bases[:-1], counts)
    words = TextWords(
        tf.constant(np.concatenate([words.starts for words in sentences]) + shifts, tf.int32),
        tf.constant(np.concatenate([words.ends for words in sentences]) + shifts, tf.int32),
        tf.constant(np.repeat(np.arange(len(sentences)), counts)),
        tf.constant(counts, tf.int64),
    )
    columns = _compute_entities(
        words,
        units_of(answers),
        tf.constant(np.concatenate(numbers), tf.int32),
        tf.constant(np.concatenate(probabilities)),
        labels=tuple(labels),
    )
    types = LabelParts(labels).types
    entities: list[list[Entity]] = [[] for _ in sentences]
    for kind, start, end, score, text in zip(*(column.numpy().tolist() for column in columns)):
        start, end = start - int(bases[text]), end - int(bases[text])
        name = types[kind]
        entities[text].append(Entity(name, sentences[text].text[start:end], start, end, score))
    return entities


@in_one_graph
def _compute_entities(words, units, numbers, probabilities, *, labels):
    return LabelParts(list(labels)).entities(words, units, numbers, probabilities)
