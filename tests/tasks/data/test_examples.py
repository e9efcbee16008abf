"""Held-out examples: stratified and reproducible."""

import collections
import dataclasses

import numpy as np
import pytest

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.tasks.data.examples import Examples, hold_out
from keras_bert_impl.tasks.multiple_choice.data import ChoiceExamples
from keras_bert_impl.tasks.question_answering.data import QuestionExamples
from keras_bert_impl.tasks.tagging.examples import TaggedExamples


def examples(labels):
    texts = [f"text {number}" for number in range(len(labels))]
    return Examples(texts, labels, source="all.csv", lines=list(range(2, len(labels) + 2)))


@pytest.mark.parametrize("share", [0.1, 0.25, 0.5])
def test_holds_out_the_same_share_of_each_class(share):
    draw = np.random.default_rng(0)
    labels = draw.choice(["a", "b", "c"], 500, p=[0.7, 0.25, 0.05]).tolist()
    train, dev = hold_out(examples(labels), share)
    assert len(dev) == round(500 * share) and len(train) + len(dev) == 500
    for name, count in collections.Counter(labels).items():
        assert abs(dev.labels.count(name) - share * count) <= 1
    assert sorted(train.lines + dev.lines) == list(range(2, 502))
    assert all(text == f"text {line - 2}" for text, line in zip(dev.texts, dev.lines))
    assert dev.where(0).endswith(f"line {dev.lines[0]}")


def test_split_depends_on_the_seed():
    data = examples(["a", "b"] * 50)
    first, again, other = (hold_out(data, 0.2, seed)[1].texts for seed in (1, 1, 2))
    assert first == again != other
    assert first == sorted(first, key=data.texts.index)


def test_keeps_the_only_example_of_a_class():
    data = examples(["a"] * 20 + ["rare"] + ["rarer"])
    for seed in range(20):
        train, _ = hold_out(data, 0.5, seed)
        assert {"a", "rare", "rarer"} == set(train.labels)


def test_numeric_labels_are_stratified_over_their_range():
    data = examples([float(number) for number in range(100)])
    _, dev = hold_out(data, 0.2)
    assert [sum(10 * i <= x < 10 * i + 10 for x in dev.labels) for i in range(10)] == [2] * 10


def test_combinations_of_labels_are_stratified():
    _, dev = hold_out(examples([["x", "y"], ["y", "x"], [], []] * 10), 0.5)
    assert collections.Counter(len(label) for label in dev.labels) == {2: 10, 0: 10}


def test_questions_about_a_context_stay_together():
    contexts = [f"context {number // 4}" for number in range(40)]
    names = [str(number) for number in range(40)]
    data = QuestionExamples(names, names, contexts, [[]] * 40, [True] * 40, names)
    train, dev = hold_out(data, 0.3)
    assert len(dev) == 12 and not set(train.contexts) & set(dev.contexts)
    assert dev.ids == dev.questions and len(dev.is_impossible) == 12


@pytest.mark.parametrize(
    "data",
    [
        TaggedExamples([["a"]] * 10, [["O"]] * 10, ["O"] * 10),
        ChoiceExamples([("a", ["b", "c"])] * 10, [0, 1] * 5),
        examples(None or ["a"] * 10),
    ],
)
def test_splits_every_kind_of_examples(data):
    train, dev = hold_out(data, 0.3)
    assert (len(train), len(dev)) == (7, 3) and type(dev) is type(data)
    assert len(dev.labels) == 3 and dev.source == f"{data.source} (held out)"
    if isinstance(data, TaggedExamples):
        assert len(dev.label_names) == 10


def test_rejects_a_split_with_an_empty_part():
    with pytest.raises(InputError, match="all.csv: a share of 0.1 of 3 examples makes one part"):
        hold_out(examples(["a", "b", "c"]), 0.1)


@pytest.mark.parametrize("share", [-0.1, 0, 1, 1.5, float("nan")])
def test_rejects_a_share_that_is_none(share):
    with pytest.raises(InputError, match="share must be"):
        hold_out(examples(["a", "b"] * 12), share)


def test_a_command_cannot_split_a_data_set_again(tmp_path):
    data = examples(["a", "b"] * 12)
    for read_with, kept in (({"task": "rte", "data": "glue"}, False), ({"dev": "a.csv"}, True)):
        parts = hold_out(dataclasses.replace(data, read_with=read_with), 0.25)
        assert (parts[1].read_with is not None) is kept
