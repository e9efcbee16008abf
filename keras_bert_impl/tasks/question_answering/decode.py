"""Decoding of window logits: the n-best answer spans of each context, and the null answer.

Shape legend: rows = windows of all questions; length = tokens of a row, padding included;
spans = (start, end) pairs of all rows.
"""

import dataclasses

import numpy as np

from keras_bert_impl.tasks.scores.decisions import check_scores

_QUESTIONS = 64  # questions decoded at once; the spans of each take 85 KB


@dataclasses.dataclass(frozen=True)
class Answer:
    """A candidate answer: a span of the context.

    Attributes:
        text: str; "" for no answer.
        start, end: int. The answer is `context[start:end]`.
        score: float. Probability among the n-best answers.
        start_logit, end_logit: float, of its first and last token; for no answer those of
            `[CLS]`, in the window where their sum is lowest.
    """

    text: str
    start: int
    end: int
    score: float
    start_logit: float
    end_logit: float


def n_best_answers(
    logits, windows, contexts, num_best=20, max_answer_length=30, with_null=False
):
    """Returns the best answers to each question, over all windows of its context.

    Args:
        logits: float32 [rows, 2, length], of starts and of ends.
        windows: `TokenizedWindows` of (question, context) pairs, with `rows` windows.
        contexts: list of str.
        num_best: int. Maximum number of answers per question, and of candidate starts and ends per
            window.
        max_answer_length: int. Maximum answer length in tokens.
        with_null: bool. Whether to always include "" among the answers.

    Returns:
        list of lists of up to `num_best` `Answer`s with distinct texts, best first; at least one
        for each question, "" if there is no other. With `with_null`, "" is appended as an extra
        answer if it is not among the best.

    Raises:
        UndefinedScoresError: a logit is NaN or infinite.

    Source: Devlin et al., "BERT", sections 4.2 and 4.3, and the published code, `run_squad.py`.
    """
    _check_logits(logits, windows)
    nulls = least_nulls(logits, windows.texts, len(contexts)).tolist()
    columns = windows.columns()
    answers = []
    for first in range(0, len(contexts), _QUESTIONS):
        block = range(first, min(first + _QUESTIONS, len(contexts)))
        spans = _spans_of(block, logits, windows, columns, num_best, max_answer_length)
        for number, own in zip(block, spans):
            best = _distinct(contexts[number], own, num_best)
            if with_null:
                best = _with_null(best, ("", 0, 0, *nulls[number]), num_best)
            answers.append(_answers(best or [("", 0, 0, 0.0, 0.0)]))
    return answers


def _spans_of(block, logits, windows, columns, num_best, max_answer_length):
    """Returns the spans of a block of questions, best first.

    Args:
        block: range of question numbers.
        columns: result of `windows.columns()`.
        logits, windows, num_best, max_answer_length: see `n_best_answers`.

    Returns:
        list (questions) of iterators of (start, end, start logit, end logit), in characters.
    """
    first_row, end_row = np.searchsorted(windows.texts, [block.start, block.stop])
    logits = logits[first_row:end_row]
    tokens, can_start = _places(windows, columns, first_row, logits[:, 0].shape)
    rows, starts, ends = best_spans(logits, can_start, tokens >= 0, num_best, max_answer_length)
    values = logits[rows, 0, starts].astype("float64"), logits[rows, 1, ends].astype("float64")
    questions = windows.texts[first_row + rows]
    # Stable sort: on ties, the earlier window and the higher start logit come first.
    order = np.lexsort((-(values[0] + values[1]), questions))
    first_tokens = windows.text_splits[questions]
    spans = [
        windows.token_starts[first_tokens + tokens[rows, starts]],
        windows.token_ends[first_tokens + tokens[rows, ends]],
        *values,
    ]
    spans = [column[order].tolist() for column in spans]
    splits = np.searchsorted(questions[order], [*block, block.stop]).tolist()
    return [
        zip(*(column[start:end] for column in spans)) for start, end in zip(splits, splits[1:])
    ]


def _check_logits(logits, windows):
    if not np.isfinite(logits).all():
        of_questions = np.zeros(windows.texts.max() + 1)
        is_wrong = ~np.isfinite(logits).all(axis=(1, 2))
        of_questions[windows.texts[is_wrong]] = np.nan
        check_scores(of_questions, "question")


def best_spans(logits, can_start, can_end, num_best, max_answer_length):
    """Returns the spans between the highest starts and the highest ends of each window.

    Args:
        logits: float32 [rows, 2, length].
        can_start, can_end: bool [rows, length], where an answer may start and end.
        num_best: int. Number of starts and of ends that are combined.
        max_answer_length: int. Maximum span length in tokens.

    Returns:
        (rows, starts, ends): int64 [spans] each; starts and ends are columns, both inclusive.
    """
    starts = _highest(np.where(can_start, logits[:, 0], -np.inf), num_best)  # [rows, num_best]
    ends = _highest(np.where(can_end, logits[:, 1], -np.inf), num_best)
    before = (ends[:, None, :] - starts[:, :, None]).astype("int32")  # [rows, starts, ends]
    is_span = (before >= 0) & (before < max_answer_length)
    is_span &= np.take_along_axis(can_start, starts, axis=1)[:, :, None]
    is_span &= np.take_along_axis(can_end, ends, axis=1)[:, None, :]
    rows, i, j = np.nonzero(is_span)
    return rows, starts[rows, i], ends[rows, j]


def least_nulls(logits, texts, num_texts):
    """Returns the `[CLS]` logits of each text, in the window where their sum is lowest.

    Args:
        logits: float32 [rows, 2, length].
        texts: int64 [rows], ascending, text of each window.
        num_texts: int. Each text must have a window.

    Returns:
        float64 [num_texts, 2].
    """
    nulls = logits[:, :, 0].astype("float64")  # [rows, 2]
    order = np.lexsort((nulls.sum(axis=1), texts))
    return nulls[order[np.searchsorted(texts[order], np.arange(num_texts))]]


def null_odds(answers):
    """Returns the null score minus the score of the best answer with a text.

    Args:
        answers: list of `Answer` of one question, including "".

    Returns:
        float.
    """
    null = next(answer for answer in answers if not answer.text)
    best = next((answer for answer in answers if answer.text), None)
    score = null.start_logit + null.end_logit
    return score if best is None else score - best.start_logit - best.end_logit


def best_text(answers, null_threshold=None):
    """Returns the text of the best answer to one question.

    Args:
        answers: list of `Answer`.
        null_threshold: float. Returns "" if `null_odds` exceeds it; if None, only if there is no
            other answer.

    Returns:
        str.
    """
    if null_threshold is not None and null_odds(answers) > null_threshold:
        return ""
    return next((answer.text for answer in answers if answer.text), "")


def _places(windows, columns, first_row, shape):
    """Returns (tokens, can_start), int32 and bool [rows, length], for the rows from `first_row` on.

    `tokens` is the index of each position's token in the context, -1 elsewhere; `can_start` whether
    the token has the most context in this window.
    """
    rows, columns = columns
    own = slice(*np.searchsorted(rows, [first_row, first_row + shape[0]]))
    place = rows[own] - first_row, columns[own]
    tokens = np.full(shape, -1, "int32")
    can_start = np.zeros(shape, bool)
    tokens[place] = windows.tokens[own]
    can_start[place] = windows.has_most_context[own]
    return tokens, can_start


def _highest(values, count):
    """Returns int64 [rows, count]: columns of the highest values, the first ones on ties."""
    return np.argsort(-values, axis=1, kind="stable")[:, :count]


def _distinct(context, spans, count):
    """Returns the first `count` character spans with distinct texts.

    Spans are stripped of white space, which subwords may contain; empty ones, of characters that
    are several subwords, are dropped.

    Args:
        context: str.
        spans: iterable of (start, end, start logit, end logit).
        count: int.

    Returns:
        list of (text, start, end, start logit, end logit).
    """
    found = {}
    for start, end, *logits in spans:
        text = context[start:end].strip()
        if text and text not in found:
            start = context.index(text, start)
            found[text] = (text, start, start + len(text), *logits)
            if len(found) == count:
                break
    return list(found.values())


def _with_null(best, null, count):
    ranked = sorted([*best, null], key=_total, reverse=True)[:count]
    return ranked if null in ranked else [*ranked, null]


def _answers(spans):
    """Converts the result of `_distinct` to `Answer`s, with a softmax over all of them as score."""
    totals = np.array([_total(span) for span in spans])
    scores = np.exp(totals - totals.max())
    scores = (scores / scores.sum()).tolist()
    return [Answer(*span[:3], score, *span[3:]) for span, score in zip(spans, scores)]


def _total(span):
    return span[3] + span[4]
