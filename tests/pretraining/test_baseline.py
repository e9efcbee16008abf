"""Scores of token frequencies."""

import math

import pytest
import tensorflow as tf

from keras_bert_impl.pretraining.baseline import compare_with_unigram, unigram_scores


def batch(token_ids, weights, objective="masked_lm"):
    return {}, {objective: tf.constant([token_ids])}, {objective: tf.constant([weights])}


def test_tokens_are_predicted_by_their_frequencies():
    train = [batch([1, 1], [1.0, 0.0]), batch([3, 3], [1.0, 1.0])]
    held_out = [batch([1, 3, 0], [1.0, 1.0, 0.0]), batch([2, 3, 3], [1.0, 0.0, 1.0])]
    scores = unigram_scores(train, held_out, 4)
    # Each token is counted once more: 1, 2, 1 and 3 of 7. Token 3 is predicted everywhere.
    losses = [-math.log(share / 7) for share in (2, 3, 1, 3)]
    assert scores["masked_lm_loss"] == pytest.approx(sum(losses) / 4)
    assert scores["masked_lm_accuracy"] == 2 / 4
    assert unigram_scores(train[:1], held_out, 4)["masked_lm_accuracy"] == 1 / 4
    assert unigram_scores(train, [batch([0], [0.0])], 4) == {}


def test_the_verdict_compares_the_losses():
    (better,) = compare_with_unigram({"masked_lm_loss": 3.0}, {"masked_lm_loss": 6.0})
    (worse,) = compare_with_unigram({"left_to_right_loss": 6.5}, {"left_to_right_loss": 6.0})
    assert "3.000, baseline unigram 6.000" in better and "Train longer" not in better
    assert worse.endswith("Train longer, or change the learning rate.")
    assert compare_with_unigram({"sentence_order_loss": 0.6}, {}) == []
