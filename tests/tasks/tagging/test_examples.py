import numpy as np
import pytest
import seqeval.metrics
import sklearn.metrics

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.tasks.tagging.columns import read_columns
from keras_bert_impl.tasks.tagging.examples import TaggedExamples, score_tags, write_tag_predictions
from keras_bert_impl.tasks.tagging.spans import convert_labels

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


def test_part_of_speech_scores_equal_scikit_learn():
    draw = np.random.default_rng(0)
    gold, guess = ([list(row) for row in draw.choice(["A", "B", "C"], (9, 5))] for _ in range(2))
    scores = score_tags(TaggedExamples(gold, gold), guess)
    flat = sum(gold, []), sum(guess, [])
    assert scores == {
        "accuracy": sklearn.metrics.accuracy_score(*flat),
        "macro_f1": pytest.approx(sklearn.metrics.f1_score(*flat, average="macro"), abs=1e-15),
    }


def test_predictions_are_written_as_columns(tmp_path):
    path = tmp_path / "predictions.txt"
    write_tag_predictions(path, TaggedExamples(WORDS, GOLD), GUESS)
    assert path.read_text().splitlines()[3:] == ["Byron\tB-LOC\tB-PER", "", "x\tO\tB-LOC", ""]
    assert read_columns(path, label=1).labels == GOLD
    assert read_columns(path).labels == GUESS
    write_tag_predictions(path, TaggedExamples(WORDS), GUESS)
    assert read_columns(path).texts == WORDS and read_columns(path).labels == GUESS


def test_converts_labels_to_indices():
    examples = TaggedExamples(WORDS, GOLD, source="a.txt", lines=[[1, 2, 3, 4], [6]])
    numbers = examples.class_numbers(["O", "B-PER", "I-PER", "B-LOC"])
    assert [row.tolist() for row in numbers] == [[1, 2, 0, 3], [0]]
    with pytest.raises(InputError, match="a.txt, line 4: label 'B-LOC' is not one of 'O'"):
        examples.class_numbers(["O", "B-PER", "I-PER"])


@pytest.mark.parametrize(
    "examples, guess, message",
    [
        (TaggedExamples(WORDS), GUESS, "no labels to score"),
        (TaggedExamples(WORDS, GOLD), GUESS[:1], "2 sentences, but predictions for 1"),
        (TaggedExamples(WORDS, GOLD), [["O"], ["O"]], "sentence 0, word 0: 4 words, but 1"),
        (TaggedExamples([[]], [[]]), [[]], "has no words"),
    ],
)
def test_rejects_invalid_predictions(examples, guess, message):
    with pytest.raises(InputError, match=message):
        score_tags(examples, guess)


def test_rejects_words_with_tabs_or_line_breaks(tmp_path):
    with pytest.raises(InputError, match="sentence 0, word 0: a tab or line end"):
        write_tag_predictions(tmp_path / "p.txt", TaggedExamples([["a\tb"]]), [["O"]])
    assert not list(tmp_path.iterdir())
