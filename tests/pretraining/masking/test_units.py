"""Units masked together (words, n-grams, spans), against plain loops."""

import re

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.pretraining.masking import masking, units
from keras_bert_impl.pretraining.masking.dataset import layout
from keras_bert_impl.pretraining.masking.masking import Masking
from keras_bert_impl.pretraining.masking.units import random_bits, row_keys
from keras_bert_impl.utils.errors import InputError

LENGTH, ROWS, MASK = 64, 200, 3
REPLACEMENTS = list(range(1000, 2000))
SEVERAL = ["word", "ngram", "span"]


@pytest.fixture(scope="module")
def rows():
    """Rows of 38 (two segments), 12 and 5 tokens, and 9 of padding; the last row is empty."""
    lengths = np.tile([38, 12, 5], (ROWS, 1))
    lengths[-1] = 0
    first_lengths = np.minimum([20, 12, 3], lengths)
    tokens = np.random.default_rng(0).integers(100, 1000, (ROWS, LENGTH))
    features = layout(tf.constant(lengths, tf.int32), tf.constant(first_lengths, tf.int32), LENGTH)
    return features | {
        "token_ids": tf.constant(tokens, tf.int32),
        "example_lengths": tf.constant(lengths, tf.int32),
        "first_lengths": tf.constant(first_lengths, tf.int32),
        "row_id": tf.range(ROWS, dtype=tf.int64),
    }


@pytest.fixture(scope="module")
def is_word_start():
    return np.random.default_rng(1).random((ROWS, LENGTH)) < 0.6


def mask(rows, is_word_start, unit, **settings):
    settings = Masking(unit=unit, **settings)
    epochs = tf.zeros([len(rows["row_id"])], tf.int64)
    slots = settings.num_slots(LENGTH, 3)
    masked = masking.mask_rows(
        rows, epochs, 0, settings, MASK, REPLACEMENTS, slots, tf.constant(is_word_start)
    )
    return masking.Masked(*[value.numpy() for value in masked])


def chained(is_special, is_word_start, words):
    """Yields (start, end) of the consecutive units of a row."""
    place = 0
    while place < LENGTH:
        end = place + 1
        if not is_special[place]:
            words_left = words[place]
            while end < LENGTH and not is_special[end]:
                words_left -= is_word_start[end]
                if words_left == 0:
                    break
                end += 1
        yield place, end
        place = end


@pytest.mark.parametrize("unit", SEVERAL)
def test_units_are_words_in_a_row(rows, is_word_start, unit):
    keys = row_keys(0, tf.range(ROWS, dtype=tf.int64))[:, tf.newaxis]
    is_special = masking._is_special(rows)
    starts, ends = units.units_of(unit, is_special, tf.constant(is_word_start), keys, 7)
    words = np.ones((ROWS, LENGTH), int)
    if unit in units.WORDS_OF:
        words = units._draw_words(units.WORDS_OF[unit], LENGTH, keys, 7).numpy()
    for row in range(ROWS):
        expected = list(chained(is_special[row].numpy(), is_word_start[row], words[row]))
        received = sorted(set(zip(starts[row].numpy(), ends[row].numpy())))
        assert received == expected
        assert (starts[row].numpy() <= np.arange(LENGTH)).all()
        assert (np.arange(LENGTH) < ends[row].numpy()).all()


@pytest.mark.parametrize("unit", SEVERAL)
@pytest.mark.parametrize("rate", [0.15, 0.5])
def test_units_are_taken_in_random_order_and_skipped(rows, is_word_start, unit, rate):
    masked = mask(rows, is_word_start, unit, rate=rate)
    keys = row_keys(0, 0, rows["row_id"])[:, tf.newaxis]
    scores = random_bits(keys, tf.range(LENGTH, dtype=tf.int64)).numpy() >> np.uint64(25)
    is_special = masking._is_special(rows)
    intervals = units.units_of(unit, is_special, tf.constant(is_word_start), keys, 4 * LENGTH + 3)
    starts, ends = (places.numpy() for places in intervals)
    passed_over = 0
    for row in range(ROWS):
        expected = []
        for example in (1, 2, 3):
            mine = (rows["example_ids"][row].numpy() == example) & ~is_special[row].numpy()
            budget = Masking(rate=rate).num_predictions(mine.sum() + (3 if example != 2 else 2))
            budget = min(budget, mine.sum())
            groups = set(zip(starts[row][mine], ends[row][mine]))
            groups = sorted((scores[row, start], start, end) for start, end in groups)
            for _, start, end in groups:
                if unit == "span":  # cut after a word, not skipped
                    bounds = [
                        start,
                        *(start + 1 + np.flatnonzero(is_word_start[row, start + 1 : end])),
                        end,
                    ]
                    end = max(place for place in bounds if place <= start + budget)
                    ends[row][start:end] = end
                    budget = 0 if end < bounds[-1] else budget - (end - start)
                    expected += range(start, end)
                    continue
                if end - start <= budget:
                    expected += range(start, end)
                    budget -= end - start
                else:
                    passed_over += budget > 0
        used = masked.positions[row][masked.weights[row] == 1]
        assert used.tolist() == sorted(expected)
        assert (masked.span_starts[row][: len(used)] == starts[row][used]).all()
        assert (masked.span_ends[row][: len(used)] == ends[row][used] - 1).all()
        for unused in (masked.positions, masked.span_starts, masked.span_ends, masked.draws):
            assert not unused[row][len(used) :].any()
    assert unit == "span" or passed_over > ROWS / 2  # otherwise the test shows nothing


def test_spans_are_masked_as_often_at_the_ends_of_a_segment_as_in_its_middle():
    """1.23 and 1.31 times as often if the last span is skipped rather than cut."""
    length, count = 128, 20_000
    rows = {
        "token_ids": tf.ones([count, length], tf.int32),
        "example_ids": tf.ones([count, length], tf.int32),
        "position_ids": tf.tile(tf.range(length)[tf.newaxis], [count, 1]),
        "example_lengths": tf.fill([count, 1], length),
        "first_lengths": tf.fill([count, 1], length),
        "row_id": tf.range(count, dtype=tf.int64),
    }
    settings, epochs = Masking(unit="span"), tf.zeros([count], tf.int64)
    slots, words = settings.num_slots(length, 1), tf.fill([count, length], True)
    masked = masking.mask_rows(rows, epochs, 0, settings, MASK, REPLACEMENTS, slots, words)
    positions = masked.positions.numpy()[masked.weights.numpy() == 1]
    rates = np.bincount(positions, minlength=length) / count
    middle = rates[40:88].mean()
    # Five standard deviations are 0.08.
    assert 1.0 < rates[1] / middle < 1.17 and abs(rates[-2] / middle - 1) < 0.08
    assert rates.sum() == settings.num_predictions(length)


@pytest.mark.parametrize("unit, mean", [("ngram", 18 / 11), ("span", 3.797)])
def test_numbers_of_words(unit, mean):
    # Means: (1 + 1 + 1) / (1 + 1/2 + 1/3), and 1 / 0.2 - 10 · 0.8^10 / (1 - 0.8^10), which is the
    # paper's 3.8.
    probabilities = units.WORDS_OF[unit]
    assert probabilities @ np.arange(1, len(probabilities) + 1) == pytest.approx(mean, abs=1e-3)
    keys = row_keys(1, tf.range(1000, dtype=tf.int64))[:, tf.newaxis]
    words = units._draw_words(probabilities, 50, keys, 0).numpy()
    expected = probabilities * words.size
    counts = np.bincount(words.ravel(), minlength=len(expected) + 1)[1:]
    # Chi-square: the mean is the degrees of freedom and the variance twice that; five deviations.
    freedom = len(expected) - 1
    assert ((counts - expected) ** 2 / expected).sum() < freedom + 5 * np.sqrt(2 * freedom)


def test_spans_are_replaced_as_a_whole_and_words_are_not(rows, is_word_start):
    def actions(unit):
        """For each pair of neighbors in a unit, returns whether both had the same replacement."""
        masked = mask(rows, is_word_start, unit, rate=0.5)
        new = np.take_along_axis(masked.token_ids, masked.positions, axis=1)
        action = np.where(new == MASK, 0, np.where(new == masked.ids, 1, 2))
        together = masked.span_starts[:, 1:] == masked.span_starts[:, :-1]
        together &= masked.weights[:, 1:] == 1
        return (action[:, 1:] == action[:, :-1])[together], action[masked.weights == 1]

    same, action = actions("span")
    assert len(same) > 1000 and same.all()
    assert set(action) == {0, 1, 2}
    same, _ = actions("word")
    # 0.8² + 0.1² + 0.1²; four standard deviations.
    assert abs(same.mean() - 0.66) < 4 * np.sqrt(0.66 * 0.34 / len(same))


def test_any_split(rows, is_word_start):
    masked = mask(rows, is_word_start, "token", mask=0.0, random=1.0)
    new = np.take_along_axis(masked.token_ids, masked.positions, axis=1)[masked.weights == 1]
    assert set(new) <= set(REPLACEMENTS)
    masked = mask(rows, is_word_start, "token", mask=0.0, random=0.0)
    assert (masked.token_ids == rows["token_ids"].numpy()).all()
    assert masked.weights.sum() > 0


@pytest.mark.parametrize("unit", SEVERAL)
def test_batch_does_not_change_masks(rows, is_word_start, unit):
    whole = mask(rows, is_word_start, unit)
    some = [150, 3, 77]
    picked = {name: tf.gather(value, some) for name, value in rows.items() if name != "starts"}
    for array, part in zip(whole, mask(picked, is_word_start[some], unit)):
        np.testing.assert_array_equal(array[some], part)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"unit": "sentence"}, "unit must be one of token, word, ngram, span, got 'sentence'"),
        ({"rate": 0.0}, "rate must be a number in (0, 1), got 0.0"),
        ({"rate": 1.0}, "rate must be a number in (0, 1), got 1.0"),
        ({"max_predictions": 0}, "max_predictions must be a positive integer or None, got 0"),
        ({"dupe_factor": 0}, "dupe_factor must be a positive integer or None, got 0"),
        ({"mask": 0.8, "random": 0.3}, "Received: mask=0.8, random=0.3"),
        ({"random": -0.1}, "random must be a number in [0, 1], got -0.1"),
    ],
)
def test_rejects_invalid_arguments(settings, message):
    with pytest.raises(InputError, match=re.escape(message)):
        Masking(**settings)
