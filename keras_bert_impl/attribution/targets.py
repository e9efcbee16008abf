"""The output of a task model that is attributed to words."""

from collections.abc import Callable
from typing import Any

import numpy as np
from keras import ops

from keras_bert_impl.attribution.rows import TextRow
from keras_bert_impl.io.errors import InputError, listed
from keras_bert_impl.tasks.base.options import SINGLE
from keras_bert_impl.tasks.question_answering.model import QuestionAnswerer
from keras_bert_impl.tasks.tagging.token_classifier import TokenClassifier
from keras_bert_impl.tasks.text_classification.model import TextClassifier

MODELS = (TextClassifier, TokenClassifier, QuestionAnswerer)
Objective = Callable[[Any], Any]  # of the network's outputs to float32 [batch]


def find_target(model: Any, row: TextRow, outputs: Any, target: Any) -> tuple[str, Objective]:
    """Returns the name of the target and the function that computes it."""
    if isinstance(model, TextClassifier):
        return _class(model, outputs, target)
    if isinstance(model, TokenClassifier):
        return _tag(model, row, outputs, target)
    return _answer(model, row, outputs, target)


def _class(model, outputs, target):
    number = _number(model.labels, target)
    number = int(np.argmax(outputs[0])) if number is None else number
    if model.problem_type == SINGLE and len(model.labels) > 1:
        return model.labels[number], lambda logits: _log_odds(logits, number)
    return model.labels[number], lambda logits: logits[:, number]


def _tag(model, row, outputs, target):
    word, label = target if isinstance(target, tuple) else (target, None)
    firsts = [int(np.argmax(row.word_of == number)) for number in range(len(row.words))]
    scores = ops.convert_to_numpy(ops.softmax(outputs[0]))[firsts]  # [words, labels]
    if word is None:  # the surest word that is not outside
        marked = scores.copy()
        marked[:, model.unknown_label] = -1
        place = int(marked.max(axis=1).argmax())
    elif word in row.numbers:
        place = row.numbers.index(word)
    else:
        raise InputError(
            "target must be the index of a word that the model sees, from 0, or (index, label). "
            f"Received: target={target!r:.60}"
        )
    number = _number(model.labels, label)
    number = int(scores[place].argmax()) if number is None else number
    name = f"{row.words[place].text}/{model.labels[number]}"
    return name, lambda logits: _log_odds(logits[:, firsts[place]], number)


def _answer(model, row, outputs, target):
    if target is not None:
        raise InputError("a QuestionAnswerer takes no target: its best answer is attributed.")
    is_context = [word >= 0 and row.words[word].segment == 1 for word in row.word_of]
    places = np.flatnonzero(is_context)
    if not len(places):
        raise InputError("the context has no words.")
    starts, ends = np.asarray(outputs)[0][:, places]  # [context tokens] each
    sums = starts[:, None] + ends[None]
    distance = np.arange(len(places))[None] - np.arange(len(places))[:, None]
    sums[(distance < 0) | (distance >= model.max_answer_length)] = -np.inf
    start, end = (places[place] for place in np.unravel_index(sums.argmax(), sums.shape))
    answer = row.words[row.word_of[start] : row.word_of[end] + 1]
    name = " ".join(word.text for word in answer)
    return name, lambda logits: logits[:, 0, start] + logits[:, 1, end]


def _number(labels, target):
    """Returns the index of a label name or number; None for None."""
    if target is None:
        return None
    if target in labels:
        return labels.index(target)
    is_number = isinstance(target, (int, np.integer)) and not isinstance(target, bool)
    if not is_number or not 0 <= target < len(labels):
        raise InputError(f"target must be one of {listed(labels)}. Received: target={target!r:.60}")
    return int(target)


def _log_odds(logits, number):
    others = ops.concatenate([logits[:, :number], logits[:, number + 1 :]], axis=1)
    return logits[:, number] - ops.logsumexp(others, axis=1)
