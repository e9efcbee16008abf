import random

import numpy as np
import pytest

from keras_bert_impl.pretraining.word_tokens import WordTokens
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
    word_tokens = WordTokens(tokenizer)
    for own in texts(2000, seed), texts(1000, seed + 3):  # the second knows words of the first
        ids, lengths, num_words = word_tokens(own)
        expected = tokenizer.tokenize(own)
        np.testing.assert_array_equal(lengths, expected.row_lengths())
        np.testing.assert_array_equal(ids, expected.flat_values)
        assert ids.dtype == np.int32
        assert num_words == sum(len(text.split()) for text in own)


class Recorder:
    """A tokenizer that keeps what it was given."""

    def __init__(self, spaces_separate):
        self.spaces_separate = spaces_separate
        self.given = []
        self._tokenizer = WordPieceTokenizer(
            ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "##b"]
        )

    def tokenize(self, texts):
        self.given += [text.decode() for text in texts.numpy()]
        return self._tokenizer.tokenize(texts)


def test_a_word_is_tokenized_once(monkeypatch):
    tokenizer = Recorder(spaces_separate=True)
    word_tokens = WordTokens(tokenizer)
    assert word_tokens(["a b", "b bb"])[0].tolist() == [5, 6, 6, 6, 7]
    assert word_tokens(["bb ab a"])[0].tolist() == [6, 7, 5, 7, 5]
    assert tokenizer.given == ["a", "b", "bb", "ab"]
    monkeypatch.setattr("keras_bert_impl.pretraining.word_tokens._MOST_KEPT", 3)
    assert word_tokens(["a b"])[0].tolist() == [5, 6]  # four were kept: it begins anew
    assert tokenizer.given[4:] == ["a", "b"]


def test_a_tokenizer_that_looks_over_spaces_is_given_whole_texts():
    tokenizer = Recorder(spaces_separate=False)
    word_tokens = WordTokens(tokenizer)
    ids, lengths, num_words = word_tokens(["a b", "b", "a b"])
    assert tokenizer.given == ["a b", "b"]
    assert (ids.tolist(), lengths.tolist(), num_words) == ([5, 6, 6, 5, 6], [2, 1, 2], 5)
    word_tokens(["b"])
    assert tokenizer.given[2:] == ["b"]  # of whole texts none is kept


def test_words_are_counted_between_white_space_of_any_kind(tokenizer):
    characters = [chr(code) for code in range(0x3100)]
    given = [*characters, *(f"a{character}b" for character in characters)]
    assert WordTokens(tokenizer)(given)[2] == sum(len(text.split()) for text in given)
