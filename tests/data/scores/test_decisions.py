"""Ties and NaN in scores never count in favor of a model."""

import math

import numpy as np
import pytest

from keras_bert_impl.data.choices import score_choices, write_choice_predictions
from keras_bert_impl.data.questions import QuestionExamples
from keras_bert_impl.data.scores.decisions import at_least, check_scores, likeliest
from keras_bert_impl.tasks import (
    ChoiceExamples,
    Examples,
    TaggedExamples,
    TextEmbedder,
    TokenClassifier,
    evaluate,
    sts_scores,
)
from keras_bert_impl.tasks.question_answering.task import QuestionAnswering
from keras_bert_impl.tasks.text_classification.task import names_of, write_predictions
from keras_bert_impl.utils.errors import InputError
from tests.tasks import helpers
from tests.tasks.helpers import answerer

TEXTS, LABELS = helpers.examples(count=6)
NAN = math.nan


def ruined(model):
    """Sets an encoder weight of the model to NaN."""
    model.encoder.embeddings.token_embeddings.assign_add(np.float32(NAN))
    return model


def test_likeliest_is_the_first_of_equal_scores_and_nan_for_nan():
    np.testing.assert_array_equal(likeliest(np.array([[0.5, 0.5], [0.2, 0.8]])), [0, 1])
    # NaN affects only its own example, wherever it is.
    scores = np.array([[0.9, 0.1], [NAN, 0.1], [0.1, NAN]])
    np.testing.assert_array_equal(likeliest(scores), [0, NAN, NAN])
    np.testing.assert_array_equal(likeliest([np.array([0.1, 0.2, 0.7]), scores[1]]), [2, NAN])
    decisions = at_least(np.array([[0.5, 0.4], [NAN, 1]]))
    np.testing.assert_array_equal(decisions, [[1, 0], [NAN, 1]])


def test_error_names_the_first_example_with_nan():
    check_scores(np.ones((3, 2)))
    with pytest.raises(InputError, match="the scores of text 1 are NaN"):
        check_scores([np.ones(2), np.array([1, NAN])])


@pytest.fixture(scope="module")
def classifier():
    return ruined(helpers.classifier())


def test_classifier_raises_on_nan(classifier, tmp_path, caplog):
    assert np.isnan(classifier.predict(TEXTS, verbose=0)).all()
    with pytest.raises(InputError, match="the scores of text 0 are NaN"):
        classifier.classify(TEXTS)
    scores = evaluate(classifier, Examples(TEXTS, ["negative"] * 6), tmp_path)
    assert list(scores) == ["accuracy", "macro_f1"] and all(map(math.isnan, scores.values()))
    assert "accuracy, macro_f1 is NaN, because" in caplog.text
    # The file has an empty label instead of the first label.
    rows = [line.split("\t") for line in (tmp_path / "predictions.tsv").open()]
    assert {row[1] for row in rows[1:]} == {""}


def test_multi_label_classifier_raises_on_nan():
    model = ruined(helpers.classifier(problem_type="multi_label_classification"))
    labels = [[] for _ in TEXTS]  # a model that predicts nothing would get these right
    scores = evaluate(model, Examples(TEXTS, labels, label_names=model.labels))
    assert list(scores) == ["micro_f1", "macro_f1", "subset_accuracy"]
    assert all(map(math.isnan, scores.values()))
    with pytest.raises(InputError, match="NaN"):
        model.classify(TEXTS)


@pytest.mark.parametrize("crf", [False, True])
def test_tagger_raises_on_nan(crf):
    parts = helpers.encoder(), helpers.tokenizer()
    model = ruined(TokenClassifier(*parts, labels=["O", "B-X"], crf=crf))
    words = [text.split() for text in TEXTS]
    with pytest.raises(InputError, match="the scores of text 0 are NaN"):
        model.tag(words)
    gold = TaggedExamples(words, [["O"] * (len(row) - 1) + ["B-X"] for row in words], ["O", "B-X"])
    scores = evaluate(model, gold)
    assert list(scores)[0] == "f1" and all(map(math.isnan, scores.values()))


@pytest.mark.parametrize("null_threshold", [None, 0.0])
def test_question_answerer_raises_on_nan(null_threshold):
    model = ruined(answerer(null_threshold=null_threshold))
    pairs = [("what film", text) for text in TEXTS]
    with pytest.raises(InputError, match="the scores of question 0 are NaN"):
        model.answer(pairs)
    impossible = None if null_threshold is None else [True] * 6  # no answer gets these right
    answers = [[(text.split()[0], 0)] if impossible is None else [] for text in TEXTS]
    ids = [str(number) for number in range(6)]
    gold = QuestionExamples(ids, *zip(*pairs), answers, impossible, titles=ids)
    for scores in (evaluate(model, gold), QuestionAnswering(gold, gold).finish(model, gold)):
        assert "f1" in scores and all(map(math.isnan, scores.values()))


def test_multiple_choice_raises_on_nan(tmp_path):
    examples = ChoiceExamples([("a", ["b", "c"])] * 2, [0, 0])
    rows = [np.array([NAN, NAN]), np.array([0.9, 0.1])]
    assert math.isnan(score_choices(examples, rows)["accuracy"])
    write_choice_predictions(tmp_path / "p.tsv", rows)
    assert [line.split("\t")[1] for line in (tmp_path / "p.tsv").open()] == ["choice", "", "0"]


def test_collapsed_vectors_have_nan_correlation(classifier):
    """Cosines that are all 1 up to rounding have no ranking."""
    embedder = TextEmbedder(helpers.encoder(use_pooler=False), helpers.tokenizer())
    noise = np.random.default_rng(0).normal(size=(6, 2, 16)) * 1e-8
    embedder.predict = lambda pairs, **kwargs: (np.ones((6, 2, 16)) + noise).astype("float32")
    pairs = Examples(list(zip(TEXTS, TEXTS)), [0.0, 0.1, 0.2, 0.3, 0.4, 0.5])
    scores = sts_scores(embedder, pairs)
    assert set(scores) == {"pearson", "spearman"} and all(map(math.isnan, scores.values()))


def test_written_labels_match_the_decisions(classifier, tmp_path):
    assert names_of(classifier, np.array([0.2, 0.8])) == ["positive"]
    assert names_of(classifier, np.array([NAN, 0.8])) == []
    write_predictions(tmp_path / "p.tsv", classifier, np.array([[0.2, 0.8]]))
    assert "0\tpositive\t0.2\t0.8" in (tmp_path / "p.tsv").read_text()
