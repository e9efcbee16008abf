import dataclasses

import pytest

from keras_bert_impl.data.questions import QuestionExamples, read_squad
from keras_bert_impl.data.scores.squad import (
    best_null_threshold,
    normalize_answer,
    squad_v1_scores,
    squad_v2_scores,
)
from keras_bert_impl.utils.errors import InputError
from tests.tasks.squad_files import some_questions, write


def examples(*answers, is_v2=False):
    count = len(answers)
    answers = [[(text, 0) for text in texts] for texts in answers]
    ids = [f"q{number}" for number in range(count)]
    is_impossible = [not texts for texts in answers] if is_v2 else None
    return QuestionExamples(ids, ["?"] * count, [""] * count, answers, is_impossible, [""] * count)


def given(*texts):
    return {f"q{number}": text for number, text in enumerate(texts)}


@pytest.mark.parametrize(
    "text, expected",
    [
        ("The  Cat's\tan-d A. dog!", "cats and dog"),
        ("a an the", ""),
        ("Theatre, another", "theatre another"),
        ("«Zürich» ÉTÉ", "«zürich» été"),  # removes only ASCII punctuation
        ("U.S. $5,000", "us 5000"),
        ("the1 the_b", "the1 theb"),
    ],
)
def test_normalizes_answers(text, expected):
    assert normalize_answer(text) == expected


def test_squad_1_scores_by_hand():
    questions = examples(["red cat"], ["red cat", "a cat"], ["dog"], ["the"])
    scores = squad_v1_scores(questions, given("The red, red dog", "Cat!", "bird", "a"))
    # 1: {red red dog} and {red cat} share one word: 2/5. 2: equal. 3: no overlap. 4: both are
    # empty, which version 1 counts as an exact match, but without a shared word.
    assert scores == {"exact_match": 50.0, "f1": 100 * (2 * (1 / 3) * 0.5 / (1 / 3 + 0.5) + 1) / 4}


def test_squad_1_counts_missing_predictions_as_wrong():
    questions = examples(["a cat"], ["dog"])
    assert squad_v1_scores(questions, {"q1": "dog"}) == {"exact_match": 50.0, "f1": 50.0}
    assert squad_v1_scores(questions, {}) == {"exact_match": 0.0, "f1": 0.0}


def test_squad_2_scores_by_hand():
    questions = examples(["red cat"], [], [], ["the"], is_v2=True)
    scores = squad_v2_scores(questions, given("cat", "", "dog", ""))
    assert scores == {
        "exact": 50.0,
        "f1": 100 * (2 / 3 + 2) / 4,
        "total": 4,
        "HasAns_exact": 50.0,
        "HasAns_f1": 100 * (2 / 3 + 1) / 2,
        "HasAns_total": 2,
        "NoAns_exact": 50.0,
        "NoAns_f1": 50.0,
        "NoAns_total": 2,
    }
    odds = {"q0": 0.0, "q1": 2.0, "q2": 3.0, "q3": 5.0}
    scores = squad_v2_scores(questions, given("cat", "", "dog", ""), odds)
    assert (scores["exact"], scores["NoAns_exact"]) == (50, 100)
    assert scores["HasAns_f1"] == 100 * (2 / 3) / 2


# Computed with `squad_metrics` of transformers 4.46, a library version of the official script.
EXPECTED = {
    None: {
        "exact": 36.666666666666664,
        "f1": 41.96825396825397,
        "total": 60,
        "HasAns_exact": 41.666666666666664,
        "HasAns_f1": 50.5026455026455,
        "HasAns_total": 36,
        "NoAns_exact": 29.166666666666668,
        "NoAns_f1": 29.166666666666668,
        "NoAns_total": 24,
    },
    1.0: {
        "exact": 36.666666666666664,
        "f1": 41.96825396825397,
        "total": 60,
        "HasAns_exact": 25.0,
        "HasAns_f1": 33.83597883597884,
        "HasAns_total": 36,
        "NoAns_exact": 54.166666666666664,
        "NoAns_f1": 54.166666666666664,
        "NoAns_total": 24,
    },
    -1.0: {
        "exact": 40.0,
        "f1": 44.19047619047619,
        "total": 60,
        "HasAns_exact": 16.666666666666668,
        "HasAns_f1": 23.650793650793652,
        "HasAns_total": 36,
        "NoAns_exact": 75.0,
        "NoAns_f1": 75.0,
        "NoAns_total": 24,
    },
}
BEST = {
    "best_exact": 48.333333333333336,
    "best_exact_thresh": -2.0,
    "best_f1": 51.19047619047619,
    "best_f1_thresh": -2.0,
}


@pytest.fixture(scope="module")
def some(tmp_path_factory):
    content, predictions, odds = some_questions()
    path = write(tmp_path_factory.mktemp("squad") / "dev.json", content)
    return read_squad(path), predictions, odds


@pytest.mark.parametrize("threshold", EXPECTED)
def test_squad_2_equals_the_official_script_exactly(some, threshold):
    questions, predictions, odds = some
    if threshold is None:
        assert squad_v2_scores(questions, predictions) == EXPECTED[None]
    else:
        scores = squad_v2_scores(questions, predictions, odds, threshold)
        assert scores == EXPECTED[threshold] | BEST


@pytest.mark.parametrize("metric", ["exact", "f1"])
def test_best_threshold_beats_all_others(some, metric):
    questions, predictions, odds = some
    best = best_null_threshold(questions, predictions, odds, metric)
    every = [min(odds.values()) - 1, *odds.values()]
    scores = {t: squad_v2_scores(questions, predictions, odds, t)[metric] for t in every}
    assert scores[best] == max(scores.values())


def test_best_threshold_when_never_answering_is_best():
    questions = examples([], ["cat"], [], is_v2=True)
    texts, odds = given("cat", "dog", "cat"), {"q0": -3.0, "q1": -2.0, "q2": -2.0}
    assert best_null_threshold(questions, texts, odds) < -3
    # The script starts there too, but reports a threshold of 0.
    scores = squad_v2_scores(questions, texts, odds)
    assert scores["best_exact_thresh"] == 0 and scores["best_exact"] == 100 * 2 / 3


def test_rejects_nan_odds(some):
    data, texts, odds = some[:3]
    odds = odds | {data.ids[2]: float("nan")}
    for function in (squad_v2_scores, best_null_threshold):
        with pytest.raises(InputError, match=f"null odds of question '{data.ids[2]}' are NaN"):
            function(data, texts, odds)


def test_rejects_missing_predictions_and_odds(some):
    questions, predictions, odds = some
    questions = dataclasses.replace(questions, source="dev.json")
    del (short := dict(predictions))["q3"], (few := dict(odds))["q4"]
    with pytest.raises(InputError, match="dev.json: 1 questions have no prediction.*'q3'"):
        squad_v2_scores(questions, short)
    with pytest.raises(InputError, match="no null odds.*'q4'"):
        squad_v2_scores(questions, predictions, few)
