"""The official scores of SQuAD 1.1 and 2.0."""

import collections
import math
import re
import string
from typing import Any

import numpy as np
from keras import ops

from keras_bert_impl.data.questions import QuestionExamples
from keras_bert_impl.data.scores.counting import ScoreMetric, count, defined_weights
from keras_bert_impl.utils.errors import InputError

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")


def normalize_answer(text: str) -> str:
    """Normalizes an answer as the official scripts do: case, punctuation, articles and spaces."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def squad_v1_scores(examples: QuestionExamples, predictions: dict[str, str]) -> dict[str, float]:
    """Computes the SQuAD 1.1 scores in percent. The best match with any true answer counts.

    Source: Rajpurkar et al. 2016, section 6.1, and the published `evaluate-v1.1.py`.
    """
    exact, f1 = _score_v1_questions(examples, predictions)
    return {
        "exact_match": 100.0 * _sum_in_order(exact) / len(examples),
        "f1": 100.0 * _sum_in_order(f1) / len(examples),
    }


def scores_of_questions(
    examples: QuestionExamples, predictions: dict[str, str]
) -> tuple[np.ndarray, np.ndarray]:
    """Computes exact match and F1 of each question, float64 [questions], from 0 to 1."""
    is_v1 = examples.is_impossible is None
    score_questions = _score_v1_questions if is_v1 else _score_v2_questions
    return score_questions(examples, predictions)


def _score_v1_questions(examples, predictions):
    """Returns exact match and F1 of each question. Questions without a prediction score 0."""
    exact, f1 = np.zeros((2, len(examples)))
    for number, (name, answers) in enumerate(zip(examples.ids, examples.answers)):
        if name in predictions:
            true_answers = [normalize_answer(text) for text, _ in answers]
            prediction = normalize_answer(predictions[name])
            exact[number] = prediction in true_answers
            f1[number] = max(_compute_f1(prediction.split(), text.split()) for text in true_answers)
    return exact, f1


def squad_v2_scores(
    examples: QuestionExamples,
    predictions: dict[str, str],
    null_odds: dict[str, float] | None = None,
    null_threshold: float = 1.0,
) -> dict[str, float]:
    """Computes the SQuAD 2.0 scores in percent. The true answer to an impossible question is "".

    Source: Rajpurkar et al. 2018, and the published `evaluate-v2.0.py`.
    """
    raw = dict(zip(("exact", "f1"), _score_v2_questions(examples, predictions)))
    possible = np.array([bool(answers) for answers in examples.answers])
    thresholded = dict(raw)
    if null_odds is not None:
        _check_odds(examples, null_odds)
        is_null = np.array([null_odds[name] > null_threshold for name in examples.ids])
        thresholded = {name: np.where(is_null, ~possible, values) for name, values in raw.items()}
    scores: dict[str, float] = {}
    every = np.ones_like(possible)
    for prefix, mask in (("", every), ("HasAns_", possible), ("NoAns_", ~possible)):
        total = int(mask.sum())
        if total:
            means = {
                name: 100.0 * _sum_in_order(v[mask]) / total for name, v in thresholded.items()
            }
            scores |= {prefix + name: mean for name, mean in means.items()}
            scores[prefix + "total"] = total
    if null_odds is not None:
        is_text = np.array([predictions[name] != "" for name in examples.ids])
        for name, values in raw.items():
            gains = np.where(possible, values, -1.0 * is_text)
            totals, thresholds = _sum_by_threshold(examples, gains, null_odds)
            best = int(np.argmax(totals))
            scores[f"best_{name}"] = 100.0 * float(totals[best]) / len(examples)
            # The official script returns 0 if "" is best for all questions.
            scores[f"best_{name}_thresh"] = float(thresholds[best]) if best else 0.0
    return scores


def best_null_threshold(
    examples: QuestionExamples,
    predictions: dict[str, str],
    null_odds: dict[str, float],
    metric: str = "f1",
) -> float:
    """Returns the null-odds threshold with the highest score."""
    _check_odds(examples, null_odds)
    exact, f1 = _score_v2_questions(examples, predictions)
    if_null = np.array([not answers for answers in examples.answers])
    gains = {"exact": exact, "f1": f1}[metric] - if_null
    totals, thresholds = _sum_by_threshold(examples, gains, null_odds)
    is_last = np.append(thresholds[1:] != thresholds[:-1], True)
    return float(thresholds[np.argmax(np.where(is_last, totals, -np.inf))])


def _sum_by_threshold(examples, gains, null_odds):
    """Returns the total score for each null threshold, and the thresholds, in two arrays."""
    gains = dict(zip(examples.ids, gains))
    names = [name for name in sorted(null_odds, key=null_odds.get) if name in gains]
    none_answered = sum(not answers for answers in examples.answers)
    totals = np.cumsum([none_answered, *(gains[name] for name in names)], dtype="float64")
    odds = np.array([null_odds[name] for name in names], "float64")
    return totals, np.concatenate([[odds[0] - 1.0], odds])


def _score_v2_questions(examples, predictions):
    _check_ids(examples, predictions, "prediction")
    exact, f1 = [], []
    for name, answers in zip(examples.ids, examples.answers):
        true_answers = [normalize_answer(text) for text, _ in answers]
        true_answers = [text for text in true_answers if text] or [""]
        prediction = normalize_answer(predictions[name])
        exact.append(prediction in true_answers)
        # Empty texts match only empty texts.
        f1.append(
            max(
                _compute_f1(prediction.split(), text.split())
                if text and prediction
                else float(prediction == text)
                for text in true_answers
            )
        )
    return np.array(exact, "float64"), np.array(f1, "float64")


def _compute_f1(prediction, answer):
    shared = sum((collections.Counter(prediction) & collections.Counter(answer)).values())
    if not shared:
        return 0.0
    precision, recall = shared / len(prediction), shared / len(answer)
    return 2 * precision * recall / (precision + recall)


def _sum_in_order(values):
    """Adds values in file order, as the official scripts do, so that all digits agree."""
    return float(np.cumsum(values, dtype="float64")[-1]) if len(values) else 0.0


def _check_odds(examples, null_odds):
    _check_ids(examples, null_odds, "null odds")
    for name in examples.ids:
        if math.isnan(null_odds[name]):
            raise InputError(f"{examples.source}: the null odds of question {name!r} are NaN.")


def _check_ids(examples, values, kind):
    missing = [name for name in examples.ids if name not in values]
    if missing:
        raise InputError(
            f"{examples.source}: {len(missing)} questions have no {kind}. The first is "
            f"{missing[0]!r}."
        )


class ExactMatch(ScoreMetric):
    """Fraction of windows in which the predicted start and the predicted end are correct."""

    def __init__(self, name: str = "exact_match") -> None:
        super().__init__(name=name)
        self._scores, self._rows = map(self.count_variable, ("scores", "rows"))

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        predictions = ops.cast(ops.argmax(y_pred, axis=-1), "int32")  # [rows, 2]
        score = self._score(ops.cast(y_true, "int32"), predictions)
        weights = None if sample_weight is None else ops.reshape(sample_weight, (-1, 1))
        weights = ops.max(defined_weights(y_pred, weights), axis=-1)  # NaN if an output is NaN
        self.add_count(self._scores, ops.sum(score * weights))
        self.add_count(self._rows, ops.sum(weights))

    def _score(self, labels, predictions):
        return ops.cast(ops.all(ops.equal(labels, predictions), axis=-1), "float32")

    def result(self) -> Any:
        return ops.divide_no_nan(count(self._scores), count(self._rows))


class SpanF1(ExactMatch):
    """Mean token F1 of the predicted and true answers."""

    def __init__(self, name: str = "f1") -> None:
        super().__init__(name=name)

    def _score(self, labels, predictions):
        starts = ops.maximum(labels[:, 0], predictions[:, 0])
        ends = ops.minimum(labels[:, 1], predictions[:, 1])
        shared = ops.maximum(ends - starts + 1, 0)
        sizes = [ops.maximum(span[:, 1] - span[:, 0] + 1, 0) for span in (labels, predictions)]
        both = ops.cast(sizes[0] + sizes[1], "float32")
        return ops.divide_no_nan(2 * ops.cast(shared, "float32"), both)
