"""Serving signatures of question answering, with an in-graph search for the best spans.

Shape legend: rows = windows of all contexts; best = candidate starts, or ends, of a window;
spans = candidate answers of all rows.
"""

from typing import NamedTuple

import tensorflow as tf

from keras_bert_impl.characters import SPACE
from keras_bert_impl.serving.padding import window_features
from keras_bert_impl.serving.signatures import FEATURES, Signatures
from keras_bert_impl.serving.words import TextReader
from keras_bert_impl.tokenizers.unicode.places import places_of
from keras_bert_impl.tokenizers.windows import pack_windows


class AnswerSignatures(Signatures):
    """Signatures for answers to questions about contexts; long contexts are split into windows.

    Outputs: `answer`, string `[batch]`, the best answer, empty for none; `start` and `end`, int32
    `[batch]`, its character offsets in the context; and `score`, float32 `[batch]`. If the model
    has a null threshold, also `null_score`, float32 `[batch]`: the null score minus that of the
    best text, which is compared with the threshold. The n-best answers, best first, same as
    `predict`: `num_answers`, int32 `[batch]`; and, padded to a fixed number, `answers`, string
    `[batch, answers]`, `starts` and `ends`, int32, and `scores`, float32, of the same shape.

    `ids` returns `start_logits` and `end_logits`, float32 `[batch, length]`.
    """

    strings = {"question": 1, "context": 1}

    def __init__(self, model, *parts):
        super().__init__(model, *parts)
        self.read = TextReader()
        self.of_windows = tf.function(self._of_windows, autograph=False)

    def reference(self, question, context):
        pairs = list(zip(question, context))
        predicted, chosen = self.model.predict(pairs, verbose=0), self.model.answer(pairs)
        return [
            {
                "answer": answer,
                "num_answers": len(answers),
                "answers": [one.text for one in answers],
                "starts": [one.start for one in answers],
                "ends": [one.end for one in answers],
                "scores": [one.score for one in answers],
            }
            for answer, answers in zip(chosen, predicted)
        ]

    def answers(self, features):
        logits = self.model.logits(features, training=False)
        return {"start_logits": logits[:, 0], "end_logits": logits[:, 1]}

    def tokenize(self, question, context):
        return window_features(self._windows(question, context), self.tokenizer.pad_id)

    def answers_of_strings(self, question, context):
        windows = self._windows(question, context)
        tokens, can_start = windows.tokens(), windows.has_most_context()
        rows = {**windows.features, "tokens": tokens, "can_start": can_start}
        found = self.in_chunks(self.of_windows, rows)
        texts = self.read(context)
        spans = _ranked(_spans_of_rows(found, windows, texts))
        spans = _distinct(_stripped(spans, texts), texts, self.model.num_best)
        nulls = None
        if self.model.null_threshold is not None:
            nulls = tf.math.unsorted_segment_min(
                found["null"], windows.texts, tf.size(context, tf.int64)
            )
        return _outputs(spans, texts, tf.size(context), nulls, self.model)

    def _windows(self, question, context):
        model = self.model
        sizes = model.max_length, model.doc_stride, model.max_question_length
        return pack_windows(self.tokenizer, (question, context), *sizes)

    def _of_windows(self, rows):
        """Returns the best starts and ends of each window, and which pairs form a span."""
        logits = self.model.logits({name: rows[name] for name in FEATURES}, training=False)
        logits = tf.cast(logits, tf.float32)  # [rows, 2, length]
        tokens = rows["tokens"]
        num_best = tf.minimum(self.model.num_best, tf.shape(tokens)[1])
        lowest = tf.constant(float("-inf"))
        starts, start_columns = tf.math.top_k(
            tf.where(rows["can_start"], logits[:, 0], lowest), num_best
        )
        ends, end_columns = tf.math.top_k(tf.where(tokens >= 0, logits[:, 1], lowest), num_best)
        first = tf.gather(tokens, start_columns, batch_dims=1)  # [rows, best]
        last = tf.gather(tokens, end_columns, batch_dims=1)
        before = last[:, tf.newaxis, :] - first[:, :, tf.newaxis]  # [rows, best, best]
        is_span = (before >= 0) & (before < self.model.max_answer_length)
        is_span &= tf.math.is_finite(starts)[:, :, tf.newaxis]
        is_span &= tf.math.is_finite(ends)[:, tf.newaxis, :]
        nulls = tf.cast(logits[:, :, 0], tf.float64)
        return {
            "is_span": is_span,
            "first": first,
            "last": last,
            "start": starts,
            "end": ends,
            "null": tf.reduce_sum(nulls, axis=1),
        }


class _Spans(NamedTuple):
    """Spans of contexts: int32 starts and exclusive ends, float64 scores, int64 context numbers.

    Each is [spans].
    """

    starts: tf.Tensor
    ends: tf.Tensor
    scores: tf.Tensor
    texts: tf.Tensor

    def at(self, numbers):
        return _Spans(*(tf.gather(values, numbers) for values in self))


def _spans_of_rows(found, windows, texts):
    """Converts the outputs of `_of_windows` for all rows to `_Spans`."""
    rows, i, j = tf.unstack(tf.where(found["is_span"]), num=3, axis=1)
    starts, ends = tf.stack([rows, i], axis=1), tf.stack([rows, j], axis=1)
    scores = tf.cast(tf.gather_nd(found["start"], starts), tf.float64)
    scores += tf.cast(tf.gather_nd(found["end"], ends), tf.float64)
    number = tf.gather(windows.texts, rows)
    base = tf.gather(windows.token_starts.row_splits, number)
    first, last = (
        base + tf.cast(tf.gather_nd(found[name], at), tf.int64)
        for name, at in (("first", starts), ("last", ends))
    )
    shift = tf.gather(texts.starts, number)
    return _Spans(
        tf.gather(windows.token_starts.values, first) + shift,
        tf.gather(windows.token_ends.values, last) + shift,
        scores,
        number,
    )


def _ranked(spans):
    """Groups spans by context, best first; ties keep the earlier window first."""
    spans = spans.at(tf.argsort(spans.scores, direction="DESCENDING", stable=True))
    return spans.at(tf.argsort(spans.texts, stable=True))


def _stripped(spans, texts):
    """Strips white space from the ends of spans; drops spans of only white space."""
    solid = places_of(tf.not_equal(texts.kinds, SPACE))
    first = tf.searchsorted(solid, spans.starts)
    last = tf.searchsorted(solid, spans.ends) - 1
    kept = tf.where(first <= last)[:, 0]
    starts, ends = (tf.gather(solid, tf.gather(number, kept)) for number in (first, last))
    return spans.at(kept)._replace(starts=starts, ends=ends + 1)


def _distinct(spans, texts, count):
    """Keeps the first `count` spans with distinct texts for each context."""
    keys = tf.strings.join([tf.strings.as_string(spans.texts), texts.strings(*spans[:2])], " ")
    found, number = tf.unique(keys)
    places = tf.range(tf.size(keys))
    spans = spans.at(tf.math.unsorted_segment_min(places, number, tf.size(found)))
    first_of_text = tf.searchsorted(spans.texts, spans.texts)
    rank = tf.range(tf.size(spans.texts)) - first_of_text
    return spans.at(tf.where(rank < count)[:, 0])


def _outputs(spans, texts, num_texts, nulls, model):
    """Returns the outputs for the best spans of each context.

    Args:
        spans: `_Spans`, ranked.
        texts: `Texts`.
        num_texts: int32.
        nulls: float64 [batch], null scores; None if there always is an answer.
        model: `QuestionAnswerer`.
    """
    flat = {
        "answers": texts.strings(spans.starts, spans.ends),
        "starts": texts.in_texts(spans.starts, spans.texts),
        "ends": texts.in_texts(spans.ends, spans.texts),
        "scores": spans.scores,
    }
    limit = model.num_best
    rows = {
        name: tf.RaggedTensor.from_value_rowids(
            values, spans.texts, tf.cast(num_texts, tf.int64), validate=False
        )
        for name, values in flat.items()
    }
    counts = tf.cast(rows["scores"].row_lengths(), tf.int32)  # [batch]
    best = {name: row.to_tensor(shape=[None, limit]) for name, row in rows.items()}
    if nulls is None:
        counts = tf.maximum(counts, 1)  # the empty string, if there is no other
    else:
        best, counts = _with_null(best, counts, nulls, limit)
    is_answer = tf.sequence_mask(counts, best["scores"].shape[1])
    totals = best["scores"]
    best["scores"] = tf.nn.softmax(tf.where(is_answer, totals, -float("inf")))
    best["scores"] = tf.cast(best["scores"], tf.float32)
    is_text = is_answer & tf.not_equal(best["answers"], "")
    has_text, column = tf.reduce_any(is_text, axis=1), tf.argmax(tf.cast(is_text, tf.int32), axis=1)
    more = {}
    if nulls is not None:
        best_total = tf.gather(totals, column, batch_dims=1)
        odds = nulls - tf.where(has_text, best_total, 0.0)
        more["null_score"] = tf.cast(odds, tf.float32)
        is_null = ~has_text | (odds > model.null_threshold)
        is_null_column = is_answer & tf.equal(best["answers"], "")
        null_column = tf.argmax(tf.cast(is_null_column, tf.int32), axis=1)
        column = tf.where(is_null, null_column, column)
    one = {
        name: tf.gather(best[many], column, batch_dims=1)
        for name, many in zip(("answer", "start", "end", "score"), best)
    }
    return {**one, **more, "num_answers": counts, **best}


def _with_null(best, counts, nulls, limit):
    """Inserts the null answer after answers of equal score; appends it if not among the best.

    Args:
        best: dict of tensors [batch, limit].
        counts: int32 [batch], number of answers to each question.
        nulls: float64 [batch].
        limit: int.

    Returns:
        (dict of tensors [batch, limit + 1], counts).
    """
    columns = tf.range(limit)
    is_before = (best["scores"] >= nulls[:, tf.newaxis]) & (columns < counts[:, tf.newaxis])
    place = tf.reduce_sum(tf.cast(is_before, tf.int32), axis=1)[:, tf.newaxis]  # [batch, 1]
    columns = tf.range(limit + 1)[tf.newaxis]
    source = tf.where(columns < place, columns, columns - 1)
    source = tf.where(tf.equal(columns, place), limit, source)  # [batch, limit + 1]
    nothing = {"answers": "", "starts": 0, "ends": 0}
    made = {}
    for name, values in best.items():
        null = nulls if name == "scores" else tf.fill(tf.shape(nulls), nothing[name])
        values = tf.concat([values, tf.cast(null, values.dtype)[:, tf.newaxis]], axis=1)
        made[name] = tf.gather(values, source, batch_dims=1)
    is_among = place[:, 0] < limit
    return made, tf.where(is_among, tf.minimum(counts + 1, limit), limit + 1)
