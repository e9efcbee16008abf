"""Texts tokenized with `WordCache` have the ids that the graph gives."""

import concurrent.futures
import copy
import pickle
import random

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.tokenizers import WordPieceTokenizer, word_cache
from keras_bert_impl.tokenizers.word_cache import WordCache
from tests.tokenizers.kinds import texts

PARTS = [
    *"abT1.,-'[]#é日ﬁΣ😀 ",
    *"\n\t\r\0\x01\x0b\x1c\x7f\x85\xa0\xad\u200b\u2028\u3000\ufeff\ufffd\ue000",
    *["\u0301", "\u302e\u302f", "\ud800", "\udc00", "  ", " ", " ", "[MASK]", "[mask]", "[SEP"],
    *["want", "hello", "running", "THE", "a" * 15, "a" * 16, "b" * 101, "Ünïcödé"],
]

WORD = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def odd_texts(seed, count=300):
    draw = random.Random(seed)
    return ["".join(draw.choices(PARTS, k=draw.randint(0, 25))) for _ in range(count)]


def as_tensor(texts):
    clean = [text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") for text in texts]
    return tf.constant(clean, tf.string, shape=[len(clean)])


def in_graph(tokenizer, texts):
    return tokenizer.tokenize(as_tensor(texts)).to_list()


@pytest.mark.parametrize("seed", range(10))
def test_odd_texts_have_the_ids_of_the_graph(tokenizer, seed):
    samples = odd_texts(seed) + texts()
    assert tokenizer.tokenize(samples).to_list() == in_graph(tokenizer, samples)
    assert tokenizer.tokenize(samples[::-1]).to_list() == in_graph(
        tokenizer, samples[::-1]
    )  # from memory


def test_words_that_differ_in_few_bytes_are_found_quickly():
    """Each byte of a key counts in its hash, so that few words begin at the same place."""
    words = [f"abcdef{a}{b}ghijkl{c}".encode() for a in WORD for b in WORD for c in "xyz012"]
    data = b"".join(words) + bytes(16)
    lengths = np.full(len(words), 15)
    keys = word_cache._make_keys(data, 15 * np.arange(len(words)), lengths)
    table = word_cache._Table()
    _, counts = np.unique(table._hash_keys(keys), return_counts=True)
    # Of 23,064 words in 524,288 places; 8 in one is less likely than 1 in 10,000.
    assert counts.max() < 8
    table.add(keys, np.ones((len(keys), word_cache._FEW), np.int32))
    np.testing.assert_array_equal(table.find(keys), 1 + np.arange(len(keys)))


def test_a_long_word_without_tokens_is_remembered(tokenizer):
    dropped = "\ufffd" * 11  # 33 bytes: more than a table holds
    tokenizer.tokenize([f"a b c {dropped} a b c"])
    samples = [f"a b c {dropped} a b c {'running' * 3}"]  # known and new
    assert tokenizer.tokenize(samples).to_list() == in_graph(tokenizer, samples)


def test_every_code_point_has_the_ids_of_the_graph(tokenizer):
    codes = [code for code in range(0, 0x110000, 11) if not 0xD800 <= code < 0xE000]
    for form in ("a{}b", "{} .{}", "é{}"):
        samples = [form.format(chr(code), chr(code)) for code in codes]
        expected = tokenizer.tokenize(tf.constant(samples))
        received = tokenizer.tokenize(samples)
        np.testing.assert_array_equal(received.row_splits, expected.row_splits)
        np.testing.assert_array_equal(received.flat_values, expected.flat_values)


def test_bytes_have_the_ids_of_the_graph(tokenizer):
    draw = random.Random(0)
    samples = [
        bytes(draw.choices(b"ab .,\n\0\xff\xc3\xa9\xe2\x82\xed\xa0\x80\xf4\x90", k=12))
        for _ in range(999)
    ]
    assert (
        tokenizer.tokenize(samples).to_list() == tokenizer.tokenize(tf.constant(samples)).to_list()
    )
    samples = [text.replace(b"\xff", b"") for text in samples]
    assert (
        tokenizer.tokenize(samples).to_list() == tokenizer.tokenize(tf.constant(samples)).to_list()
    )


def test_the_result_is_that_of_the_graph_in_type_too(tokenizer):
    for samples in ([], [""], ["", "the want", ""]):
        received, expected = (
            tokenizer.tokenize(samples),
            tokenizer.tokenize(tf.constant(samples, tf.string)),
        )
        assert received.dtype == expected.dtype and received.shape == expected.shape
        assert received.row_splits.dtype == expected.row_splits.dtype
        assert received.to_list() == expected.to_list()


def test_words_that_are_forgotten_are_tokenized_again(tokenizer, monkeypatch):
    """Tables and dict are so small that they are replaced within a batch."""
    monkeypatch.setattr(word_cache, "_MOST_WORDS", 8)
    monkeypatch.setattr(word_cache, "_MOST_OTHERS", 2)
    monkeypatch.setattr(word_cache, "_AT_ONCE", 200)
    small = WordPieceTokenizer.from_config(tokenizer.get_config())
    for seed in range(5):
        samples = odd_texts(seed, 100)
        assert small.tokenize(samples).to_list() == in_graph(tokenizer, samples)


class Recorder:
    """Gives each word the ids of its letters, and records the words."""

    def __init__(self):
        self.given = []

    def __call__(self, words):
        self.given.append(words)
        ids = [ord(letter) for word in words for letter in word]
        return np.array(ids, np.int32), np.array([*map(len, words)], np.int64)


def tokenized(cache, *texts):
    ids, counts = cache([text.encode() for text in texts])
    return ["".join(map(chr, part)) for part in np.split(ids, np.cumsum(counts)[:-1])]


def test_a_word_is_tokenized_once():
    tokenize = Recorder()
    cache = WordCache(tokenize, ".")
    assert tokenized(cache, "a bb.a bb", ".cc " + 20 * "d") == ["abb.abb", ".cc" + 20 * "d"]
    assert tokenize.given == [["a", "bb", ".", "cc", 20 * "d"]]
    assert tokenized(cache, 20 * "d" + " e", "bb") == [20 * "d" + "e", "bb"]
    assert tokenize.given[1:] == [["e"]]


def test_words_in_use_stay_when_the_table_is_full(monkeypatch):
    monkeypatch.setattr(word_cache, "_MOST_WORDS", 4)
    tokenize = Recorder()
    cache = WordCache(tokenize, "")
    for word in "abcdefghijkl":
        assert tokenized(cache, f"{word} in use") == [f"{word}inuse"]
    assert sum(tokenize.given, []) == ["a", "in", "use", *"bcdefghijkl"]
    tokenized(cache, "a")
    assert tokenize.given[-1] == ["a"]  # not in use, forgotten


def test_long_texts_without_spaces_are_not_kept():
    tokenize = Recorder()
    cache = WordCache(tokenize, "")
    for _ in range(2):
        assert tokenized(cache, 65 * "a") == [65 * "a"]
    assert tokenize.given == [[65 * "a"]] * 2


def test_threads_get_the_ids_of_the_graph(tokenizer, monkeypatch):
    monkeypatch.setattr(word_cache, "_MOST_WORDS", 64)  # replaced all the time
    monkeypatch.setattr(word_cache, "_MOST_OTHERS", 8)
    shared = WordPieceTokenizer.from_config(tokenizer.get_config())
    batches = [odd_texts(seed % 8, 50) for seed in range(48)]
    expected = [in_graph(tokenizer, batch) for batch in batches[:8]]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for number, rows in enumerate(pool.map(shared.tokenize, batches)):
            assert rows.to_list() == expected[number % 8]


def test_copies_and_files_have_no_cache(tokenizer):
    used = WordPieceTokenizer.from_config(tokenizer.get_config())
    before, fingerprint = pickle.dumps(used), used.fingerprint
    expected = used.tokenize(texts()).to_list()
    assert pickle.dumps(used) == before and used.fingerprint == fingerprint
    for duplicate in (pickle.loads(before), copy.copy(used), copy.deepcopy(used)):
        assert "_word_cache" not in vars(duplicate)
        assert duplicate.tokenize(texts()).to_list() == expected


def test_lists_in_a_graph_go_through_the_graph(tokenizer):
    samples = odd_texts(3, 20)
    fresh = WordPieceTokenizer.from_config(tokenizer.get_config())
    rows = tf.function(lambda: fresh.tokenize(samples).to_tensor(-1))()
    assert "_word_cache" not in vars(fresh)
    np.testing.assert_array_equal(rows, fresh.tokenize(samples).to_tensor(-1))


def test_texts_without_spaces_go_through_the_graph(tokenizer):
    fresh = WordPieceTokenizer.from_config(tokenizer.get_config())
    samples = ["日本語テキスト" * 9, "é" * 200]
    assert fresh.tokenize(samples).to_list() == in_graph(tokenizer, samples)
    assert "_word_cache" not in vars(fresh)


def test_added_tokens_are_found_by_the_graph(tokenizer):
    extended = tokenizer.add_tokens(["want hello", "[E1]"])
    samples = ["a want hello [E1]b", "[e1] want  hello"]
    assert extended.tokenize(samples).to_list() == in_graph(extended, samples)
    assert "_word_cache" not in vars(extended)


def test_rows_of_lists_are_those_of_tensors(tokenizer):
    first, second = odd_texts(4, 30), odd_texts(5, 30)
    pair = as_tensor(first), as_tensor(second)
    for lists, tensors in (
        (first, pair[0]),
        ((first, second), pair),
        (list(zip(first, second)), pair),
    ):
        for settings in ({"length": 8}, {"length": 64}, {}, {"multiple_of": 16}):
            received, expected = tokenizer(lists, **settings), tokenizer(tensors, **settings)
            for name in expected:
                assert received[name].dtype == expected[name].dtype
                np.testing.assert_array_equal(received[name], expected[name])
