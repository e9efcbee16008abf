import functools

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.tasks.inputs import batching
from keras_bert_impl.tasks.inputs.blocks import blocks
from keras_bert_impl.tasks.inputs.windows import tokenize_windows
from keras_bert_impl.tokenizers.windows import pack_windows
from tests.tasks.helpers import WORDS, tokenizer

TOKENIZER = tokenizer()


def texts(count, most=30, seed=0):
    draw = np.random.default_rng(seed)
    return [" ".join(draw.choice(WORDS, draw.integers(0, most))) for _ in range(count)]


@pytest.mark.parametrize("paired", [False, True])
def test_blocks_do_not_change_the_result(monkeypatch, paired):
    given = list(zip(texts(25, 5), texts(25, seed=1))) if paired else texts(25)
    whole = tokenize_windows(given, TOKENIZER, 12, 4, first_length=5)
    by_seven = functools.partial(blocks, most_texts=7)
    monkeypatch.setattr("keras_bert_impl.tasks.inputs.windows.blocks", by_seven)
    parts = tokenize_windows(given, TOKENIZER, 12, 4, first_length=5)
    for name in ("token_ids", "row_splits", "second_starts", "texts", "tokens", "text_splits"):
        np.testing.assert_array_equal(getattr(parts, name), getattr(whole, name))
    np.testing.assert_array_equal(parts.has_most_context, whole.has_most_context)


def test_columns_are_positions_in_padded_rows():
    given = texts(20)
    rows = tokenize_windows(given, TOKENIZER, 10, 3)
    windows = pack_windows(TOKENIZER, tf.constant(given), 10, 3)
    row, column = rows.columns()
    np.testing.assert_array_equal(windows.tokens().numpy()[row, column], rows.tokens)
    chosen = windows.has_most_context().numpy()
    np.testing.assert_array_equal(chosen[row, column], rows.has_most_context)
    # Each token of each text is used once.
    assert rows.has_most_context.sum() == rows.text_splits[-1]
    features = rows.features(tf.range(rows.num_texts, dtype=tf.int64))
    np.testing.assert_array_equal(features["token_ids"], windows.features["token_ids"])
    starts, ends = rows.token_starts, rows.token_ends
    for number, text in enumerate(given):
        part = slice(*rows.text_splits[number : number + 2])
        assert [text[s:e] for s, e in zip(starts[part], ends[part])] == text.split()


def test_token_targets_are_padded_like_their_rows():
    rows = tokenize_windows(texts(50), TOKENIZER, 10, 3)
    target = tf.RaggedTensor.from_row_splits(rows.token_ids + 100, rows.row_splits)
    for features, numbers in batching.training_batches(rows, (target,), 8, seed=0, steps=12):
        is_real = features["padding_mask"].numpy() == 1
        np.testing.assert_array_equal(numbers, np.where(is_real, features["token_ids"] + 100, 0))


def test_no_texts_give_no_rows():
    rows = tokenize_windows([], TOKENIZER, 10, 3)
    assert rows.num_texts == 0 and rows.text_splits.tolist() == [0]
