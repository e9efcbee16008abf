"""The unigram model, compared with the one of `tokenizers`."""

import random

import numpy as np
import tensorflow as tf
import tokenizers

from keras_bert_impl.tokenizers.sentencepiece import unigram
from keras_bert_impl.tokenizers.sentencepiece.unigram import UnigramModel


def assert_segmented_equally(vocabulary, words, wrap=lambda model: model):
    pieces, scores = zip(*vocabulary)
    theirs = tokenizers.Tokenizer(tokenizers.models.Unigram(vocabulary, 0, False))
    characters = tf.constant([ord(c) for word in words for c in word], tf.int32)
    ids, starts = wrap(UnigramModel(pieces, scores, 0))(characters)
    bounds = np.searchsorted(starts, np.cumsum([0, *map(len, words)]))
    rows = [ids[start:end].numpy().tolist() for start, end in zip(bounds[:-1], bounds[1:])]
    assert rows == [encoding.ids for encoding in theirs.encode_batch(words)]


def test_random_models():
    draw = random.Random(0)
    for _ in range(10):
        texts = {"".join(draw.choices("▁ab日", k=draw.randint(1, 5))) for _ in range(30)}
        # With so few different scores, many sums are equal.
        scores = [draw.choice([-1.5, -2.25, -3.1234567, -4.0]) for _ in texts]
        vocabulary = [("<unk>", 0.0), *zip(sorted(texts), scores)]
        words = ["▁" + "".join(draw.choices("ab日c", k=draw.randint(0, 20))) for _ in range(100)]
        assert_segmented_equally(vocabulary, words)


def test_long_words_are_searched_in_parts(monkeypatch):
    monkeypatch.setattr(unigram, "_PART", 8)
    draw = random.Random(0)
    for _ in range(10):
        texts = {"".join(draw.choices("▁ab", k=draw.randint(1, 5))) for _ in range(20)}
        scores = [draw.choice([-1.5, -2.25, -3.125, -4.0]) for _ in texts]  # sums are exact
        vocabulary = [("<unk>", 0.0), *zip(sorted(texts), scores)]
        words = ["▁" + "".join(draw.choices("abc", [9, 9, 1], k=100)) for _ in range(20)]
        words += ["▁" + letters * number for letters in ("a", "ab", "aab") for number in range(40)]
        assert_segmented_equally(vocabulary, words)


def test_a_word_of_51000_letters():
    scores = {"▁a": -2.0, "a": -3.0, "aaa": -4.5, "aaaa": -6.0, "ab": -3.0}
    word = "▁" + "a" * 30_000 + "aab" * 7_000
    assert_segmented_equally([("<unk>", 0.0), *scores.items()], [word], tf.function)


def test_equal_sums_are_exact():
    """In 32 bits, rounding would prefer 88 8 at this distance from the start."""
    scores = {"▁0": -6.718461, ".": 0.0, "8": -5.931357, "88": -7.6283197}
    assert_segmented_equally([("<unk>", 0.0), *scores.items()], ["▁0.888", "▁888", "▁8888888"])
    model = UnigramModel(["<unk>", *scores], [0.0, *scores.values()], 0)
    ids, _ = model(tf.constant([ord(c) for c in "▁0.888"]))
    assert ids.numpy().tolist() == [1, 2, 3, 4]  # the longer piece comes last


def test_accepts_an_empty_batch():
    model = UnigramModel(["<unk>", "▁a"], [0.0, -1.0], 0)
    ids, starts = tf.function(model)(tf.zeros([0], tf.int32))
    assert ids.shape == starts.shape == (0,)
