import random

import numpy as np
import pytest

from keras_bert_impl.pretraining.word_tokens import tokenize_words
from keras_bert_impl.tokenizers import WordPieceTokenizer

PIECES = ["a", "b", "##a", "##b", "ab", "é", "e", "日", ".", "##é", "σ", "ς"]
# Spaces of all kinds, what is removed, what is composed, and tokens of the vocabulary's own.
SIGNS = ["a", "b", "B", "é", "e", "\u0301", "日", ".", " ", " ", " ", "  ", "\t", "\n", "\u00a0",
         "\u2028", "\u3000", "\x0b", "\x85", "\x00", "\ufffd", "\u200b", "[MASK]", "Σ", "İ", "😀"]


@pytest.fixture(scope="module", params=[True, False], ids=["lowercase", "cased"])
def tokenizer(request):
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    return WordPieceTokenizer(special + PIECES, lowercase=request.param)


def texts(count, seed):
    generator = random.Random(seed)
    return ["".join(generator.choices(SIGNS, k=generator.randint(0, 30))) for _ in range(count)]


@pytest.mark.parametrize("seed", range(3))
def test_words_alone_have_the_tokens_of_the_text(tokenizer, seed):
    own = texts(3000, seed)
    ids, lengths = tokenize_words(own, tokenizer)
    expected = tokenizer.tokenize(own)
    np.testing.assert_array_equal(lengths, expected.row_lengths())
    np.testing.assert_array_equal(ids, expected.flat_values)
    assert ids.dtype == np.int32


def test_a_tokenizer_that_looks_over_spaces_is_given_whole_texts():
    class Whole:
        spaces_separate = False

        def tokenize(self, given):
            self.given = [text.decode() for text in given.numpy()]
            return WordPieceTokenizer(
                ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b"]
            ).tokenize(given)

    tokenizer = Whole()
    ids, lengths = tokenize_words(["a b", "b", "a b"], tokenizer)
    assert tokenizer.given == ["a b", "b"]
    assert (ids.tolist(), lengths.tolist()) == ([5, 6, 6, 5, 6], [2, 1, 2])
