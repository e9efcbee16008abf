"""Samples of texts and answers, and how they differ."""

import pytest

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.tasks.runs.drift import compare_samples, sample_of
from tests.tasks.helpers import classifier

SHORT = [f"good film {word}" for word in ("a", "the", "of")] * 20
LONG = [f"{text} {text} {text}" for text in SHORT]


@pytest.fixture(scope="module")
def model():
    return classifier()


def test_sample(model):
    sample = sample_of(model, ["good film", "a \u2603 \u2603"])
    lengths = [len(row) for row in model.tokenizer.tokenize(["good film", "a \u2603 \u2603"])]
    assert sample.numbers["tokens"] == lengths
    assert sample.numbers["unknown tokens"] == [0.0, pytest.approx(2 / 3)]
    scores = model.predict(["good film", "a \u2603 \u2603"], verbose=0)
    assert sample.numbers["score"] == pytest.approx(scores.max(axis=1).tolist())
    assert sample.classes["label"] == model.classify(["good film", "a \u2603 \u2603"])


def test_pairs_count_both_segments(model):
    sample = sample_of(model, [("good", "good film"), ("a", "good")])
    parts = [len(row) for row in model.tokenizer.tokenize(["good", "good film", "a", "good"])]
    assert sample.numbers["tokens"] == [parts[0] + parts[1], parts[2] + parts[3]]


def test_longer_texts_have_shifted(model):
    reference = sample_of(model, iter(SHORT))
    compared = compare_samples(reference, sample_of(model, LONG))
    assert compared["tokens"].verdict == "shifted far"
    assert compared["unknown tokens"].verdict == "same"
    again = compare_samples(reference, sample_of(model, SHORT))
    assert {one.verdict for one in again.values()} == {"same"}
    assert again.keys() == {"tokens", "unknown tokens", "score", "label"}


def test_no_texts(model):
    with pytest.raises(InputError, match="no texts"):
        sample_of(model, [])
