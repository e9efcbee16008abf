"""Labels and weights in every form that users pass."""

import fractions

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf

from keras_bert_impl.data.tables.examples import join_names
from keras_bert_impl.data.tables.label_checks import class_weights
from keras_bert_impl.data.tables.labels import label_values, sort_names
from keras_bert_impl.data.tables.splits import with_all_names
from keras_bert_impl.tasks import Examples, join_examples, read_table
from keras_bert_impl.tasks.question_answering.model import QuestionAnswerer
from keras_bert_impl.tasks.text_classification.model import MULTI, REGRESSION, SINGLE
from keras_bert_impl.tasks.text_classification.task import TextClassification
from keras_bert_impl.utils.errors import InputError
from tests.data.tables.test_user_input import Column, Frame
from tests.tasks.helpers import classifier, encoder, tokenizer

NAMES = ["negative", "positive"]


@pytest.fixture(scope="module")
def models():
    kinds = {
        SINGLE: {"labels": NAMES},
        MULTI: {"labels": NAMES},
        REGRESSION: {"num_classes": 1, "labels": None},
    }
    return {kind: classifier(problem_type=kind, **names) for kind, names in kinds.items()}


@pytest.mark.parametrize(
    "kind, labels, expected",
    [
        (SINGLE, ["negative", "positive", "positive"], [0, 1, 1]),
        (SINGLE, [b"negative", np.str_("positive"), "positive"], [0, 1, 1]),
        (SINGLE, np.array(["negative", "positive", "positive"]), [0, 1, 1]),
        (SINGLE, pa.array(["negative", "positive", "positive"]).dictionary_encode(), [0, 1, 1]),
        (SINGLE, Column(["negative", "positive", "positive"]), [0, 1, 1]),
        (SINGLE, Frame(mood=["negative", "positive", "positive"]), [0, 1, 1]),
        (SINGLE, tf.constant(["negative", "positive", "positive"]), [0, 1, 1]),
        (SINGLE, [0, 1, 1], [0, 1, 1]),
        (SINGLE, [0.0, 1.0, 1.0], [0, 1, 1]),
        (SINGLE, [False, True, True], [0, 1, 1]),
        (SINGLE, np.array([[0], [1], [1]]), [0, 1, 1]),
        (SINGLE, pa.chunked_array([[0], [1, 1]]), [0, 1, 1]),
        (MULTI, [["negative"], [], {"positive", "negative"}], [[1, 0], [0, 0], [1, 1]]),
        (MULTI, Column([np.array(["negative"], object), [], []]), [[1, 0], [0, 0], [0, 0]]),
        (MULTI, pa.array([["negative"], [], ["positive"]]), [[1, 0], [0, 0], [0, 1]]),
        (MULTI, [[True, False], [0, 0], [1.0, 0.0]], [[1, 0], [0, 0], [1, 0]]),
        (REGRESSION, Column([1, 2.5, 3]), [[1], [2.5], [3]]),
        (REGRESSION, pa.array([1.0, 2.5, 3.0]), [[1], [2.5], [3]]),
    ],
)
def test_accepts_labels_in_any_form(models, kind, labels, expected):
    np.testing.assert_array_equal(models[kind].label_codec.encode(labels, 3), expected)


@pytest.mark.parametrize(
    "kind, labels, message",
    [
        (SINGLE, ["negative", None, "positive"], r"text 1 has no label \(None\)"),
        (SINGLE, Column(["negative", "positive", float("nan")]), r"text 2 has no label \(nan\)"),
        (SINGLE, [0, 1, 2], r"from 0 to 1. Received: 2.* \(text 2\)"),
        (SINGLE, [0, 0.5, 1], r"Received: 0.5 \(text 1\)"),
        (SINGLE, ["negative", 1, "positive"], "text 1: label 1 is not one of"),
        (SINGLE, "negative", "expected a list. Received: str"),
        (SINGLE, {"negative": 3}, "expected a list. Received: dict"),
        (SINGLE, [0, 1], "3 texts, but 2 labels"),
        (SINGLE, Frame(a=[0, 1, 1], b=[0, 0, 0]), "must have the columns 'negative', 'positive'"),
        (MULTI, [["negative"], ["mixed"], []], "text 1: label 'mixed'"),
        (MULTI, [["negative"], None, []], "text 1 has no label"),
        (REGRESSION, [1, float("nan"), 2], r"text 1 has no label \(nan\)"),
        (REGRESSION, np.array([1, np.inf, 2]), r"Received: inf \(text 1\)"),
        (REGRESSION, [1, 2, "3"], r"Received: '3' \(text 2\)"),
    ],
)
def test_rejects_invalid_labels_with_their_row(models, kind, labels, message):
    with pytest.raises(InputError, match=message):
        models[kind].label_codec.encode(labels, 3)


def test_error_for_unnamed_classes_suggests_labels():
    model = classifier(labels=None, num_classes=2)
    with pytest.raises(InputError, match=r"'bad' is not one of 'LABEL_0'.*labels=\[\.\.\.\]"):
        model.fit(["dull", "a joy"], ["bad", "good"], verbose=0)


def test_accepts_pandas_categoricals(models):
    pandas = pytest.importorskip("pandas")
    categorical = pandas.Categorical(["negative", "positive", "positive"])
    for labels in (categorical, pandas.Series(categorical, index=[5, 7, 9])):
        np.testing.assert_array_equal(models[SINGLE].label_codec.encode(labels, 3), [0, 1, 1])


def test_label_lookup_takes_constant_time():
    names = [f"class {number}" for number in range(200)]
    model = classifier(labels=names)

    class Name(str):
        compared = 0
        __hash__ = str.__hash__

        def __eq__(self, other):
            Name.compared += 1
            return str(self) == str(other)

    labels = [Name(name) for name in names]
    np.testing.assert_array_equal(model.label_codec.encode(labels, 200), np.arange(200))
    assert Name.compared <= 400  # linear search would compare 20,100 times


def test_accepts_answers_of_squad_rows():
    model = QuestionAnswerer(
        encoder(), tokenizer(), max_length=24, max_question_length=8, null_threshold=0.0
    )
    rows = pa.array(
        [{"text": ["good", "film"], "answer_start": [2, 7]}, {"text": [], "answer_start": []}]
    )
    assert model.label_codec.encode(rows, 2) == [("good", 2), None]


def test_numeric_label_arrays_are_not_copied():
    numbers = np.arange(5)
    assert label_values(numbers, 5) is numbers


# === Weights ===


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_rejects_invalid_sample_weights(models, value):
    for weights in ([1.0, value], Column([1, value])):
        with pytest.raises(InputError, match="sample_weight of text 1 must be from 0 to"):
            models[SINGLE].fit(["good", "bad"], [1, 0], sample_weight=weights, verbose=0)
        with pytest.raises(InputError, match="sample_weight of text 1 must be from 0 to"):
            models[SINGLE].evaluate(["good", "bad"], [1, 0], sample_weight=weights, verbose=0)


@pytest.mark.parametrize(
    "weights",
    [
        {"negative": 2, "positive": 0.5},
        {0: np.float32(2), np.int64(1): np.float64(0.5)},
        {"negative": fractions.Fraction(2), 1: np.array(0.5)},
        [2, 0.5],
        np.array([2, 0.5]),
        pa.array([2, 0.5]),
        Column([2, 0.5]),
    ],
)
def test_accepts_class_weights_of_any_real_type(weights):
    assert class_weights(weights, NAMES) == {0: 2.0, 1: 0.5}
    assert all(type(weight) is float for weight in class_weights(weights, NAMES).values())


@pytest.mark.parametrize(
    "weights, message",
    [
        ({"negative": float("nan")}, "'negative' must be from 0 to 1e.09. Received: nan"),
        ({1: float("inf")}, "class_weight of 1 must be from 0 to 1e.09"),
        ({1: np.float32("nan")}, "must be from 0 to 1e.09"),
        ({1: True}, "must be from 0 to 1e.09"),
        ({1: 1j}, "must be from 0 to 1e.09"),
        ({1: "2"}, "must be from 0 to 1e.09"),
        ({True: 2}, "label True is not one of"),
        ([1, 2, 3], "has 3 numbers, but there are 2 classes"),
        (np.array([1, np.nan]), "class_weight of 1 must be from 0 to"),
        ("balance", "must be 'balanced', a dict, or one number per class"),
        (2.0, "must be 'balanced', a dict, or one number per class"),
    ],
)
def test_rejects_invalid_class_weights(weights, message):
    with pytest.raises(InputError, match=message):
        class_weights(weights, NAMES)


def test_joined_names_with_commas_are_quoted():
    assert join_names(["legal, privacy", "other"]) == '"legal, privacy",other'
    assert join_names([]) == ""


def test_rejects_numbers_for_labels_that_are_other_numerals():
    model = classifier(labels=["1", "0"])
    with pytest.raises(InputError, match=r"'1', '0'.*\[str\(label\) for label in labels\]"):
        model.evaluate(["good", "bad"], [1, 0], verbose=0)
    model.evaluate(["good", "bad"], ["1", "0"], verbose=0)
    classifier(labels=["0", "1"]).label_codec.encode([1, 0], 2)


@pytest.mark.parametrize(
    "names, expected",
    [
        (map(str, range(12)), [str(number) for number in range(12)]),
        (["10", "-1", "2", "2"], ["-1", "2", "10"]),
        (["01", "1.0", "1", "0.5"], ["0.5", "01", "1", "1.0"]),
        (["10", "2", "b"], ["10", "2", "b"]),
        (["²", "1", "nan"], ["1", "nan", "²"]),
        ([], []),
    ],
)
def test_names_that_are_numbers_are_sorted_as_numbers(names, expected):
    assert sort_names(names) == expected


def test_twelve_numbers_are_their_own_class_indices():
    texts, labels = [f"text {n}" for n in range(24)], [str(n % 12) for n in range(24)]
    examples = Examples(texts, labels)
    names = TextClassification(examples, examples).arguments["labels"]
    assert [names.index(label) for label in labels] == list(map(int, labels))
    assert with_all_names(examples).label_names == names
    assert join_examples([examples, examples.replace(label_names=names)]).label_names == names


def test_a_similar_label_is_suggested(tmp_path):
    examples = Examples(["a"], ["pos "])
    with pytest.raises(
        InputError, match="label 'pos ' is not one of 'Pos', 'neg'. Did you mean 'Pos'?"
    ):
        examples.class_numbers(["Pos", "neg"])
    (tmp_path / "a.csv").write_text("text,label\na,POS\n")
    with pytest.raises(InputError, match="line 2: label 'POS' is not one .* Did you mean 'Pos'?"):
        read_table(tmp_path / "a.csv", "text", label="label", labels=["Pos", "neg"])
