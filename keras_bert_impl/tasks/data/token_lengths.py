"""Lengths of texts in tokens, with the `tokenizers` library instead of TensorFlow."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from keras_bert_impl.io.errors import InputError

_SAMPLE = 10_000  # sequences to tokenize


def token_lengths(directory: Path, sequences: Sequence[tuple[str, ...]]) -> list[int]:
    """Returns the tokens of sequences, with special tokens, in an even sample of 10,000.

    Args:
        directory: model directory with a `tokenizer.json`.
        sequences: one or two segments each.

    Raises:
        InputError: there is no such file, or the library does not read it.
    """
    import tokenizers

    path = directory / "tokenizer.json"
    try:
        tokenizer = tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the class that the library raises
        raise InputError(f"{path} cannot be read: {error}") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    count = len(sequences)
    sample = np.unique(np.linspace(0, count - 1, min(count, _SAMPLE)).astype(int))
    rows = [sequences[number] for number in sample]
    encoded = tokenizer.encode_batch([row if len(row) > 1 else row[0] for row in rows])
    return [len(one.ids) for one in encoded]
