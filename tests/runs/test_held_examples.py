"""Fine-tuning on in-memory texts and labels."""

import numpy as np
import pytest

from keras_bert_impl.data.tables.examples import Examples
from keras_bert_impl.data.tables.splits import hold_out
from keras_bert_impl.data.tables.tables import read_table
from keras_bert_impl.data.tags.columns import read_columns
from keras_bert_impl.data.tags.examples import TaggedExamples
from keras_bert_impl.finetuning.finetune import finetune
from keras_bert_impl.runs.inputs import as_examples, read_options, with_named_classes
from keras_bert_impl.tasks.registry import task_of
from keras_bert_impl.utils.errors import InputError
from tests.tasks.helpers import examples, save_base


@pytest.mark.parametrize(
    ("labels", "expected", "names", "problem"),
    [
        (["b", "a", "b"], ["b", "a", "b"], ["a", "b"], "single_label_classification"),
        ([1, 0, 10], ["1", "0", "10"], ["0", "1", "10"], "single_label_classification"),
        (np.array([1, 0, 1]), ["1", "0", "1"], ["0", "1"], "single_label_classification"),
        ([True, False, True], ["1", "0", "1"], ["0", "1"], "single_label_classification"),
        (np.array([0.5, 1, 2], "float32"), [0.5, 1.0, 2.0], None, "regression"),
        (
            [["a"], [], ["a", "b"]],
            [["a"], [], ["a", "b"]],
            ["a", "b"],
            "multi_label_classification",
        ),
    ],
)
def test_converts_texts_with_labels(labels, expected, names, problem):
    texts = ["good", ("bad", "film"), "dull"]
    converted = as_examples((texts, labels), "train")
    assert type(converted) is Examples and converted.texts == texts and converted.labels == expected
    arguments = task_of(converted, converted).arguments
    assert arguments["problem_type"] == problem and arguments.get("labels") == names


def test_converts_words_with_labels_and_keeps_examples():
    words = as_examples(([["Ada", "wrote"], ["Hi"]], [["B-PER", "O"], ["O"]]), "train")
    assert type(words) is TaggedExamples and words.label_names == ["B-PER", "O"]
    assert as_examples(words, "train") is words


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ((["a"], ["x", "y"]), "train has 1 texts, but 2 labels"),
        (([], []), "train has no texts"),
        ((["a"], ["x"], ["y"]), "Received: a tuple of length 3"),
        (("abc", ["x"]), "train must be a list of texts and a list of labels. Received: 'abc'"),
        (
            (["a", "b"], ["x", 1]),
            "all names, all numbers, or all lists of names. Received: int, str",
        ),
        ({"text": ["a"]}, "train must be examples"),
        ("train.csv", "train must be examples"),
    ],
)
def test_rejects_invalid_data(data, message):
    with pytest.raises(InputError, match=message):
        as_examples(data, "train")


@pytest.mark.slow
def test_finetunes_on_texts_in_memory(tmp_path):
    data = examples(16)
    model = finetune(
        save_base(tmp_path / "base"), data, data, tmp_path / "run", epochs=1, verbose=0
    )
    assert model.labels == ("negative", "positive") or list(model.labels) == [
        "negative",
        "positive",
    ]
    finetune(tmp_path / "base", data, data, tmp_path / "run", epochs=1, verbose=0)  # no epochs left
    with pytest.raises(InputError, match="other train texts"):
        finetune(tmp_path / "base", examples(12), data, tmp_path / "run", epochs=1, verbose=0)


def test_options_of_tables(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "all.csv").write_text(
        "a;b\n" + "".join(f"one {n};x\ntwo {n};y\n" for n in range(4))
    )
    table = read_table("all.csv", text="a", label="b", delimiter=";")
    options = read_options(table, table, None)
    assert (options["text"], options["label"], options["delimiter"]) == ("a", "b", ";")
    assert options["train"] == options["dev"] == str(tmp_path / "all.csv")
    options = read_options(*hold_out(table, 0.25, seed=7), None)
    assert (options["dev_split"], options["seed"], options["dev"]) == (0.25, 7, None)
    assert options["train"] == str(tmp_path / "all.csv")


def test_options_of_tagged_words_and_of_texts_in_memory(tmp_path):
    (tmp_path / "words.txt").write_text("B-X 0 one\n")
    tagged = read_columns(tmp_path / "words.txt", word=2, label=0)
    options = read_options(tagged, tagged, "tagging")
    assert (options["task"], options["text"], options["label"]) == ("tagging", "2", "0")
    in_memory = as_examples((["one"], ["x"]), "dev")
    assert read_options(tagged, in_memory, "tagging") is None
    assert read_options(in_memory, tagged, "tagging")["train"] is None


def test_indices_of_unnamed_classes_become_names():
    data = Examples(["a", "b", "c"], [2, 1, 2], source="d.csv")
    dev = Examples(["d", "e"], [1, 2], source="dev.csv")
    named_data, named_dev = with_named_classes(data, dev)
    assert (named_data.labels, named_data.label_names) == (["2", "1", "2"], ["1", "2"])
    assert list(named_data.class_numbers(["1", "2"])) == [1, 0, 1]
    assert list(named_dev.class_numbers(["1", "2"])) == [0, 1]
    named = Examples(["a", "b", "c"], [1, 0, 1], ["x", "y"], source="d.csv")
    bools = Examples(["d", "e"], [True, False], source="dev.csv")
    assert with_named_classes(named, bools) == (named, bools)
    assert list(bools.class_numbers(["x", "y"])) == [1, 0]
    with pytest.raises(InputError, match="label 1 may mean the class '1' or class index 1"):
        dev.class_numbers(["1", "2"])


def test_rejects_indices_out_of_range():
    for label in (2, -1):
        data = Examples(["a"], [label], ["x", "y"], source="d.csv")
        with pytest.raises(
            InputError, match=f"d.csv, example 0: .* from 0 to 1. Received: {label}"
        ):
            data.class_numbers(["x", "y"])
