"""Tokenizes a text for `attribute`, and finds the word of each token."""

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from keras_bert_impl.data.batches.words import Words, find_words
from keras_bert_impl.reports.attribution.results import AttributedWord
from keras_bert_impl.utils.errors import InputError

_MOST_SPECIAL_TOKENS = 4  # maximum number of special tokens between two segments


class TextRow(NamedTuple):
    """Features and words of a tokenized text.

    Attributes:
        features: int32 `[1, length]` each, or `[1, 1, length]` for a model that reads windows.
        words: the words that have at least one token in `features`. Each `score` is 0.
        numbers: for each word of `words`, the index of the word in the segment.
        word_of: int64 `[length]`: for each token, the index of the word in `words`; -1 for special
            tokens.
        is_cut: whether the text was truncated.
    """

    features: dict[str, np.ndarray]
    words: list[AttributedWord]
    numbers: list[int]
    word_of: np.ndarray
    is_cut: bool


def text_row(model: Any, text: Any) -> TextRow:
    """Tokenizes a text or pair. If the text has several windows, only the first window is used."""
    try:
        texts = model.as_texts([text])
    except InputError as error:
        if not isinstance(text, list):
            raise
        raise InputError(
            "attribute accepts one text. For several texts, write [attribute(model, text) for "
            "text in texts]."
        ) from error
    features = features_of_first(model, model.rows(texts)[0])
    ids = features["token_ids"].reshape(-1)
    segments = texts[0] if isinstance(texts[0], tuple) and not _is_words(texts[0]) else (texts[0],)
    word_of = np.full(len(ids), -1)
    words: list[AttributedWord] = []
    numbers: list[int] = []
    cursor, is_cut = 0, False
    for number, segment in enumerate(segments):
        segment_words = segment if _is_words(segment) else find_words(_decode_text(segment))
        first, token_words, is_whole = _align(model.tokenizer, segment_words, ids, cursor)
        cursor, is_cut = first + len(token_words), is_cut or not is_whole
        word_indices = np.unique(token_words)
        word_of[first:cursor] = len(words) + np.searchsorted(word_indices, token_words)
        numbers += word_indices.tolist()
        words += [
            AttributedWord(segment_words.text[start:end], int(start), int(end), number, 0.0)
            for start, end in zip(
                segment_words.starts[word_indices], segment_words.ends[word_indices]
            )
        ]
    if not words:
        raise InputError(f"the text has no words: {text!r:.60}")
    return TextRow(features, words, numbers, word_of, is_cut)


def features_of_first(model: Any, rows: Any) -> dict[str, np.ndarray]:
    """Returns the features of the first window of the first example."""
    tensors = rows.features(tf.constant([0], "int64"))
    features = {name: np.asarray(value) for name, value in tensors.items()}
    if model.long_texts.has_windows:  # [..., windows, length]
        features = {name: value[..., :1, :] for name, value in features.items()}
    return features


def _is_words(text):
    return isinstance(text, Words)


def _decode_text(text):
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else text


def _align(tokenizer, words, ids, cursor):
    """Finds the tokens of `words` in `ids`, at `cursor` or after a few special tokens.

    Returns:
        first: index in `ids` of the first token.
        token_words: for each token, the index of the word in `words`.
        is_whole: whether `ids` contains all tokens. False if the text is truncated.
    """
    if not len(words.starts):
        return cursor, np.zeros(0, int), True
    tokens, _, ends = (part[0].numpy() for part in tokenizer.tokenize_with_offsets([words.text]))

    def count_matches(first):
        part = ids[first : first + len(tokens)]
        differs = np.flatnonzero(part != tokens[: len(part)])
        return int(differs[0]) if len(differs) else len(part)

    first = max(range(cursor, cursor + _MOST_SPECIAL_TOKENS), key=count_matches)
    length = count_matches(first)
    # A token belongs to the word that contains its last character; a token between words belongs to
    # the preceding word.
    token_words = np.searchsorted(words.starts, ends[:length] - 1, side="right") - 1
    return first, np.maximum(token_words, 0), length == len(tokens)
