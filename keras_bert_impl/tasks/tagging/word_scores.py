"""From the labels of words to those of tokens in windows, and back from scores, in numpy."""

from typing import NamedTuple

import numpy as np

from keras_bert_impl.tasks.inputs.words import find_pieces

_BATCH = 64  # sequences of labels that are decoded at once


class WordScores(NamedTuple):
    """What was answered for the words of a text.

    Attributes:
        scores: float32 [words, num_labels].
        tokens: int64 [words], the token that was asked for each; -1 for none. Words that share
            one share the answer.
    """

    scores: np.ndarray
    tokens: np.ndarray


def token_targets(labels, weights, sentences, tokenized, all_pieces):
    """What the tokens in windows are trained with; every word counts in one window alone.

    Args:
        labels: list (a text) of int arrays [words], negative for words without a label.
        weights: float32 [texts].
        sentences: list of `Words`.
        tokenized: `TokenizedWindows` of their texts.
        all_pieces: bool. Whether every piece of a word has its label, or the first.

    Returns:
        (labels int32, weights float32) [places]; 0 where there is none.
    """
    pieces = find_pieces(sentences, tokenized)
    labels = np.concatenate(labels)  # [words of all texts]
    weights = np.repeat(weights, np.diff(pieces.word_splits)) * (labels >= 0)
    learns = pieces.words >= 0 if all_pieces else pieces.is_first
    tokens = tokenized.token_numbers()
    learns = np.append(learns, False)[tokens] & tokenized.has_most_context
    words = np.append(pieces.words, -1)[tokens]  # [places]
    return (
        np.where(learns, np.append(labels, 0)[words], 0).astype("int32"),
        np.where(learns, np.append(weights, 0)[words], 0).astype("float32"),
    )


def word_scores(outputs, sentences, tokenized, aggregation, unknown):
    """The scores of all words, each token asked in the window where it has most context.

    Args:
        outputs: float32 [rows, length, num_labels].
        sentences: list of `Words`.
        tokenized: `TokenizedWindows` of their texts.
        aggregation: `"first"`, `"mean"` or `"max"` over the pieces of a word.
        unknown: int, the label of words without pieces.

    Returns:
        list (a text) of `WordScores`.
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
    """[words that own a token, num_labels]: mean, or the row of the piece with the highest."""
    owned = np.flatnonzero(pieces.words >= 0)
    of_tokens, words = of_tokens[owned], pieces.words[owned]
    begins = np.flatnonzero(pieces.is_first[owned])  # of the words, whose pieces stand together
    if aggregation == "mean":
        counts = np.diff(np.append(begins, len(owned)))
        return np.add.reduceat(of_tokens, begins, axis=0) / counts[:, None]
    best_first = np.lexsort((-of_tokens.max(axis=1), words))
    return of_tokens[best_first[begins]]


def units(tokens):
    """(starts, ends), int64 [units]: runs of words of a text that share their token.

    Args:
        tokens: int64 [words], as of `WordScores`.
    """
    differs = np.append(True, tokens[1:] != tokens[:-1]) | (tokens < 0)
    starts = np.flatnonzero(differs[: len(tokens)])
    return starts, np.append(starts[1:], len(tokens))[: len(starts)]


def over_sequences(function, answers, unknown):
    """What is said of each word by a function of the sequence of a text's units.

    Args:
        function: of emissions, float32 [batch, length, num_labels], and a mask, float32
            [batch, length]; returns a numpy array [batch, length, ...].
        answers: list of `WordScores`.
        unknown: array [...], what is said of words without a token.

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
    """Each word's part of what was said of the units that begin at `starts`."""
    result = np.empty((len(tokens), *said.shape[1:]), said.dtype)
    result[...] = unknown
    has_token = tokens >= 0
    unit = np.searchsorted(starts, np.arange(len(tokens)), side="right") - 1
    result[has_token] = said[unit[has_token]]
    return result
