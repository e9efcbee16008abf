"""Baselines for the quickstart's models."""

import collections

import numpy as np

from keras_bert_impl.io.errors import InputError


def unigram(train, held_out, vocabulary_size, train_batches):
    """Predicts every masked token from word frequency alone.

    Args:
        train: `pretraining_dataset` of the train split.
        held_out: `pretraining_dataset` of the held-out split.
        vocabulary_size: int.
        train_batches: int. Batches of `train` to count in.

    Returns:
        dict with the `loss` (nats, with add-one smoothing) and `accuracy` (of always predicting the
        most frequent token) on the held-out masked tokens.
    """
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


def majority(train_labels, dev_labels):
    """Accuracy of always predicting the most frequent training label.

    Args:
        train_labels, dev_labels: lists of str.
    """
    commonest = collections.Counter(train_labels).most_common(1)[0][0]
    return sum(label == commonest for label in dev_labels) / len(dev_labels)


def tfidf_logistic_regression(train_texts, train_labels, dev_texts, dev_labels):
    """Accuracy of logistic regression on TF-IDF weights of word unigrams and bigrams.

    Args:
        train_texts, train_labels, dev_texts, dev_labels: lists of str.

    Raises:
        InputError: scikit-learn is not installed.
    """
    try:
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
    except ImportError as error:
        raise InputError(
            "the baseline needs scikit-learn: pip install keras-bert-impl[metrics]"
        ) from error
    pipeline = make_pipeline(
        TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, min_df=2),
        LogisticRegression(C=10.0, max_iter=1000),
    )
    pipeline.fit(train_texts, train_labels)
    return float(pipeline.score(dev_texts, dev_labels))
