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
    found, answers = _probabilities(subject), subject.examples.labels
    if found is None or answers is None:
        return []
    if any(np.isnan(row).any() for row in found):
        text = "Some scores are NaN: the training diverged. Lower the learning rate."
        return [Section("Scores", page.paragraph(text))]
    chosen = np.array([row.argmax() for row in found])
    is_right = chosen == np.array(answers)
    first = scores_section([proportion("accuracy", is_right)], subject.scored_as("examples"))
    return [first, _errors(subject, found, chosen, is_right)]


def _probabilities(subject):
    """Reads the probabilities `[endings]` of each prompt, or predicts them if there is no file."""
    found = read_predictions(subject)
    if found is None:
        model = subject.model
        return None if model is None else model.predict(subject.examples.texts, verbose=0)
    _, rows = found
    return [np.array([cell for cell in row[1:] if cell], "float64") for row in rows]


def _errors(subject, found, chosen, is_right):
    examples, boxes = subject.examples, []
    answers = np.array(examples.labels)
    of_answers = np.array([row[answer] for row, answer in zip(found, answers, strict=True)])
    wrong = np.flatnonzero(~is_right)
    for row in wrong[np.argsort(of_answers[wrong], kind="stable")][:_MOST_ERRORS]:
        prompt, endings = examples.texts[row]
        shares = [
            Html(f"{user_text(ending)} ({share:.1%})")
            for ending, share in zip(endings, found[row], strict=True)
        ]
        others = [shares[n] for n in range(len(shares)) if n not in (answers[row], chosen[row])]
        lines = [
            ("prompt", user_text(prompt)),
            ("true", shares[answers[row]]),
            ("predicted", shares[chosen[row]]),
            ("others", Html("<br>".join(others))),
            ("source", without_folders(_where(examples, int(row)))),
        ]
        boxes.append(page.example(lines if others else lines[:3] + lines[4:]))
    return Section("Worst errors", errors_html(len(wrong), len(answers), boxes, None))


def _where(examples, row):
    if examples.lines is None:
        return f"{examples.source}, example {row}"
    return f"{examples.source}, {examples.unit} {examples.lines[row]}"
