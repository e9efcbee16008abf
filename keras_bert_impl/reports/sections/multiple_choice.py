"""Report sections for multiple choice: the score, and wrong choices."""

import numpy as np

from keras_bert_impl.reports import page
from keras_bert_impl.reports.page import Html, Section, user_text
from keras_bert_impl.reports.run_files import Subject, read_predictions
from keras_bert_impl.reports.sections.classification import errors_html
from keras_bert_impl.reports.sections.scores import proportion, scores_section
from keras_bert_impl.utils.io.paths import without_folders

_MOST_ERRORS = 20


def sections(subject: Subject) -> list[Section]:
    probabilities, answers = _read_probabilities(subject), subject.examples.labels
    if probabilities is None or answers is None:
        return []
    if any(np.isnan(row).any() for row in probabilities):
        text = "Some scores are NaN: the training diverged. Lower the learning rate."
        return [Section("Scores", page.paragraph(text))]
    choices = np.array([row.argmax() for row in probabilities])
    is_right = choices == np.array(answers)
    first = scores_section([proportion("accuracy", is_right)], subject.scored_as("examples"))
    return [first, _render_errors(subject, probabilities, choices, is_right)]


def _read_probabilities(subject):
    """Reads the probabilities `[endings]` of each prompt, or predicts them if there is no file."""
    table = read_predictions(subject)
    if table is None:
        model = subject.model
        return None if model is None else model.predict(subject.examples.texts, verbose=0)
    _, rows = table
    return [np.array([cell for cell in row[1:] if cell], "float64") for row in rows]


def _render_errors(subject, probabilities, choices, is_right):
    examples, boxes = subject.examples, []
    answers = np.array(examples.labels)
    answer_scores = np.array(
        [row[answer] for row, answer in zip(probabilities, answers, strict=True)]
    )
    wrong = np.flatnonzero(~is_right)
    for row in wrong[np.argsort(answer_scores[wrong], kind="stable")][:_MOST_ERRORS]:
        prompt, endings = examples.texts[row]
        shares = [
            Html(f"{user_text(ending)} ({share:.1%})")
            for ending, share in zip(endings, probabilities[row], strict=True)
        ]
        other_endings = [
            shares[n] for n in range(len(shares)) if n not in (answers[row], choices[row])
        ]
        lines = [
            ("prompt", user_text(prompt)),
            ("true", shares[answers[row]]),
            ("predicted", shares[choices[row]]),
            ("others", Html("<br>".join(other_endings))),
            ("source", without_folders(_locate_example(examples, int(row)))),
        ]
        boxes.append(page.example(lines if other_endings else lines[:3] + lines[4:]))
    return Section("Worst errors", errors_html(len(wrong), len(answers), boxes, None))


def _locate_example(examples, row):
    if examples.lines is None:
        return f"{examples.source}, example {row}"
    return f"{examples.source}, {examples.unit} {examples.lines[row]}"
