"""Compares a model's predictions with baselines."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from keras_bert_impl.io.errors import listed
from keras_bert_impl.tasks.scores.metrics import comparable, is_of_scores
from keras_bert_impl.tasks.scores.statistics import (
    SAMPLES,
    Difference,
    Interval,
    paired_difference,
)

UNEVEN = 10  # ratio of class sizes above which accuracy is misleading
BASELINES = ("majority", "tfidf", "most_frequent_tag")
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
        labels = self.outcome.labels
        metric, function = next(iter(self.outcome.metrics.items()))
        lines = list(self.remarks)
        value = self.outcome.score(metric)
        if self.baselines and not np.isnan(value):
            found = {name: of.score(metric) for name, of in self.baselines.items()}
            ranks = {name: comparable(metric, score) for name, score in found.items()}
            best = max(ranks, key=lambda name: -np.inf if np.isnan(ranks[name]) else ranks[name])
            columns = self.baselines[best].column(metric), self.outcome.column(metric)
            difference = paired_difference(function, labels, *columns, _samples(len(labels)))
            lines.append(_compared(metric, value, best, found[best], difference, len(labels)))
        return lines


def _compared(metric, value, name, of_baseline, difference: Difference, count):
    gain, low, high = (comparable(metric, bound) for bound in difference.interval)
    low, high = min(low, high), max(low, high)
    both = f"{metric} {value:.3f}, baseline {name} {of_baseline:.3f}"
    interval = f"95% interval of the difference [{low:+.3f}, {high:+.3f}], n = {count:,}"
    if high < 0:
        return f"{both}: the model is worse than the baseline ({interval}). Do not use it."
    if low > 0:
        return f"{both}: the model is better ({interval})."
    if gain <= 0:
        advice = "Train longer, change the learning rate, or use the baseline."
        return f"{both}: the model does not beat the baseline ({interval}). {advice}"
    return f"{both}: the difference may be chance ({interval}). Score on more examples."


class Change(NamedTuple):
    """The change of a score from an old model to a new model on the same examples.

    Attributes:
        metric: name of the score.
        new, old: the scores.
        gain: improvement with a 95% interval; positive if the new model is better.
        num_examples: number of examples.
    """

    metric: str
    new: float
    old: float
    gain: Interval
    num_examples: int

    def __str__(self) -> str:
        return (
            f"{self.metric} {self.new:.4f}, before {self.old:.4f}: improvement "
            f"{self.gain.value:+.4f}, 95% interval [{self.gain.low:+.4f}, {self.gain.high:+.4f}], "
            f"n = {self.num_examples:,}"
        )

    def as_dict(self) -> dict[str, Any]:
        return self._asdict() | {"gain": self.gain._asdict()}


def change(new: Outcome, old: Outcome) -> Change:
    metric, function = next(iter(new.metrics.items()))
    labels = new.labels
    columns = old.column(metric), new.column(metric)
    difference = paired_difference(function, labels, *columns, _samples(len(labels)))
    value, low, high = (comparable(metric, bound) for bound in difference.interval)
    after, before = new.score(metric), old.score(metric)
    gain = Interval(value, min(low, high), max(low, high))
    return Change(metric, after, before, gain, len(labels))


def _samples(count):
    return min(SAMPLES, max(100, _DRAWN // count))


def is_uneven(counts: np.ndarray) -> bool:
    """Returns whether the largest class is at least `UNEVEN` times as large as the smallest class.

    Args:
        counts: number of examples of each class; empty classes are ignored.
    """
    counts = counts[counts > 0]
    return len(counts) > 1 and bool(counts.max() >= UNEVEN * counts.min())


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
    verb, these = ("is", "this label") if len(missing) == 1 else ("are", "these labels")
    count = int(np.isin(labels, missing).sum())
    return (
        f"{listed([names[n] for n in missing])} {verb} never predicted, but {count:,} of "
        f"{len(labels):,} examples have {these}. Try class_weight=balanced, or more epochs.",
    )
