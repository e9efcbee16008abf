"""Lengths of texts in tokens; uses the `tokenizers` library instead of TensorFlow."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from keras_bert_impl.io.errors import InputError

_SAMPLE = 10_000  # maximum number of texts to tokenize


def token_lengths(directory: Path, sequences: Sequence[tuple[str, ...]]) -> list[int]:
    """Counts the tokens, including special tokens, of at most 10,000 evenly spaced sequences.

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
    return [len(one.ids) for one in encoded]


def sample_of(count: int) -> np.ndarray:
    """Returns at most 10,000 evenly spaced indices from 0 to `count - 1`."""
    return np.unique(np.linspace(0, count - 1, min(count, _SAMPLE)).astype(int))
