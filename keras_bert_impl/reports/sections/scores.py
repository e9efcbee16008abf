"""The section with scores and confidence intervals, for all tasks."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from keras_bert_impl.data.scores.metrics import OF_CLASS, RANKING
from keras_bert_impl.data.scores.statistics import SAMPLES, Interval, bootstrap, wilson
from keras_bert_impl.reports import page
from keras_bert_impl.reports.page import Section

_PROPORTIONS = {"accuracy", "subset_accuracy"}
_HOW = {
    True: "Wilson score intervals",
    False: f"percentile bootstrap, {SAMPLES:,} resamples, seed 0",
}


class Score(NamedTuple):
    """A score with its confidence interval.

    Attributes:
        name: key in `scores.json`.
        is_proportion: whether the score is a fraction of examples. Fractions have a Wilson
            interval; other scores have a bootstrap interval.
    """

    name: str
    interval: Interval
    is_proportion: bool


def proportion(name: str, is_right: Any, scale: float = 1.0) -> Score:
    """Returns the fraction of correct examples, multiplied by `scale`, with a Wilson interval."""
    interval = wilson(is_right)
    return Score(name, Interval(*(scale * bound for bound in interval)), True)


def resampled(name: str, metric: Callable[..., float], *columns: Any) -> Score:
    """Computes a metric of `columns`, with a bootstrap interval."""
    return Score(name, bootstrap(metric, *columns), False)


def score_of(name: str, metric: Callable[..., float], labels: Any, predictions: Any) -> Score:
    """Computes a metric of labels and predictions `[examples, ...]`, with an interval."""
    if name not in _PROPORTIONS:
        return resampled(name, metric, labels, predictions)
    is_right = np.asarray(labels) == np.asarray(predictions)
    return proportion(name, is_right.reshape(len(is_right), -1).all(axis=1))


def score_name(key: str) -> str:
    """Returns a readable name: "macro F1" for `macro_f1`."""
    for prefix in (OF_CLASS, f"{RANKING}/"):
        if key.startswith(prefix):
            return f"{score_name(prefix[:-1])} of {key.removeprefix(prefix)}"
    return key.replace("_", " ").replace("f1", "F1")


def without_repeated_loss(values: dict[str, Any]) -> dict[str, Any]:
    """Returns the values without the loss of the only objective, which is also the total loss."""
    losses = {name for name in values if name.endswith("_loss") and "/" not in name}
    losses -= {"highest_loss"}
    if len(losses) != 1 or "loss" not in values:
        return values
    return {k: v for k, v in values.items() if k.rpartition("/")[2] not in losses}


def scores_html(scores: list[Score], examples: str, note: str = "") -> str:
    """Returns the table of scores, with a note on the intervals.

    Args:
        examples: text that describes the examples, such as "14 examples of dev.csv".
    """
    rows = [
        [score_name(score.name), page.score(score.interval.value), page.bounds(score.interval)]
        for score in scores
    ]
    html = page.table(["score", "value", "95% confidence interval"], rows, examples)
    return html + page.paragraph(f"{how(scores)} {note}".strip())


def scores_section(scores: list[Score], examples: str, note: str = "") -> Section:
    return Section("Scores", scores_html(scores, examples, note))


def how(scores: list[Score]) -> str:
    kinds: dict[bool, list[str]] = {}
    for score in scores:
        kinds.setdefault(score.is_proportion, []).append(score_name(score.name))
    parts = [f"{_HOW[kind]} ({', '.join(dict.fromkeys(names))})" for kind, names in kinds.items()]
    text = f"Confidence intervals: {'; '.join(parts)}."
    if any(page.bounds(score.interval) == page.NO_INTERVAL for score in scores):
        text += f" {page.NO_INTERVAL}: no interval, because of fewer than 50 examples or equal resamples."
    return text
