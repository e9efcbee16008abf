"""Batches of sorted texts: every text is there once, and little is padding where shapes are free."""

import itertools

import keras
import numpy as np
import pytest

from keras_bert_impl.data.batches import batching as module
from keras_bert_impl.data.batches.batching import (
    list_of_batches,
    sorted_batches,
    takes_any_shape,
    tokenize_texts,
)
from tests.tasks.helpers import WORDS, classifier, tokenizer

TOKENIZER = tokenizer()
LENGTHS = np.random.default_rng(0).integers(1, 90, 300)  # in words of one token


def tokenized(lengths=LENGTHS):
    texts = [" ".join(WORDS[:1] * length) for length in lengths]
    return tokenize_texts(texts, TOKENIZER, max_length=100)


@pytest.mark.parametrize("any_shape", [False, True])
def test_batches_have_every_text_in_the_order_that_is_returned(any_shape):
    numbers = np.arange(300, dtype="int32")
    batches, order = sorted_batches(tokenized(), (numbers,), 64, any_shape)
    masks, rows = zip(*((features["padding_mask"], rows) for features, rows in batches))
    np.testing.assert_array_equal(np.concatenate(rows), order)
    for mask, numbers in zip(masks, rows):
        np.testing.assert_array_equal(np.sum(mask, axis=1), LENGTHS[numbers] + 2)
    widths = [mask.shape[1] for mask in masks]
    assert widths == sorted(widths)
    if not any_shape:
        assert [len(mask) for mask in masks] == [64, 64, 64, 64, 44]


def test_the_list_has_the_batches_of_the_data_set():
    data = tokenized()
    for any_shape in (False, True):
        expected, order = sorted_batches(data, (), 32, any_shape)
        received, same_order = list_of_batches(data, 32, any_shape)
        np.testing.assert_array_equal(order, same_order)
        for expected_batch, received_batch in zip(expected, received, strict=True):
            keras.tree.map_structure(np.testing.assert_array_equal, expected_batch, received_batch)


def test_batches_of_any_shape_hold_little_padding(monkeypatch):
    monkeypatch.setattr(module, "_TOKENS_OF_A_BATCH", 30)
    batches, _ = list_of_batches(tokenized(), 20, any_shape=True)
    masks = [features["padding_mask"].numpy() for (features,) in batches]
    assert all(len(mask) <= 20 and mask.size - mask.sum() <= 30 for mask in masks)
    for mask, following in itertools.pairwise(masks):
        # It ended for a reason: it was full, or the next text would have lengthened the others.
        assert len(mask) == 20 or len(mask) * following[0].sum() - mask.sum() > 30


@pytest.mark.parametrize("any_shape", [False, True])
def test_no_texts_are_no_batches(any_shape):
    data = tokenized([])
    assert list_of_batches(data, 4, any_shape)[0] == []
    assert not list(sorted_batches(data, (), 4, any_shape)[0])


def test_texts_of_one_length_fill_their_batches():
    batches, _ = list_of_batches(tokenized([50] * 70), 32, any_shape=True)
    assert [features["token_ids"].shape[0] for (features,) in batches] == [32, 32, 6]


def test_shapes_are_free_unless_they_are_compiled():
    model = classifier()
    is_jax = keras.backend.backend() == "jax"
    assert takes_any_shape(model) != is_jax
    model.compile(jit_compile=True)
    assert not takes_any_shape(model)
