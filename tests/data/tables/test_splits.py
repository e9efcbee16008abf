"""Splits: stratified, reproducible, and without the same text on both sides."""

import collections
import dataclasses

import numpy as np
import pytest

from keras_bert_impl.data.choices import ChoiceExamples
from keras_bert_impl.data.questions import QuestionExamples
from keras_bert_impl.data.tables.examples import Examples
from keras_bert_impl.data.tables.layout import date_number
from keras_bert_impl.data.tables.splits import hold_out, leave_out, same_text, with_all_names
from keras_bert_impl.data.tables.tables import read_table
from keras_bert_impl.data.tags.examples import TaggedExamples
from keras_bert_impl.utils.errors import InputError


def examples(labels):
    texts = [f"text {number}" for number in range(len(labels))]
    return Examples(texts, labels, source="all.csv", lines=list(range(2, len(labels) + 2)))


@pytest.mark.parametrize("fraction", [0.1, 0.25, 0.5])
def test_holds_out_the_same_fraction_of_each_class(fraction):
    draw = np.random.default_rng(0)
    labels = draw.choice(["a", "b", "c"], 500, p=[0.7, 0.25, 0.05]).tolist()
    train, dev = hold_out(examples(labels), fraction)
    assert len(dev) == round(500 * fraction) and len(train) + len(dev) == 500
    for name, count in collections.Counter(labels).items():
        assert abs(dev.labels.count(name) - fraction * count) <= 1
    assert sorted(train.lines + dev.lines) == list(range(2, 502))
    assert all(text == f"text {line - 2}" for text, line in zip(dev.texts, dev.lines))
    assert dev.where(0).endswith(f"line {dev.lines[0]}")


def test_split_depends_on_the_seed():
    data = examples(["a", "b"] * 50)
    first, again, second = (hold_out(data, 0.2, seed)[1].texts for seed in (1, 1, 2))
    assert first == again != second
    assert first == sorted(first, key=data.texts.index)


def test_keeps_the_only_example_of_a_class():
    data = examples(["a"] * 20 + ["rare"] + ["rarer"])
    for seed in range(20):
        train, _ = hold_out(data, 0.5, seed)
        assert {"a", "rare", "rarer"} == set(train.labels)


@pytest.mark.parametrize(
    ("labels", "fraction", "held"),
    [
        (["rare"] * 3 + ["usual"] * 297, 0.1, {"rare": 1, "usual": 29}),
        (["a rare"] * 2 + ["usual"] * 96 + ["z rare"] * 2, 0.1, {"usual": 8, "a rare": 1, "z rare": 1}),
        ([f"class {number // 3}" for number in range(60)], 0.34, {f"class {n}": 1 for n in range(20)}),
        (["once"] + ["usual"] * 19, 0.2, {"usual": 4}),
        ([["x"]] * 2 + [["x", "y"]] * 2 + [[]] * 46, 0.2, {"x": 1, "x,y": 1, "": 8}),
    ],
)  # fmt: skip
def test_each_label_of_two_examples_is_in_both_sets(labels, fraction, held):
    for seed in range(5):
        train, dev = hold_out(examples(labels), fraction, seed)
        names = [label if isinstance(label, str) else ",".join(label) for label in dev.labels]
        assert collections.Counter(names) == held
        assert all(label in train.labels for label in dev.labels)


def test_a_group_of_a_rare_label_is_held_out():
    data = dataclasses.replace(
        examples(["rare"] * 6 + ["usual"] * 54), groups=[n // 3 for n in range(60)]
    )
    train, dev = hold_out(data, 0.1)
    assert train.labels.count("rare") == dev.labels.count("rare") == 3


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
        TaggedExamples([["a", str(n)] for n in range(10)], [["O", "O"]] * 10, ["O"] * 10),
        ChoiceExamples([(str(n), ["b", "c"]) for n in range(10)], [0, 1] * 5),
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
    with pytest.raises(InputError, match="all.csv: fraction=0.1 of 3 examples leaves one set"):
        hold_out(examples(["a", "b", "c"]), 0.1)


@pytest.mark.parametrize("fraction", [-0.1, 0, 1, 1.5, float("nan")])
def test_rejects_an_invalid_fraction(fraction):
    with pytest.raises(InputError, match="fraction must be"):
        hold_out(examples(["a", "b"] * 12), fraction)


def test_a_command_cannot_split_a_data_set_again(tmp_path):
    data = examples(["a", "b"] * 12)
    for read_with, is_set in (({"task": "rte", "data": "glue"}, False), ({"dev": "a.csv"}, True)):
        parts = hold_out(dataclasses.replace(data, read_with=read_with), 0.25)
        assert (parts[1].read_with is not None) is is_set


# === Examples that stay together ===


def test_equal_texts_stay_on_one_side():
    texts = ["good film", " Good film ", "bad", "dull"] * 10
    data = Examples(texts, ["a", "a", "b", "b"] * 10, source="all.csv")
    for seed in range(10):
        train, dev = hold_out(data, 0.25, seed)
        assert len(dev) == 10 and len(train) == 30  # one of the two units of 10
        assert not set(map(same_text, train.texts)) & set(map(same_text, dev.texts))


def test_equal_pairs_stay_on_one_side_and_equal_first_texts_do_not():
    data = Examples([("q", "a"), ("Q", "a "), ("q", "b"), ("q", "c")], ["x"] * 4)
    train, dev = hold_out(data, 0.5, seed=0)
    assert len(train) == len(dev) == 2
    assert {len({same_text(text) for text in part.texts}) for part in (train, dev)} == {1, 2}


@pytest.mark.parametrize("size", [1, 3, 5])
def test_a_group_is_never_split(size):
    labels = np.random.default_rng(1).choice(["a", "b"], 300, p=[0.8, 0.2]).tolist()
    groups = [f"customer {number // size}" for number in range(300)]
    data = dataclasses.replace(examples(labels), groups=groups)
    for seed in range(5):
        train, dev = hold_out(data, 0.2, seed)
        assert not set(train.groups) & set(dev.groups)
        assert abs(len(dev) - 60) < size  # the nearest number of examples
        assert all(groups[line - 2] == group for line, group in zip(dev.lines, dev.groups))


def test_groups_that_share_a_text_are_one_unit():
    data = Examples(
        ["a", "b", "b", "c", "d", "e"], ["x"] * 6, groups=["1", "1", "2", "2", "3", "4"]
    )
    for seed in range(10):
        _, dev = hold_out(data, 1 / 3, seed)
        assert sorted(dev.texts) == ["d", "e"]  # the unit of four is farther from a third


def test_one_group_for_everything_cannot_be_split():
    data = dataclasses.replace(examples(["a", "b"] * 5), groups=["g"] * 10)
    with pytest.raises(InputError, match="leaves one set empty. Examples with the same text"):
        hold_out(data, 0.5)


@pytest.mark.parametrize(
    ("dates", "fraction", "held"),
    [
        (range(10), 0.3, [7, 8, 9]),
        (range(9, -1, -1), 0.3, [0, 1, 2]),
        ([0, 0, 0, 0, 0, 0, 1, 1, 2, 2], 0.2, [8, 9]),
        ([0, 0, 0, 0, 0, 0, 1, 1, 2, 2], 0.35, [6, 7, 8, 9]),  # 4 is nearer to 3.5 than 2 is
    ],
)
def test_the_latest_examples_are_held_out(dates, fraction, held):
    data = dataclasses.replace(examples(["a", "b"] * 5), dates=list(map(float, dates)))
    for seed in (1, 2):
        train, dev = hold_out(data, fraction, seed)
        assert [line - 2 for line in dev.lines] == held
        assert max(train.dates) < min(dev.dates)


def test_dates_and_groups_are_read_from_a_table(tmp_path):
    rows = ["2024-03-01;b;ann", "2024-01-31T10:00;c;bob", "2024-01-31T09:00:00Z;d;bob"]
    (tmp_path / "all.csv").write_text("\n".join(["day;text;who", *rows]) + "\n")
    data = read_table(tmp_path / "all.csv", "text", groups="who", dates="day")
    assert data.groups == ["ann", "bob", "bob"]
    assert np.argsort(data.dates).tolist() == [2, 1, 0] and np.ptp(data.dates[1:]) == 3600
    assert data.read_with["groups"] == "who" and data.read_with["dates"] == "day"


@pytest.mark.parametrize("cell", ["31.12.2024", "", "nan", "yesterday"])
def test_other_dates_are_rejected(cell):
    with pytest.raises(InputError, match="is not a number or a date such as 2024-12-31"):
        date_number(cell)


def test_numbers_are_dates_too():
    assert [date_number(cell) for cell in ("7", "1.5", "1970-01-02")] == [7, 1.5, 86400]


def test_texts_of_another_set_are_left_out():
    train = Examples(["a", "B ", "c", "b"], ["x", "y", "x", "y"], ids=["1", "2", "3", "4"])
    reduced = leave_out(train, Examples([" b", "d"], ["y", "x"]))
    assert (reduced.texts, reduced.labels, reduced.ids) == (["a", "c"], ["x", "x"], ["1", "3"])
    with pytest.raises(InputError, match="all examples of examples are in others"):
        leave_out(reduced, Examples(["c", "A"], source="others"))


def test_a_part_keeps_the_names_of_labels_that_it_lacks():
    for labels in (["b", "a", "a", "a"], [["b", "a"], [], ["a"], ["a"]]):
        data = with_all_names(Examples(list("wxyz"), labels))
        assert data.select([2, 3]).label_names == ["a", "b"]
        assert with_all_names(data.replace(label_names=["b", "a"])).label_names == ["b", "a"]
