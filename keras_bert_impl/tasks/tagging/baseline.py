"""Tagging baseline: the most frequent label of each word in the training set."""

import collections
import itertools
from collections.abc import Iterable

import numpy as np

from keras_bert_impl.data.scores.comparison import Comparison, Outcome
from keras_bert_impl.data.scores.statistics import ratios
from keras_bert_impl.data.tags.spans import OUTSIDE, read_labels, spans_of

_NO_ENTITY = (
    "the validation set contains no entity, so the model is not compared with the baseline."
)


def word_tags(
    texts: list[list[str]], labels: list[list[str]], of_dev: list[list[str]]
) -> list[list[str]]:
    """Predicts the most frequent label of each word in the training set.

    For words that are not in the training set, predicts the most frequent label of all words.

    Args:
        texts: words of each training sentence.
        labels: labels of each training sentence.
        of_dev: words of each sentence to predict labels for.
    """
    counts: dict[str, collections.Counter] = collections.defaultdict(collections.Counter)
    for words, row in zip(texts, labels):
        for word, label in zip(words, row):
            counts[word][label] += 1
    everything = sum(counts.values(), collections.Counter())
    best = {word: label_counts.most_common(1)[0][0] for word, label_counts in counts.items()}
    default = everything.most_common(1)[0][0]
    return [[best.get(word, default) for word in words] for words in of_dev]


def compared(
    true_labels: list[list[str]],
    predicted: list[list[str]],
    simple: list[list[str]],
    labels: Iterable[str] = (),
) -> Comparison:
    """Compares a tagger with a baseline.

    Without entity labels, compares word accuracy instead of F1. Without a true entity, compares
    nothing.

    Args:
        labels: labels of the model. The examples may contain only some of them.
    """
    rows = itertools.chain(true_labels, predicted, simple)
    names = {*labels, *itertools.chain.from_iterable(rows)}
    outcome, simple_outcome = (outcome_of(true_labels, rows, names) for rows in (predicted, simple))
    if "f1" not in outcome.metrics:
        return Comparison(outcome, {"most_frequent_tag": simple_outcome})
    if not outcome.predictions[:, 1].any():
        return Comparison(outcome, {}, (_NO_ENTITY,))
    return Comparison(
        outcome, {"most_frequent_tag": simple_outcome}, _report_no_entity(outcome.predictions)
    )


def outcome_of(
    true_labels: list[list[str]], predicted: list[list[str]], names: Iterable[str]
) -> Outcome:
    """Counts what the scores of a tagger are computed from, for each sentence.

    Args:
        names: all labels. The metric is F1 of entities, or word accuracy if the labels are not
            entity labels.
    """
    entity_labels = read_labels(names)
    if entity_labels is None and not set(names) <= set(OUTSIDE):
        counts, metric = _count_words(true_labels, predicted), {"accuracy": _compute_accuracy}
    else:
        parts = entity_labels.parts if entity_labels else None
        counts, metric = _count_entities(parts, true_labels, predicted), {"f1": _compute_f1}
    return Outcome(np.zeros(len(true_labels)), counts, metric)


def _report_no_entity(counts):
    _, num_true, num_predicted = counts.sum(axis=0)
    if num_predicted or not num_true:
        return ()
    return (f"No entity is predicted, but the examples contain {num_true:,}. Train longer.",)


def _count_entities(parts, true_labels, predicted):
    """Counts the correct, true and predicted entities of each sentence, int [sentences, 3]."""
    pairs = (
        [set(spans_of(row, parts=parts)) for row in rows] for rows in zip(true_labels, predicted)
    )
    return np.array([[len(a & b), len(a), len(b)] for a, b in pairs])


def _count_words(true_labels, predicted):
    """Counts the correct labels and the words of each sentence, int [sentences, 2]."""
    return np.array([[sum(map(str.__eq__, a, b)), len(a)] for a, b in zip(true_labels, predicted)])


def _compute_f1(_, counts):
    return ratios(*counts.sum(axis=0))[2]


def _compute_accuracy(_, counts):
    right, words = counts.sum(axis=0)
    return right / max(words, 1)
