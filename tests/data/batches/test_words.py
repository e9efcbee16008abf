import numpy as np
import pytest

from keras_bert_impl.data.batches.windows import tokenize_windows
from keras_bert_impl.data.batches.words import align_tokens, as_words, find_words, join_words
from keras_bert_impl.tokenizers import Tokenizer, WordPieceTokenizer
from keras_bert_impl.utils.errors import InputError
from tests.tokenizers.sentencepiece_models import train

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"good film , - un ##good ##ly".split()]


def strings(words):
    return [words.text[start:end] for start, end in zip(words.starts, words.ends)]


@pytest.mark.parametrize(
    "text, words",
    [
        ("Isn't  it,\tU.S.\n", ["Isn", "'", "t", "it", ",", "U", ".", "S", "."]),
        ("$5+x^2~", ["$", "5", "+", "x", "^", "2", "~"]),
        ("日本語のGröße", ["日", "本", "語", "のGröße"]),
        ("«a»\u00a0b…\u3000c", ["«", "a", "»", "b", "…", "c"]),
        ("a€b \U0001f600\U00020000", ["a€b", "\U0001f600", "\U00020000"]),
        (" ", []),
        ("", []),
    ],
)
def test_words_of_a_text(text, words):
    assert strings(find_words(text)) == words


def test_given_words_are_joined_by_spaces():
    words = join_words(["New York", "", "!"])
    assert words.text == "New York  !" and strings(words) == ["New York", "", "!"]
    assert join_words([]).text == "" and len(join_words([]).starts) == 0


def pieces_of(tokenizer, texts):
    """For each text, the subwords of each word and the first subword of each word, as strings."""
    sentences = as_words(texts)
    tokenized = tokenize_windows([words.text for words in sentences], tokenizer, 32, 16)
    aligned = align_tokens(sentences, tokenized)
    bases = np.repeat(np.arange(len(texts)), np.diff(tokenized.text_splits))
    cut = [
        sentences[base].text[start:end].strip()
        for base, start, end in zip(bases, tokenized.token_starts, tokenized.token_ends)
    ]
    by_word = [[] for _ in aligned.firsts]
    for piece, word in zip(cut, aligned.words):
        if word >= 0:
            by_word[word].append(piece)
    firsts = [cut[first] if first >= 0 else None for first in aligned.firsts]
    splits = aligned.word_splits
    return [(by_word[a:b], firsts[a:b]) for a, b in zip(splits[:-1], splits[1:])]


def test_aligns_tokens_with_words():
    tokenizer = WordPieceTokenizer(VOCABULARY)
    texts = [["ungoodly", "good-film"], [], ["\u200b", "", "film"], ["a"], "good, film"]
    assert pieces_of(tokenizer, texts) == [
        ([["un", "good", "ly"], ["good", "-", "film"]], ["un", "good"]),
        ([], []),
        ([[], [], ["film"]], [None, None, "film"]),
        ([["a"]], ["a"]),
        ([["good"], [","], ["film"]], ["good", ",", "film"]),
    ]


def test_token_may_begin_with_the_space_before(tmp_path):
    train(tmp_path, "XLM-RoBERTa")
    words = ["good", "film", "awful", "日本", "isn't"]
    ((by_word, firsts),) = pieces_of(Tokenizer.from_pretrained(tmp_path), [words])
    for word, pieces, first in zip(words, by_word, firsts, strict=True):
        # Subwords of one character all have its offsets.
        assert "".join(dict.fromkeys(pieces)) == word or set(word) == set("".join(pieces))
        assert first == pieces[0]


def test_words_within_one_token_share_it():
    tokenizer = WordPieceTokenizer([*VOCABULARY[:5], "good", "film"])
    sentences = as_words(["good film"])
    tokenized = tokenize_windows(["good film"], tokenizer, 32, 16)
    # Like a subword of byte-level BPE that crosses words: 'od fi'.
    tokenized.token_starts[:] = [0, 2]
    tokenized.token_ends[:] = [2, 7]
    aligned = align_tokens(sentences, tokenized)
    assert aligned.words.tolist() == [0, 1] and aligned.firsts.tolist() == [0, 1]
    tokenized.token_starts[:] = [5, 2]
    tokenized.token_starts[:], tokenized.token_ends[:] = [0, 7], [7, 9]
    aligned = align_tokens(sentences, tokenized)
    # The first subword ends in the second word and contains the end of the first.
    assert aligned.words.tolist() == [1, 1] and aligned.firsts.tolist() == [0, 0]
    assert aligned.owns.tolist() == [False, True]


@pytest.mark.parametrize(
    "texts, message",
    [
        ({"a": 1}, "expected a list. Received: dict"),
        ([["a", 1]], "text 0: a word must be a string. Received: int 1"),
        ([1], "text 0 must be a string"),
        ([["a"], None], "text 1 is missing"),
        (join_words(["a"]), "expected a list"),
    ],
)
def test_rejects_invalid_batches_of_texts(texts, message):
    with pytest.raises(InputError, match=message):
        as_words(texts)
