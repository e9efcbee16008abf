"""Encoder features of words, computed once and kept in memory.

Shape legend: words = words of one text; layers = the selected hidden states; hidden = their size.
"""

import dataclasses

import numpy as np
import tensorflow as tf

from keras_bert_impl.tasks.inputs import batching
from keras_bert_impl.tasks.inputs.windows import tokenize_windows
from keras_bert_impl.tasks.inputs.words import find_pieces

_BATCH = 64  # windows per encoder batch


@dataclasses.dataclass(frozen=True)
class WordFeatures(batching.FlatRows):
    """Hidden states of the words of texts; a row is a text, its length the number of words.

    Attributes:
        states: float32 [words of all texts, layers, hidden].
    """

    states: tf.Tensor

    def features(self, rows):
        """Returns the features of a batch, in eager mode or in any graph.

        Args:
            rows: int64 [rows], text numbers.

        Returns:
            dict: `states` float32 [rows, words, layers, hidden], `mask` int32 [rows, words].
        """
        flat, place, lengths = self.places(rows)
        is_real = (place < lengths)[:, :, tf.newaxis, tf.newaxis]
        states = tf.where(is_real, tf.gather(self.states, flat), 0.0)
        # A text without words gets one of zeros: recurrent layers on a GPU need a first step.
        mask = tf.cast(place < tf.maximum(lengths, 1), tf.int32)
        static = batching.static_size(self.widths)
        return {
            "mask": tf.ensure_shape(mask, [None, static]),
            "states": tf.ensure_shape(states, [None, static, *self.states.shape[1:]]),
        }


def word_states(sentences, states_of, shape, tokenizer, max_length, stride, widths):
    """Computes the states of each word: its first subword's, where that has the most context.

    Args:
        sentences: list of `Words`.
        states_of: function that maps a batch of features to float32
            [rows, length, layers, hidden].
        shape: (layers, hidden).
        tokenizer, max_length, stride, widths: see `tokenize_windows`.

    Returns:
        (states, row_splits): float32 array [words of all texts, layers, hidden], 0 for words
        without subwords; int64 array [texts + 1].
    """
    texts = [words.text for words in sentences]
    windows = tokenize_windows(texts, tokenizer, max_length, stride, widths=widths)
    pieces = find_pieces(sentences, windows)
    rows, columns = windows.columns()
    asked = np.flatnonzero(windows.has_most_context & (windows.tokens >= 0))
    places = np.zeros(len(pieces.words), "int64")  # of each token of all texts
    places[windows.text_splits[windows.texts[rows[asked]]] + windows.tokens[asked]] = asked
    known = np.flatnonzero(pieces.firsts >= 0)
    places = places[pieces.firsts[known]]  # [known words]

    data, order = batching.sorted_batches(windows, (), _BATCH)
    number_of = np.argsort(order)[rows[places]]  # of its row, in the order of the batches
    by_batch = np.argsort(number_of, kind="stable")
    ends = np.searchsorted(number_of[by_batch], np.arange(0, len(order) + _BATCH, _BATCH))
    states = np.zeros((len(pieces.firsts), *shape), "float32")
    for batch, (features,) in enumerate(data):
        found = states_of(features).numpy()  # [rows, length, layers, hidden]
        own = by_batch[ends[batch] : ends[batch + 1]]
        states[known[own]] = found[number_of[own] - batch * _BATCH, columns[places[own]]]
    return states, pieces.word_splits
