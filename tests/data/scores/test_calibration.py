import numpy as np
import pytest
import scipy.optimize
import scipy.special
import sklearn.metrics

from keras_bert_impl.data.scores.calibration import (
    Goal,
    bounds_of,
    calibration_of,
    choose_threshold,
    fit_temperature,
    rule_of,
    thresholds_of,
)
from keras_bert_impl.utils.errors import InputError

SINGLE, MULTI = "single_label_classification", "multi_label_classification"
NAMES = ["ham", "spam", "other"]


def overconfident(temperature, count=4000, seed=0):
    """Logits that are `temperature` times those that the labels were drawn from."""
    draw = np.random.default_rng(seed)
    logits = draw.normal(0, 1.5, (count, 3))
    shares = scipy.special.softmax(logits, axis=1).cumsum(axis=1)
    return temperature * logits, (draw.random((count, 1)) > shares).sum(axis=1)


def test_temperature_minimizes_the_likelihood_as_scipy_does():
    logits, labels = overconfident(2.5)

    def loss(temperature):
        return -scipy.special.log_softmax(logits / temperature, axis=1)[
            np.arange(len(labels)), labels
        ].mean()

    expected = scipy.optimize.minimize_scalar(loss, bounds=(0.1, 10), options={"xatol": 1e-9}).x
    assert fit_temperature(logits, labels) == pytest.approx(expected, abs=1e-6)
    assert expected == pytest.approx(2.5, rel=0.05)


def test_error_falls_to_that_of_calibrated_scores():
    logits, labels = overconfident(2.5)
    scores = scipy.special.softmax(logits, axis=1).astype("float32")
    calibration = calibration_of(scores, labels, NAMES, SINGLE, Goal())
    assert calibration.temperature == pytest.approx(fit_temperature(logits, labels), rel=1e-4)
    assert calibration.error_before.low > 0.1 and calibration.error.high < 0.04
    # The error of finite data is above 0 when the true one is 0.
    assert calibration.error.low < 0.01
    assert calibration.thresholds is None
    rows = calibration_of(scores, np.eye(3)[labels], NAMES, SINGLE, Goal())
    assert rows == calibration


def test_several_labels_share_a_temperature():
    draw = np.random.default_rng(1)
    logits = draw.normal(0, 1.5, (3000, 2))
    hot = (draw.random((3000, 2)) < scipy.special.expit(logits)).astype("float32")
    scores = scipy.special.expit(3 * logits).astype("float32")
    calibration = calibration_of(scores, hot, ["a", "b"], MULTI, Goal("f1"))
    pairs = np.stack([np.zeros(6000), 3 * logits.ravel()], axis=1)
    expected = fit_temperature(pairs, hot.ravel().astype(int))
    assert calibration.temperature == pytest.approx(expected, rel=1e-3)
    assert expected == pytest.approx(3, rel=0.05)
    assert list(calibration.thresholds) == ["a", "b"]


@pytest.mark.parametrize(
    ("sign", "reason"), [(1, "all texts are classified correctly"), (-1, "than chance")]
)
def test_no_temperature_fits_separable_or_reversed_scores(sign, reason):
    labels = np.array([0, 1, 2] * 5)
    with pytest.raises(InputError, match=reason):
        fit_temperature(sign * np.eye(3)[labels], labels)


def curve(seed=2):
    draw = np.random.default_rng(seed)
    is_positive = draw.random(500) < 0.1
    scores = np.round(np.clip(draw.normal(0.3 + 0.3 * is_positive, 0.15), 0, 1), 2)  # with ties
    return is_positive, scores


@pytest.mark.parametrize("beta", [0.5, 1, 2])
def test_threshold_of_f_beta_is_the_best_of_scikit_learn(beta):
    is_positive, scores = curve()
    choice = choose_threshold(rule_of(f"f{beta}"), is_positive, scores, "spam")

    def f_beta(threshold):
        return sklearn.metrics.fbeta_score(
            is_positive, scores >= threshold, beta=beta, zero_division=0
        )

    assert f_beta(choice.threshold) == max(map(f_beta, np.unique(scores)))
    precision, recall, f1, _ = sklearn.metrics.precision_recall_fscore_support(
        is_positive, scores >= choice.threshold, average="binary"
    )
    assert choice[1:] == pytest.approx((precision, recall, f1))
    assert np.abs(scores - choice.threshold).min() > 1e-3  # between two scores


def test_thresholds_by_a_bound_are_those_of_the_curve_of_scikit_learn():
    is_positive, scores = curve()
    precision, recall, _ = sklearn.metrics.precision_recall_curve(is_positive, scores)
    choice = choose_threshold(rule_of("recall=0.8"), is_positive, scores, "spam")
    assert choice.recall >= 0.8 and choice.precision == precision[:-1][recall[:-1] >= 0.8].max()
    choice = choose_threshold(rule_of("precision=0.6"), is_positive, scores, "spam")
    assert choice.precision >= 0.6 and choice.recall == recall[:-1][precision[:-1] >= 0.6].max()
    with pytest.raises(InputError, match="no threshold of 'spam' reaches the required precision"):
        choose_threshold(
            rule_of("precision=1"), ~np.eye(3, dtype=bool)[0], np.arange(3)[::-1], "spam"
        )


@pytest.mark.parametrize("decimals", [1, 9], ids=["ties", "distinct"])
@pytest.mark.parametrize(
    "text",
    ["f1", "f0.5", "f2", "recall=0.55", "precision=0.55", "cost=10,1", "cost=1,10", "cost=1,0"],
)
def test_no_other_threshold_is_better(text, decimals):
    """Compares the threshold with all others, including one above and one below all scores."""
    draw = np.random.default_rng(5)
    for _ in range(60):
        count = draw.integers(2, 60)
        is_positive = draw.random(count) < 0.3
        is_positive[0] = True
        scores = np.clip(draw.normal(0.4 + 0.3 * is_positive, 0.3), 0, 1).round(decimals)
        scores = scores.astype("float32")

        def value(threshold):
            picked = scores >= threshold
            hits, predicted, positives = (
                x.sum() for x in (picked & is_positive, picked, is_positive)
            )
            recall, precision = hits / positives, hits / predicted if predicted else np.nan
            if text.startswith("cost"):
                costs = [float(cost) for cost in text[5:].split(",")]
                return -costs[0] * (predicted - hits) - costs[1] * (positives - hits)
            if text.startswith("f"):
                square = float(text[1:]) ** 2
                return (1 + square) * hits / (square * positives + predicted)
            ratios = {"recall": (recall, precision), "precision": (precision, recall)}
            bounded, maximized = ratios[text.partition("=")[0]]
            return maximized if bounded >= 0.55 else -np.inf

        best = max(map(value, [*scores, np.nextafter(np.float32(1), np.float32(2))]))
        if best == -np.inf:
            continue
        choice = choose_threshold(rule_of(text), is_positive, scores, "spam")
        bounds = bounds_of({"spam": choice.threshold}, NAMES, SINGLE)
        assert value(bounds[1]) == pytest.approx(best), (scores, is_positive)


def test_threshold_of_calibrated_scores_at_costs_is_that_of_decision_theory():
    draw = np.random.default_rng(4)
    scores = draw.random(100_000)
    is_positive = draw.random(100_000) < scores
    choice = choose_threshold(rule_of("cost=1,4"), is_positive, scores, "spam")
    assert choice.threshold == pytest.approx(1 / (1 + 4), abs=0.03)


@pytest.mark.parametrize(
    "rule", ["f", "g1", "recall", "recall=2", "cost=1", "cost=1,.,", "cost=.,1"]
)
def test_unknown_rules_are_named(rule):
    with pytest.raises(InputError, match="threshold"):
        rule_of(rule)


def test_label_of_the_threshold():
    logits, labels = overconfident(1.5, count=300)
    scores = scipy.special.softmax(logits, axis=1)
    with pytest.raises(InputError, match="threshold requires label="):
        calibration_of(scores, labels, NAMES, SINGLE, Goal("f1"))
    with pytest.raises(InputError, match="label 'eggs' is not one of"):
        calibration_of(scores, labels, NAMES, SINGLE, Goal("f1", "eggs"))
    assert [*calibration_of(scores, labels, NAMES, SINGLE, Goal("f1", "ham")).chosen] == ["ham"]


def test_thresholds_survive_float32():
    bounds = bounds_of({"spam": 0.31}, NAMES, SINGLE)
    assert bounds.dtype == "float32" and thresholds_of(bounds, NAMES) == {"spam": 0.31}
    assert thresholds_of(bounds_of(None, NAMES, SINGLE), NAMES) is None


@pytest.mark.parametrize(
    ("thresholds", "kind"),
    [({"spam": 0.3, "ham": 0.4}, SINGLE), ({"eggs": 0.3}, MULTI), ({"ham": 3}, MULTI),
     ({"ham": True}, MULTI), ({"ham": 0.3}, "regression")],
)  # fmt: skip
def test_thresholds_that_cannot_be_used(thresholds, kind):
    with pytest.raises(InputError, match="threshold"):
        bounds_of(thresholds, NAMES, kind)
