"""Report sections for question answering: scores, and wrong answers in their contexts."""

from typing import Any

import numpy as np

from keras_bert_impl.data.prediction_files import read_column
from keras_bert_impl.data.scores.squad import scores_of_questions
from keras_bert_impl.reports import charts, page
from keras_bert_impl.reports.page import Html, Section, escape, user_text
from keras_bert_impl.reports.run_files import (
    MOST_EXPLAINED,
    Subject,
    explanation,
    stored_predictions,
)
from keras_bert_impl.reports.sections.scores import proportion, resampled, scores_section

_MOST_ERRORS = 20
_WINDOW = 160  # number of context characters on each side of an answer


def sections(subject: Subject) -> list[Section]:
    answers = _read_answers(subject)
    if answers is None:
        return []
    examples = subject.examples
    texts = dict(zip(examples.ids, answers))
    scores = 100 * np.column_stack(scores_of_questions(examples, texts))  # in percent
    metric_scores = [
        proportion("exact match", scores[:, 0] == 100, scale=100),
        resampled("F1", np.mean, scores[:, 1]),
    ]
    section = scores_section(metric_scores, f"{subject.scored_as('questions')}, in percent")
    return [
        section,
        _group_by_first_word(examples, scores),
        _render_errors(subject, answers, scores),
    ]


def _read_answers(subject):
    """Reads the predicted answer to each question, or predicts the answers if there is no file."""
    path = stored_predictions(subject)
    if path is not None:
        return [answer for _, answer in read_column(path, "answer")]
    return None if subject.model is None else subject.model.answer(subject.examples.pairs)


def _group_by_first_word(examples, scores):
    kinds: dict[str, list[int]] = {}
    for row, question in enumerate(examples.questions):
        kinds.setdefault(question.split()[0].lower() if question.split() else "", []).append(row)
    largest = sorted(kinds.items(), key=lambda item: -len(item[1]))[:10]
    rows = [[kind, len(of), float(scores[of, 0].mean()), float(scores[of, 1].mean())]
            for kind, of in largest]  # fmt: skip
    headings = ["first word", "questions", "exact match", "F1"]
    values = [row[3] for row in rows]
    picture = charts.bars("questions", "F1 by first word", [r[0] for r in rows], values, "")
    html = page.table(headings, rows) + page.charts([picture])
    return Section("Questions", html, [picture])


def _render_errors(subject, answers, scores):
    examples, boxes = subject.examples, []
    wrong = np.flatnonzero(scores[:, 0] == 0)
    order = wrong[np.argsort(scores[wrong, 1], kind="stable")]
    for place, row in enumerate(order[:_MOST_ERRORS]):
        lines: list[tuple[str, Any]] = [
            ("question", user_text(examples.questions[row])),
            ("context", window(examples.contexts[row], examples.answers[row], answers[row])),
            ("true", " / ".join(dict.fromkeys(t for t, _ in examples.answers[row])) or "no answer"),
            ("predicted", answers[row] or "no answer"),
        ]
        if subject.model is not None and place < MOST_EXPLAINED:
            lines.append(("words", explanation(subject.model, examples.pairs[row])))
        boxes.append(page.example(lines))
    text = (
        f"{len(wrong):,} of {len(scores):,} answers are not an exact match. The lowest F1 comes "
        "first. In the context, the true answer is underlined with a solid line, and the predicted "
        "answer with a dashed line."
    )
    if not len(wrong):
        text = f"No errors on {len(scores):,} questions."
    return Section("Worst errors", page.paragraph(text) + "".join(boxes))


def window(context: str, answers: list[tuple[str, int]], predicted: str) -> Html:
    """Returns the context around the true and the predicted answer, with both marked."""
    spans = [(start, start + len(text), False) for text, start in answers[:1]]
    middle = spans[0][0] if spans else 0
    starts = [n for n in range(len(context)) if predicted and context.startswith(predicted, n)]
    if starts:
        start = min(starts, key=lambda n: abs(n - middle))
        spans.append((start, start + len(predicted), True))
    low = max(0, min((span[0] for span in spans), default=0) - _WINDOW)
    high = max((span[1] for span in spans), default=0) + _WINDOW
    # The context is split at every boundary, because answers may overlap.
    inside = (place for span in spans for place in span[:2])
    borders = sorted({low, min(high, len(context)), *inside})
    parts = []
    for start, end in zip(borders, borders[1:]):
        text = escape(context[start:end])
        kinds = {wrong for first, last, wrong in spans if first <= start and end <= last}
        for wrong in sorted(kinds):
            text = f'<mark class="wrong">{text}</mark>' if wrong else f"<mark>{text}</mark>"
        parts.append(text)
    before, after = "… " * (low > 0), " …" * (high < len(context))
    return Html(f'<bdi class="text">{before}{"".join(parts)}{after}</bdi>')
