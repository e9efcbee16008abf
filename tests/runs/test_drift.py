"""Samples of texts and answers, and how they differ."""

import pytest

from keras_bert_impl import MultipleChoice, TokenClassifier
from keras_bert_impl.runs import drift
from keras_bert_impl.runs.drift import Sample, compare_samples, sample_of
from keras_bert_impl.utils.errors import InputError
from tests.tasks import helpers
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
    assert {comparison.verdict for comparison in again.values()} == {"same"}
    assert again.keys() == {"tokens", "unknown tokens", "score", "label"}


def test_no_texts(model):
    with pytest.raises(InputError, match="no texts"):
        sample_of(model, [])


class Answers:
    """A task whose answers are given."""

    def __init__(self, answers):
        self.answers = answers

    def predictions(self, model, block):
        return [(answer, []) for answer in self.answers]


@pytest.mark.parametrize(
    "answers, classes",
    [
        (
            [{"entities": [{"type": "PER"}, {"type": "ORG"}]}, {"entities": []}],
            ["PER", "ORG", "(none)"],
        ),
        ([{"labels": ["a", "b"]}, {"labels": []}], ["a", "b", "(none)"]),
        ([{"answer": "Bob", "score": 0.5}, {"answer": ""}], ["answer", "(none)"]),
        ([{"label": "x"}], ["x"]),
        ([{"choice": 1, "ending": "b"}, {"choice": 0, "ending": "c"}], ["choice 2", "choice 1"]),
    ],
)
def test_classes_of_answers(model, monkeypatch, answers, classes):
    monkeypatch.setattr(drift, "task_of_model", lambda model: Answers(answers))
    assert sample_of(model, ["a text"]).classes["label"] == classes


def test_counts_the_entities_of_a_text(model, monkeypatch):
    answers = [{"entities": [{"type": "PER"}, {"type": "ORG"}]}, {"entities": []}]
    monkeypatch.setattr(drift, "task_of_model", lambda model: Answers(answers))
    assert sample_of(model, ["a text"]).numbers["entities"] == [2.0, 0.0]


def test_a_real_tagger():
    tagger = TokenClassifier(helpers.encoder(), helpers.tokenizer(), labels=["O", "B-PER", "I-PER"])
    sample = sample_of(tagger, SHORT[:3])
    types = [entity.type for entities in tagger.entities(SHORT[:3]) for entity in entities]
    assert set(sample.classes["label"]) <= {*types, "(none)"} and types


def test_tokens_of_a_prompt_and_its_endings():
    choice = MultipleChoice(helpers.encoder(), helpers.tokenizer())
    sample = sample_of(choice, [("good film", ["a", "the plot"])])
    lengths = [len(row) for row in choice.tokenizer.tokenize(["good film", "a", "the plot"])]
    assert sample.numbers["tokens"] == [sum(lengths)] and len(sample.classes["label"]) == 1


def test_a_tagger_that_finds_nothing_has_shifted():
    reference = Sample({"tokens": [5.0] * 300}, {"label": ["PER"] * 300})
    served = Sample({"tokens": [5.0] * 300}, {"label": ["(none)"] * 300})
    assert compare_samples(reference, served)["label"].verdict == "shifted far"
