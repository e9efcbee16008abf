"""Scores predicted SQuAD answers and writes them to files."""

import json
from pathlib import Path

from keras_bert_impl.data.prediction_files import cells, write_predictions_table
from keras_bert_impl.data.questions import QuestionExamples
from keras_bert_impl.data.scores import squad as metrics
from keras_bert_impl.tasks.question_answering.decode import Answer, best_answer, null_odds
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.io.files import replace_directory


def score_answers(
    examples: QuestionExamples, predictions: list[list[Answer]], null_threshold: float | None = None
) -> dict[str, float]:
    """Computes the official SQuAD scores of predictions.

    Args:
        predictions: list of `Answer`s for each question, the result of
            `QuestionAnswerer.predict(examples.pairs)`.
        null_threshold: the answer "" is predicted if the null odds are above this value. Default:
            "" is never predicted.

    Returns:
        dict of scores in percent. SQuAD 1.1 has the scores `exact_match` and `f1`. For SQuAD 2.0,
        see `metrics.squad_v2_scores`. If each question has the answer "", the dict also contains
        the best threshold and the scores with the best threshold.

    Example:
        from keras_bert_impl.tasks import score_answers
        predictions = model.predict(examples.pairs)
        score_answers(examples, predictions, model.null_threshold)["f1"]
    """
    texts = _select_texts(examples, predictions, null_threshold)
    if examples.is_impossible is None:
        return metrics.squad_v1_scores(examples, texts)
    scores = metrics.squad_v2_scores(examples, texts)
    if _has_null(predictions):
        # The best threshold depends on answers without `null_threshold`.
        answers, odds = _select_texts(examples, predictions), _compute_odds(examples, predictions)
        searched = metrics.squad_v2_scores(examples, answers, odds)
        scores |= {name: value for name, value in searched.items() if name.startswith("best_")}
    return scores


def search_null_threshold(
    examples: QuestionExamples, predictions: list[list[Answer]], metric: str = "f1"
) -> float:
    """Returns the null threshold that gives the best score on labeled questions.

    Args:
        examples: `QuestionExamples` of SQuAD 2.0, usually the validation set.
        predictions: see `score_answers`. The answers to each question must include "".
        metric: `"f1"` or `"exact"`.

    Raises:
        InputError: the answers to a question do not include "".

    Example:
        from keras_bert_impl.tasks import search_null_threshold
        model.null_threshold = search_null_threshold(dev, model.predict(dev.pairs))
    """
    _check_null(predictions)
    answers, odds = _select_texts(examples, predictions), _compute_odds(examples, predictions)
    return metrics.best_null_threshold(examples, answers, odds, metric)


def write_answer_files(
    directory: str | Path,
    examples: QuestionExamples,
    predictions: list[list[Answer]],
    null_threshold: float | None = None,
) -> None:
    """Writes `predictions.json`, `nbest_predictions.json`, `null_odds.json` and `predictions.tsv`.

    The JSON files map question ids to values: `predictions.json` to the best answer,
    `nbest_predictions.json` to all answers with scores, and `null_odds.json` to the null odds,
    which are the score of "" minus the best score of another answer. `null_odds.json` is only
    written if each question has the answer "". The official scripts read `predictions.json` and
    `null_odds.json`.

    `predictions.tsv` is a table with a row for each question. The columns are the predicted answer,
    its probability, `exact_match` and `f1` (0 to 1), the true answers, the id, the question and the
    context.

    Args:
        examples, predictions, null_threshold: see `score_answers`.
    """
    files = {
        "predictions.json": _select_texts(examples, predictions, null_threshold),
        "nbest_predictions.json": {
            name: [
                {
                    "text": answer.text,
                    "probability": answer.score,
                    "start_logit": answer.start_logit,
                    "end_logit": answer.end_logit,
                }
                for answer in answers
            ]
            for name, answers in zip(examples.ids, predictions)
        },
    }
    if _has_null(predictions):
        files["null_odds.json"] = _compute_odds(examples, predictions)
    with replace_directory(directory) as temporary:
        for name, content in files.items():
            # ASCII, because the official scripts use the system's encoding.
            text = json.dumps(content, indent=4) + "\n"
            (temporary / name).write_text(text, encoding="ascii")
        _write_table(temporary / "predictions.tsv", examples, predictions, null_threshold)


def _write_table(path, examples, predictions, null_threshold):
    best = [best_answer(answers, null_threshold) for answers in predictions]
    texts = {name: answer.text for name, answer in zip(examples.ids, best)}
    scores = ([answer.score for answer in best], *metrics.scores_of_questions(examples, texts))
    rows = zip(texts.values(), *map(cells, scores))
    write_predictions_table(path, ["answer", "score", "exact_match", "f1"], rows, examples)


def _select_texts(examples, predictions, null_threshold=None):
    if len(predictions) != len(examples):
        raise InputError(f"{len(examples)} questions, but {len(predictions)} predictions.")
    if null_threshold is not None:
        _check_null(predictions)
    texts = (best_answer(answers, null_threshold).text for answers in predictions)
    return dict(zip(examples.ids, texts))


def _compute_odds(examples, predictions):
    return dict(zip(examples.ids, map(null_odds, predictions)))


def _check_null(predictions):
    if not _has_null(predictions):
        raise InputError(
            'some predictions do not include the answer "". Create the QuestionAnswerer '
            "with null_threshold=0.0."
        )


def _has_null(predictions):
    return all(any(not answer.text for answer in answers) for answers in predictions)
