"""Label scores of words, training targets and metrics of taggers."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from keras import ops

from keras_bert_impl.data.batches.windows import TokenizedWindows
from keras_bert_impl.data.batches.words import Words, align_tokens
from keras_bert_impl.data.scores.counting import (
    ScoreMetric,
    count,
    defined_weights,
    score_metrics,
    token_weights,
)
from keras_bert_impl.data.tags.spans import read_labels, spans_of
from keras_bert_impl.tasks.tagging import decode
from keras_bert_impl.tokenizers.text_words import WordTokens

_BATCH = 64  # number of label sequences decoded per batch


class WordScores(NamedTuple):
    """Label scores of the words of a text.

    Attributes:
        scores: float32 [words, num_labels].
        tokens: int64 [words], index of the token of each word; -1 for words without a token. If
            several words share a token, they get the same prediction.
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
    """Returns the training targets of the tokens in all windows.

    If a word is in several windows, only the window with the most context has targets for the word.

    Args:
        labels: int [words] of each text, negative for words without a label.
        weights: float32 [texts].

    Returns:
        Class index of each token, int32 [tokens], and weight of each token, float32 [tokens].
        Tokens without a target have class index 0 and weight 0.
    """
    alignment = align_tokens(sentences, tokenized)
    word_labels = np.concatenate(labels)  # [words of all texts]
    weights = np.repeat(weights, np.diff(alignment.word_splits)) * (word_labels >= 0)
    learns = alignment.words >= 0 if all_tokens else alignment.is_first
    tokens = tokenized.token_numbers()
    learns = np.append(learns, False)[tokens] & tokenized.has_most_context
    words = np.append(alignment.words, -1)[tokens]  # [positions]
    return (
        np.where(learns, np.append(word_labels, 0)[words], 0).astype("int32"),
        np.where(learns, np.append(weights, 0)[words], 0).astype("float32"),
    )


def ragged_targets(
    labels: list[np.ndarray],
    numbers: np.ndarray,
    weights: np.ndarray,
    splits: Any,
    num_classes: int,
) -> tuple:
    """Returns ragged targets and weights. Targets are class indices or one-hot, as in `labels`.

    Args:
        numbers: int32 [tokens], class indices.
        weights: float32 [tokens], 0 for tokens without a label.
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
    """Returns the label scores of each word, from the window in which it has the most context.

    Args:
        outputs: float32 [rows, length, num_labels].
    """
    alignment = align_tokens(sentences, tokenized)
    rows, columns = tokenized.columns()
    is_best = tokenized.has_most_context
    token_outputs = np.zeros((len(alignment.words), outputs.shape[-1]), "float32")
    token_outputs[tokenized.token_numbers()[is_best]] = outputs[rows[is_best], columns[is_best]]
    tokens = WordTokens(
        _make_int32(alignment.words), _make_int32(alignment.firsts), tf.constant(alignment.owns)
    )
    scores = decode.scores_of_words(
        tf.constant(token_outputs), tokens, aggregation, unknown
    ).numpy()
    parts = zip(alignment.word_splits[:-1], alignment.word_splits[1:])
    return [WordScores(scores[start:end], alignment.firsts[start:end]) for start, end in parts]


def over_sequences(
    function: Callable[[tf.Tensor, tf.Tensor], tf.Tensor],
    answers: list[WordScores],
    unknown: np.ndarray | int,
) -> list[np.ndarray]:
    """Like `decode.over_sequences`, but with batches of texts of similar length.

    Args:
        unknown: array [...], the result for words without a token.

    Returns:
        A list with one array [words, ...] per text.
    """
    results = [np.empty(0)] * len(answers)
    order = np.argsort([len(answer.tokens) for answer in answers], kind="stable")
    for first in range(0, len(answers), _BATCH):
        numbers = order[first : first + _BATCH]
        batch = [answers[number] for number in numbers]
        counts = [len(answer.tokens) for answer in batch]
        outputs = decode.over_sequences(
            function,
            tf.constant(np.concatenate([answer.scores for answer in batch])),
            units_of(batch),
            tf.constant(np.repeat(np.arange(len(batch)), counts)),
            tf.constant(len(batch), tf.int64),
            tf.constant(unknown),
        ).numpy()
        for number, part in zip(numbers, np.split(outputs, np.cumsum(counts)[:-1])):
            results[number] = part
    return results


def in_few_shapes(function: Callable) -> Callable:
    """Pads arguments to powers of 2, so that a compiled function is compiled for few shapes."""

    def run_padded(emissions, mask):
        sizes = mask.shape
        padding = [[0, (1 << (size - 1).bit_length()) - size] for size in sizes]
        outputs = function(np.pad(emissions, [*padding, [0, 0]]), np.pad(mask, padding))
        return outputs[: sizes[0], : sizes[1]]

    return run_padded


def units_of(answers: list[WordScores]) -> decode.Units:
    tokens: list[np.ndarray] = []
    base = 0
    for answer in answers:
        tokens.append(np.where(answer.tokens >= 0, answer.tokens + base, -1))
        base = max(base, 1 + tokens[-1].max(initial=-1))  # texts have different token numbers
    return decode.find_units(_make_int32(np.concatenate(tokens)))


def _make_int32(values):

    return tf.constant(values, tf.int32)


class EntityF1(ScoreMetric):
    """F1 score of entities. An entity is correct if all its words and its type are correct."""

    def __init__(self, labels: list[str], name: str = "entity_f1"):
        super().__init__(name=name)
        parts = read_labels(labels).parts
        alone = [next(iter(spans_of([label], parts=parts)), None) for label in labels]
        types = sorted({span.type for span in alone if span})
        self._is_outside = np.array([span is None for span in alone])
        self._types = np.array([types.index(span.type) if span else -1 for span in alone])
        # [previous label, label] -> whether the word starts an entity
        self._begins = np.array(
            [[_is_start(before, label, parts) for label in labels] for before in labels]
        )
        self._found, self._wanted, self._right = map(
            self.count_variable, ("found", "wanted", "right")
        )

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        weights = token_weights(y_true, sample_weight)
        undefined = 0 * ops.sum(defined_weights(y_pred, weights))  # NaN or 0
        is_word = weights > 0  # [rows, length]
        if len(y_true.shape) == len(y_pred.shape):
            y_true = ops.argmax(y_true, axis=-1)
        order = _sort_true_first(is_word)
        is_word = ops.take_along_axis(is_word, order, axis=1)
        labels = (
            ops.maximum(ops.cast(y_true, "int32"), 0),
            ops.cast(ops.argmax(y_pred, -1), "int32"),
        )
        labeled, predicted = (
            self._find_spans(ops.take_along_axis(tags, order, axis=1), is_word) for tags in labels
        )
        is_right = labeled.begins & predicted.begins & (labeled.types == predicted.types)
        is_right = is_right & _match_ends(labeled.stops, predicted.stops)
        counts = (
            (self._wanted, labeled.begins),
            (self._found, predicted.begins),
            (self._right, is_right),
        )
        for variable, spans in counts:
            self.add_count(variable, ops.sum(ops.cast(spans, "float32")) + undefined)

    def _find_spans(self, labels, is_word):
        inside = is_word & ops.logical_not(ops.take(self._is_outside, labels, axis=0))
        before = ops.concatenate([labels[:, :1], labels[:, :-1]], axis=1)  # previous label
        pairs = ops.take(self._begins.ravel(), before * len(self._begins) + labels, axis=0)
        is_first = ops.arange(ops.shape(labels)[1])[None] == 0
        begins = inside & (pairs | is_first)
        # An entity ends before a word that is outside of it or starts another entity.
        stops = begins | ops.logical_not(inside)
        return _Spans(begins, stops, ops.take(self._types, labels, axis=0))

    def result(self) -> Any:
        right, num_predicted, num_true = map(count, (self._right, self._found, self._wanted))
        return ops.divide_no_nan(2 * right, num_predicted + num_true)


def tagging_metrics(labels: list[str]) -> dict[str, Callable[[], Any]]:
    metrics = score_metrics(len(labels))
    metrics.pop("f1", None)  # the name is ambiguous: words or entities
    if read_labels(labels) is not None:
        metrics["entity_f1"] = lambda: EntityF1(labels)
    return metrics


def _is_start(before, label, parts):
    return any(span.start == 1 for span in spans_of([before, label], parts=parts))


class _Spans(NamedTuple):
    begins: Any  # bool [rows, length], True for the first word of an entity
    stops: Any  # bool [rows, length], True for words that are not part of the previous entity
    types: Any  # [rows, length], indices of entity types


def _match_ends(first, second):
    """Returns bool `[rows, length]`, True if true and predicted entities end at the same word.

    Args:
        first, second: bool `[rows, length]`, `_Spans.stops` of the true and predicted entities.
    """
    either = first | second
    count = ops.cumsum(ops.cast(either, "int32"), axis=1)  # number of stops up to each word
    length = ops.shape(either)[1]
    columns = ops.take_along_axis(_sort_true_first(either), ops.minimum(count, length - 1), axis=1)
    is_alone = ops.take_along_axis(first != second, columns, axis=1)
    return ops.logical_not(is_alone & (count < count[:, -1:]))


def _sort_true_first(is_true):
    """Sorts the column indices of each row: first the columns with True, then the others."""
    length = ops.shape(is_true)[1]
    columns = ops.arange(length)[None]
    return ops.argsort(ops.where(is_true, columns, columns + length), axis=1)
