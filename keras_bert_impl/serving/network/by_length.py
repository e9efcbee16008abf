"""Runs texts of different lengths in chunks, to reduce padding. Needs only NumPy."""

from collections.abc import Callable

import numpy as np

_TOKENS = (
    8192  # tokens per chunk, including padding; the same limits as in `serving/graphs/chunks.py`
)
_TOKENS_OF_A_RUN = 64


def run_by_length(
    run: Callable[[dict[str, np.ndarray]], np.ndarray], features: dict[str, np.ndarray]
) -> np.ndarray:
    """Runs a network on chunks of rows with similar lengths, to reduce padding.

    Args:
        run: function from features to an output `[rows, ...]`, such as the logits of texts.
            The output must not depend on the sequence length: outputs per token are not supported.
        features: int arrays `[rows, length]`, padded at the end. `attention_mask` is required.

    Returns:
        The outputs of all rows, `[rows, ...]`, in the order of the rows in `features`.

    Example:
        from keras_bert_impl.serving.network.by_length import run_by_length
        features = {"attention_mask": np.array([[1, 0], [1, 1]])}
        run_by_length(lambda part: part["attention_mask"].sum(axis=1), features)  # [1, 2]
    """
    lengths = np.maximum(features["attention_mask"].sum(axis=1), 1)
    order = np.argsort(-lengths, kind="stable")
    lengths, start = lengths[order], 0
    outputs: list[np.ndarray] = []
    while start < len(order) or not outputs:
        longest = lengths[start] if len(order) else 1
        padding = np.cumsum(longest - lengths[start:])
        size = int(np.searchsorted(padding, _TOKENS_OF_A_RUN, side="right"))
        rows = order[start : start + min(size, max(_TOKENS // longest, 1))]
        outputs.append(run({name: array[rows, :longest] for name, array in features.items()}))
        start += max(len(rows), 1)
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    return np.concatenate(outputs)[back]
