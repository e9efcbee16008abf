"""Comparisons with baselines, and their verdicts."""

import numpy as np
import pytest

from keras_bert_impl.data.scores.comparison import (
    Comparison,
    Outcome,
    change,
    is_uneven,
    never_predicted,
)
from keras_bert_impl.data.scores.metrics import (
    accuracy,
    average_precision,
    mean_squared_error,
    pearson,
)

LABELS = np.array([0] * 190 + [1] * 10)


def verdict(labels, predictions, baseline, **metrics):
    outcome = Outcome(labels, predictions, metrics or {"accuracy": accuracy})
    return Comparison(outcome, {"simple": outcome._replace(predictions=baseline)}).verdict()[-1]


def right(count, number):
    """Returns predictions of `count` examples with the label 1, of which `number` are right."""
    return (np.arange(count) < number).astype(int)


@pytest.mark.parametrize(
    ("count", "of_model", "of_baseline", "expected"),
    [
        (1, 1, 0, "too few examples (n = 1) to tell a difference"),
        (1, 0, 1, "too few examples (n = 1) to tell a difference"),
        (5, 5, 0, "Score on more examples; at least 6 are required."),
        (6, 6, 0, "the model is better (p = 0.031, n = 6)."),
        (6, 0, 6, "the model is worse than the baseline (p = 0.031, n = 6). Do not use it."),
        (6, 5, 0, "the difference may be chance (p = 0.062, n = 6). Score on more examples."),
        (14, 14, 14, "no model can beat it (p = 1.000, n = 14). They are too few or too easy."),
        (14, 13, 14, "no model can beat it (p = 1.000, n = 14)."),
        (20, 10, 10, "the model does not beat the baseline (p = 1.000, n = 20). Train longer or"),
        (200, 190, 170, "the model is better (95% interval [+0.060, +0.140], p < 0.001, n = 200)."),
        (200, 180, 192, "is worse than the baseline (95% interval [-0.095, -0.025], p < 0.001,"),
    ],
)  # fmt: skip
def test_verdicts(count, of_model, of_baseline, expected):
    labels = np.ones(count, int)
    sentence = verdict(labels, right(count, of_model), right(count, of_baseline))
    assert sentence.startswith(f"accuracy {of_model / count:.3f}, baseline simple ")
    assert expected in sentence


@pytest.mark.parametrize(
    ("labels", "predictions", "reason"),
    [
        (np.linspace(0, 1, 9), np.ones(9), "all predictions are equal"),
        (np.ones(9), np.linspace(0, 1, 9), "all labels are equal"),
        (np.linspace(0, 1, 9), np.full(9, np.nan), "some predictions are NaN"),
    ],
)
def test_undefined_scores_have_a_reason_and_no_verdict(labels, predictions, reason):
    sentence = verdict(labels, predictions, np.linspace(0, 1, 9), pearson=pearson)
    assert sentence == f"pearson is undefined, because {reason}. The baselines are not compared."
    if reason[:3] != "all":
        return
    sentence = verdict(np.arange(9), np.arange(9), np.ones(9), pearson=pearson)
    assert sentence == "pearson of the baselines is undefined. They are not compared."


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


@pytest.mark.parametrize(
    ("counts", "expected"), [([95, 5], True), ([50, 6], False), ([50, 5, 0], True), ([0], False)]
)
def test_classes_are_uneven_from_ten_to_one(counts, expected):
    assert is_uneven(np.array(counts)) is expected


def test_classes_that_are_never_predicted_are_named():
    (sentence,) = never_predicted(["fine", "bug"], LABELS, np.zeros(200))
    assert sentence.startswith("'bug' is never predicted, but 10 of 200 examples have this label.")
    assert never_predicted(["fine", "bug"], LABELS, LABELS) == ()
    assert never_predicted(["fine", "bug"], LABELS, np.full(200, np.nan)) == ()
