"""Converts word labels to token targets, and the outputs of windows to scores of words."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from keras_bert_impl.tasks.inputs.windows import TokenizedWindows
from keras_bert_impl.tasks.inputs.words import Words, align_tokens
from keras_bert_impl.tasks.tagging import decode
from keras_bert_impl.tokenizers.text_words import WordTokens

_BATCH = 64  # label sequences decoded at once


class WordScores(NamedTuple):
    """Predictions for the words of a text.

    Attributes:
        scores: float32 [words, num_labels].
        tokens: int64 [words], the token that each prediction is taken from; -1 for none. Words
            that share a token share its prediction.
    """

    scores: np.ndarray
    tokens: np.ndarray


def token_targets(
    labels: list[np.ndarray],
    weights: np.ndarray,
    sentences: list[Words],
    tokenized: TokenizedWindows,
    all_tokens: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the training targets of tokens in windows; each word counts in exactly one window.

    Args:
        labels: int [words] of each text, negative for words without a label.
        weights: float32 [texts].

    Returns:
        (labels int32, weights float32) [positions]; 0 where there is no label.
    """
    alignment = align_tokens(sentences, tokenized)
    of_words = np.concatenate(labels)  # [words of all texts]
    weights = np.repeat(weights, np.diff(alignment.word_splits)) * (of_words >= 0)
    learns = alignment.words >= 0 if all_tokens else alignment.is_first
    tokens = tokenized.token_numbers()
    learns = np.append(learns, False)[tokens] & tokenized.has_most_context
    words = np.append(alignment.words, -1)[tokens]  # [positions]
    return (
        np.where(learns, np.append(of_words, 0)[words], 0).astype("int32"),
        np.where(learns, np.append(weights, 0)[words], 0).astype("float32"),
    )


def ragged_targets(
    labels: list[np.ndarray],
    numbers: np.ndarray,
    weights: np.ndarray,
    splits: Any,
    num_classes: int,
) -> tuple:
    """Returns the targets of rows, in the form of `labels`: class indices or one-hot rows.

    Args:
        numbers, weights: int32, float32 [tokens]; weight 0 for those without a label.
        splits: int64 [rows + 1].
    """
    targets: Any = numbers
    if any(np.ndim(row) == 2 for row in labels):
        targets = np.eye(num_classes, dtype="float32")[numbers] * (weights != 0)[:, None]
    return tuple(tf.RaggedTensor.from_row_splits(part, splits) for part in (targets, weights))


def word_scores(
    outputs: np.ndarray,
    sentences: list[Words],
    tokenized: TokenizedWindows,
    aggregation: str,
    unknown: int,
) -> list[WordScores]:
    """Returns the scores of all words, each token read in the window where it has most context.

    Args:
        outputs: float32 [rows, length, num_labels].
    """
    alignment = align_tokens(sentences, tokenized)
    rows, columns = tokenized.columns()
    chosen = tokenized.has_most_context
    of_tokens = np.zeros((len(alignment.words), outputs.shape[-1]), "float32")
    of_tokens[tokenized.token_numbers()[chosen]] = outputs[rows[chosen], columns[chosen]]
    tokens = WordTokens(
        _int32(alignment.words), _int32(alignment.firsts), tf.constant(alignment.owns)
    )
    scores = decode.scores_of_words(tf.constant(of_tokens), tokens, aggregation, unknown).numpy()
    parts = zip(alignment.word_splits[:-1], alignment.word_splits[1:])
    return [WordScores(scores[start:end], alignment.firsts[start:end]) for start, end in parts]


def over_sequences(
    function: Callable[[tf.Tensor, tf.Tensor], tf.Tensor],
    answers: list[WordScores],
    unknown: np.ndarray | int,
) -> list[np.ndarray]:
    """Applies a function to the sequence of each text; see `decode.over_sequences`.

    Args:
        unknown: [...], the result for words without a token.

    Returns:
        [words, ...] of each text.
    """
    results = [np.empty(0)] * len(answers)
    order = np.argsort([len(answer.tokens) for answer in answers], kind="stable")
    for first in range(0, len(answers), _BATCH):
        numbers = order[first : first + _BATCH]
        own = [answers[number] for number in numbers]
        counts = [len(answer.tokens) for answer in own]
        found = decode.over_sequences(
            function,
            tf.constant(np.concatenate([answer.scores for answer in own])),
            units_of(own),
            tf.constant(np.repeat(np.arange(len(own)), counts)),
            tf.constant(len(own), tf.int64),
            tf.constant(unknown),
        ).numpy()
        for number, part in zip(numbers, np.split(found, np.cumsum(counts)[:-1])):
            results[number] = part
    return results


def in_few_shapes(function: Callable) -> Callable:
    """Wraps a function that is compiled for each shape, see `over_sequences`, to pad its arguments."""

    def padded(emissions, mask):
        sizes = mask.shape
        more = [[0, (1 << (size - 1).bit_length()) - size] for size in sizes]
        found = function(np.pad(emissions, [*more, [0, 0]]), np.pad(mask, more))
        return found[: sizes[0], : sizes[1]]

    return padded


def units_of(answers: list[WordScores]) -> decode.Units:
    """Returns the units of the words of texts, concatenated."""
    tokens: list[np.ndarray] = []
    base = 0
    for answer in answers:
        tokens.append(np.where(answer.tokens >= 0, answer.tokens + base, -1))
        base = max(base, 1 + tokens[-1].max(initial=-1))  # no unit reaches into the next text
    return decode.find_units(_int32(np.concatenate(tokens)))


def _int32(values):

    return tf.constant(values, tf.int32)
