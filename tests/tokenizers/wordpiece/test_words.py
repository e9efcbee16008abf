import functools
import random

import pytest
import tensorflow as tf
from tokenizers import normalizers, pre_tokenizers

from keras_bert_impl.tokenizers.wordpiece.words import (
    TEXT_END,
    UNKNOWN_WORD,
    Translation,
    WordSplitter,
)

CODE_POINTS = [code for code in range(0x110000) if not 0xD800 <= code < 0xE000]


@functools.lru_cache
def graph(lowercase):
    def strings_and_starts(texts):
        words = WordSplitter(lowercase)(texts)
        return words.strings(), words.texts

    return tf.function(strings_and_starts, input_signature=[tf.TensorSpec([None], tf.string)])


def words_of(texts, lowercase):
    strings, starts = graph(lowercase)(tf.constant(texts, tf.string, shape=[len(texts)]))
    strings = [word.decode() for word in strings.numpy()]
    return [strings[a:b] for a, b in zip(starts.numpy(), starts.numpy()[1:])]


@pytest.mark.parametrize(
    ("text", "cased", "uncased"),
    [
        ("", [], []),
        (" \t\n\u3000", [], []),
        ("Hello, WORLD!", ["Hello", ",", "WORLD", "!"], ["hello", ",", "world", "!"]),
        ("Déjà vu", ["Déjà", "vu"], ["deja", "vu"]),
        ("De\u0301ja\u0300", ["De\u0301ja\u0300"], ["deja"]),
        ("STRASSE Straße", ["STRASSE", "Straße"], ["strasse", "straße"]),
        ("İstanbul", ["İstanbul"], ["istanbul"]),
        ("ΌΣΟΣ", ["ΌΣΟΣ"], ["οσοσ"]),
        ("a中文b", ["a", "中", "文", "b"], ["a", "中", "文", "b"]),
        ("かな カナ", ["かな", "カナ"], ["かな", "カナ"]),
        ("한국", ["한국"], ["\u1112\u1161\u11ab\u1100\u116e\u11a8"]),
        ("a\u200bb\u00adc\x00d\ufffde\ufefff", ["abcdef"], ["abcdef"]),
        ("a\x85b\u2028c", ["ab", "c"], ["ab", "c"]),
        ("don't—…", ["don", "'", "t", "—", "…"], ["don", "'", "t", "—", "…"]),
        ("™½²①ﬁ", ["™½²①ﬁ"], ["™½²①ﬁ"]),
        ("a≠b\u037e", ["a≠b", "\u037e"], ["a", "=", "b", ";"]),
        ("$5.99^2", ["$", "5", ".", "99", "^", "2"], ["$", "5", ".", "99", "^", "2"]),
        ("😀👍🏽", ["😀👍🏽"], ["😀👍🏽"]),
    ],
)
def test_known_words(text, cased, uncased):
    assert words_of([text], lowercase=False) == [cased]
    assert words_of([text], lowercase=True) == [uncased]


def reference_words(texts, lowercase):
    normalize = normalizers.BertNormalizer(lowercase=lowercase).normalize_str
    split = pre_tokenizers.BertPreTokenizer().pre_tokenize_str
    return [[word for word, _ in split(normalize(text))] for text in texts]


@pytest.mark.parametrize("lowercase", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_every_code_point_inside_a_word_equals_tokenizers(lowercase):
    words = [f"a{chr(code)}b" for code in CODE_POINTS]
    texts = [" ".join(words[start : start + 100]) for start in range(0, len(words), 100)]
    assert words_of(texts, lowercase) == reference_words(texts, lowercase)


@pytest.mark.parametrize("lowercase", [True, False])
def test_random_code_points_equal_tokenizers(lowercase):
    draw = random.Random(1)
    marks = [0x301, 0x316, 0x302E, 0x1D165, 0x8D4, 0x64E, 0x1BAA, 0xF73, 0x344]
    kinds = [CODE_POINTS[:0x3000], CODE_POINTS, marks, range(0x20, 0x7F), range(0xAC00, 0xAD00)]
    texts = [
        "".join(chr(draw.choice(draw.choice(kinds))) for _ in range(draw.randint(1, 30)))
        for _ in range(5000)
    ]
    assert words_of(texts, lowercase) == reference_words(texts, lowercase)


def test_special_tokens_are_words_that_no_text_contains():
    assert words_of(["a[MASK]b[PAD]"], True) == [["a", "\U000f0004" * 2, "b", "\U000f0000" * 2]]
    assert words_of(["\U000f0004" * 2], True) == [[]]


def test_texts_do_not_run_into_each_other():
    assert words_of(["ab", "cd", "", "[MA", "SK]"], True) == [
        ["ab"], ["cd"], [], ["[", "ma"], ["sk", "]"]
    ]  # fmt: skip


def test_a_word_of_more_than_100_characters_is_marked():
    (short,), (long,) = words_of(["é" * 100, "é" * 101], lowercase=False)
    assert short == "é" * 100
    assert long == "\x01" + "é" * 100


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
    translatable = [text for text in texts if translation([text]) is not None]
    assert len(translatable) > len(texts) - 5  # a musical note with a flag keeps two marks
    assert translation(translatable) == words_in_graph(splitter, translatable)


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
