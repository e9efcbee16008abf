"""Comparisons with baselines, and their verdicts."""

import numpy as np
import pytest

from keras_bert_impl.tasks.scores.comparison import (
    Comparison,
    Outcome,
    change,
    is_uneven,
    never_predicted,
)
from keras_bert_impl.tasks.scores.metrics import (
    accuracy,
    average_precision,
    macro_f1,
    mean_squared_error,
)

LABELS = np.array([0] * 190 + [1] * 10)


def verdict(labels, predictions, baseline, **metrics):
    outcome = Outcome(labels, predictions, metrics or {"accuracy": accuracy})
    return Comparison(outcome, {"simple": outcome._replace(predictions=baseline)}).verdict()[-1]


def test_a_model_that_predicts_one_class_does_not_beat_the_most_frequent_one():
    said = verdict(LABELS, np.zeros(200), np.zeros(200), macro_f1=macro_f1)
    assert said.startswith("macro_f1 0.487, baseline simple 0.487: the model does not beat")
    assert "[+0.000, +0.000], n = 200" in said


def test_a_better_model_is_said_to_be_better_with_its_interval():
    said = verdict(LABELS, LABELS, np.zeros(200), macro_f1=macro_f1)
    assert said.startswith("macro_f1 1.000, baseline simple 0.487: the model is better (95%")
    low, high = (float(part) for part in said.split("[")[1].split("]")[0].split(","))
    assert 0 < low < 1 - 0.487 < high < 0.53


def test_a_small_gain_on_few_examples_may_be_chance():
    labels, baseline = np.zeros(20, int), np.array([1] * 5 + [0] * 15)
    predictions = np.array([1] * 4 + [0] * 16)
    assert "the difference may be chance" in verdict(labels, predictions, baseline)


def test_a_worse_model_is_not_to_be_used():
    assert "Do not use it" in verdict(LABELS, 1 - LABELS, LABELS)


def test_errors_are_better_when_they_are_lower():
    labels = np.linspace(0, 1, 50)
    of = {"mean_squared_error": mean_squared_error}
    assert "the model is better" in verdict(labels, labels + 0.01, labels + 1, **of)
    assert "Do not use it" in verdict(labels, labels + 1, labels + 0.01, **of)


def test_the_best_baseline_is_compared_and_all_are_scored():
    outcome = Outcome(LABELS, LABELS, {"accuracy": accuracy})
    simple = {"weak": 1 - LABELS, "strong": np.zeros(200)}
    comparison = Comparison(
        outcome, {name: outcome._replace(predictions=of) for name, of in simple.items()}
    )
    assert comparison.scores() == {"weak/accuracy": 0.0, "strong/accuracy": 0.95}
    assert "baseline strong 0.950" in comparison.verdict()[-1]


def test_metrics_of_scores_rank_models_that_never_predict_the_rare_class():
    """Average precision of constant scores is the fraction of the class."""
    scores = np.stack([1 - LABELS, LABELS], axis=1) * 0.1
    metrics = {"average_precision": average_precision, "accuracy": accuracy}
    outcome = Outcome(LABELS, np.zeros(200), metrics, scores)
    majority = outcome._replace(scores=np.zeros([200, 2]))
    comparison = Comparison(outcome, {"majority": majority})
    assert comparison.scores() == {"majority/average_precision": 0.05, "majority/accuracy": 0.95}
    assert comparison.verdict()[-1].startswith("average_precision 1.000, baseline majority 0.050")
    assert change(outcome, majority).gain.value == 0.95


def test_nothing_is_said_about_undefined_scores():
    predictions = np.full(200, np.nan)
    outcome = Outcome(LABELS, predictions, {"accuracy": accuracy})
    majority = outcome._replace(predictions=np.zeros(200))
    assert Comparison(outcome, {"majority": majority}).verdict() == []


@pytest.mark.parametrize(
    ("counts", "expected"), [([95, 5], True), ([50, 6], False), ([50, 5, 0], True), ([0], False)]
)
def test_classes_are_uneven_from_ten_to_one(counts, expected):
    assert is_uneven(np.array(counts)) is expected


def test_classes_that_are_never_predicted_are_named():
    (said,) = never_predicted(["fine", "bug"], LABELS, np.zeros(200))
    assert said.startswith("'bug' is never predicted, but 10 of 200 examples have this label.")
    assert never_predicted(["fine", "bug"], LABELS, LABELS) == ()
    assert never_predicted(["fine", "bug"], LABELS, np.full(200, np.nan)) == ()
