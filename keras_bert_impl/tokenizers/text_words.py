"""Splits texts into words, and finds the tokens of each word, in the graph.

A position is an index into the code points of all texts of a batch.
"""

from typing import NamedTuple

import tensorflow as tf

from keras_bert_impl.tokenizers.graphs import numbers_of, places_of
from keras_bert_impl.tokenizers.unicode import utf8
from keras_bert_impl.tokenizers.unicode.table import BLOCK, shared_blocks
from keras_bert_impl.tokenizers.windows import Windows
from keras_bert_impl.utils.characters import ALONE, INSIDE, SPACE, character_kinds


class Texts(NamedTuple):
    """The code points of a batch of texts.

    Attributes:
        code_points: int32 [positions], with a newline after each text.
        kinds: int32 [positions], SPACE, INSIDE or ALONE for each code point.
        starts: int32 [batch + 1], the start of each text.
    """

    code_points: tf.Tensor
    kinds: tf.Tensor
    starts: tf.Tensor

    def strings(self, starts: tf.Tensor, ends: tf.Tensor) -> tf.Tensor:
        """Returns the substrings between start and end positions, as a string tensor."""
        positions = tf.ragged.range(starts, ends)
        code_points = positions.with_values(tf.gather(self.code_points, positions.values))
        return tf.strings.unicode_encode(code_points, "UTF-8")

    def in_texts(self, positions: tf.Tensor, texts: tf.Tensor) -> tf.Tensor:
        """Converts positions to character offsets in the texts with the indices `texts`."""
        return positions - tf.gather(self.starts, texts)


class TextReader:
    def __init__(self) -> None:
        self._index, self._blocks = shared_blocks(character_kinds())

    def __call__(self, texts: tf.Tensor) -> Texts:
        """Decodes a string tensor [batch]; invalid UTF-8 becomes U+FFFD."""
        code_points, starts = utf8.decode(texts)
        block = tf.gather(self._index, tf.bitwise.right_shift(code_points, 7))
        kinds = tf.gather(self._blocks, block + tf.bitwise.bitwise_and(code_points, BLOCK - 1))
        return Texts(code_points, kinds, starts)


class TextWords(NamedTuple):
    """Words of texts.

    Attributes:
        starts, ends: int32 [words], the span of each word.
        texts: int64 [words], the index of each word's text.
        counts: int64 [batch], the number of words in each text.
    """

    starts: tf.Tensor
    ends: tf.Tensor
    texts: tf.Tensor
    counts: tf.Tensor


def find_words(texts: Texts) -> TextWords:
    """Finds words: runs of letters and digits, and single punctuation marks and ideographs."""
    kinds = texts.kinds
    is_alone = tf.equal(kinds, ALONE)
    before = tf.concat([[SPACE], kinds[:-1]], axis=0)[: tf.size(kinds)]
    after = tf.concat([kinds[1:], [SPACE]], axis=0)[: tf.size(kinds)]
    is_word = tf.not_equal(kinds, SPACE)
    starts = places_of(is_word & (is_alone | tf.not_equal(before, INSIDE)))
    ends = places_of(is_word & (is_alone | tf.not_equal(after, INSIDE))) + 1
    splits = tf.searchsorted(starts, texts.starts, out_type=tf.int64)  # [batch + 1]
    counts = splits[1:] - splits[:-1]
    return TextWords(starts, ends, numbers_of(counts), counts)


class WordTokens(NamedTuple):
    """Alignment of tokens with words, over all texts; see `TokenAlignment`.

    Attributes:
        words: int32 [tokens], the index of the word that contains each token; -1 for no word.
        firsts: int32 [words], the index of the first token of each word; -1 for no token. If a
            token contains several words, these words have the same first token.
        owns: bool [words], whether the word occurs in `words`.
    """

    words: tf.Tensor
    firsts: tf.Tensor
    owns: tf.Tensor


def find_tokens(
    texts: Texts, words: TextWords, token_starts: tf.RaggedTensor, token_ends: tf.RaggedTensor
) -> WordTokens:
    shifts = tf.gather(texts.starts, numbers_of(token_starts.row_lengths()))
    starts, ends = token_starts.values + shifts, token_ends.values + shifts  # [tokens]
    num_words, num_tokens = tf.size(words.starts), tf.size(starts)

    last = ends - 1
    word_indices = tf.searchsorted(words.starts, last, side="right") - 1
    # Without this value, a batch without words would fail.
    word_ends = tf.concat([words.ends, [0]], axis=0)
    within = (word_indices >= 0) & (ends > starts)
    # Added tokens may contain the white space after the word.
    within &= starts < tf.gather(word_ends, tf.maximum(word_indices, 0))
    word_indices = tf.where(within, word_indices, -1)

    firsts = tf.math.unsorted_segment_min(
        tf.range(num_tokens), tf.where(within, word_indices, num_words), num_words + 1
    )[:-1]
    owns = firsts < num_tokens  # For a word without tokens, `firsts` is the maximum int32.
    holders = tf.searchsorted(ends, words.ends - 1, side="right")
    begins = tf.gather(tf.concat([starts, [tf.int32.max]], axis=0), holders)
    shared = tf.where(begins < words.ends, holders, -1)
    return WordTokens(word_indices, tf.where(owns, firsts, shared), owns)


def padded(
    flat: dict[str, tf.Tensor], counts: tf.Tensor, **fillings: int | float
) -> dict[str, tf.Tensor]:
    """Splits tensors into examples of `counts` rows, and pads them: `[batch, longest, ...]`."""
    return {
        name: tf.RaggedTensor.from_row_lengths(
            values, tf.cast(counts, tf.int64), validate=False
        ).to_tensor(fillings.get(name))
        for name, values in flat.items()
    }


def counts_of(texts: tf.Tensor, num_texts: tf.Tensor) -> tf.Tensor:
    """Counts how often each index from 0 to `num_texts - 1` occurs in `texts`."""
    return tf.math.unsorted_segment_sum(tf.ones_like(texts, tf.int32), texts, num_texts)


def window_features(
    windows: Windows, pad_id: int, word_firsts: tf.Tensor | None = None
) -> dict[str, tf.Tensor]:
    """Returns the windows of each text as dense tensors, for an exported model.

    Args:
        word_firsts: int32 [words], the first token of each word.

    Returns:
        dict of int32 tensors with the shape `[batch, windows, length]`, except `num_windows`:
        - `num_windows`: `[batch]`, the number of windows of each text;
        - the features of a tokenizer, such as `token_ids`;
        - `token_starts`, `token_ends`: character offsets; -1 for special tokens and the first text
          of a pair;
        - `word_mask` (if `word_firsts` is given): 1 for the tokens whose output is the prediction
          for a word.
    """
    numbers = tf.gather(windows.token_starts.row_splits, windows.texts)[:, tf.newaxis]
    numbers += tf.cast(windows.tokens(), tf.int64)
    is_token = windows.tokens() >= 0
    numbers = tf.where(is_token, numbers, tf.size(windows.token_starts.values, tf.int64))

    def at_tokens(values, otherwise):
        return tf.gather(tf.concat([values, [otherwise]], axis=0), numbers)  # [windows, length]

    flat = {
        **windows.features,
        "token_starts": at_tokens(windows.token_starts.values, -1),
        "token_ends": at_tokens(windows.token_ends.values, -1),
    }
    if word_firsts is not None:
        is_first = first_tokens(word_firsts, tf.size(windows.token_starts.values))
        mask = windows.has_most_context() & at_tokens(is_first, False)
        flat["word_mask"] = tf.cast(mask, tf.int32)
    counts = counts_of(windows.texts, windows.token_starts.nrows())
    fillings = {"token_ids": pad_id, "token_starts": -1, "token_ends": -1}
    return {"num_windows": counts, **padded(flat, counts, **fillings)}


def first_tokens(word_firsts: tf.Tensor, num_tokens: tf.Tensor) -> tf.Tensor:
    """Returns bool [num_tokens], True for the tokens whose index is in `word_firsts`."""
    indices = tf.where(word_firsts >= 0, word_firsts, num_tokens)
    marked = tf.zeros([num_tokens + 1], tf.bool)
    return tf.tensor_scatter_nd_update(
        marked, indices[:, tf.newaxis], tf.ones_like(indices, tf.bool)
    )[:-1]
