"""Temperature calibration of class probabilities, and selection of decision thresholds."""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from keras_bert_impl.data.scores.statistics import (
    Interval,
    ThresholdScores,
    calibration_error,
    ratios,
)
from keras_bert_impl.data.tables.labels import MULTI, REGRESSION, SINGLE
from keras_bert_impl.utils.errors import InputError, listed

_RULES = (
    "f1 (or another beta, such as f2), recall=0.9, precision=0.9, or cost=FP,FN such as cost=1,10"
)
_TEMPERATURES = 1e-2, 1e2
_ABOVE_ALL = np.nextafter(np.float32(1), np.float32(2))  # a threshold that no score reaches
# A rule receives true positives, positives and predicted positives at each threshold. It returns
# the values to maximize, -inf for thresholds that are not allowed.
_Rule = Callable[[np.ndarray, int, np.ndarray], np.ndarray]


class Goal(NamedTuple):
    """The arguments `threshold` and `label` of `TextClassifier.calibrate`."""

    threshold: str | None = None
    label: str | None = None


class Calibration(NamedTuple):
    """Results of `TextClassifier.calibrate` on held-out texts.

    Attributes:
        temperature: divisor of the logits; above 1 for overconfident models.
        error_before, error: expected calibration error before and after calibration, with a 95%
            interval.
        chosen: dict of label -> threshold with its scores. These scores are too high on average,
            because the threshold is selected on the texts that it is scored on.
        num_texts: number of texts.
    """

    temperature: float
    error_before: Interval
    error: Interval
    chosen: dict[str, ThresholdScores]
    num_texts: int

    @property
    def thresholds(self) -> dict[str, float] | None:
        """Dict of label -> threshold; None if no threshold was selected."""
        return {name: scores.threshold for name, scores in self.chosen.items()} or None

    def lines(self) -> list[str]:
        before, after = (f"{e.value:.4f} [{e.low:.4f}, {e.high:.4f}]" for e in self[1:3])
        return [
            f"temperature {self.temperature:.3f}, n = {self.num_texts:,}",
            f"expected calibration error {before} before, {after} after",
            *(
                f"threshold of {name} {scores.threshold:.4f}: precision {scores.precision:.4f}, "
                f"recall {scores.recall:.4f}, F1 {scores.f1:.4f}"
                for name, scores in self.chosen.items()
            ),
        ]

    def as_dict(self) -> dict[str, Any]:
        thresholds = {name: scores._asdict() for name, scores in self.chosen.items()}
        errors = {name: getattr(self, name)._asdict() for name in ("error_before", "error")}
        return self._asdict() | errors | {"chosen": thresholds}


def calibration_of(
    scores: np.ndarray, targets: np.ndarray, labels: list[str], problem_type: str, goal: Goal
) -> Calibration:
    """Fits a temperature, and selects thresholds for the calibrated scores.

    Args:
        scores: float32 `[texts, classes]`, from `predict`.
        targets: class indices `[texts]`, or one-hot or multi-hot labels `[texts, classes]`.

    Raises:
        InputError: see `TextClassifier.calibrate`.
    """
    if problem_type == REGRESSION:
        raise InputError("a regression model has no probabilities to calibrate.")
    if not len(scores) or np.isnan(scores).any():
        raise InputError("calibration requires texts with scores.")
    names = _select_labels(goal, labels, problem_type)
    rule = None if goal.threshold is None else rule_of(goal.threshold)
    if problem_type == MULTI:  # each label has two logits: no and yes
        logits = np.stack([_log(1 - scores), _log(scores)], axis=-1)
        temperature = fit_temperature(logits.reshape(-1, 2), np.reshape(targets, -1).astype(int))
        hot, calibrated = np.asarray(targets), _compute_softmax(logits / temperature)[..., 1]
        before, after = scores, calibrated
        is_right = hot
    else:
        classes = targets.argmax(axis=1) if np.ndim(targets) == 2 else np.asarray(targets)
        logits = _log(scores)
        temperature = fit_temperature(logits, classes)
        hot, calibrated = np.eye(len(labels))[classes], _compute_softmax(logits / temperature)
        before, after = scores.max(axis=1), calibrated.max(axis=1)
        is_right = scores.argmax(axis=1) == classes
    thresholds = {}
    for name in names if rule else ():
        column = labels.index(name)
        thresholds[name] = choose_threshold(rule, hot[:, column] > 0.5, calibrated[:, column], name)
    first, last = (calibration_error(confidences, is_right) for confidences in (before, after))
    return Calibration(temperature, first, last, thresholds, len(scores))


def _select_labels(goal, labels, problem_type):
    if goal.label is not None:
        if goal.label not in labels:
            raise InputError(f"label {goal.label!r} is not one of {listed(labels)}.")
        return [goal.label]
    if goal.threshold is None or problem_type == MULTI:
        return labels
    if len(labels) > 2:
        raise InputError(f"threshold requires label=..., one of {listed(labels)}.")
    return labels[1:]


def _log(probabilities):
    return np.log(np.maximum(np.asarray(probabilities, "float64"), 1e-38))


def _compute_softmax(logits):
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def fit_temperature(logits: np.ndarray, targets: np.ndarray) -> float:
    """Returns the temperature that minimizes the negative log-likelihood of the labels.

    Args:
        logits: float `[examples, classes]`.
        targets: class indices `[examples]`.

    Raises:
        InputError: the loss has no minimum. Either every example is classified correctly, or the
            scores are worse than chance.

    Source: Guo et al. 2017 (arXiv:1706.04599), section 4.2.
    """
    logits = np.asarray(logits, "float64")
    target_logits = logits[np.arange(len(logits)), targets]

    def slope(temperature):  # derivative of the loss with respect to 1 / temperature
        return np.mean(
            (_compute_softmax(logits / temperature) * logits).sum(axis=1) - target_logits
        )

    low, high = _TEMPERATURES
    if slope(low) <= 0:
        raise InputError(
            "the temperature cannot be fitted: almost all texts are classified correctly. Use "
            "more held-out texts."
        )
    if slope(high) >= 0:
        raise InputError(
            "the temperature cannot be fitted: the scores are no better than chance. Check that the "
            "labels belong to these texts, and train the model first."
        )
    for _ in range(60):  # bisection to the precision of float64
        middle = (low * high) ** 0.5
        low, high = (low, middle) if slope(middle) <= 0 else (middle, high)
    return float((low * high) ** 0.5)


# === Thresholds ===


def rule_of(text: str) -> _Rule:
    match = re.fullmatch(
        r"f(\d+\.?\d*)|(recall|precision)=(\d*\.?\d+)|cost=([\d.]+),([\d.]+)", text
    )
    if match is None:
        raise InputError(f"threshold must be {_RULES}. Received: {text!r}")
    beta, kind, bound, *costs = match.groups()
    try:
        numbers = [float(number) for number in (beta or bound, *costs) if number]
    except ValueError as error:
        raise InputError(f"threshold {text!r} contains an invalid number.") from error
    if kind and not 0 < numbers[0] <= 1:
        raise InputError(f"threshold {text!r}: {kind} must be above 0 and at most 1.")
    if beta:
        square = numbers[0] ** 2
        return lambda hits, positives, predicted: (
            (1 + square) * hits / (square * positives + predicted)
        )
    if kind:  # divisions, because a product such as 0.55 * 20 is not exact
        maximized, bounded = (0, 1) if kind == "precision" else (1, 0)

        def rule(hits, positives, predicted):
            both = hits / positives, hits / np.maximum(predicted, 1)  # recall and precision
            is_allowed = (predicted > 0) & (both[bounded] >= numbers[0])
            return np.where(is_allowed, both[maximized], -np.inf)

        return rule
    return lambda hits, positives, predicted: (
        -(numbers[0] * (predicted - hits) + numbers[1] * (positives - hits))
    )


def choose_threshold(
    rule: _Rule, is_positive: np.ndarray, scores: np.ndarray, name: str
) -> ThresholdScores:
    """Returns the best threshold according to a rule, and the scores with this threshold.

    The threshold is halfway between the scores of two examples, so that rounding differences
    between runtimes do not change decisions. If several thresholds are equally good, the highest
    one is returned. It is above all scores if costs are lowest without any positive prediction.

    Args:
        is_positive: bool `[examples]`.
        scores: float `[examples]`, in [0, 1].
    """
    num_positive = int(is_positive.sum())
    if not num_positive:
        raise InputError(f"the threshold of {name!r} cannot be selected: no text has this label.")
    scores = np.asarray(scores, "float32")  # as in decisions of models
    order = np.argsort(-scores, kind="stable")
    ranked = np.concatenate([[_ABOVE_ALL], scores[order], [-1]]).astype("float32")
    num_predicted = np.flatnonzero(ranked[:-1] != ranked[1:])  # equal scores are not separated
    hits = np.concatenate([[0], np.cumsum(is_positive[order])])[num_predicted]
    values = rule(hits, num_positive, num_predicted)
    best = int(values.argmax())
    if values[best] == -np.inf:
        raise InputError(f"no threshold of {name!r} reaches the required precision on these texts.")
    higher, lower = np.maximum(ranked[num_predicted[best] : num_predicted[best] + 2], 0)
    middle = (higher + lower) / 2
    threshold = float(str(middle if middle > lower else higher))
    return ThresholdScores(
        threshold, *ratios(int(hits[best]), num_positive, int(num_predicted[best]))
    )


def bounds_of(
    thresholds: dict[str, float] | None, labels: list[str], problem_type: str
) -> np.ndarray:
    """Converts thresholds to an array, float32 `[classes]`; NaN for labels without a threshold."""
    bounds = np.full(len(labels), np.nan, "float32")
    if not thresholds:
        return bounds
    if problem_type == REGRESSION:
        raise InputError("a regression model has no thresholds.")
    if problem_type == SINGLE and len(thresholds) > 1:
        raise InputError(
            "single-label classification supports a threshold for one label. Received: "
            f"{thresholds!r}"
        )
    for name, value in thresholds.items():
        if name not in labels:
            raise InputError(f"thresholds: {name!r} is not one of the labels {listed(labels)}.")
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not is_number or not 0 <= np.float32(value) <= _ABOVE_ALL:
            raise InputError(f"the threshold of {name!r} must be from 0 to 1. Received: {value!r}")
        bounds[labels.index(name)] = value
    return bounds


def thresholds_of(bounds: np.ndarray, labels: list[str]) -> dict[str, float] | None:
    thresholds = {n: float(str(b)) for n, b in zip(labels, bounds, strict=True) if not np.isnan(b)}
    return thresholds or None
