"""Labels that scores on a validation set do not cover."""

import re

import pytest

from keras_bert_impl.data.choices import ChoiceExamples
from keras_bert_impl.data.questions import QuestionExamples
from keras_bert_impl.data.tables.checks import gaps_of
from keras_bert_impl.data.tables.examples import Examples
from keras_bert_impl.data.tags.examples import TaggedExamples

TEXTS = ["a", "b"]


def questions(is_impossible):
    answers = [[] if is_true else [("a", 0)] for is_true in is_impossible]
    return QuestionExamples(TEXTS, TEXTS, TEXTS, answers, is_impossible, TEXTS)


def tagged(*labels):
    return TaggedExamples([["a", "b"]] * len(labels), list(labels), sorted(set().union(*labels)))


@pytest.mark.parametrize(
    ("train", "dev", "expected"),
    [
        (Examples(TEXTS, ["x", "y"]), Examples(TEXTS, ["y", "x"]), None),
        (Examples(TEXTS, ["x", "y"]), Examples(TEXTS, ["y", "y"]), "'x' occurs only in the train"),
        (Examples(TEXTS, [["x"], ["y"]]), Examples(TEXTS, [[], []]), "no example of the .* a label"),
        (Examples(TEXTS, [1.0, 2.0]), Examples(TEXTS, [3.5, 3.5]), "are 3.5, so correlations are"),
        (Examples(TEXTS, [1.0, 2.0]), Examples(TEXTS, [3.5, 3.0]), None),
        (tagged(["L-X", "B-X"]), tagged(["O", "O"]), "contains no entity"),
        (tagged(["O", "O"]), tagged(["O", "O"]), "contains no entity"),
        (tagged(["B-X", "B-Y"]), tagged(["B-X", "O"]), "'Y' occurs only in the training set"),
        (tagged(["NOUN", "VERB"]), tagged(["NOUN", "NOUN"]), "'VERB' occurs only"),
        (questions([True, False]), questions([True, True]), "no question .* has an answer"),
        (questions([True, False]), questions([False, False]), "no question .* has no answer"),
        (ChoiceExamples([("a", ["b", "c"])] * 2, [0, 1]), ChoiceExamples(
            [("a", ["b", "c"])] * 2, [0, 0]), "ending 1 is always the right one"),
        (Examples([("a", "b")]), Examples([("a", "b")]), None),
    ],
)  # fmt: skip
def test_gaps_of_a_validation_set(train, dev, expected):
    gaps = gaps_of(dev, *train.label_counts())
    assert len(gaps) == (expected is not None)
    if expected:
        assert re.search(expected, gaps[0])
