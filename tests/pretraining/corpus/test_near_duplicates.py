"""Planted duplicates are found if their exact Jaccard similarity is above the threshold."""

import random

import numpy as np
import pytest

pytest.importorskip("datasketch", reason="takes the extra corpus")

from keras_bert_impl.pretraining.corpus import near_duplicates  # noqa: E402
from keras_bert_impl.pretraining.corpus.near_duplicates import find_duplicates, signature, text_hash

ERROR = 0.15  # more than three standard deviations of an estimate
EDITED = (0, 0.01, 0.05, 0.2)  # fractions of the words
NUM_TEXTS = 40


@pytest.fixture(scope="module")
def texts():
    """40 texts of 300 words, then four edited copies of each."""
    generator = random.Random(5)
    words = [f"w{number}" for number in range(2000)]
    originals = [generator.choices(words, k=300) for _ in range(NUM_TEXTS)]
    copies = []
    for fraction in EDITED:
        for original in originals:
            copy = list(original)
            for place in generator.sample(range(300), int(300 * fraction)):
                copy[place] = f"edited{generator.randrange(10**9)}"
            copies.append(copy)
    return [" ".join(text) for text in originals + copies]


def exact_similarity(first, second):
    def sequences(text):
        words = text.split()
        return {tuple(words[i : i + 5]) for i in range(len(words) - 4)}

    first, second = sequences(first), sequences(second)
    return len(first & second) / len(first | second)


@pytest.mark.parametrize("threshold", [0.3, 0.5, 0.8])
def test_planted_copies_are_found_by_their_exact_similarity(texts, threshold):
    hashes = np.array([text_hash(text) for text in texts], np.uint64)
    signatures = np.array([signature(text) for text in texts])
    exact, near = find_duplicates(hashes, signatures, threshold)
    assert exact.tolist() == [NUM_TEXTS <= n < 2 * NUM_TEXTS for n in range(len(texts))]
    assert not near[: 2 * NUM_TEXTS].any()
    sure = 0
    for number in range(2 * NUM_TEXTS, len(texts)):
        similarity = exact_similarity(texts[number], texts[number % NUM_TEXTS])
        if abs(similarity - threshold) > ERROR or similarity > 0.9 > threshold:
            assert near[number] == (similarity > threshold), (number, similarity)
            sure += 1
    assert sure >= NUM_TEXTS  # at least one kind of copies is far from the threshold


def test_estimates_have_the_exact_similarity_as_their_mean(texts):
    for kind in range(1, len(EDITED) + 1):
        pairs = [(texts[n], texts[kind * NUM_TEXTS + n]) for n in range(NUM_TEXTS)]
        exact = np.mean([exact_similarity(*pair) for pair in pairs])
        estimated = np.mean(
            [near_duplicates.similarity(signature(a), signature(b)) for a, b in pairs]
        )
        assert abs(estimated - exact) < 3 * 0.044 / NUM_TEXTS**0.5


def test_the_first_of_several_duplicates_stays(texts):
    some = [texts[n] for n in (7, 3, 7, 7 + 2 * NUM_TEXTS, 3)]
    hashes = np.array([text_hash(text) for text in some], np.uint64)
    signatures = np.array([signature(text) for text in some])
    exact, near = find_duplicates(hashes, signatures, 0.8)
    assert exact.tolist() == [False, False, True, False, True]
    assert near.tolist() == [False, False, False, True, False]


def test_texts_without_spaces_and_short_texts():
    text = "今天天气很好我们一起去公园散步然后回家吃饭"
    similar = near_duplicates.similarity(signature(text), signature(text + "吧"))
    assert abs(similar - 17 / 18) < ERROR  # 17 sequences of five characters, and one more
    assert not near_duplicates.similarity(signature("one two"), signature("one three"))
    assert near_duplicates.similarity(signature("One, two."), signature("one two")) == 1


@pytest.mark.parametrize("threshold", [0.1, 0.5, 0.8, 0.95, 1])
def test_documents_at_the_threshold_share_a_band(threshold):
    """Signatures with independent values that are equal with the probability of the threshold."""
    generator = np.random.default_rng(0)
    first = generator.integers(0, 2**32, (2000, 128), np.uint32)
    same = generator.random(first.shape) < threshold
    second = np.where(same, first, generator.integers(0, 2**32, first.shape, np.uint32))
    keys = [near_duplicates.band_keys(kind, threshold) for kind in (first, second)]
    shared = np.any([a == b for a, b in zip(*keys)], axis=0)
    assert shared.mean() > 0.98
