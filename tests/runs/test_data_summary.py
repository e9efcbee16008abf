"""The summary of the data of a run, and its warnings."""

import dataclasses
import json

import pytest

from keras_bert_impl.data.questions import QuestionExamples
from keras_bert_impl.data.tables import token_lengths
from keras_bert_impl.runs.data_summary import summarize
from keras_bert_impl.tasks import (
    AnchorExamples,
    ChoiceExamples,
    Examples,
    TaggedExamples,
    TextEmbedder,
)
from tests.tasks.helpers import classifier, encoder, tokenizer

TRAIN = Examples(["good film", "bad", "the plot is very awful", "joy"], ["a", "b", "b", "a"])
DEV = Examples(["joy", "dull film"], ["a", "b"])


@pytest.fixture(scope="module")
def model():
    return classifier(max_length=6)


def test_counts_and_lengths(model):
    summary = summarize(model, TRAIN, DEV)
    # Tokens of the words, and [CLS] and [SEP].
    assert summary.lengths == {"50": 4, "90": 7, "99": 7, "max": 7}
    assert (summary.max_length, summary.truncated, summary.in_both) == (6, 0.25, 1)
    assert summary.train_labels == {"a": 2, "b": 2} and summary.dev_labels == {"a": 1, "b": 1}
    assert summary.lines() == [
        "data: 4 examples to train on, 2 to score on",
        "classes: a 2, b 2",
        "tokens: 50 % up to 4, 90 % up to 7, 99 % up to 7, longest 7; max_length is 6, "
        "25.0% are truncated",
    ]
    assert json.loads(json.dumps(dataclasses.asdict(summary))) == dataclasses.asdict(summary)


def test_lengths_of_a_sample(model, monkeypatch):
    monkeypatch.setattr(token_lengths, "_SAMPLE", 2)
    assert summarize(model, TRAIN, DEV).lengths["max"] == 4  # the first and the last


@pytest.mark.parametrize(
    "train, dev, message",
    [
        (TRAIN, DEV, "25.0% of the texts are truncated. With max_length=8, 99 % of the texts fit."),
        (TRAIN, DEV, "1 of the 2 validation texts are also in the training set"),
        (Examples(["joy", "bad"], ["a", "b"]), DEV, "'a', 'b' have one training example"),
        (Examples(["joy", " "], ["a", "b"]), DEV, "1 texts are empty."),
        (
            Examples(["joy", "bad"], [0, 0], ["a", "b"]),
            Examples(["a"], [1], ["a", "b"]),
            "'b' occurs only in the validation set.",
        ),
        (
            Examples([f"{i}" for i in range(42)], ["a"] * 40 + ["b"] * 2),
            DEV,
            "'a' has 40 examples and 'b' 2. Try class_weight=balanced.",
        ),
    ],
)
def test_warnings(model, train, dev, message):
    assert message in "\n".join(summarize(model, train, dev).warnings)


def test_uneven_classes_are_told_what_is_not_yet_done(model):
    train = Examples([f"{i}" for i in range(42)], ["a"] * 40 + ["b"] * 2)
    counts = "'a' has 40 examples and 'b' 2."
    warnings = summarize(model, train, DEV, metric="macro_f1").warnings
    assert f"{counts} Models are compared by macro_f1. Try class_weight=balanced." in warnings
    warnings = summarize(model, train, DEV, metric="accuracy", is_weighted=True).warnings
    assert f"{counts} Models are compared by accuracy." in warnings


def test_no_warnings_without_a_reason(model):
    train = Examples(["good film", "bad", "the plot", "joy"], ["a", "b", "b", "a"])
    assert summarize(model, train, Examples(["dull", "new"], ["a", "b"])).warnings == []


@pytest.mark.parametrize(
    "examples",
    [
        Examples(["फिल्म कहानी", "good"] * 2, ["a", "b"] * 2),
        AnchorExamples([("फिल्म", "good film")] * 2),
        TaggedExamples([["फिल्म", "good"]], [["N", "V"]], ["N", "V"]),
        ChoiceExamples([("फिल्म", ["good", "bad"])], [0]),
    ],
)
def test_unknown_tokens_are_told_for_every_task(model, examples):
    (remark,) = [
        warning for warning in summarize(model, examples, examples).warnings if "unknown" in warning
    ]
    assert "such as 'फिल्म'" in remark


def test_a_model_that_takes_no_more(model):
    texts = Examples(["good " * 40] * 4, ["a", "a", "b", "b"])
    whole = classifier(max_length=32)
    assert "takes at most 32 tokens. Try long_texts=mean" in str(
        summarize(whole, texts, DEV).warnings
    )
    windows = classifier(max_length=6, long_texts="mean")
    assert summarize(windows, texts, DEV).truncated is None


QUESTIONS = QuestionExamples(
    ["1", "2"], ["what", "what"], ["a film", "a plot"], [[("film", 2)], []], [False, True], ["", ""]
)


@pytest.mark.parametrize(
    "examples, labels, counts",
    [
        (Examples(["a", "b"], [1.5, 2.5]), "numbers", {"min": 1.5, "mean": 2.0, "max": 2.5}),
        (Examples(["a", "b"], [["x", "y"], ["x"]]), "classes", {"x": 2, "y": 1}),
        (TaggedExamples([["a", "b"]], [["B-X", "I-X"]], ["B-X", "I-X"]), "entities", {"X": 1}),
        (TaggedExamples([["a", "b"]], [["N", "V"]], ["N", "V"]), "tags", {"N": 1, "V": 1}),
        (QUESTIONS, "questions", {"with an answer": 1, "without": 1}),
        (ChoiceExamples([("a", ["b", "c"])], [0]), "endings", {"2 each": 1}),
        (AnchorExamples([("a", "b")]), None, {}),
    ],
)
def test_labels_of_every_task(model, examples, labels, counts):
    summary = summarize(model, examples, examples)
    assert (summary.labels, summary.train_labels) == (labels, counts)
    assert len(summary.lines()) <= 3 and summary.lengths["max"] >= 3


def test_texts_of_an_embedder_have_a_row_each():
    embedder = TextEmbedder(encoder(), tokenizer(), max_length=16)
    summary = summarize(embedder, *[AnchorExamples([("good", "good film a")])] * 2)
    assert summary.lengths["max"] == 5
