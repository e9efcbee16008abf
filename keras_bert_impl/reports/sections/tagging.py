"""Report sections for tagging: scores, entity types or labels, and sentences with errors."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_bert_impl.data.scores.statistics import class_scores, confusion, ratios
from keras_bert_impl.data.tags.examples import read_tag_predictions
from keras_bert_impl.data.tags.spans import Span, read_labels, spans_of
from keras_bert_impl.reports import page
from keras_bert_impl.reports.page import Html, Section, escape
from keras_bert_impl.reports.run_files import (
    MOST_EXPLAINED,
    Subject,
    explanation,
    stored_predictions,
)
from keras_bert_impl.reports.sections.classification import confusion_section
from keras_bert_impl.reports.sections.scores import resampled, scores_section
from keras_bert_impl.utils.io.paths import without_folders

_MOST_ERRORS = 20
_MOST_WORDS = 150  # maximum number of words per sentence


def sections(subject: Subject) -> list[Section]:
    predictions = _read_tags(subject)
    if predictions is None:
        return []
    true_labels = subject.examples.labels
    labels = {label for rows in (true_labels, predictions) for row in rows for label in row}
    names = sorted(labels)
    right = [
        np.mean(np.array(a) == np.array(b)) * len(a) for a, b in zip(true_labels, predictions) if a
    ]
    words = np.array([[count, len(a)] for count, a in zip(right, filter(None, true_labels))])
    accuracy = resampled("accuracy of words", _compute_share, words)
    scored, note = subject.scored_as("sentences"), "Sentences are resampled, not words."
    labels |= {*(subject.examples.label_names or ()), *getattr(subject.model, "labels", ())}
    entity_labels = read_labels(labels)
    if entity_labels is None:
        return [
            scores_section([accuracy], scored, note),
            *_render_labels(names, true_labels, predictions),
        ]
    true_spans, predicted_spans = (
        [set(spans_of(row, parts=entity_labels.parts)) for row in rows]
        for rows in (true_labels, predictions)
    )
    counts = np.array([[len(w & f), len(w), len(f)] for w, f in zip(true_spans, predicted_spans)])
    parts = {"entity F1": 2, "precision": 0, "recall": 1}
    scores = [
        resampled(name, lambda c, part=part: ratios(*c.sum(axis=0))[part], counts)
        for name, part in parts.items()
    ]
    return [
        scores_section([*scores, accuracy], scored, note),
        _render_types(true_spans, predicted_spans),
        _render_errors(subject, true_spans, predicted_spans),
    ]


def _read_tags(subject):
    """Reads the predicted labels of each sentence, or predicts them if there is no file."""
    path = stored_predictions(subject)
    if path is not None:
        return read_tag_predictions(path)
    return None if subject.model is None else subject.model.tag(subject.examples.texts)


def _compute_share(counts):
    return counts[:, 0].sum() / max(counts[:, 1].sum(), 1)


def _render_labels(names, true_labels, predictions):
    """Returns the sections for labels that are not entities, such as part-of-speech tags."""
    places = {name: number for number, name in enumerate(names)}
    true, predicted = (
        [places[x] for row in rows for x in row] for rows in (true_labels, predictions)
    )
    counts = confusion(np.array(true), np.array(predicted), len(names))
    headings = ["label", "precision", "recall", "F1", "words"]
    rows = [
        [score.name, *map(page.score, score[1:4]), score.support]
        for score in class_scores(names, counts)
    ]
    return [Section("Labels", page.table(headings, rows)), confusion_section(names, counts)]


def _render_types(true_spans, predicted_spans):
    counts = [
        Counter(span.type for row in rows for span in row) for rows in (true_spans, predicted_spans)
    ]
    hits = Counter(span.type for w, f in zip(true_spans, predicted_spans) for span in w & f)
    rows = [
        [
            name,
            *map(page.score, ratios(hits[name], counts[0][name], counts[1][name])),
            counts[0][name],
        ]
        for name in sorted(counts[0] | counts[1])
    ]
    headings = ["type", "precision", "recall", "F1", "entities"]
    return Section("Types", page.table(headings, rows))


def _render_errors(subject, true_spans, predicted_spans):
    differing = np.array([len(w ^ f) for w, f in zip(true_spans, predicted_spans)])
    order = [row for row in np.argsort(-differing, kind="stable") if differing[row]]
    boxes = []
    for place, row in enumerate(order[:_MOST_ERRORS]):
        words = subject.examples.texts[row]
        lines: list[tuple[str, Any]] = [
            ("true", marked(words, true_spans[row], true_spans[row] - predicted_spans[row])),
            (
                "predicted",
                marked(words, predicted_spans[row], predicted_spans[row] - true_spans[row]),
            ),
            ("source", without_folders(subject.examples.where(int(row)))),
        ]
        wrong = sorted(predicted_spans[row] - true_spans[row], key=lambda span: span.start)
        if subject.model is not None and place < MOST_EXPLAINED and wrong:
            lines.append(("words", explanation(subject.model, words, (wrong[0].start, None))))
        boxes.append(page.example(lines))
    text = (
        f"{len(order):,} of {len(true_spans):,} sentences have missed or wrong entities. The "
        "sentences with the most errors come first. Errors are orange and underlined with a dashed "
        'line: missed entities in "true", and wrong entities in "predicted".'
    )
    if not order:
        text = f"No errors on {len(true_spans):,} sentences."
    return Section("Worst errors", page.paragraph(text) + "".join(boxes))


def marked(words: Sequence[str], spans: set[Span], wrong: set[Span]) -> Html:
    """Returns the words of a sentence with marked entities; those in `wrong` are highlighted."""
    parts, position = [], 0
    for span in sorted(spans, key=lambda span: span.start):
        if span.end > _MOST_WORDS:
            break
        parts += [escape(word) for word in words[position : span.start]]
        kind = ' class="wrong"' if span in wrong else ""
        inside = escape(" ".join(words[span.start : span.end]))
        parts.append(f"<mark{kind}>{inside}<small>{escape(span.type)}</small></mark>")
        position = span.end
    parts += [escape(word) for word in words[position:_MOST_WORDS]]
    hidden_count = len(words) - max(position, _MOST_WORDS)
    ending = f"<small> … {hidden_count:,} more words</small>" if hidden_count > 0 else ""
    return Html(f'<bdi class="text">{" ".join(parts)}</bdi>{ending}')
