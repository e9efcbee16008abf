"""Masking: the number, choice and replacement of tokens depend only on the names of draws."""

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.pretraining.masking import masking
from keras_bert_impl.pretraining.masking.dataset import layout
from keras_bert_impl.pretraining.masking.masking import Masking
from keras_bert_impl.pretraining.masking.units import (
    below,
    permutation,
    random_bits,
    row_keys,
)

LENGTH, EXAMPLES = 64, 3
CLS, SEP, MASK, PAD = 1, 2, 3, 0
REPLACEMENTS = list(range(1000, 2000))


def make_rows(num_rows, row_ids=None):
    """Rows with three examples of 30 (two segments), 20 (one) and 5 tokens, then 9 of padding."""
    lengths = tf.constant([[30, 20, 5]] * num_rows)
    first_lengths = tf.constant([[12, 20, 3]] * num_rows)
    tokens = np.arange(100, 100 + LENGTH)
    tokens[[0, 30, 50]] = CLS
    tokens[[11, 29, 49, 52, 54]] = SEP
    tokens[55:] = PAD
    rows = {
        "token_ids": tf.constant([tokens] * num_rows, tf.int32),
        "example_lengths": lengths,
        "first_lengths": first_lengths,
        "row_id": tf.range(num_rows, dtype=tf.int64) if row_ids is None else tf.constant(row_ids),
    }
    return rows | layout(lengths, first_lengths, LENGTH)


def mask(rows, epoch=0, seed=0, **settings):
    epochs = tf.fill([len(rows["row_id"])], tf.constant(epoch, tf.int64))
    settings = Masking(**settings)
    slots = settings.num_slots(LENGTH, EXAMPLES)
    masked = masking.mask_rows(rows, epochs, seed, settings, MASK, REPLACEMENTS, slots)
    return [value.numpy() for value in masked[:4]]


def test_layout_by_hand():
    features = layout(tf.constant([[3, 5, 0]]), tf.constant([[3, 2, 0]]), 10)
    assert features["example_ids"].numpy().tolist() == [[1, 1, 1, 2, 2, 2, 2, 2, 0, 0]]
    assert features["position_ids"].numpy().tolist() == [[0, 1, 2, 0, 1, 2, 3, 4, 0, 0]]
    assert features["segment_ids"].numpy().tolist() == [[0, 0, 0, 0, 0, 1, 1, 1, 0, 0]]
    assert features["starts"].numpy().tolist() == [[0, 3, 8]]


def test_counts_equal_bert_for_every_length():
    lengths = tf.range(3, 513)[:, tf.newaxis]
    rows = {"example_lengths": lengths, "first_lengths": lengths}
    for most in (None, 20):
        counts = masking._count_predictions(rows, Masking(max_predictions=most))[:, 0].numpy()
        expected = [min(most or 512, max(1, round(n * 0.15))) for n in range(3, 513)]
        assert counts.tolist() == expected
        assert [Masking(max_predictions=most).num_predictions(n) for n in range(3, 513)] == expected


def test_slots_hold_every_packing():
    # The largest number of predictions for any packing, by dynamic programming over examples.
    for length, most_examples, rate, limit in [
        (32, 4, 0.15, None),
        (48, 8, 0.15, None),
        (40, 3, 0.3, 5),
        (32, 8, 0.02, None),
    ]:
        settings = Masking(rate=rate, max_predictions=limit)
        best = np.zeros(length + 1, int)
        for _ in range(most_examples):
            longer = best.copy()
            for total in range(3, length + 1):
                for last in range(3, total + 1):
                    count = settings.num_predictions(last)
                    longer[total] = max(longer[total], best[total - last] + count)
            best = longer
        slots = settings.num_slots(length, most_examples)
        assert best.max() <= slots <= best.max() + 2


def test_chosen_and_restored():
    rows = make_rows(200)
    tokens, positions, ids, weights = mask(rows)
    original = rows["token_ids"].numpy()
    counts = [Masking().num_predictions(n) for n in (30, 20, 5)]
    assert positions.shape == ids.shape == weights.shape == (200, Masking().num_slots(LENGTH, 3))
    for row in range(200):
        used = positions[row][weights[row] == 1]
        assert (np.diff(used) > 0).all()
        spans = [(0, 30), (30, 50), (50, 55)]
        assert [((used >= start) & (used < end)).sum() for start, end in spans] == counts
        assert not {0, 11, 29, 30, 49, 50, 52, 54} & set(used) and used.max() < 55
        assert (ids[row][weights[row] == 1] == original[row][used]).all()
        unused = weights[row] == 0
        assert not positions[row][unused].any() and not ids[row][unused].any()
        untouched = np.setdiff1d(np.arange(LENGTH), used)
        assert (tokens[row][untouched] == original[row][untouched]).all()


def test_statistics():
    num_rows = 20_000
    rows = make_rows(num_rows)
    tokens, positions, ids, weights = mask(rows)
    new = np.take_along_axis(tokens, positions, axis=1)[weights == 1]
    old = ids[weights == 1]
    num_masked = len(old)
    assert num_masked == num_rows * (4 + 3 + 1)
    # Binomial: four standard deviations of a fraction p among n are 4 · √(p (1 − p) / n).
    for fraction, p in [
        ((new == MASK).mean(), 0.8),
        ((new == old).mean(), 0.1),
        ((new >= 1000).mean(), 0.1),
    ]:
        assert abs(fraction - p) < 4 * np.sqrt(p * (1 - p) / num_masked)
    random = new[new >= 1000]
    assert set(random) <= set(REPLACEMENTS)
    # Uniform over 1,000 ids: the mean has a standard deviation of 288.7 / √n.
    assert abs(random.mean() - 1499.5) < 4 * 288.7 / np.sqrt(len(random))
    assert len(set(random)) > 990
    # All tokens of an example are equally likely: 4 of 27 in the first.
    hits = np.bincount(positions[weights == 1], minlength=LENGTH) / num_rows
    p = 4 / 27
    maskable = [n for n in range(30) if n not in (0, 11, 29)]
    # 27 comparisons: five standard deviations.
    assert np.abs(hits[maskable] - p).max() < 5 * np.sqrt(p * (1 - p) / num_rows)
    # The replacement of a token is independent of its neighbor's.
    action = np.take_along_axis(tokens, positions, axis=1)[:, :8] == MASK
    both = (action[:, 0] & action[:, 1]).mean()
    assert abs(both - 0.64) < 4 * np.sqrt(0.64 * 0.36 / num_rows)


def test_only_seed_epoch_and_row_decide():
    masked = mask(make_rows(4, [7, 8, 9, 7]))
    for a, b in zip(masked, mask(make_rows(2, [9, 7]))):
        assert (a[[2, 0]] == b).all()  # independent of the batch and of the position in it
    assert (masked[1][0] == masked[1][3]).all()
    assert (masked[1][0] != masked[1][1]).any()
    other_epoch, other_seed = mask(make_rows(1, [7]), epoch=1), mask(make_rows(1, [7]), seed=1)
    assert (masked[1][0] != other_epoch[1][0]).any()
    assert (masked[1][0] != other_seed[1][0]).any()


def test_static_masks_take_turns():
    rows = make_rows(4)
    masks = [mask(rows, epoch, dupe_factor=3)[1] for epoch in range(7)]
    for epoch, positions in enumerate(masks):
        assert (positions == mask(rows, epoch % 3)[1]).all()
    assert all((masks[0] != later_mask).any() for later_mask in masks[1:3])


def test_limits():
    _, _, _, weights = mask(make_rows(10), max_predictions=2)
    assert (weights.sum(axis=1) == 2 + 2 + 1).all()
    # At a rate of 0.9, an example of five tokens still has only two candidates.
    _, positions, _, weights = mask(make_rows(10), rate=0.9)
    assert (weights.sum(axis=1) == 27 + 18 + 2).all()
    assert not {0, 11, 29, 30, 49, 50, 52, 54} & set(positions[weights == 1])


@pytest.mark.parametrize("num_examples", [3, 126, 127, 163, 170, 300])
def test_rows_of_any_number_of_examples(num_examples):
    # Examples of 3 to 12 tokens with one segment each, so their numbers of predictions differ.
    example_lengths = 3 + np.arange(num_examples) % 10
    length = int(example_lengths.sum()) + 5
    lengths = tf.constant(np.tile(example_lengths, (2, 1)), tf.int32)
    rows = layout(lengths, lengths, length) | {
        "token_ids": tf.fill([2, length], 7),
        "example_lengths": lengths,
        "first_lengths": lengths,
        "row_id": tf.range(2, dtype=tf.int64),
    }
    settings = Masking()
    slots = settings.num_slots(length, num_examples)
    masked = masking.mask_rows(
        rows, tf.zeros([2], tf.int64), 0, settings, MASK, REPLACEMENTS, slots
    )
    ends = np.cumsum(example_lengths)
    for positions, weights in zip(masked.positions.numpy(), masked.weights.numpy()):
        example = np.searchsorted(ends, positions[weights == 1], side="right")
        counts = np.bincount(example, minlength=num_examples)
        assert counts.tolist() == [settings.num_predictions(n) for n in example_lengths]


@pytest.mark.parametrize("length", [8, 512, 65_536, 1 << 20])
@pytest.mark.parametrize("num_examples", [1, 126, 127, 20_000, 300_000])
def test_sort_keys_fit_into_int64(length, num_examples):
    random_width, place_width = masking._choose_key_widths(length, num_examples)
    highest = (
        ((num_examples + 1) * 2 + 1 << random_width) + (1 << random_width) - 1
    ) << place_width
    assert length <= 1 << place_width and highest + length - 1 < 1 << 63
    assert random_width >= 22  # two units of an example rarely get the same draw


def test_replacements_are_ordinary_tokens():
    class Tokenizer:
        vocabulary = "[PAD] [unused0] [UNK] [CLS] [SEP] [MASK] [ a ##b [x]".split()

    assert masking.replacement_ids(Tokenizer) == [6, 7, 8, 9]


def test_random_bits_are_splitmix64():
    # The published sequence for the seed 1234567.
    bits = random_bits(tf.constant(1234567, tf.uint64), tf.range(3, dtype=tf.int64)).numpy()
    assert bits.tolist() == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def test_below_and_permutation():
    bits = random_bits(row_keys(1), tf.range(3000, dtype=tf.int64))
    assert set(below(bits, 3).numpy()) == {0, 1, 2}
    orders = {tuple(permutation(row_keys(seed), 5).numpy()) for seed in range(50)}
    assert len(orders) > 25 and all(sorted(order) == list(range(5)) for order in orders)
    with pytest.raises(AssertionError):
        np.testing.assert_array_equal(row_keys(1, 2).numpy(), row_keys(2, 1).numpy())
