"""Token classification with a CRF over the words of a text."""

import keras
import numpy as np
import pytest

from keras_bert_impl.data.batches.words import join_words
from keras_bert_impl.tasks.base.task_model import TaskModel
from keras_bert_impl.tasks.tagging.word_scores import WordScores, over_sequences, units_of
from keras_bert_impl.utils.errors import InputError
from tests.tasks.helpers import WORDS
from tests.tasks.tagging.helpers import LABELS, NUMBERS, TAGS, TEXTS, flat_logits, tagger


def test_crf_covers_all_words_of_a_text(with_crf):
    words = list(np.random.default_rng(3).choice(WORDS, 23))
    emissions = TaskModel.predict(with_crf, [join_words(words)], verbose=0)
    emissions = emissions[0].scores[None]
    mask = np.ones((1, 23))
    expected = np.asarray(with_crf.crf_layer(emissions, mask))[0]
    received = with_crf.predict([["a"], words], verbose=0)[1]
    # Rounding of 23 scores of up to 10, each with a relative error of 6e-8.
    np.testing.assert_allclose(received, expected, atol=2e-5)
    np.testing.assert_allclose(received.sum(axis=1), 1, atol=1e-5)
    decoded = np.asarray(with_crf.crf_layer.decode(emissions, mask))[0]
    assert with_crf.tag([["a"], words])[1] == [LABELS[number] for number in decoded]
    assert (decoded != emissions[0].argmax(axis=1)).any()  # transitions matter


def test_crf_loss_is_per_word_and_window(with_crf):
    texts, labels = [words[:4] for words in TEXTS[:6]], [row[:4] for row in NUMBERS[:6]]
    total = 0.0
    for words, gold in zip(texts, labels):  # each fits in one window
        logits, word = flat_logits(with_crf, words)
        firsts = logits[np.searchsorted(word, np.arange(len(words)))]
        mask = np.ones((1, len(words)))
        total -= float(with_crf.crf_layer.log_likelihood(firsts[None], gold[None], mask)[0])
    result = with_crf.evaluate(texts, labels, batch_size=4, verbose=0, return_dict=True)
    assert result["loss"] == pytest.approx(total / sum(map(len, texts)), abs=1e-5)


def test_crf_learns_transitions():
    model = tagger(crf=True)
    model.compile(keras.optimizers.Adam(2e-2))
    history = model.fit(TEXTS, TAGS, epochs=3, batch_size=8, verbose=0).history
    assert history["loss"][-1] < history["loss"][0]
    outside_to_inside = model.crf_layer.transitions[0, 2]
    assert outside_to_inside < model.crf_layer.transitions[1, 2]


def test_crf_treats_words_that_share_a_token_as_one():
    tokens = np.array([3, 3, -1, -1, 4, 5, 5])
    assert units_of([WordScores(None, tokens)]).firsts.numpy().tolist() == [0, 2, 3, 4, 5]
    scores = np.arange(14, dtype="float32").reshape(7, 2)
    calls = []

    def double(emissions, mask):
        calls.append((emissions, mask))
        return 2 * emissions

    received = over_sequences(
        double, [WordScores(scores, tokens)], np.array([-1.0, -1.0], "float32")
    )[0]
    # The CRF sees the words 0, 4 and 5.
    np.testing.assert_array_equal(calls[0][0], scores[None, [0, 4, 5]])
    expected = 2 * scores[[0, 0, 0, 0, 4, 5, 5]]
    expected[2:4] = -1
    np.testing.assert_array_equal(received, expected)


def test_rejects_a_loss_with_a_crf(with_crf):
    with pytest.raises(InputError, match="loss must be None"):
        with_crf.compile(loss="mse")
