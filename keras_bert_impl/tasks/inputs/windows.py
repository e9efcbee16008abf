"""Rows of texts that are longer than a row: windows, and what they know of their texts."""

import dataclasses

import numpy as np

from keras_bert_impl.tasks.inputs.batching import (
    TokenizedTexts,
    chunks_of,
    flat_rows,
    in_one,
    padding,
    splits_of,
)
from keras_bert_impl.tokenizers.texts import as_strings
from keras_bert_impl.tokenizers.windows import pack_windows


@dataclasses.dataclass(frozen=True)
class TokenizedWindows(TokenizedTexts):
    """`TokenizedTexts` whose rows are windows, in the order of the texts.

    Numpy arrays; a place is one of `token_ids`.

    Attributes:
        texts: int64 [rows], the text that each window is of.
        tokens: int32 [places], number of the token among those of its text; -1 for special tokens
            and for the first text of a pair.
        has_most_context: bool [places], of all places of a token the one to ask.
        text_splits: int64 [texts + 1]: the offsets of text i are those from `text_splits[i]` to
            `text_splits[i + 1]`.
        token_starts, token_ends: int32 [tokens of all texts], in characters of the text.
    """

    texts: np.ndarray
    tokens: np.ndarray
    has_most_context: np.ndarray
    text_splits: np.ndarray
    token_starts: np.ndarray
    token_ends: np.ndarray

    def columns(self):
        """(rows, columns): int64 [places] each, where in padded rows every place is."""
        splits = self.row_splits.numpy()
        rows = np.repeat(np.arange(self.num_texts), np.diff(splits))
        return rows, np.arange(splits[-1]) - splits[rows]

    def token_numbers(self):
        """int64 [places]: each place's token among those of all texts; -1 where there is none."""
        rows, _ = self.columns()
        numbers = self.text_splits[self.texts[rows]] + self.tokens
        return np.where(self.tokens >= 0, numbers, -1)


def tokenize_windows(texts, tokenizer, max_length, stride, first_length=64, widths=None):
    """Tokenizes texts once, in graph, a chunk at a time.

    Args:
        texts: list of str, or of (first, second) tuples, all of one kind; windows slide over the
            second.
        tokenizer: `Tokenizer`.
        max_length: int, the most tokens of a window.
        stride: int, tokens from the start of one window to that of the next.
        first_length: int. The first text of a pair is cut to so many tokens.
        widths: list of int, as of `tokenize_texts`.

    Returns:
        `TokenizedWindows`.
    """
    rows, windows = [], []
    for start, chunk in chunks_of(texts):
        made = pack_windows(tokenizer, _segments(chunk), max_length, stride, first_length)
        rows.append(flat_rows(made.features))
        windows.append(_flat_windows(made, start))
    parts = {name: np.concatenate([chunk[name] for chunk in windows]) for name in windows[0]}
    parts["text_splits"] = splits_of(parts.pop("text_lengths"))
    return TokenizedWindows(**in_one(rows), **padding(tokenizer, max_length, widths), **parts)


def _segments(texts):
    """String tensor [texts], or a tuple of two of those."""
    if texts and isinstance(texts[0], tuple):
        first, second = zip(*texts)
        return as_strings(list(first)), as_strings(list(second))
    return as_strings(texts)


def _flat_windows(windows, first_text):
    """The fields of `TokenizedWindows` of `Windows` over a chunk that begins at `first_text`."""
    is_real = windows.features["padding_mask"].numpy() == 1
    return {
        "texts": windows.texts.numpy() + first_text,
        "tokens": windows.tokens().numpy()[is_real],
        "has_most_context": windows.has_most_context().numpy()[is_real],
        "text_lengths": windows.token_starts.row_lengths().numpy(),
        "token_starts": windows.token_starts.flat_values.numpy(),
        "token_ends": windows.token_ends.flat_values.numpy(),
    }
