"""Report sections for text classification, such as scores, confusion matrix and errors."""

import csv
from collections.abc import Hashable
from typing import Any, NamedTuple

import numpy as np

from keras_bert_impl.data.scores.comparison import Outcome
from keras_bert_impl.data.scores.metrics import (
    METRICS,
    MULTI_LABEL_METRICS,
    class_metrics,
    metric_named,
)
from keras_bert_impl.data.scores.statistics import (
    by_threshold,
    calibration,
    calibration_error,
    class_scores,
    confusion,
    ratios,
)
from keras_bert_impl.data.tables.splits import same_text
from keras_bert_impl.reports import charts, page
from keras_bert_impl.reports.page import Html, Section, escape, number, user_text
from keras_bert_impl.reports.run_files import (
    MOST_EXPLAINED,
    Subject,
    explanation,
    read_predictions,
)
from keras_bert_impl.reports.sections.scores import Score, score_of, scores_section
from keras_bert_impl.utils.io.paths import without_folders

_MOST_CELLS = 20  # maximum number of classes in a confusion matrix
_MOST_ERRORS = 20


class Predicted(NamedTuple):
    """Predictions of a run for labeled examples.

    Attributes:
        names: class names.
        scores: float `[examples, classes]`.
        chosen: predicted class indices `[examples]`, or bool `[examples, classes]` for multi-label
            classification; None for regression.
    """

    names: list[str]
    scores: np.ndarray
    chosen: np.ndarray | None


def predicted_scores(subject: Subject) -> Predicted | None:
    table = read_predictions(subject)
    if table is None:
        if subject.model is None:
            return None
        names = [str(name) for name in subject.model.labels]
        scores = np.asarray(subject.model.predict(subject.examples.texts, verbose=0))
        is_numeric = subject.examples.is_numeric
        return Predicted(names, scores, None if is_numeric else subject.model.decide(scores))
    headings, rows = table
    first = 1 if headings[:1] == ["label"] else 0
    names, cells = headings[first:], [row[first:] for row in rows]
    scores = np.array(cells, "float64").reshape(len(rows), -1)
    labels = [row[0] for row in rows] if first else []
    return Predicted(names, scores, _convert_labels(names, scores, labels, subject.examples))


def _convert_labels(names, scores, labels, examples):
    """Converts predicted labels to `Predicted.chosen`."""
    if examples.is_numeric:
        return None
    if examples.is_multi_label:
        sets = (set(next(csv.reader([label]), [])) for label in labels)
        return np.array([[name in label_set for name in names] for label_set in sets]).reshape(
            scores.shape
        )
    # An example with NaN scores has no predicted label.
    places = {name: place for place, name in enumerate(names)}
    return np.array([places.get(label, row.argmax()) for label, row in zip(labels, scores)], int)


def outcome(subject: Subject) -> Outcome | None:
    predicted = predicted_scores(subject)
    return None if predicted is None else _build_outcome(subject, *predicted)


def _build_outcome(subject, names, scores, choices):
    examples, is_multi_label = subject.examples, subject.examples.is_multi_label
    default: tuple[str, ...] = ("accuracy", "macro_f1")
    if is_multi_label:
        default = tuple(MULTI_LABEL_METRICS)
        labels, predictions = examples.multi_hot(names) > 0.5, choices > 0
    elif examples.is_numeric:
        default = ("pearson", "spearman", "mean_squared_error")
        labels, predictions = np.array(examples.labels, "float64"), scores[:, 0]
    else:
        labels, predictions = examples.class_numbers(names), choices
    metric_names = {*METRICS, *default, *class_metrics(names)}
    in_run = [name for name in subject.run.scores if name in metric_names]
    metrics = {
        name: metric_named(name, names, is_multi_label)
        for name in in_run or examples.metrics or default
    }
    return Outcome(labels, predictions, metrics, scores)


def sections(subject: Subject) -> list[Section]:
    predicted = predicted_scores(subject)
    if predicted is None:
        return []
    names, scores, _ = predicted
    if np.isnan(scores).any():
        text = "Some scores are NaN: the training diverged. Lower the learning rate."
        return [Section("Scores", page.paragraph(text))]
    result = _build_outcome(subject, *predicted)
    first = scores_section(scores_of(result), subject.scored_as("examples"))
    if subject.examples.is_numeric:
        return [first, *_render_regression(subject, result)]
    if subject.examples.is_multi_label:
        return [first, *_render_multi_label(subject, names, scores, result)]
    labels, predictions = result.labels, result.predictions
    counts = confusion(labels, predictions, len(names))
    parts = [
        first,
        _render_classes(class_scores(names, counts)),
        confusion_section(names, counts),
        _render_reliability(scores.max(axis=1), labels == scores.argmax(axis=1)),
    ]
    if len(names) == 2:
        parts.append(_render_thresholds(subject.model, names, labels, scores))
    loss = -np.log(np.maximum(scores[np.arange(len(labels)), labels], 1e-30))
    wrong = np.flatnonzero(labels != predictions)
    order = wrong[np.argsort(-loss[wrong], kind="stable")]
    return [*parts, _render_errors(subject, predicted, labels, order)]


def scores_of(result: Outcome) -> list[Score]:
    return [
        score_of(name, metric, result.labels, result.column(name))
        for name, metric in result.metrics.items()
    ]


def _render_classes(scores):
    rows = [
        [score.name, *map(page.score, (score.precision, score.recall, score.f1)), score.support]
        for score in scores
    ]
    headings = ["class", "precision", "recall", "F1", "examples"]
    return Section("Classes", page.table(headings, rows))


def confusion_section(names: list[str], counts: np.ndarray) -> Section:
    """Returns the confusion matrix. With many classes, lists only the most frequent confusions."""
    if len(names) > _MOST_CELLS:
        return Section("Confusion", _list_confused_pairs(names, counts))
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in names)
    lines = []
    for row, name in enumerate(names):
        cells = "".join(
            f'<td class="cell" style="background:rgba(var(--{"for" if row == column else "against"})'
            f',{0.5 * shares[row, column]:.3f})">{counts[row, column]:,}</td>'
            for column in range(len(names))
        )
        lines.append(f'<tr><th scope="row">{escape(name)}</th>{cells}</tr>')
    html = page.paragraph(
        "Rows: true classes. Columns: predicted classes. Shading: fraction of the row."
    )
    html += (
        '<div class="scroll" tabindex="0" role="region" aria-label="Confusion matrix"><table>'
        f"<thead><tr><td></td>{head}</tr></thead><tbody>{''.join(lines)}</tbody>"
        "</table></div>"
    )
    picture = charts.matrix("confusion", "Confusion matrix", names, counts)
    return Section("Confusion", html, [picture])


def _list_confused_pairs(names, counts):
    wrong = counts - np.diag(np.diag(counts))
    order = np.argsort(-wrong, axis=None, kind="stable")[:_MOST_CELLS]
    pairs = [divmod(int(place), len(names)) for place in order]
    rows = [[names[t], names[p], int(wrong[t, p])] for t, p in pairs if wrong[t, p]]
    return page.table(["true", "predicted", "examples"], rows, "The most frequent confusions")


def _render_reliability(confidences, is_right):
    bins = calibration(confidences, is_right)[0]
    error, low, high = calibration_error(confidences, is_right)
    picture = charts.reliability("reliability", "Reliability", bins, "accuracy")
    rows = [[f"{b.low:.1f} to {b.high:.1f}", b.size, b.confidence, b.accuracy] for b in bins]
    headings = ["confidence", "examples", "mean confidence", "accuracy"]
    html = page.paragraph(
        f"Expected calibration error {error:.4f}, 95% interval [{low:.4f}, {high:.4f}]: the mean "
        "distance of the bars from the diagonal, weighted by the number of examples (10 bins of "
        "equal width). Bars below the diagonal show overconfidence, which keras-bert calibrate "
        "corrects."
    )
    html += page.charts([picture]) + page.details("as a table", page.table(headings, rows))
    return Section("Reliability", html, [picture])


def _render_thresholds(model, names, labels, scores):
    """Returns a section with precision and recall by threshold, for a binary classifier.

    If the model has a threshold, the section shows the class with the threshold. Otherwise, the
    section shows the class with fewer examples.
    """
    rare = int((labels == 1).sum() <= (labels == 0).sum())
    ((name, threshold),) = (model and model.thresholds or {names[rare]: None}).items()
    column = names.index(name)
    points = by_threshold(labels == column, scores[:, column])
    xs = [point.threshold for point in points]
    columns = {"precision": "s0", "recall": "s1", "f1": "s2"}
    series = [
        charts.Series(key.replace("f1", "F1"), xs, [getattr(point, key) for point in points], color)
        for key, color in columns.items()
    ]
    note = ""
    if threshold is not None:
        series.append(charts.Series("", (threshold, threshold), (0, 1), "muted"))
        note = f", {threshold:.4f} in this model (vertical line)"
    axes = charts.Axis(f"threshold of {name}", (0, 1)), charts.Axis("score", (0, 1))
    picture = charts.curves("thresholds", "Precision and recall by threshold", series, *axes)
    best = max(points, key=lambda point: point.f1)
    html = page.paragraph(
        f"{name} is predicted if its probability is at least the threshold{note}. The best F1 "
        f"on these examples, {best.f1:.4f}, is at {best.threshold:.2f}. This F1 is optimistic, "
        "because the threshold was chosen on the same examples."
    )
    rows = [[o.threshold, number(o.precision), o.recall, o.f1] for o in points[::10]]
    table = page.table(["threshold", "precision", "recall", "F1"], rows)
    return Section("Thresholds", html + page.charts([picture]) + page.details("as a table", table),
                   [picture])  # fmt: skip


def _render_errors(subject, predictions, labels, order):
    names, scores, choices = predictions
    examples, boxes = subject.examples, []
    for place, row in enumerate(_drop_repeated_texts(examples.texts, order)[:_MOST_ERRORS]):
        true, predicted = labels[row], int(choices[row])
        lines: list[tuple[str, Any]] = [
            ("text", shown_text(examples.texts[row])),
            ("true", f"{names[true]} ({scores[row, true]:.1%})"),
            ("predicted", f"{names[predicted]} ({scores[row, predicted]:.1%})"),
            ("source", without_folders(examples.where(int(row)))),
        ]
        if subject.model is not None and place < MOST_EXPLAINED:
            lines.append(
                ("words", explanation(subject.model, examples.texts[row], names[predicted]))
            )
        boxes.append(page.example(lines))
    return Section("Worst errors", errors_html(len(order), len(labels), boxes, subject.model))


def _drop_repeated_texts(texts, rows):
    first_rows: dict[Hashable, int] = {}
    for row in rows:
        first_rows.setdefault(same_text(texts[row]), row)
    return list(first_rows.values())


def errors_html(wrong: int, count: int, boxes: list[str], model: Any) -> str:
    if not wrong:
        return page.paragraph(f"No errors on {count:,} examples.")
    text = f"{wrong:,} of {count:,} examples are wrong. The most confident errors come first."
    if model is not None:
        text += (
            " Blue (solid) words support the predicted label, orange (dashed) words oppose it "
            "(integrated gradients)."
        )
    return page.paragraph(text) + "".join(boxes)


def shown_text(text: Any) -> Html:
    """Returns the HTML of a text, or of the two texts of a pair."""
    parts = text if isinstance(text, (tuple, list)) else (text,)
    return Html("<br>".join(map(user_text, parts)))


# === Multi-label classification and regression ===


def _render_multi_label(subject, names, scores, result):
    labels, predictions = result.labels, result.predictions
    columns = zip(
        *(x.sum(axis=0).tolist() for x in (labels & predictions, labels, predictions)), strict=True
    )
    rows = [
        [name, *map(page.score, ratios(hits, true_count, predicted_count)), true_count]
        for name, (hits, true_count, predicted_count) in zip(names, columns, strict=True)
    ]
    distance = np.abs(labels - scores).sum(axis=1)
    wrong = np.flatnonzero((labels != predictions).any(axis=1))
    boxes = []
    order = wrong[np.argsort(-distance[wrong], kind="stable")]
    for row in _drop_repeated_texts(subject.examples.texts, order)[:_MOST_ERRORS]:
        sets = (
            [name for name, is_in in zip(names, of[row]) if is_in] for of in (labels, predictions)
        )
        true, predicted = (", ".join(label_names) or "none" for label_names in sets)
        text = shown_text(subject.examples.texts[row])
        boxes.append(page.example([("text", text), ("true", true), ("predicted", predicted)]))
    headings = ["label", "precision", "recall", "F1", "examples"]
    caption = "A label is predicted if its probability is at least its threshold, by default 0.5."
    return [
        Section("Classes", page.table(headings, rows, caption)),
        Section("Worst errors", errors_html(len(wrong), len(labels), boxes, None)),
    ]


def _render_regression(subject, result):
    labels, predictions = result.labels, result.predictions
    both = np.concatenate([labels, predictions])
    margin = 0.05 * (np.ptp(both) or 1.0)
    limits = float(both.min() - margin), float(both.max() + margin)
    axes = charts.Axis("true", limits), charts.Axis("predicted", limits)
    cloud = charts.Series("", labels, predictions)
    picture = charts.points("predicted", "Predicted against true", [cloud], *axes)
    worst = np.argsort(-np.abs(labels - predictions), kind="stable")[:_MOST_ERRORS]
    boxes = [
        page.example(
            [
                ("text", shown_text(subject.examples.texts[row])),
                ("true", number(float(labels[row]))),
                ("predicted", number(float(predictions[row]))),
            ]
        )
        for row in worst
    ]
    return [
        Section("Predictions", page.charts([picture]), [picture]),
        Section("Largest errors", "".join(boxes)),
    ]
