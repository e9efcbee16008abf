import random

import numpy as np
import pytest

from keras_bert_impl.pretraining.corpus.blocks import WordTokens
from keras_bert_impl.tokenizers import WordPieceTokenizer

PIECES = ["a", "b", "##a", "##b", "ab", "é", "e", "日", ".", "##é", "σ", "ς", "[", "]", "-", "1"]
# All kinds of spaces, characters that are removed or composed, and tokens of the vocabulary.
SIGNS = [
    "a",
    "b",
    "B",
    "1",
    "é",
    "e",
    "\u0301",
    "日",
    ".",
    "-",
    "'",
    "[",
    "]",
    " ",
    " ",
    " ",
    "  ",
    "\t",
    "\r",
    "\u00a0",
    "\u2028",
    "\u3000",
    "\x0b",
    "\x1f",
    "\x7f",
    "\x85",
    "\x00",
    "\ufffd",
    "\u200b",
    "\u2013",
    "[MASK]",
    "Σ",
    "İ",
    "😀",
    "ab" * 60,
]


@pytest.fixture(scope="module", params=[True, False], ids=["lowercase", "cased"])
def tokenizer(request):
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    return WordPieceTokenizer(special + PIECES, lowercase=request.param)


def texts(count, seed, signs=SIGNS):
    generator = random.Random(seed)
    return ["".join(generator.choices(signs, k=generator.randint(0, 30))) for _ in range(count)]


@pytest.mark.parametrize("seed", range(3))
def test_words_have_the_same_tokens_as_the_text(tokenizer, seed):
    word_tokens = WordTokens(tokenizer)
    ordinary = [sign for sign in SIGNS if sign != "[MASK]"]
    # Each batch contains words of the one before.
    for batch in (
        texts(2000, seed, ordinary),
        texts(1000, seed + 3),
        texts(1000, seed + 6, ordinary),
    ):
        ids, lengths, num_words = word_tokens([batch[:500], batch[500:]])
        expected = tokenizer.tokenize(batch)
        np.testing.assert_array_equal(lengths, expected.row_lengths())
        np.testing.assert_array_equal(ids, expected.flat_values)
        assert ids.dtype == np.int32
        assert num_words == sum(len(text.split()) for text in batch)


class Recorder:
    """A tokenizer that records its inputs."""

    def __init__(self, word_breaks):
        self.word_breaks = word_breaks
        self.given = []
        self._tokenizer = WordPieceTokenizer(
            ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "##b", "."]
        )

    def tokenize(self, texts):
        self.given += texts
        return self._tokenizer.tokenize(texts)

    def tokenize_words(self, words):
        self.given += words
        return self._tokenizer.tokenize_words(words)


def test_a_word_is_tokenized_once():
    tokenizer = Recorder(word_breaks=".")
    word_tokens = WordTokens(tokenizer)
    assert word_tokens([["a b", "b bb"], ["b"]])[0].tolist() == [5, 6, 6, 6, 7, 6]
    assert word_tokens([["bb.ab a."]])[0].tolist() == [6, 7, 8, 5, 7, 5, 8]
    assert tokenizer.given == ["a", "b", "bb", ".", "ab"]
    assert word_tokens([["a b"]])[0].tolist() == [5, 6]  # "b" was not in the previous batch
    assert tokenizer.given[5:] == ["b"]


def test_tokenizers_without_word_breaks_get_whole_texts():
    tokenizer = Recorder(word_breaks="")
    ids, lengths, num_words = WordTokens(tokenizer)([["a b", "b"], ["a b"]])
    assert tokenizer.given == ["a b", " b", "a b"]
    assert (ids.tolist(), lengths.tolist(), num_words) == ([5, 6, 6, 5, 6], [2, 1, 2], 5)


@pytest.mark.parametrize("word_breaks", [".", ""])
def test_many_texts_are_tokenized_in_batches(monkeypatch, word_breaks):
    monkeypatch.setattr("keras_bert_impl.pretraining.corpus.blocks._AT_ONCE", 4)
    tokenizer = Recorder(word_breaks)
    ids, lengths, _ = WordTokens(tokenizer)([["a"] * 3 + ["a.bbbbbbb.b", "", "b"]])
    assert ids.tolist() == [5, 5, 5, 5, 8, 6, *[7] * 6, 8, 6, 6]
    assert lengths.tolist() == [1, 1, 1, 11, 0, 1]


def test_words_are_counted_between_any_whitespace(tokenizer):
    characters = [chr(code) for code in range(0x3100) if chr(code) != "\n"]
    lines = [*characters, *(f"a{character}b,{character}" for character in characters)]
    assert WordTokens(tokenizer)([lines])[2] == sum(len(text.split()) for text in lines)
