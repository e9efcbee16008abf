"""The text classification task for training runs and commands."""

import dataclasses
import functools
import itertools
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from keras_bert_impl.data.prediction_files import (
    cells,
    read_predictions_table,
    write_predictions_table,
)
from keras_bert_impl.data.scores.calibration import Calibration, Goal
from keras_bert_impl.data.scores.comparison import (
    Comparison,
    Outcome,
    is_uneven,
    never_predicted,
    not_covered,
)
from keras_bert_impl.data.scores.decisions import at_least, check_scores, likeliest
from keras_bert_impl.data.scores.metrics import (
    MULTI_LABEL_METRICS,
    class_metrics,
    metric_named,
)
from keras_bert_impl.data.tables.examples import Examples, join_names
from keras_bert_impl.data.tables.held_rows import copy_rows, write_held_out
from keras_bert_impl.data.tables.label_checks import class_weights
from keras_bert_impl.data.tables.labels import (
    MULTI,
    REGRESSION,
    SINGLE,
    check_several,
    sort_names,
)
from keras_bert_impl.tasks.base.description import Task
from keras_bert_impl.tasks.base.options import setting_names
from keras_bert_impl.tasks.text_classification import SETTINGS, read
from keras_bert_impl.tasks.text_classification.baselines import baselines
from keras_bert_impl.tasks.text_classification.model import TextClassifier
from keras_bert_impl.utils.errors import InputError, listed

_LOG = logging.getLogger(__name__)
_NO_LABEL = "no validation example has a label, so the model is not compared with baselines."
_METRICS = {
    SINGLE: ("accuracy", "macro_f1"),
    MULTI: tuple(MULTI_LABEL_METRICS),
    REGRESSION: ("pearson", "spearman", "mean_squared_error"),
}


class TextClassification(Task):
    """Single-label and multi-label classification, and regression, on `Examples`."""

    model_classes = (TextClassifier,)
    report = "keras_bert_impl.reports.sections.classification"
    example_class = Examples
    architectures = ("ForSequenceClassification",)
    settings = setting_names(SETTINGS)
    read = staticmethod(read)
    write_held_out = staticmethod(functools.partial(write_held_out, copy=copy_rows))

    def __init__(self, train: Examples, dev: Examples) -> None:
        self._problem_type, self._names = _detect_problem_type(train), None
        if self._problem_type == REGRESSION:
            self.arguments = {"num_classes": 1, "problem_type": REGRESSION}
            return
        if self._problem_type == MULTI:
            self._names = train.label_names or sort_names(itertools.chain(*train.labels))
            if not self._names:
                raise InputError(f"{train.source}: no text has a label.")
            if all(len(labels) == 1 for labels in train.labels):
                _LOG.warning(
                    "%s: every text has a list with exactly one label; a multi-label model is "
                    "trained. For one class per text, pass --single-label (single_label=True).",
                    train.source,
                )
        else:
            self._names = train.label_names or sort_names(train.labels)
            check_several(self._names, train.source)
        _convert_labels(dev, self._problem_type, self._names)
        self.arguments = {"labels": list(self._names), "problem_type": self._problem_type}

    def inputs(self, examples: Examples) -> tuple:
        targets = _convert_labels(examples, self._problem_type, self._names)
        if self._problem_type == SINGLE:
            targets = [self._names[number] for number in targets]
        return examples.texts, targets

    @staticmethod
    def examples_of(texts: list, labels: list, source: str) -> Examples:
        kinds = {type(label) for label in labels}
        if kinds <= {int, bool}:
            return _name_classes(Examples(texts, labels, source=source))
        if kinds <= {int, float}:
            return Examples(texts, [float(label) for label in labels], source=source)
        if kinds not in ({str}, {list}):
            raise InputError(
                f"{source}: labels must be all names, all numbers, or all lists of names. "
                f"Received: {', '.join(sorted(kind.__name__ for kind in kinds))}"
            )
        if kinds == {str}:
            labels = [label.strip() for label in labels]  # readers of files strip labels, too
        elif not all(isinstance(label, str) for row in labels for label in row):
            raise InputError(
                f"{source}: a list of labels must contain names. Received: {labels[0]!r:.60}. For "
                "rows of 0 and 1, pass [[name for name, is_set in zip(names, row) if is_set] for "
                "row in rows]."
            )
        return Examples(texts, labels, source=source)

    @staticmethod
    def with_named_classes(*sets: Examples) -> tuple[Examples, ...]:
        if not _has_numbers(sets[0]):
            return sets
        return tuple(
            _name_classes(examples) if _has_numbers(examples) else examples for examples in sets
        )

    def class_weight(self, train: Examples, weights: Any) -> dict[int, float]:
        if self._problem_type != SINGLE:
            raise InputError("class_weight requires one label per text.")
        return class_weights(weights, self._names, train.class_numbers(self._names))

    def score_names(self, dev: Examples) -> list[str]:
        names = list(dev.metrics or _METRICS[self._problem_type])
        if self._problem_type == REGRESSION:
            return names
        extra = ["matthews"] if self._problem_type == SINGLE else []
        return [*names, *extra, *class_metrics(self._names)]

    def default_metric(self, train: Examples) -> str | None:
        if self._problem_type != SINGLE or train.metrics:
            return None
        return "macro_f1" if is_uneven(np.bincount(train.class_numbers(self._names))) else None

    @staticmethod
    def with_metric(examples: Examples, metric: str | None) -> Examples:
        if metric is None:
            return examples
        names = _list_metrics(examples, _detect_problem_type(examples))
        return dataclasses.replace(examples, metrics=tuple(dict.fromkeys((metric, *names))))

    @staticmethod
    def score(
        model: TextClassifier, examples: Examples, directory: Path | None = None
    ) -> dict[str, float]:
        received = model.problem_type
        targets = _convert_for_model(model, examples)
        scores = model.predict(examples.texts, verbose=0)
        if directory is not None:
            write_predictions(directory / "predictions.tsv", model, scores, examples)
        predictions = scores[:, 0] if received == REGRESSION else model.decide(scores)
        metrics = _make_metrics(examples, received, model.labels)
        result = Outcome(targets, predictions, metrics, scores)
        return {name: result.score(name) for name in metrics}

    def compare(self, train: Examples, dev: Examples, directory: Path) -> Comparison:
        headings, rows = read_predictions_table(directory / "predictions.tsv")
        first = headings[:1] == ["label"]  # regression has no label column
        scores = np.array([row[first:] for row in rows], "float32")
        kind, targets = self._problem_type, _convert_labels(train, self._problem_type, self._names)
        simple = baselines(train.texts, targets, dev.texts, kind, scores.shape[1])
        labels, predictions = _convert_labels(dev, kind, self._names), _convert_scores(scores, kind)
        outcome = Outcome(labels, predictions, _make_metrics(dev, kind, self._names), scores)
        remarks: tuple[str, ...] = ()
        if kind == SINGLE:
            remarks = not_covered(self._names, labels)
            remarks += never_predicted(self._names, labels, predictions)
        if kind == MULTI and not labels.any():
            return Comparison(outcome, {}, (_NO_LABEL,))
        outcomes = {
            name: outcome._replace(**baseline._asdict()) for name, baseline in simple.items()
        }
        return Comparison(outcome, outcomes, remarks)

    @staticmethod
    def outcome(model: TextClassifier, examples: Examples, like: TextClassifier) -> Outcome:
        kind, names = model.problem_type, like.labels
        if kind != like.problem_type or set(model.labels) != set(names):
            raise InputError(
                f"the models have different labels: {kind} with {listed(model.labels)}, and "
                f"{like.problem_type} with {listed(names)}."
            )
        targets = _convert_for_model(like, examples)
        scores = model.predict(examples.texts, verbose=0)
        check_scores(scores)
        predictions = scores[:, 0] if kind == REGRESSION else model.decide(scores)
        columns = [model.labels.index(name) for name in names]
        if kind == SINGLE:
            predictions = np.argsort(columns)[predictions]
        elif kind == MULTI:
            predictions = predictions[:, columns]
        metrics = _make_metrics(examples, kind, names)
        return Outcome(targets, predictions, metrics, scores[:, columns])

    @staticmethod
    def calibrate(model: TextClassifier, examples: Examples, goal: Goal) -> Calibration:
        targets: Any = _convert_for_model(model, examples)
        if model.problem_type == SINGLE:
            targets = [model.labels[number] for number in targets]
        return model.calibrate(examples.texts, targets, *goal)

    @staticmethod
    def predictions(model: TextClassifier, texts: list) -> Iterator[tuple[dict, list[str]]]:
        rows = model.predict(texts, verbose=0)
        check_scores(rows)
        for row in rows:
            scores = dict(zip(model.labels, row.tolist()))
            if model.problem_type == REGRESSION:
                yield {"values": row.tolist()}, [f"{value:.6g}" for value in row]
                continue
            names = names_of(model, row)
            if model.problem_type == MULTI:
                yield {"labels": names, "scores": scores}, [join_names(names)]
            else:
                (label,) = names
                answer = {"label": label, "score": scores[label], "scores": scores}
                yield answer, [label, f"{scores[label]:.4f}"]


def _convert_for_model(model: TextClassifier, examples: Examples) -> np.ndarray:
    """Converts the labels of examples to targets for a model.

    Raises:
        InputError: the labels are for another problem type, or the model does not have one of them.
    """
    received = _detect_problem_type(examples)
    if received == MULTI and model.problem_type == SINGLE:
        if all(len(labels) == 1 for labels in examples.labels):
            labels = [name for (name,) in examples.labels]
            examples, received = dataclasses.replace(examples, labels=labels), SINGLE
    if received != model.problem_type or (received == REGRESSION and len(model.labels) > 1):
        raise InputError(
            f"{examples.source} has labels for {received}, but the model is for "
            f"{model.problem_type} with {len(model.labels)} output(s). To read numbers, "
            "pass --regression (numeric=True). To read several labels, pass --label-separator."
        )
    return _convert_labels(examples, received, model.labels)


def _has_numbers(examples):
    if examples.label_names or not examples.labels:
        return False
    return all(isinstance(label, (int, np.integer)) for label in examples.labels)


def _name_classes(examples):
    numbers = [int(label) for label in examples.labels]  # converts bool
    names = [str(number) for number in sorted(set(numbers))]
    return dataclasses.replace(examples, labels=list(map(str, numbers)), label_names=names)


def _detect_problem_type(examples):
    if examples.is_numeric:
        return REGRESSION
    return MULTI if examples.is_multi_label else SINGLE


def _list_metrics(examples, problem_type):
    return examples.metrics or _METRICS[problem_type]


def _make_metrics(examples, problem_type, names):
    is_multi_label = problem_type == MULTI
    metrics = _list_metrics(examples, problem_type)
    return {name: metric_named(name, names, is_multi_label) for name in metrics}


def _convert_scores(scores, problem_type):
    """Converts scores `[texts, classes]` to predictions in the format of `_convert_labels`."""
    if problem_type == REGRESSION:
        return scores[:, 0]
    return at_least(scores) if problem_type == MULTI else likeliest(scores)


def _convert_labels(examples, problem_type, names):
    """Converts labels to arrays for `fit` and the metrics."""
    if problem_type == REGRESSION:
        return np.array(examples.labels, "float32")
    return examples.multi_hot(names) if problem_type == MULTI else examples.class_numbers(names)


def names_of(classifier: TextClassifier, row: np.ndarray) -> list[str]:
    """Returns the predicted label names for scores `[num_classes]`, or [] if a score is NaN."""
    if np.isnan(row).any():
        return []
    (decision,) = classifier.decide(row[None])
    if classifier.problem_type == SINGLE:
        return [classifier.labels[decision]]
    return [name for name, is_chosen in zip(classifier.labels, decision) if is_chosen]


def write_predictions(
    path: str | Path,
    classifier: TextClassifier,
    scores: np.ndarray,
    examples: Examples | None = None,
) -> None:
    """Writes a line with the predicted label and the score of each class for each text.

    Args:
        scores: float32 `[texts, num_classes]`, from `predict`.
        examples: if given, adds the columns of `LabeledExamples.described`.
    """
    if classifier.problem_type == REGRESSION:
        write_predictions_table(path, classifier.labels, map(cells, scores), examples)
        return
    rows = ([join_names(names_of(classifier, row)), *cells(row)] for row in scores)
    write_predictions_table(path, ["label", *classifier.labels], rows, examples)


TASKS = (TextClassification,)
