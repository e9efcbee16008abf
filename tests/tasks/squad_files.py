"""Small files in SQuAD format."""

import json
import random

CONTEXT = "Ann met Bob in Zürich 🙂 on a Monday. Bob left."
ANSWERS = [("Zürich", 15), ("Monday", 29)]


def question(name="q0", answers=ANSWERS[:1], **fields):
    answers = [{"text": text, "answer_start": start} for text, start in answers]
    return {"id": name, "question": "Where did they meet?", "answers": answers} | fields


def document(*questions, context=CONTEXT):
    paragraph = {"context": context, "qas": list(questions)}
    return {"version": "1.1", "data": [{"title": "People", "paragraphs": [paragraph]}]}


def write(path, content, encoding="utf-8"):
    path.write_text(json.dumps(content, ensure_ascii=False), encoding=encoding)
    return path


def some_questions(count=60):
    """A SQuAD 2.0 document, predictions of every kind, and null odds with ties.

    Depends on nothing but `random.Random(0)`.
    """
    draw = random.Random(0)
    words = "the An old, cat! sat on a mat (and U.S. the) cat".split()
    questions, predictions, odds = [], {}, {}
    context = " ".join(words * 3)
    for number in range(count):
        text = " ".join(words[(begin := draw.randrange(8)) : begin + draw.randrange(1, 5)])
        word = draw.choice(words)
        is_impossible = draw.random() < 0.4
        answers = [] if is_impossible else [(t, context.index(t)) for t in (text, word)]
        questions.append(question(f"q{number}", answers, is_impossible=is_impossible))
        predictions[f"q{number}"] = draw.choice(
            [text, word, f"{text} {word}", "", "the", text.upper() + "?", "dog"]
        )
        odds[f"q{number}"] = draw.randrange(-3, 4) + (1.5 if is_impossible else 0.0)
    return document(*questions, context=context), predictions, odds
