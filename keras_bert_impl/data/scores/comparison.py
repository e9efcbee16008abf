"""Compares a model's predictions with baselines."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from keras_bert_impl.data.scores.metrics import comparable, highest, is_of_scores
from keras_bert_impl.data.scores.statistics import (
    FEWEST,
    LEVEL,
    SAMPLES,
    Interval,
    paired_difference,
)
from keras_bert_impl.utils.errors import listed

UNEVEN = 10  # ratio of class sizes above which accuracy is misleading
BASELINES = ("majority", "tfidf", "most_frequent_tag", "untuned", "unigram")
_DRAWN = 10_000_000  # total number of examples in all resamples


class Outcome(NamedTuple):
    """Labels and predictions for a set of examples, and the metrics of the task.

    Attributes:
        labels, predictions: arrays `[examples, ...]` that are passed to the metrics: class indices,
            numbers, or bool `[examples, labels]`.
        metrics: dict of name -> function of labels and predictions, or of labels and scores. Models
            are compared by the first metric.
        scores: float `[examples, classes]`, passed to metrics for which `is_of_scores(name)` is
            True.
    """

    labels: np.ndarray
    predictions: np.ndarray
    metrics: dict[str, Callable[..., float]]
    scores: np.ndarray | None = None

    def column(self, metric: str) -> Any:
        return self.scores if is_of_scores(metric) else self.predictions

    def score(self, metric: str) -> float:
        return float(self.metrics[metric](self.labels, self.column(metric)))


class Comparison(NamedTuple):
    """Predictions of a model and of baselines with the same training set.

    Attributes:
        outcome: predictions of the model.
        baselines: dict of name -> predictions of a baseline on the same examples.
        remarks: sentences about problems that the metrics do not show.
    """

    outcome: Outcome
    baselines: dict[str, Outcome]
    remarks: tuple[str, ...] = ()

    def scores(self) -> dict[str, float]:
        """Returns the scores of the baselines as {`BASELINE/METRIC`: score}."""
        return {
            f"{name}/{metric}": baseline.score(metric)
            for name, baseline in self.baselines.items()
            for metric in self.outcome.metrics
        }

    def verdict(self) -> list[str]:
        """Returns `remarks`, and a sentence that compares the model with the best baseline."""
        metric = next(iter(self.outcome.metrics))
        scores = {name: baseline.score(metric) for name, baseline in self.baselines.items()}
        ranks = {n: comparable(metric, score) for n, score in scores.items() if score == score}
        if not self.baselines:
            return [*self.remarks]
        if math.isnan(self.outcome.score(metric)):
            reason = undefined_because(self.outcome.labels, self.outcome.column(metric))
            sentence = f"{metric} is undefined, because {reason}. The baselines are not compared."
        elif not ranks:
            sentence = f"{metric} of the baselines is undefined. They are not compared."
        else:
            best = max(ranks, key=lambda name: ranks[name])
            sentence = _describe_change(change(self.outcome, self.baselines[best]), best)
        return [*self.remarks, sentence]


def undefined_because(labels: np.ndarray, predictions: np.ndarray) -> str:
    """Returns the reason for which a score is NaN."""
    if np.isnan(predictions).any():
        return "some predictions are NaN"
    return f"all {'predictions' if np.ptp(labels) else 'labels'} are equal"


class Change(NamedTuple):
    """The change of a score from an old model to a new model on the same examples.

    Attributes:
        metric: name of the score.
        new, old: the scores.
        gain: improvement with a 95% interval; positive if the new model is better. The bounds are
            NaN if the examples are too few for an interval.
        num_examples: number of examples.
        p: two-sided p-value for no difference; see `paired_difference`.
    """

    metric: str
    new: float
    old: float
    gain: Interval
    num_examples: int
    p: float

    @property
    def decision(self) -> str:
        """`"better"`, `"worse"`, `"too few"` examples for any decision, or `"undecided"`."""
        if self.p < LEVEL:
            return "better" if self.gain.value > 0 else "worse"
        return "too few" if self.num_examples < FEWEST else "undecided"

    @property
    def evidence(self) -> str:
        """The interval of the difference, if there is one, the p-value and number of examples."""
        _, low, high = self.gain
        interval = "" if math.isnan(low) else f"95% interval [{low:+.3f}, {high:+.3f}], "
        p = f"p = {self.p:.3f}" if self.p >= 0.001 else "p < 0.001"
        return f"{interval}{p}, n = {self.num_examples:,}"

    def __str__(self) -> str:
        phrases = {
            "better": "the model is better",
            "worse": "the model is worse",
            "too few": f"at least {FEWEST} examples are required to tell a difference",
            "undecided": "the difference may be chance",
        }
        return (
            f"{self.metric} {self.new:.4f}, before {self.old:.4f}: improvement "
            f"{self.gain.value:+.4f}, {self.evidence}; {phrases[self.decision]}"
        )

    def as_dict(self) -> dict[str, Any]:
        gain = {name: None if math.isnan(x) else x for name, x in self.gain._asdict().items()}
        return self._asdict() | {"gain": gain, "decision": self.decision}


def change(new: Outcome, old: Outcome) -> Change:
    metric, function = next(iter(new.metrics.items()))
    labels = new.labels
    columns = old.column(metric), new.column(metric)
    difference = paired_difference(function, labels, *columns, _limit_samples(len(labels)))
    value, *bounds = (comparable(metric, bound) for bound in difference.interval)
    gain = Interval(value, *sorted(bounds))
    return Change(metric, new.score(metric), old.score(metric), gain, len(labels), difference.p)


def _describe_change(change, name):
    """Returns a sentence that compares a model with a baseline."""
    both = f"{change.metric} {change.new:.3f}, baseline {name} {change.old:.3f}"
    train = "Train longer or change the learning rate, or use the baseline."
    if change.decision == "too few":
        return (
            f"{both}: too few examples (n = {change.num_examples}) to tell a difference. Score on "
            f"more examples; at least {FEWEST} are required."
        )
    if change.decision == "worse":
        advice = f"Do not use it. {train}"
        return f"{both}: the model is worse than the baseline ({change.evidence}). {advice}"
    if change.decision == "better":
        return f"{both}: the model is better ({change.evidence})."
    if change.old == highest(change.metric):
        return (
            f"{both}: the baseline makes no errors on these examples, so no model can beat it "
            f"({change.evidence}). They are too few or too easy. Score on more or harder examples."
        )
    if change.gain.value <= 0:
        return f"{both}: the model does not beat the baseline ({change.evidence}). {train}"
    return f"{both}: the difference may be chance ({change.evidence}). Score on more examples."


def _limit_samples(count):
    return min(SAMPLES, max(100, _DRAWN // count))


def is_uneven(counts: np.ndarray) -> bool:
    """Returns whether the largest class is at least `UNEVEN` times as large as the smallest class.

    Args:
        counts: number of examples of each class; empty classes are ignored.
    """
    counts = counts[counts > 0]
    return len(counts) > 1 and bool(counts.max() >= UNEVEN * counts.min())


def not_covered(names: list[str], labels: np.ndarray) -> tuple[str, ...]:
    """Returns a sentence that names the classes without an example, or an empty tuple.

    Args:
        labels: class indices `[examples]`.
    """
    missing = [name for number, name in enumerate(names) if number not in labels]
    if not missing:
        return ()
    return (
        f"no validation example has the label {listed(missing)}, so the scores cover only "
        f"{len(names) - len(missing):,} of {len(names):,} classes.",
    )


def never_predicted(
    names: list[str], labels: np.ndarray, predictions: np.ndarray
) -> tuple[str, ...]:
    """Returns a sentence that names the classes that are never predicted, or an empty tuple.

    Args:
        labels, predictions: class indices `[examples]`; NaN for no prediction.
    """
    missing = [n for n in np.unique(labels) if n not in predictions]
    if not missing or np.isnan(predictions).any():
        return ()
    verb, noun = ("is", "this label") if len(missing) == 1 else ("are", "these labels")
    count = int(np.isin(labels, missing).sum())
    return (
        f"{listed([names[n] for n in missing])} {verb} never predicted, but {count:,} of "
        f"{len(labels):,} examples have {noun}. Try class_weight=balanced, or more epochs.",
    )
