"""Entity extraction from word labels."""

from typing import NamedTuple

from keras_bert_impl.tasks.tagging.entity_labels import read_labels
from keras_bert_impl.tasks.tagging.spans import spans_of
from keras_bert_impl.tasks.tagging.word_scores import units


class Entity(NamedTuple):
    """An entity in a text.

    Attributes:
        type: str, such as `"PER"`.
        text: str, the entity's text.
        start, end: int. Character offsets: `text[start:end]` of the input text.
        score: float, mean label probability of its words.
    """

    type: str
    text: str
    start: int
    end: int
    score: float


def find_entities(words, answer, numbers, probabilities, labels):
    """Returns the entities of a text.

    Args:
        words: `Words`.
        answer: `WordScores`.
        numbers: int [words], label number of each word.
        probabilities: float32 [words, num_labels].
        labels: list of str, label names.

    Returns:
        list of `Entity`, in order.
    """
    # Words that share a subword share its prediction and count as one word.
    starts, ends = units(answer.tokens)
    numbers = numbers[starts]
    scores = probabilities[starts, numbers]
    entities, parts = [], read_labels(labels).parts
    for name, first, end in spans_of([labels[number] for number in numbers], parts=parts):
        place = slice(int(words.starts[starts[first]]), int(words.ends[ends[end - 1] - 1]))
        score = float(scores[first:end].mean())
        entities.append(Entity(name, words.text[place], place.start, place.stop, score))
    return entities
