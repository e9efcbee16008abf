"""From the logits of windows to answers: the n-best spans of each context, and no answer.

Shape legend: rows = windows of all questions; length = tokens of a row, padding included;
spans = pairs of a start and an end of all rows.
"""

import dataclasses

import numpy as np

from keras_bert_impl.tasks.scores.decisions import check_scores

_QUESTIONS = 64  # whose spans are in memory at once, 85 KB each


@dataclasses.dataclass(frozen=True)
class Answer:
    """A part of a context that may answer a question.

    Attributes:
        text: str; "" for no answer.
        start, end: int. It is `context[start:end]`.
        score: float, its probability among the n-best answers.
        start_logit, end_logit: float, of its first and last token; for no answer those of
            `[CLS]`, in the window where their sum is least.
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
    """The best answers to each question, over all windows of its context.

    Args:
        logits: float32 [rows, 2, length], of starts and of ends.
        windows: `TokenizedWindows` of (question, context) pairs, in `rows` windows.
        contexts: list of str.
        num_best: int. Answers of a question; and starts, and ends, that are tried in a window.
        max_answer_length: int, tokens of the longest answer.
        with_null: bool. Whether "" is always among the answers.

    Returns:
        list of lists of up to `num_best` `Answer`s, best first, which differ in their texts; at
        least one for each question, if need be "". No answer comes last, and in addition, where it
        is not among the best.

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
    """The spans of a block of questions, best first.

    Args:
        block: range, the numbers of the questions.
        columns: what `windows.columns()` returns.
        logits, windows, num_best, max_answer_length: see `n_best_answers`.

    Returns:
        list (a question) of iterators of (start, end, start logit, end logit), in characters.
    """
    first_row, end_row = np.searchsorted(windows.texts, [block.start, block.stop])
    logits = logits[first_row:end_row]
    tokens, can_start = _places(windows, columns, first_row, logits[:, 0].shape)
    rows, starts, ends = best_spans(logits, can_start, tokens >= 0, num_best, max_answer_length)
    values = logits[rows, 0, starts].astype("float64"), logits[rows, 1, ends].astype("float64")
    questions = windows.texts[first_row + rows]
    # Stable: of equal spans the one of the earlier window, and with the higher start, is first.
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
    """The spans between the highest starts and the highest ends of each window.

    Args:
        logits: float32 [rows, 2, length].
        can_start, can_end: bool [rows, length], where an answer may start and end.
        num_best: int. So many starts are combined with so many ends.
        max_answer_length: int, tokens of the longest span.

    Returns:
        (rows, starts, ends): int64 [spans] each; start and end are columns, both in the span.
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
    """The logits of `[CLS]` of each text, in the window where their sum is least.

    Args:
        logits: float32 [rows, 2, length].
        texts: int64 [rows], ascending, the text of each window.
        num_texts: int, each of which has a window.

    Returns:
        float64 [num_texts, 2].
    """
    nulls = logits[:, :, 0].astype("float64")  # [rows, 2]
    order = np.lexsort((nulls.sum(axis=1), texts))
    return nulls[order[np.searchsorted(texts[order], np.arange(num_texts))]]


def null_odds(answers):
    """How much no answer is preferred: its score less that of the best answer with a text.

    Args:
        answers: list of `Answer`, of one question, with "" among them.

    Returns:
        float.
    """
    null = next(answer for answer in answers if not answer.text)
    best = next((answer for answer in answers if answer.text), None)
    score = null.start_logit + null.end_logit
    return score if best is None else score - best.start_logit - best.end_logit


def best_text(answers, null_threshold=None):
    """The text of the best answer of one question.

    Args:
        answers: list of `Answer`.
        null_threshold: float. "" where `null_odds` is above it; None for never, unless there is
            nothing else.

    Returns:
        str.
    """
    if null_threshold is not None and null_odds(answers) > null_threshold:
        return ""
    return next((answer.text for answer in answers if answer.text), "")


def _places(windows, columns, first_row, shape):
    """(tokens, can_start): int32 and bool [rows, length], of the rows from `first_row` on the
    number of each place's token in the context (-1 elsewhere), and whether it has most context in
    this window."""
    rows, columns = columns
    own = slice(*np.searchsorted(rows, [first_row, first_row + shape[0]]))
    place = rows[own] - first_row, columns[own]
    tokens = np.full(shape, -1, "int32")
    can_start = np.zeros(shape, bool)
    tokens[place] = windows.tokens[own]
    can_start[place] = windows.has_most_context[own]
    return tokens, can_start


def _highest(values, count):
    """int64 [rows, count]: columns of the highest values, of equal ones the first."""
    return np.argsort(-values, axis=1, kind="stable")[:, :count]


def _distinct(context, spans, count):
    """The first `count` spans of characters whose texts differ.

    Pieces may have white space, and those of which a character has several may be empty.

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
    """`Answer`s of what `_distinct` returns; a softmax over all of them is their score."""
    totals = np.array([_total(span) for span in spans])
    scores = np.exp(totals - totals.max())
    scores = (scores / scores.sum()).tolist()
    return [Answer(*span[:3], score, *span[3:]) for span, score in zip(spans, scores)]


def _total(span):
    return span[3] + span[4]
