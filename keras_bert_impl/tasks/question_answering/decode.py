"""Converts the logits of windows to answers, for `predict`.

Names of dimensions: "rows" are the windows of all questions, and "length" is the sequence length
with padding.
"""

import dataclasses

import numpy as np
import tensorflow as tf

from keras_bert_impl.data.batches.windows import TokenizedWindows
from keras_bert_impl.data.scores.decisions import check_scores
from keras_bert_impl.tasks.question_answering.answer_spans import (
    answer_table,
    candidate_spans,
    lowest_nulls,
    ranked_spans,
)
from keras_bert_impl.tokenizers.text_words import TextReader
from keras_bert_impl.utils.one_graph import in_one_graph

_QUESTIONS = 64  # maximum number of questions per block, to limit memory


@dataclasses.dataclass(frozen=True)
class Answer:
    """A candidate answer.

    Attributes:
        text: str; "" for no answer.
        start, end: character offsets; the answer is `context[start:end]`.
        score: probability among the n-best answers.
        start_logit, end_logit: logits of the first and last token. If `text` is "", the logits of
            `[CLS]` in the window in which the sum of both logits is lowest.
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
    """Returns the best answers to each question, from all windows of the context.

    Args:
        logits: float32 array [rows, 2, length], the start logits and the end logits.

    Source: Devlin et al., "BERT", sections 4.2 and 4.3, and `run_squad.py` in the published code.
    """
    _check_logits(logits, windows)
    columns, answers = windows.columns(), []
    for first in range(0, len(contexts), _QUESTIONS):
        block = slice(first, min(first + _QUESTIONS, len(contexts)))
        answers += _decode_block(
            block, logits, windows, columns, contexts, num_best, max_answer_length, with_null
        )
    return answers


def _decode_block(
    block, logits, windows, columns, contexts, num_best, max_answer_length, with_null
):
    rows = slice(*np.searchsorted(windows.texts, [block.start, block.stop]))
    tokens, can_start = _find_answer_bounds(windows, columns, rows, logits.shape[2])
    splits = windows.text_splits[block.start : block.stop + 1]
    starts, ends = (
        tf.RaggedTensor.from_row_splits(
            tf.cast(values[splits[0] : splits[-1]], tf.int32), splits - splits[0], validate=False
        )
        for values in (windows.token_starts, windows.token_ends)
    )
    block_contexts = contexts[block]
    table = _rank_answers(
        tf.constant(logits[rows]),
        tokens,
        can_start,
        tf.constant(windows.texts[rows] - block.start, tf.int64),
        starts,
        ends,
        tf.constant(block_contexts),
        num_best=num_best,
        max_answer_length=max_answer_length,
        with_null=with_null,
    )
    table = {name: output.numpy() for name, output in table.items()}
    fields = ("answers", "starts", "ends", "scores", "start_logits", "end_logits")
    rows_of = zip(*(table[name].tolist() for name in fields))
    return [
        [Answer(text.decode(), *numbers) for text, *numbers in zip(*row)][:count]
        for row, count in zip(rows_of, table["num_answers"])
    ]


@in_one_graph
def _rank_answers(
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
    candidates = candidate_spans(logits, tokens, can_start, num_best, max_answer_length)
    read, num_texts = TextReader()(contexts), tf.size(contexts)
    spans = ranked_spans(candidates, texts_of_rows, token_starts, token_ends, read, num_best)
    nulls = lowest_nulls(candidates, texts_of_rows, num_texts) if with_null else None
    return answer_table(spans, read, num_texts, num_best, nulls)


def _check_logits(logits, windows):
    if not np.isfinite(logits).all():
        question_flags = np.zeros(windows.texts.max() + 1)
        is_wrong = ~np.isfinite(logits).all(axis=(1, 2))
        question_flags[windows.texts[is_wrong]] = np.nan
        check_scores(question_flags, "question")


def _find_answer_bounds(windows, columns, block_rows, length):
    """Returns the arguments `tokens` and `can_start` of `candidate_spans`.

    An answer can only start in the window in which its first token has the most context.
    """
    rows, columns = columns
    flat = slice(*np.searchsorted(rows, [block_rows.start, block_rows.stop]))
    at = rows[flat] - block_rows.start, columns[flat]
    shape = block_rows.stop - block_rows.start, length
    tokens, can_start = np.full(shape, -1, "int32"), np.zeros(shape, bool)
    tokens[at] = windows.tokens[flat]
    can_start[at] = windows.has_most_context[flat]
    return tf.constant(tokens), tf.constant(can_start)


# === The best answer ===


def null_odds(answers: list[Answer]) -> float:
    """Returns the score of the answer "" minus the score of the best other answer."""
    null = next(answer for answer in answers if not answer.text)
    best = next((answer for answer in answers if answer.text), None)
    score = null.start_logit + null.end_logit
    return score if best is None else score - best.start_logit - best.end_logit


def best_answer(answers: list[Answer], null_threshold: float | None = None) -> Answer:
    is_null = null_threshold is not None and null_odds(answers) > null_threshold
    return next((answer for answer in answers if bool(answer.text) != is_null), answers[0])
