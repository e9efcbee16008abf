"""Packing: every example exactly once, no row too long, little padding."""

import random

import pytest

from keras_bert_impl.pretraining.examples.packing import pack_rows


def test_by_hand():
    assert pack_rows([5, 3, 8, 2], 8, 4) == [[2], [0, 1], [3]]
    # The fullest row with room for it: 3 joins 7, not 5.
    assert pack_rows([7, 5, 3], 10, 4) == [[0, 2], [1]]
    assert pack_rows([], 10, 4) == []


@pytest.mark.parametrize("most", [1, 2, 8])
def test_every_example_once_within_the_limits(most):
    generator = random.Random(0)
    lengths = [generator.randint(5, 128) for _ in range(2000)]
    rows = pack_rows(lengths, 128, most)
    assert sorted(index for row in rows for index in row) == list(range(2000))
    assert max(sum(lengths[index] for index in row) for row in rows) <= 128
    assert max(map(len, rows)) <= most
    if most == 8:
        # A row stays open only for lack of short examples: uniform lengths fill to 99 %.
        assert sum(lengths) / (128 * len(rows)) > 0.98


def test_packs_one_example_per_row():
    assert pack_rows([3, 3, 3], 128, 1) == [[0], [1], [2]]
