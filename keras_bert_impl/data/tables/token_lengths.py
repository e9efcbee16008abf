"""Lengths of texts in tokens, and unknown tokens; uses the `tokenizers` library instead of TensorFlow."""

import collections
import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from keras_bert_impl.utils.errors import InputError

_SAMPLE = 10_000  # maximum number of texts to tokenize


class TokenCounts(NamedTuple):
    """Tokens of texts.

    Attributes:
        lengths: number of tokens of each sequence, with special tokens.
        unknown: fraction of the tokens that are the unknown token.
        unknown_words: the most frequent words or characters that are unknown.
    """

    lengths: list[int]
    unknown: float
    unknown_words: list[str]


def count_tokens(directory: Path, sequences: Sequence[tuple[str, ...]]) -> TokenCounts:
    """Counts the tokens of at most 10,000 evenly spaced sequences.

    Args:
        directory: model directory with a `tokenizer.json`.
        sequences: tuples of one or two segments.

    Raises:
        InputError: the file does not exist, or the library cannot read it.
    """
    import tokenizers

    path = directory / "tokenizer.json"
    try:
        tokenizer = tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises no subclass
        raise InputError(f"{path} cannot be read: {error}") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    rows = [sequences[number] for number in sample_of(len(sequences))]
    encoded = tokenizer.encode_batch([row if len(row) > 1 else row[0] for row in rows])
    unknown_token, words = _read_unknown_token(path), collections.Counter[str]()
    for row, encoding in zip(rows, encoded):
        if unknown_token in encoding.tokens:
            parts = zip(encoding.tokens, encoding.sequence_ids, encoding.offsets)
            for token, segment, (start, end) in parts:
                if token == unknown_token and segment is not None:
                    words[row[segment][start:end]] += 1
    lengths = [len(encoding.ids) for encoding in encoded]
    num_special = sum(sum(encoding.special_tokens_mask) for encoding in encoded)
    share = words.total() / max(sum(lengths) - num_special, 1)
    return TokenCounts(lengths, share, [word for word, _ in words.most_common(5)])


def _read_unknown_token(path):
    model = json.loads(path.read_text(encoding="utf-8"))["model"]
    if model.get("unk_id") is not None:  # Unigram
        return model["vocab"][model["unk_id"]][0]
    return model.get("unk_token")


def sample_of(count: int) -> np.ndarray:
    """Returns at most 10,000 evenly spaced indices from 0 to `count - 1`."""
    return np.unique(np.linspace(0, count - 1, min(count, _SAMPLE)).astype(int))
