import numpy as np
import pytest
import seqeval.metrics
import sklearn.metrics

from keras_bert_impl.data.tags.examples import (
    TaggedExamples,
    read_tag_predictions,
    score_tags,
    write_tag_predictions,
)
from keras_bert_impl.data.tags.reading.read_tags import read_tags
from keras_bert_impl.data.tags.spans import convert_labels
from keras_bert_impl.utils.errors import InputError

WORDS = [["Ada", "King", "of", "Byron"], ["x"]]
GOLD = [["B-PER", "I-PER", "O", "B-LOC"], ["O"]]
GUESS = [["B-PER", "I-PER", "O", "B-PER"], ["B-LOC"]]


def test_entity_scores_equal_seqeval():
    scores = score_tags(TaggedExamples(WORDS, GOLD), GUESS)
    assert scores["f1"] == seqeval.metrics.f1_score(GOLD, GUESS) == pytest.approx(2 / 5)
    assert scores["precision"] == seqeval.metrics.precision_score(GOLD, GUESS)
    assert scores["recall"] == seqeval.metrics.recall_score(GOLD, GUESS)
    assert scores["macro_f1"] == seqeval.metrics.f1_score(GOLD, GUESS, average="macro")
    assert scores["accuracy"] == seqeval.metrics.accuracy_score(GOLD, GUESS) == 3 / 5
    assert scores["f1/PER"] == pytest.approx(2 / 3) and scores["f1/LOC"] == 0


@pytest.mark.parametrize(
    "form",
    [
        lambda row: convert_labels(row, "BILOU"),
        lambda row: [label.replace("-", "_") for label in row],
        lambda row: [label.lower() for label in row],
        lambda row: ["-".join(reversed(label.split("-"))) for label in row],
    ],
    ids=["BILOU", "B_PER", "b-per", "PER-B"],
)
def test_entity_scores_do_not_depend_on_the_label_format(form):
    gold, guess = (list(map(form, rows)) for rows in (GOLD, GUESS))
    expected = score_tags(TaggedExamples(WORDS, GOLD), GUESS)
    scores = score_tags(TaggedExamples(WORDS, gold), guess)
    of_entities = [name for name in expected if name != "accuracy"]
    assert [scores.get(name, scores.get(name.lower())) for name in of_entities] == [
        expected[name] for name in of_entities
    ]


def test_warns_about_labels_that_prevent_an_entity_f1(caplog):
    gold = [["B-PER", "I-PER", "O", "LOC"], ["O"]]
    assert set(score_tags(TaggedExamples(WORDS, gold), gold)) == {"accuracy", "macro_f1"}
    assert (
        "entity F1 is not computed, because 'LOC' is not in the format of the entity labels"
        in caplog.text
    )


def test_scheme_is_detected_from_all_labels():
    # The labels of these sentences alone do not show that they are entity types.
    examples = TaggedExamples([["a"], ["b"]], [["PER"], ["PER"]], label_names=["O", "PER"])
    assert score_tags(examples, [["PER"], ["PER"]])["f1/PER"] == 1
    assert examples.label_counts() == ("entities", {"PER": 2})


def test_part_of_speech_scores_equal_scikit_learn():
    draw = np.random.default_rng(0)
    gold, guess = ([list(row) for row in draw.choice(["A", "B", "C"], (9, 5))] for _ in range(2))
    scores = score_tags(TaggedExamples(gold, gold), guess)
    flat = sum(gold, []), sum(guess, [])
    assert scores == {
        "accuracy": sklearn.metrics.accuracy_score(*flat),
        "macro_f1": pytest.approx(sklearn.metrics.f1_score(*flat, average="macro"), abs=1e-15),
    }


def test_predictions_have_a_row_for_each_word(tmp_path):
    path = tmp_path / "predictions.tsv"
    examples = TaggedExamples(WORDS, GOLD, source="a.conll", lines=[[1, 2, 3, 4], [6]])
    scores = [np.array([0.5, 0.25, 1.0, 0.125], "float32"), np.array([0.75], "float32")]
    write_tag_predictions(path, examples, GUESS, scores)
    lines = path.read_text().splitlines()
    assert lines[0] == "index\tlabel\tscore\ttrue_label\tline\tword"
    assert lines[4:] == ["0\tB-PER\t0.125\tB-LOC\t4\tByron", "1\tB-LOC\t0.75\tO\t6\tx"]
    assert read_tag_predictions(path) == GUESS
    # It can be read as labeled words, also with quotes and tabs in them.
    words = [['"', "tab\there", "", "a"], ["\ud800"]]
    write_tag_predictions(path, TaggedExamples(words, GOLD), GUESS)
    columns = {"text": "word", "label": "true_label", "sentence": "index", "delimiter": "\t"}
    examples = read_tags(path, **columns, skip_bad_rows=True)
    assert (examples.texts, examples.labels) == ([["?"]], GOLD[1:])  # "" is no word
    write_tag_predictions(path, TaggedExamples(words[:1]), GUESS[:1])
    assert read_tag_predictions(path) == GUESS[:1]
    path.write_text("index\tscore\n0\t1\n")
    with pytest.raises(InputError, match="has no column 'label'"):
        read_tag_predictions(path)


def test_converts_labels_to_indices():
    examples = TaggedExamples(WORDS, GOLD, source="a.txt", lines=[[1, 2, 3, 4], [6]])
    numbers = examples.class_numbers(["O", "B-PER", "I-PER", "B-LOC"])
    assert [row.tolist() for row in numbers] == [[1, 2, 0, 3], [0]]
    with pytest.raises(InputError, match="a.txt, line 4: label 'B-LOC' is not one of 'O'"):
        examples.class_numbers(["O", "B-PER", "I-PER"])


@pytest.mark.parametrize(
    "examples, guess, message",
    [
        (TaggedExamples(WORDS), GUESS, "no labels, which are required"),
        (TaggedExamples(WORDS, GOLD), GUESS[:1], "2 sentences, but predictions for 1"),
        (TaggedExamples(WORDS, GOLD), [["O"], ["O"]], "sentence 0, word 0: 4 words, but 1"),
        (TaggedExamples([[]], [[]]), [[]], "has no words"),
    ],
)
def test_rejects_invalid_predictions(examples, guess, message):
    with pytest.raises(InputError, match=message):
        score_tags(examples, guess)
