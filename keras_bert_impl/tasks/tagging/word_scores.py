"""Conversion of word labels to token targets, and of window outputs to word scores, in NumPy."""

from typing import NamedTuple

import numpy as np

from keras_bert_impl.tasks.inputs.words import find_pieces

_BATCH = 64  # label sequences decoded at once


class WordScores(NamedTuple):
    """Predictions for the words of a text.

    Attributes:
        scores: float32 [words, num_labels].
        tokens: int64 [words], token that each prediction is taken from; -1 for none. Words that
            share a token share its prediction.
    """

    scores: np.ndarray
    tokens: np.ndarray


def token_targets(labels, weights, sentences, tokenized, all_pieces):
    """Returns the training targets of tokens in windows; every word counts in exactly one window.

    Args:
        labels: list (texts) of int arrays [words], negative for words without a label.
        weights: float32 [texts].
        sentences: list of `Words`.
        tokenized: `TokenizedWindows` of their texts.
        all_pieces: bool. Whether to label all subwords of a word, or only the first.

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
    """Returns the scores of all words, each token read in the window where it has the most context.

    Args:
        outputs: float32 [rows, length, num_labels].
        sentences: list of `Words`.
        tokenized: `TokenizedWindows` of their texts.
        aggregation: `"first"`, `"mean"` or `"max"` over the subwords of a word.
        unknown: int. Label of words without subwords.

    Returns:
        list (texts) of `WordScores`.
    """
    pieces = find_pieces(sentences, tokenized)
    rows, columns = tokenized.columns()
    asked = tokenized.has_most_context
    of_tokens = np.zeros((len(pieces.words), outputs.shape[-1]), "float32")
    of_tokens[tokenized.token_numbers()[asked]] = outputs[rows[asked], columns[asked]]

    scores = np.zeros((len(pieces.firsts), outputs.shape[-1]), "float32")
    is_known = pieces.firsts >= 0
    scores[is_known] = of_tokens[pieces.firsts[is_known]]
    scores[~is_known, unknown] = 1.0
    if aggregation != "first":
        scores[pieces.owns] = _aggregated(of_tokens, pieces, aggregation)
    parts = zip(pieces.word_splits[:-1], pieces.word_splits[1:])
    return [WordScores(scores[start:end], pieces.firsts[start:end]) for start, end in parts]


def _aggregated(of_tokens, pieces, aggregation):
    """Returns [words that own a token, num_labels]: the mean, or the subword with the top score."""
    owned = np.flatnonzero(pieces.words >= 0)
    of_tokens, words = of_tokens[owned], pieces.words[owned]
    begins = np.flatnonzero(pieces.is_first[owned])  # first subwords; those of a word are adjacent
    if aggregation == "mean":
        counts = np.diff(np.append(begins, len(owned)))
        return np.add.reduceat(of_tokens, begins, axis=0) / counts[:, None]
    best_first = np.lexsort((-of_tokens.max(axis=1), words))
    return of_tokens[best_first[begins]]


def units(tokens):
    """Returns (starts, ends), int64 [units]: runs of words of a text that share their token.

    Args:
        tokens: int64 [words], see `WordScores`.
    """
    differs = np.append(True, tokens[1:] != tokens[:-1]) | (tokens < 0)
    starts = np.flatnonzero(differs[: len(tokens)])
    return starts, np.append(starts[1:], len(tokens))[: len(starts)]


def over_sequences(function, answers, unknown):
    """Applies a function to each text's sequence of units and maps the results to words.

    Args:
        function: takes emissions, float32 [batch, length, num_labels], and a mask, float32
            [batch, length]; returns a numpy array [batch, length, ...].
        answers: list of `WordScores`.
        unknown: array [...], result for words without a token.

    Returns:
        list of arrays [words, ...].
    """
    sequences = []
    for answer in answers:
        starts, _ = units(answer.tokens)
        sequences.append(starts[answer.tokens[starts] >= 0])
    order = np.argsort([len(starts) for starts in sequences], kind="stable")
    results = [None] * len(answers)
    for first in range(0, len(answers), _BATCH):
        numbers = order[first : first + _BATCH]
        shape = len(numbers), max(1, len(sequences[numbers[-1]]))  # the longest comes last
        emissions = np.zeros((*shape, answers[0].scores.shape[-1]), "float32")
        mask = np.zeros(shape, "float32")
        for row, number in enumerate(numbers):
            starts = sequences[number]
            emissions[row, : len(starts)] = answers[number].scores[starts]
            mask[row, : len(starts)] = 1
        said = function(emissions, mask)
        for row, number in enumerate(numbers):
            tokens = answers[number].tokens
            results[number] = _of_words(said[row], tokens, sequences[number], unknown)
    return results


def _of_words(said, tokens, starts, unknown):
    """Maps the results of the units that start at `starts` to words."""
    result = np.empty((len(tokens), *said.shape[1:]), said.dtype)
    result[...] = unknown
    has_token = tokens >= 0
    unit = np.searchsorted(starts, np.arange(len(tokens)), side="right") - 1
    result[has_token] = said[unit[has_token]]
    return result
