"""Baselines for the quickstart's models."""

from __future__ import annotations

import collections
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import tensorflow as tf


def unigram(
    train: tf.data.Dataset, held_out: tf.data.Dataset, vocabulary_size: int, train_batches: int
) -> dict[str, float]:
    """Predicts masked tokens from the word frequency in `train_batches` batches of `train` alone."""
    counts = np.ones(vocabulary_size)
    for _, labels, weights in train.take(train_batches):
        np.add.at(counts, labels["masked_lm"].numpy(), weights["masked_lm"].numpy())
    loss, hits, total = 0.0, 0.0, 0.0
    log_probabilities = np.log(counts / counts.sum())
    for _, labels, weights in held_out:
        ids, used = labels["masked_lm"].numpy(), weights["masked_lm"].numpy()
        loss -= (log_probabilities[ids] * used).sum()
        hits += ((ids == counts.argmax()) * used).sum()
        total += used.sum()
    return {"loss": float(loss / total), "accuracy": float(hits / total)}


def majority(train_labels: Sequence[str], dev_labels: Sequence[str]) -> float:
    """Accuracy of always predicting the most frequent training label."""
    commonest = collections.Counter(train_labels).most_common(1)[0][0]
    return accuracy([commonest] * len(dev_labels), dev_labels)


def tfidf_predictions(
    train_texts: Sequence[str], train_labels: Sequence[str], texts: Sequence[str]
) -> list[str]:
    """Predicts labels by logistic regression on TF-IDF weights of word unigrams and bigrams."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    pipeline = make_pipeline(
        TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, min_df=2),
        LogisticRegression(C=10.0, max_iter=1000),
    )
    pipeline.fit(train_texts, train_labels)
    return pipeline.predict(texts).tolist()


def accuracy(predictions: Sequence[str], labels: Sequence[str]) -> float:
    """Returns the share of predictions that equal their label."""
    return sum(map(operator.eq, predictions, labels)) / len(labels)
