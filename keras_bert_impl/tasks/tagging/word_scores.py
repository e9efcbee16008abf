"""Converts word labels to token targets, and the outputs of windows to scores of words."""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_bert_impl.serving.words import TextWords, WordTokens
from keras_bert_impl.tasks.inputs.words import find_pieces
from keras_bert_impl.tasks.tagging import decode

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


def token_targets(labels, weights, sentences, tokenized, all_pieces):
    """Returns the training targets of tokens in windows; each word counts in exactly one window.

    Args:
        labels: list (texts) of int arrays [words], negative for words without a label.
        weights: float32 [texts].
        sentences: list of `Words`.
        tokenized: `TokenizedWindows` of their texts.
        all_pieces: bool. Whether to label all subword tokens of a word, or only the first.

    Returns:
        (labels int32, weights float32) [positions]; 0 where there is no label.
    """
    pieces = find_pieces(sentences, tokenized)
    labels = np.concatenate(labels)  # [words of all texts]
    weights = np.repeat(weights, np.diff(pieces.word_splits)) * (labels >= 0)
    learns = pieces.words >= 0 if all_pieces else pieces.is_first
    tokens = tokenized.token_numbers()
    learns = np.append(learns, False)[tokens] & tokenized.has_most_context
    words = np.append(pieces.words, -1)[tokens]  # [positions]
    return (
        np.where(learns, np.append(labels, 0)[words], 0).astype("int32"),
        np.where(learns, np.append(weights, 0)[words], 0).astype("float32"),
    )


def word_scores(outputs, sentences, tokenized, aggregation, unknown):
    """Returns the scores of all words, each token read in the window where it has most context.

    Args:
        outputs: float32 [rows, length, num_labels].
        sentences: list of `Words`.
        tokenized: `TokenizedWindows` of their texts.
        aggregation, unknown: see `decode.scores_of_words`.

    Returns:
        list (texts) of `WordScores`.
    """
    pieces = find_pieces(sentences, tokenized)
    rows, columns = tokenized.columns()
    asked = tokenized.has_most_context
    of_tokens = np.zeros((len(pieces.words), outputs.shape[-1]), "float32")
    of_tokens[tokenized.token_numbers()[asked]] = outputs[rows[asked], columns[asked]]
    tokens = WordTokens(_int32(pieces.words), _int32(pieces.firsts), tf.constant(pieces.owns))
    scores = decode.scores_of_words(tf.constant(of_tokens), tokens, aggregation, unknown).numpy()
    parts = zip(pieces.word_splits[:-1], pieces.word_splits[1:])
    return [WordScores(scores[start:end], pieces.firsts[start:end]) for start, end in parts]


def over_sequences(function, answers, unknown):
    """Applies a function to the sequence of each text; see `decode.over_sequences`.

    Args:
        function: of emissions, float32 [batch, length, num_labels], and a mask, float32
            [batch, length]; returns a tensor [batch, length, ...].
        answers: list of `WordScores`.
        unknown: array [...]. The result for words without a token.

    Returns:
        list of arrays [words, ...].
    """
    results = [None] * len(answers)
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


def units_of(answers):
    """Returns `decode.Units` of the words of texts, concatenated.

    Args:
        answers: list of `WordScores`.
    """
    tokens, base = [], 0
    for answer in answers:
        tokens.append(np.where(answer.tokens >= 0, answer.tokens + base, -1))
        base = max(base, 1 + tokens[-1].max(initial=-1))  # no unit reaches into the next text
    return decode.find_units(_int32(np.concatenate(tokens)))


def flat_words(sentences):
    """Returns `TextWords` of texts, concatenated, and int64 [texts + 1], where each text begins.

    Args:
        sentences: list of `Words`.
    """
    bases = np.cumsum([0, *(len(words.text) + 1 for words in sentences)])
    counts = [len(words.starts) for words in sentences]
    shifts = np.repeat(bases[:-1], counts)
    starts, ends = (
        _int32(np.concatenate([words[side] for words in sentences]) + shifts) for side in (1, 2)
    )
    texts = tf.constant(np.repeat(np.arange(len(sentences)), counts))
    return TextWords(starts, ends, texts, tf.constant(counts, tf.int64)), bases


def _int32(values):
    return tf.constant(values, tf.int32)
