"""Both forms of WordPiece matching give the same tokens."""

import random

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.tokenizers import WordPieceTokenizer
from keras_bert_impl.tokenizers.graphs import core_operations
from keras_bert_impl.tokenizers.wordpiece.matching import CoreMatcher
from keras_bert_impl.utils.optional_libraries import tensorflow_text

needs_both = pytest.mark.skipif(tensorflow_text is None, reason="there is only one form")
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def operations(graph):
    functions = graph.as_graph_def().library.function
    nodes = [*graph.as_graph_def().node, *(node for f in functions for node in f.node_def)]
    return {node.op for node in nodes}


def assert_equal(tokenizer, texts):
    expected = [ragged.to_list() for ragged in tokenizer.tokenize_with_offsets(texts)]
    with core_operations():
        received = [ragged.to_list() for ragged in tokenizer.tokenize_with_offsets(texts)]
        ids = tokenizer.tokenize(tf.constant(texts, tf.string)).to_list()
    assert received == expected
    assert ids == expected[0]


@needs_both
def test_random_words_of_small_vocabularies():
    draw = random.Random(0)
    for turn in range(6):
        letters = "ab" if turn % 2 else "abcé中\U00010400"
        tokens = {"".join(draw.choices(letters, k=draw.randint(1, 6))) for _ in range(40)}
        suffixes = {"##" + "".join(draw.choices(letters, k=draw.randint(1, 4))) for _ in range(20)}
        vocabulary = [*SPECIAL, *sorted(tokens), *sorted(suffixes), "a" * 120, "##" + "b" * 99]
        texts = [
            " ".join("".join(draw.choices(letters, k=draw.randint(1, 12))) for _ in range(20))
            for _ in range(50)
        ]
        texts += ["", "b" * 100, "a" * 100, "a" * 101, "[MASK]ab[CLS]", "aXbb", "ab" * 40]
        added = ["[E1]", "a b"] if turn % 3 else []
        tokenizer = WordPieceTokenizer(vocabulary, lowercase=False, added_tokens=added)
        assert_equal(tokenizer, [*texts, "x[E1]ab a b"])


@needs_both
def test_real_vocabularies(tokenizer, vocabulary):
    draw = random.Random(1)
    pieces = [token.removeprefix("##") for token in vocabulary[1000:]]
    texts = [
        " ".join("".join(draw.choices(pieces, k=draw.randint(1, 3))) for _ in range(10))
        for _ in range(2000)
    ]
    assert_equal(tokenizer, texts)


@pytest.mark.parametrize("texts", [[], [""], ["", "the", ""], [" "]])
def test_no_words(tokenizer, texts):
    assert_equal(tokenizer, texts)


def test_the_graph_has_core_operations_only(tokenizer):
    def traced():
        function = tf.function(tokenizer.tokenize, [tf.TensorSpec([None], tf.string)])
        return {
            op for op in operations(function.get_concrete_function().graph) if "Wordpiece" in op
        }

    with core_operations():
        assert traced() == set()
    if tensorflow_text is not None:
        assert traced() == {"FastWordpieceTokenizeWithOffsets"}


def test_ids_of_words():
    tokens = ["\U000f0001\U000f0001", "un", "##want", "##ed"]
    matcher = CoreMatcher(tokens, np.array([1, 10, 11, 12], np.int32))
    ids = matcher.ids_of(tf.constant(["unwanted", "un", "wanted", "unx", "unwantedun"]))
    assert ids.to_list() == [[10, 11, 12], [10], [1], [1], [1]]
    assert matcher.ids_of(tf.constant([], tf.string)).to_list() == []


@pytest.mark.parametrize("count", [1, 10, 1000, 200_000])
def test_every_token_of_a_vocabulary_of_any_size_is_found(count):
    words = [f"t{number}" for number in range(count)]
    matcher = CoreMatcher(["\U000f0001\U000f0001", *words], np.arange(count + 1, dtype=np.int32))
    ids = matcher.ids_of(tf.constant([*words, "u1"]))
    assert ids.flat_values.numpy().tolist() == [*range(1, count + 1), 0]
