"""Decodes the logits of windows into answers, for `predict` and for exported graphs.

Shape legend: rows = windows of all questions; length = tokens of a row, padding included; best =
starts, or ends, tried in a window; spans = candidate answers of all rows.
"""

import dataclasses
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_bert_impl.characters import SPACE
from keras_bert_impl.one_graph import in_one_graph
from keras_bert_impl.serving.words import TextReader, Texts
from keras_bert_impl.tasks.inputs.windows import TokenizedWindows
from keras_bert_impl.tasks.scores.decisions import check_scores
from keras_bert_impl.tokenizers.unicode.places import places_of

_QUESTIONS = 64  # decoded at once, at up to 85 KB each


@dataclasses.dataclass(frozen=True)
class Answer:
    """A candidate answer: a span of the context.

    Attributes:
        text: str; "" for no answer.
        start, end: the answer is `context[start:end]`.
        score: probability among the n-best answers.
        start_logit, end_logit: of its first and last token; for no answer those of `[CLS]`, in the
            window where their sum is lowest.
    """

    text: str
    start: int
    end: int
    score: float
    start_logit: float
    end_logit: float


def n_best_answers(
    logits: np.ndarray,
    windows: TokenizedWindows,
    contexts: list[str],
    num_best: int = 20,
    max_answer_length: int = 30,
    with_null: bool = False,
) -> list[list[Answer]]:
    """Finds the best answers to each question, over all windows of its context.

    Args:
        logits: float32 array [rows, 2, length], of starts and of ends.
        windows: `TokenizedWindows` of (question, context) pairs, in `rows` windows.
        num_best: answers of a question; and starts, and ends, tried in a window.
        max_answer_length: tokens of the longest answer.
        with_null: whether "" is always among the answers.

    Returns:
        list of lists of up to `num_best` `Answer`s with different texts, best first; at least one
        for each question, "" if need be. If no answer is not among the best, it follows them.

    Raises:
        UndefinedScoresError: a logit is NaN or infinite.

    Source: Devlin et al., "BERT", sections 4.2 and 4.3, and the published code, `run_squad.py`.
    """
    _check_logits(logits, windows)
    columns, answers = windows.columns(), []
    for first in range(0, len(contexts), _QUESTIONS):
        block = slice(first, min(first + _QUESTIONS, len(contexts)))
        answers += _answers_of(
            block, logits, windows, columns, contexts, num_best, max_answer_length, with_null
        )
    return answers


def _answers_of(block, logits, windows, columns, contexts, num_best, max_answer_length, with_null):
    """Returns the `Answer`s to a block of questions; see `n_best_answers`."""
    rows = slice(*np.searchsorted(windows.texts, [block.start, block.stop]))
    tokens, can_start = _places(windows, columns, rows, logits.shape[2])
    splits = windows.text_splits[block.start : block.stop + 1]
    starts, ends = (
        tf.RaggedTensor.from_row_splits(
            tf.cast(values[splits[0] : splits[-1]], tf.int32), splits - splits[0], validate=False
        )
        for values in (windows.token_starts, windows.token_ends)
    )
    own = contexts[block]
    found = _table_of_windows(
        tf.constant(logits[rows]),
        tokens,
        can_start,
        tf.constant(windows.texts[rows] - block.start, tf.int64),
        starts,
        ends,
        tf.constant(own),
        num_best=num_best,
        max_answer_length=max_answer_length,
        with_null=with_null,
    )
    found = {name: output.numpy() for name, output in found.items()}
    fields = ("answers", "starts", "ends", "scores", "start_logits", "end_logits")
    rows_of = zip(*(found[name].tolist() for name in fields))
    return [
        [Answer(text.decode(), *rest) for text, *rest in zip(*row)][:count]
        for row, count in zip(rows_of, found["num_answers"])
    ]


@in_one_graph
def _table_of_windows(
    logits,
    tokens,
    can_start,
    texts_of_rows,
    token_starts,
    token_ends,
    contexts,
    *,
    num_best,
    max_answer_length,
    with_null,
):
    """Returns the `answer_table` of the windows of some contexts."""
    candidates = candidate_spans(logits, tokens, can_start, num_best, max_answer_length)
    read, num_texts = TextReader()(contexts), tf.size(contexts)
    spans = ranked_spans(candidates, texts_of_rows, token_starts, token_ends, read, num_best)
    nulls = lowest_nulls(candidates, texts_of_rows, num_texts) if with_null else None
    return answer_table(spans, read, num_texts, num_best, nulls)


def _check_logits(logits, windows):
    if not np.isfinite(logits).all():
        of_questions = np.zeros(windows.texts.max() + 1)
        is_wrong = ~np.isfinite(logits).all(axis=(1, 2))
        of_questions[windows.texts[is_wrong]] = np.nan
        check_scores(of_questions, "question")


def _places(windows, columns, own, length):
    """Returns (tokens, can_start), int32 and bool [rows, length]: the number of each position's
    token in its context, -1 elsewhere, and whether it has the most context in this window."""
    rows, columns = columns
    flat = slice(*np.searchsorted(rows, [own.start, own.stop]))
    at = rows[flat] - own.start, columns[flat]
    shape = own.stop - own.start, length
    tokens, can_start = np.full(shape, -1, "int32"), np.zeros(shape, bool)
    tokens[at] = windows.tokens[flat]
    can_start[at] = windows.has_most_context[flat]
    return tf.constant(tokens), tf.constant(can_start)


# === In any graph ===


def candidate_spans(
    logits: tf.Tensor,
    tokens: tf.Tensor,
    can_start: tf.Tensor,
    num_best: int,
    max_answer_length: int,
) -> dict[str, tf.Tensor]:
    """Combines the highest starts with the highest ends of each window.

    Args:
        logits: float32 [rows, 2, length].
        tokens: int32 [rows, length]. The number of each position's token in its context; -1
            elsewhere, where no answer ends.
        can_start: bool [rows, length]. Where an answer may start.
        num_best: number of starts, and of ends, that are combined.
        max_answer_length: tokens of the longest span.

    Returns:
        dict: `is_span`, bool [rows, best, best], of pairs of a start and an end; their tokens
        `first` and `last`, int32, and logits `start` and `end`, float32, [rows, best]; and
        `null`, float32 [rows, 2], the logits of `[CLS]`.
    """
    best = tf.minimum(num_best, tf.shape(tokens)[1])
    lowest = tf.constant(float("-inf"))
    starts, start_columns = tf.math.top_k(tf.where(can_start, logits[:, 0], lowest), best)
    ends, end_columns = tf.math.top_k(tf.where(tokens >= 0, logits[:, 1], lowest), best)
    first = tf.gather(tokens, start_columns, batch_dims=1)
    last = tf.gather(tokens, end_columns, batch_dims=1)
    before = last[:, tf.newaxis, :] - first[:, :, tf.newaxis]  # [rows, best, best]
    is_span = (before >= 0) & (before < max_answer_length)
    is_span &= tf.math.is_finite(starts)[:, :, tf.newaxis]
    is_span &= tf.math.is_finite(ends)[:, tf.newaxis, :]
    return {
        "is_span": is_span,
        "first": first,
        "last": last,
        "start": starts,
        "end": ends,
        "null": logits[:, :, 0],
    }


class Spans(NamedTuple):
    """Parts of contexts, [spans] each.

    Attributes:
        starts, ends: int32. Positions among the characters of all contexts.
        start_logits, end_logits: float64.
        texts: int64. Numbers of the contexts.
    """

    starts: tf.Tensor
    ends: tf.Tensor
    start_logits: tf.Tensor
    end_logits: tf.Tensor
    texts: tf.Tensor

    @property
    def scores(self) -> tf.Tensor:
        """float64 [spans]."""
        return self.start_logits + self.end_logits

    def at(self, numbers: tf.Tensor) -> "Spans":
        """Returns the spans with these numbers."""
        return Spans(*(tf.gather(values, numbers) for values in self))


def ranked_spans(
    candidates: dict[str, tf.Tensor],
    texts_of_rows: tf.Tensor,
    token_starts: tf.RaggedTensor,
    token_ends: tf.RaggedTensor,
    contexts: Texts,
    num_best: int,
) -> Spans:
    """Ranks the spans of each context whose texts differ.

    White space around a span does not belong to it; a span of nothing else is left out.

    Args:
        candidates: from `candidate_spans`.
        texts_of_rows: int64 [rows], the context of each window.
        token_starts, token_ends: int32 ragged [contexts, (tokens)], in characters.
        num_best: spans of a context.

    Returns:
        `Spans`, those of a context together, best first; of equal ones the earlier window's.
    """
    spans = _all_spans(candidates, texts_of_rows, token_starts, token_ends, contexts)
    spans = spans.at(tf.argsort(spans.scores, direction="DESCENDING", stable=True))
    spans = spans.at(tf.argsort(spans.texts, stable=True))
    return _distinct(_stripped(spans, contexts), contexts, num_best)


def _all_spans(candidates, texts_of_rows, token_starts, token_ends, contexts):
    rows, i, j = tf.unstack(tf.where(candidates["is_span"]), num=3, axis=1)
    starts, ends = tf.stack([rows, i], axis=1), tf.stack([rows, j], axis=1)
    texts = tf.gather(texts_of_rows, rows)
    base = tf.gather(token_starts.row_splits, texts)
    first, last = (
        base + tf.cast(tf.gather_nd(candidates[name], at), tf.int64)
        for name, at in (("first", starts), ("last", ends))
    )
    shift = tf.gather(contexts.starts, texts)
    return Spans(
        tf.gather(token_starts.values, first) + shift,
        tf.gather(token_ends.values, last) + shift,
        tf.cast(tf.gather_nd(candidates["start"], starts), tf.float64),
        tf.cast(tf.gather_nd(candidates["end"], ends), tf.float64),
        texts,
    )


def _stripped(spans, contexts):
    solid = places_of(tf.not_equal(contexts.kinds, SPACE))
    first = tf.searchsorted(solid, spans.starts)
    last = tf.searchsorted(solid, spans.ends) - 1
    kept = tf.where(first <= last)[:, 0]
    starts, ends = (tf.gather(solid, tf.gather(number, kept)) for number in (first, last))
    return spans.at(kept)._replace(starts=starts, ends=ends + 1)


def _distinct(spans, contexts, count):
    """Returns the first `count` spans of each context whose texts differ."""
    keys = tf.strings.join(
        [tf.strings.as_string(spans.texts), contexts.strings(spans.starts, spans.ends)], " "
    )
    found, number = tf.unique(keys)
    first = tf.math.unsorted_segment_min(tf.range(tf.size(keys)), number, tf.size(found))
    spans = spans.at(first)
    rank = tf.range(tf.size(spans.texts)) - tf.searchsorted(spans.texts, spans.texts)
    return spans.at(tf.where(rank < count)[:, 0])


def lowest_nulls(
    candidates: dict[str, tf.Tensor], texts_of_rows: tf.Tensor, num_texts: int | tf.Tensor
) -> tf.Tensor:
    """Returns the logits of `[CLS]`, in the window of each text where their sum is lowest.

    Args:
        candidates: from `candidate_spans`.
        texts_of_rows: int64 [rows]. The text of each window.
        num_texts: every text has a window.

    Returns:
        float64 [num_texts, 2].
    """
    nulls = tf.cast(candidates["null"], tf.float64)
    totals = tf.reduce_sum(nulls, axis=1)
    lowest = tf.math.unsorted_segment_min(totals, texts_of_rows, num_texts)
    rows = tf.range(tf.size(totals))
    is_lowest = tf.equal(totals, tf.gather(lowest, texts_of_rows))
    rows = tf.where(is_lowest, rows, tf.size(totals))
    return tf.gather(nulls, tf.math.unsorted_segment_min(rows, texts_of_rows, num_texts))


def answer_table(
    spans: Spans,
    contexts: Texts,
    num_texts: int | tf.Tensor,
    num_best: int,
    nulls: tf.Tensor | None = None,
) -> dict[str, tf.Tensor]:
    """Returns the answers of each context, padded to one number.

    Args:
        spans: `Spans`, ranked.
        num_best: answers of a context.
        nulls: float64 [num_texts, 2], from `lowest_nulls`, if there may be no answer: "" is then
            among the answers, after equal ones; if it is not among the best, after them.

    Returns:
        dict: `num_answers`, int32 [num_texts], at least 1; and [num_texts, answers]: `answers`,
        string, `starts` and `ends`, int32, in characters of the context, `scores`, float64, a
        softmax over the answers, and `start_logits` and `end_logits`, float64.
    """
    flat = {
        "answers": contexts.strings(spans.starts, spans.ends),
        "starts": contexts.in_texts(spans.starts, spans.texts),
        "ends": contexts.in_texts(spans.ends, spans.texts),
        "start_logits": spans.start_logits,
        "end_logits": spans.end_logits,
    }
    rows = {
        name: tf.RaggedTensor.from_value_rowids(
            values, spans.texts, tf.cast(num_texts, tf.int64), validate=False
        )
        for name, values in flat.items()
    }
    counts = tf.cast(rows["starts"].row_lengths(), tf.int32)
    table = {name: row.to_tensor(shape=[None, num_best]) for name, row in rows.items()}
    if nulls is None:
        counts = tf.maximum(counts, 1)  # "", if there is nothing else
    else:
        table, counts = _with_null(table, counts, nulls, num_best)
    is_answer = tf.sequence_mask(counts, table["starts"].shape[1])
    totals = table["start_logits"] + table["end_logits"]
    scores = tf.nn.softmax(tf.where(is_answer, totals, -float("inf")))
    return {"num_answers": counts, **table, "scores": scores}


def _with_null(table, counts, nulls, num_best):
    """Inserts the null answer among the answers; see `answer_table`.

    Returns:
        (dict of tensors [texts, num_best + 1], counts).
    """
    columns = tf.range(num_best)
    total = tf.reduce_sum(nulls, axis=1)[:, tf.newaxis]
    is_before = table["start_logits"] + table["end_logits"] >= total
    is_before &= columns < counts[:, tf.newaxis]
    at = tf.reduce_sum(tf.cast(is_before, tf.int32), axis=1)[:, tf.newaxis]  # [texts, 1]
    columns = tf.range(num_best + 1)[tf.newaxis]
    source = tf.where(columns < at, columns, columns - 1)
    source = tf.where(tf.equal(columns, at), num_best, source)  # [texts, num_best + 1]
    logits = {"start_logits": nulls[:, 0], "end_logits": nulls[:, 1]}
    nothing = {"answers": "", "starts": 0, "ends": 0}
    made = {}
    for name, values in table.items():
        null = logits[name] if name in logits else tf.fill(tf.shape(total)[:1], nothing[name])
        values = tf.concat([values, tf.cast(null, values.dtype)[:, tf.newaxis]], axis=1)
        made[name] = tf.gather(values, source, batch_dims=1)
    is_among = at[:, 0] < num_best
    return made, tf.where(is_among, tf.minimum(counts + 1, num_best), num_best + 1)


# === The best answer ===


def null_odds(answers: list[Answer]) -> float:
    """Returns the score of the null answer, one of the answers, minus the best one with a text."""
    null = next(answer for answer in answers if not answer.text)
    best = next((answer for answer in answers if answer.text), None)
    score = null.start_logit + null.end_logit
    return score if best is None else score - best.start_logit - best.end_logit


def best_text(answers: list[Answer], null_threshold: float | None = None) -> str:
    """Returns the text of the best answer to one question.

    It is "" if `null_odds` exceeds the threshold, or if there is no answer with a text.
    """
    if null_threshold is not None and null_odds(answers) > null_threshold:
        return ""
    return next((answer.text for answer in answers if answer.text), "")
