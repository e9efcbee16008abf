import csv
import json

import numpy as np
import pytest

from keras_bert_impl.data.questions import read_squad
from keras_bert_impl.data.scores.squad import squad_v2_scores
from keras_bert_impl.data.tables.examples import join_names
from keras_bert_impl.tasks import score_answers, search_null_threshold, write_answer_files
from keras_bert_impl.tasks.question_answering.decode import Answer
from keras_bert_impl.utils.errors import InputError
from tests.tasks.squad_files import document, question, some_questions, write


@pytest.fixture(scope="module")
def some(tmp_path_factory):
    """SQuAD 2.0 questions and answers; "" scores higher than the best text by the null odds."""
    content, texts, odds = some_questions()
    examples = read_squad(write(tmp_path_factory.mktemp("squad") / "dev.json", content))
    predictions = []
    for name in examples.ids:
        text = texts[name] or "cat"
        answers = [Answer(text, 0, 1, 0.5, 0.75, 0.25), Answer("dog", 0, 1, 0.1, 0.0, 0.0)]
        answers.append(Answer("", 0, 0, 0.4, odds[name], 1.0))
        predictions.append(sorted(answers, key=lambda answer: -answer.score))
    return examples, predictions


def rows_of(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def best_texts(examples, predictions):
    return dict(zip(examples.ids, (answers[0].text for answers in predictions)))


def test_scores_squad_2(some):
    examples, predictions = some
    texts = best_texts(examples, predictions)
    odds = {name: answers[1].start_logit for name, answers in zip(examples.ids, predictions)}
    assert [answers[1].text for answers in predictions] == [""] * len(examples)
    final_texts = {name: "" if odds[name] > 0.5 else text for name, text in texts.items()}
    searched = squad_v2_scores(examples, texts, odds)
    best = {name: value for name, value in searched.items() if name.startswith("best")}
    received = score_answers(examples, predictions, null_threshold=0.5)
    assert received == squad_v2_scores(examples, final_texts) | best and len(best) == 4
    # Without a threshold, all unanswerable questions get an answer, which is wrong.
    always = score_answers(examples, predictions)
    assert always["NoAns_f1"] < received["NoAns_f1"]
    assert always["best_f1"] == received["best_f1"]


def test_searched_threshold_reaches_the_best_score(some):
    examples, predictions = some
    for metric in ("exact", "f1"):
        threshold = search_null_threshold(examples, predictions, metric)
        reached = score_answers(examples, predictions, threshold)[metric]
        tried = (score_answers(examples, predictions, t / 2)[metric] for t in range(-8, 12))
        assert reached == max(reached, *tried)


def test_writes_three_files_for_the_official_script_and_a_table(some, tmp_path):
    examples, predictions = some
    write_answer_files(tmp_path / "out", examples, predictions, null_threshold=0.5)
    files = sorted((tmp_path / "out").glob("*.json"))
    content = {path.name: json.loads(path.read_bytes()) for path in files}
    assert list(content) == ["nbest_predictions.json", "null_odds.json", "predictions.json"]
    assert all(list(of_ids) == examples.ids for of_ids in content.values())
    odds = content["null_odds.json"]
    texts = best_texts(examples, predictions)
    final_texts = {name: "" if odds[name] > 0.5 else text for name, text in texts.items()}
    assert content["predictions.json"] == final_texts and "" in final_texts.values()
    scores = squad_v2_scores(examples, content["predictions.json"])
    assert scores.items() <= score_answers(examples, predictions, 0.5).items()
    assert content["nbest_predictions.json"]["q0"][1] == {
        "text": "",
        "probability": 0.4,
        "start_logit": predictions[0][1].start_logit,
        "end_logit": 1.0,
    }
    rows = rows_of(tmp_path / "out" / "predictions.tsv")
    assert [row["answer"] for row in rows] == list(final_texts.values())
    assert [row["id"] for row in rows] == examples.ids
    for name, column in (("exact", "exact_match"), ("f1", "f1")):
        mean = np.mean([float(row[column]) for row in rows])
        assert 100 * mean == pytest.approx(scores[name], abs=1e-6)
    assert {row["score"] for row in rows if not row["answer"]} == {"0.4"}
    assert rows[0]["pair"] == examples.contexts[0] and rows[0]["text"] == examples.questions[0]
    assert rows[0]["true_label"] == join_names(dict(examples.answers[0]))


def test_squad_1_has_two_files_and_two_scores(tmp_path):
    examples = read_squad(write(tmp_path / "dev.json", document(question("a"), question("b"))))
    predictions = [[Answer("zürich!", 15, 21, 1.0, 2.0, 3.0)], [Answer("Ann", 0, 3, 1.0, 2.0, 3.0)]]
    assert score_answers(examples, predictions) == {"exact_match": 50.0, "f1": 50.0}
    write_answer_files(tmp_path / "out", examples, predictions)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "nbest_predictions.json",
        "predictions.json",
        "predictions.tsv",
    ]
    rows = rows_of(tmp_path / "out" / "predictions.tsv")
    assert [(row["answer"], row["exact_match"], row["f1"]) for row in rows] == [
        ("zürich!", "1", "1"),
        ("Ann", "0", "0"),
    ]
    # ASCII can be read on any machine.
    text = (tmp_path / "out" / "predictions.json").read_text(encoding="ascii")
    assert json.loads(text) == {"a": "zürich!", "b": "Ann"}


def test_rejects_mismatched_predictions(some):
    examples, predictions = some
    with pytest.raises(InputError, match="60 questions, but 59 predictions"):
        score_answers(examples, predictions[1:])
    never = [answers[:1] for answers in predictions]
    with pytest.raises(InputError, match="null_threshold=0.0"):
        score_answers(examples, never, 0.0)
    with pytest.raises(InputError, match="null_threshold=0.0"):
        search_null_threshold(examples, never)
    assert "best_f1" not in score_answers(examples, never)
