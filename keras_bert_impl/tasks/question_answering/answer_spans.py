"""Finds the best answers in the logits of all windows of a context.

Names of dimensions: "rows" are the windows of all questions, "length" is the sequence length with
padding, "best" is the number of candidate starts (and of candidate ends) per window, and "spans"
are the candidate answers in all windows.
"""

from typing import NamedTuple

import tensorflow as tf

from keras_bert_impl.tokenizers.graphs import places_of
from keras_bert_impl.tokenizers.text_words import Texts
from keras_bert_impl.utils.characters import SPACE


def candidate_spans(
    logits: tf.Tensor,
    tokens: tf.Tensor,
    can_start: tf.Tensor,
    num_best: int,
    max_answer_length: int,
) -> dict[str, tf.Tensor]:
    """Combines the best start positions with the best end positions in each window.

    Args:
        logits: float32 [rows, 2, length].
        tokens: int32 [rows, length]. Index of each token in the context; -1 for tokens that are not
            in the context. An answer cannot end at these tokens.
        can_start: bool [rows, length]. Whether an answer can start at the token.

    Returns:
        dict of

        - `is_span`: bool [rows, best, best]. Whether an answer from each start to each end is
          valid. A valid answer has 1 to `max_answer_length` tokens.
        - `first`, `last`: int32 [rows, best]. Token indices of the best starts and the best ends.
        - `start`, `end`: float32 [rows, best]. Logits of the best starts and the best ends.
        - `null`: float32 [rows, 2]. Logits of `[CLS]`.
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
    """Candidate answers in all contexts.

    Attributes:
        starts, ends: int32 [spans]. Character offsets in the concatenated contexts.
        start_logits, end_logits: float64 [spans].
        texts: int64 [spans]. Index of the context of each answer.
    """

    starts: tf.Tensor
    ends: tf.Tensor
    start_logits: tf.Tensor
    end_logits: tf.Tensor
    texts: tf.Tensor

    @property
    def scores(self) -> tf.Tensor:
        return self.start_logits + self.end_logits

    def at(self, numbers: tf.Tensor) -> "Spans":
        return Spans(*(tf.gather(values, numbers) for values in self))


def ranked_spans(
    candidates: dict[str, tf.Tensor],
    texts_of_rows: tf.Tensor,
    token_starts: tf.RaggedTensor,
    token_ends: tf.RaggedTensor,
    contexts: Texts,
    num_best: int,
) -> Spans:
    """Sorts the answers of each context by score. Of equal answers, only the best one is kept.

    Args:
        texts_of_rows: int64 [rows]. Context of each window.
    """
    spans = _collect_spans(candidates, texts_of_rows, token_starts, token_ends, contexts)
    spans = spans.at(tf.argsort(spans.scores, direction="DESCENDING", stable=True))
    spans = spans.at(tf.argsort(spans.texts, stable=True))
    return _select_distinct(_strip_spaces(spans, contexts), contexts, num_best)


def _collect_spans(candidates, texts_of_rows, token_starts, token_ends, contexts):
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


def _strip_spaces(spans, contexts):
    solid = places_of(tf.not_equal(contexts.kinds, SPACE))
    first = tf.searchsorted(solid, spans.starts)
    last = tf.searchsorted(solid, spans.ends) - 1
    nonempty = tf.where(first <= last)[:, 0]
    starts, ends = (tf.gather(solid, tf.gather(number, nonempty)) for number in (first, last))
    return spans.at(nonempty)._replace(starts=starts, ends=ends + 1)


def _select_distinct(spans, contexts, count):
    """Returns the first `count` spans with different texts of each context."""
    keys = tf.strings.join(
        [tf.strings.as_string(spans.texts), contexts.strings(spans.starts, spans.ends)], " "
    )
    unique_keys, number = tf.unique(keys)
    first = tf.math.unsorted_segment_min(tf.range(tf.size(keys)), number, tf.size(unique_keys))
    spans = spans.at(first)
    rank = tf.range(tf.size(spans.texts)) - tf.searchsorted(spans.texts, spans.texts)
    return spans.at(tf.where(rank < count)[:, 0])


def lowest_nulls(
    candidates: dict[str, tf.Tensor], texts_of_rows: tf.Tensor, num_texts: int | tf.Tensor
) -> tf.Tensor:
    """Returns the start and end logits of `[CLS]` in the window in which their sum is lowest.

    Args:
        texts_of_rows: int64 [rows]. Context of each window.

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
    """Returns the ranked answers of each context. Missing answers are filled with 0 and "".

    Args:
        nulls: float64 [num_texts, 2], the result of `lowest_nulls`. If given, the answer "" is
            added. None means that every question has an answer.

    Returns:
        dict of `num_answers`, int32 [num_texts], at least 1, and of tensors [num_texts, answers]:

        - `answers`: string. The texts.
        - `starts`, `ends`: int32. Character offsets in the context.
        - `scores`: float64. Softmax over the answers of a context.
        - `start_logits`, `end_logits`: float64.
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
        counts = tf.maximum(counts, 1)  # there is at least the answer ""
    else:
        table, counts = _insert_null(table, counts, nulls, num_best)
    is_answer = tf.sequence_mask(counts, table["starts"].shape[1])
    table = {name: tf.where(is_answer, v, tf.zeros((), v.dtype)) for name, v in table.items()}
    totals = table["start_logits"] + table["end_logits"]
    scores = tf.nn.softmax(tf.where(is_answer, totals, -float("inf")))
    return {"num_answers": counts, **table, "scores": scores}


def _insert_null(table, counts, nulls, num_best):
    """Inserts the answer "" into the sorted answers of each context.

    If "" is not among the `num_best` best answers, it is added as the last answer.

    Returns:
        Dict of tensors [texts, num_best + 1], and the number of answers of each context.
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
    extended = {}
    for name, values in table.items():
        null = logits[name] if name in logits else tf.fill(tf.shape(total)[:1], nothing[name])
        values = tf.concat([values, tf.cast(null, values.dtype)[:, tf.newaxis]], axis=1)
        extended[name] = tf.gather(values, source, batch_dims=1)
    is_among = at[:, 0] < num_best
    return extended, tf.where(is_among, tf.minimum(counts + 1, num_best), num_best + 1)
