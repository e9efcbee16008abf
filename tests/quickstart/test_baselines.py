"""Baselines, whose scores stand beside those of a model."""

import math

import pytest
import tensorflow as tf

from keras_bert_impl.quickstart import main_job


def batch(ids, weights):
    return {}, {"masked_lm": tf.constant([ids])}, {"masked_lm": tf.constant([weights])}


def test_unigram_knows_the_frequencies_of_the_training_batches():
    train = tf.data.Dataset.from_tensor_slices(
        (tf.zeros(2), {"masked_lm": [[1, 1], [3, 3]]}, {"masked_lm": [[1.0, 0.0], [1.0, 1.0]]})
    ).batch(1)
    held_out = [batch([1, 3, 0], [1.0, 1.0, 0.0]), batch([2, 3, 3], [1.0, 0.0, 1.0])]
    scores = main_job.unigram(train, held_out, 4, train_batches=2)
    # Each token is counted once more: 1, 2, 1 and 3 of 7. Token 3 is predicted everywhere.
    losses = [-math.log(share / 7) for share in (2, 3, 1, 3)]
    assert scores["loss"] == pytest.approx(sum(losses) / 4)
    assert scores["accuracy"] == 2 / 4
    first = main_job.unigram(train, held_out, 4, train_batches=1)
    assert first["accuracy"] == 1 / 4  # token 1, from the first batch alone


def test_majority_is_that_of_the_training_labels():
    assert main_job.majority(["a", "b", "b"], ["a", "a", "b", "c"]) == 1 / 4


def test_tfidf_learns_words():
    train = ["red apple", "red cherry", "blue sky", "blue sea"] * 2
    labels = ["red", "red", "blue", "blue"] * 2
    assert main_job.tfidf_predictions(train, labels, ["a blue car", "a red car"]) == [
        "blue",
        "red",
    ]
