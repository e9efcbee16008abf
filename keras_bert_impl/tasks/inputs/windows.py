"""Windows of texts longer than a row, with the mapping back to their texts."""

import dataclasses
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert_impl.one_graph import in_one_graph
from keras_bert_impl.tasks.inputs.batching import (
    TokenizedTexts,
    flat_rows,
    in_one,
    padding,
    splits_of,
)
from keras_bert_impl.tasks.inputs.blocks import blocks
from keras_bert_impl.tasks.inputs.text_windows import one_kind
from keras_bert_impl.tokenizers import Tokenizer
from keras_bert_impl.tokenizers.windows import pack_windows


@dataclasses.dataclass(frozen=True)
class TokenizedWindows(TokenizedTexts):
    """`TokenizedTexts` whose rows are windows, in the order of the texts.

    Attributes:
        texts: int64 [rows]. Index of the text of each window.
        tokens: int32 [positions]. Index of the token in its text; -1 for special tokens and for the
            first text of a pair.
        has_most_context: bool [positions]. Whether this is the position of its token with the most
            context, the one used for predictions.
        text_splits: int64 [texts + 1]. The offsets of text i are those from `text_splits[i]` to
            `text_splits[i + 1]`.
        token_starts, token_ends: int32 [tokens of all texts], in characters of the text.
    """

    texts: np.ndarray
    tokens: np.ndarray
    has_most_context: np.ndarray
    text_splits: np.ndarray
    token_starts: np.ndarray
    token_ends: np.ndarray

    def columns(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns (rows, columns), int64 [positions] each: the location in the padded rows."""
        splits = self.row_splits.numpy()
        rows = np.repeat(np.arange(self.num_texts), np.diff(splits))
        return rows, np.arange(splits[-1]) - splits[rows]

    def token_numbers(self) -> np.ndarray:
        """int64 [positions]. Index of each position's token in all texts; -1 if there is none."""
        rows, _ = self.columns()
        numbers = self.text_splits[self.texts[rows]] + self.tokens
        return np.where(self.tokens >= 0, numbers, -1)


def tokenize_windows(
    texts: list,
    tokenizer: Tokenizer,
    max_length: int,
    stride: int,
    first_length: int = 64,
    widths: list[int] | None = None,
) -> TokenizedWindows:
    """Tokenizes texts once, in graph mode, block by block."""
    rows, windows, start = [], [], 0
    for block in blocks(texts):
        made = pack_windows(tokenizer, one_kind(block), max_length, stride, first_length)
        rows.append(flat_rows(made.features))
        windows.append(_flat_windows(made, start))
        start += len(block)
    parts: dict[str, Any] = {
        name: np.concatenate([chunk[name] for chunk in windows]) for name in windows[0]
    }
    parts["text_splits"] = splits_of(parts.pop("text_lengths"))
    return TokenizedWindows(**in_one(rows), **padding(tokenizer, max_length, widths), **parts)


def _flat_windows(windows, first_text):
    """Returns the `TokenizedWindows` fields of a chunk's `Windows`; it begins at `first_text`."""
    tokens, has_most_context = _positions(windows)
    return {
        "texts": windows.texts.numpy() + first_text,
        "tokens": tokens.numpy(),
        "has_most_context": has_most_context.numpy(),
        "text_lengths": windows.token_starts.row_lengths().numpy(),
        "token_starts": windows.token_starts.flat_values.numpy(),
        "token_ends": windows.token_ends.flat_values.numpy(),
    }


@in_one_graph
def _positions(windows):
    """Returns (tokens, has_most_context) of `Windows`, [positions], without padding."""
    is_real = windows.features["padding_mask"] == 1
    of_rows = windows.tokens(), windows.has_most_context()
    return tuple(tf.boolean_mask(values, is_real) for values in of_rows)
