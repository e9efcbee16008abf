import pytest
import tensorflow as tf

from keras_bert_impl.tokenizers.wordpiece.translation import Translation
from keras_bert_impl.tokenizers.wordpiece.words import TEXT_END, UNKNOWN_WORD, WordSplitter


@pytest.fixture(scope="module", params=[True, False], ids=["lowercase", "cased"])
def splitter(request):
    return WordSplitter(request.param)


def words_in_graph(splitter, texts):
    """Computes the expected result of `Translation` in the graph."""
    words = splitter(tf.constant(texts))
    strings = [word.decode() for word in words.strings().numpy()]
    bounds = words.texts.numpy()
    return [
        word
        for start, end in zip(bounds[:-1], bounds[1:])
        for word in (*strings[start:end], TEXT_END)
    ]


@pytest.mark.parametrize("form", ["a{}b", "{}\u0301", "é {}."])
def test_code_points_give_the_words_of_the_graph(splitter, form):
    codes = [code for code in range(0, 0x110000, 7) if not 0xD800 <= code < 0xE000 and code != 10]
    texts, translation = [form.format(chr(code)) for code in codes], Translation(splitter.table)
    own = [text for text in texts if translation([text]) is not None]
    assert len(own) > len(texts) - 5  # a musical note with a flag keeps two marks
    assert translation(own) == words_in_graph(splitter, own)


def test_a_word_that_is_too_long_is_unknown(splitter):
    texts = ["a" * 100, "a" * 101, "é" * 100, "é" * 101, "a," * 101]
    words = Translation(splitter.table)(texts)
    assert [len(word) for word in words[:8]] == [100, 1, 1, 1, 100, 1, 1, 1]
    assert words[2] == words[6] == UNKNOWN_WORD
    assert words[8:] == ["a", ","] * 101 + [TEXT_END]


def test_returns_none_for_texts_that_need_the_graph():
    translation = Translation(WordSplitter(lowercase=True).table)
    assert translation(["a [MASK]"]) is None
    assert translation(["a\u302e\u302f"]) is None  # keeps two marks, perhaps out of order
    assert translation(["a\u302e", "\u302fb"]) == ["a\u302e", TEXT_END, "\u302fb", TEXT_END]
    assert translation(["[mask]", ""]) == ["[", "mask", "]", TEXT_END, TEXT_END]
    assert translation([]) == []
