"""Processes texts in blocks, to limit memory."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from keras_bert_impl.utils.errors import InputError

MOST_TEXTS, MOST_CHARACTERS = 1024, 1 << 20  # limits of a block


class UndefinedScoresError(InputError):
    """Raised if scores are NaN."""

    def __init__(self, what: str, number: int):
        super().__init__(
            f"the scores of {what} {number} are NaN (not a number): the model has NaN or infinite "
            "weights, or its activations overflow. Load an earlier checkpoint, train with a lower "
            "learning rate, or use dtype='float32'."
        )
        self.what, self.number = what, number


def blocks(
    texts: Iterable, most_texts: int | None = None, most_characters: int | None = None
) -> Iterator[list]:
    """Yields blocks of texts; only one block is in memory."""
    most_texts = most_texts or MOST_TEXTS
    most_characters = most_characters or MOST_CHARACTERS
    block: list = []
    count, characters = 0, 0
    for text in texts:
        block.append(text)
        characters += _count_characters(text)
        if len(block) == most_texts or characters >= most_characters:
            yield block
            count += len(block)
            block, characters = [], 0
    if block or not count:
        yield block


def in_blocks(
    function: Callable[[list], Any],
    texts: list,
    most_texts: int | None = None,
    most_characters: int | None = None,
    done: Callable[[int], Any] = lambda count: None,
) -> Any:
    results, count = [], 0
    for block in blocks(texts, most_texts, most_characters):
        try:
            results.append(function(block))
        except UndefinedScoresError as error:
            raise UndefinedScoresError(error.what, count + error.number) from error
        count += len(block)
        done(len(block))
    return _join_results(results)


def _join_results(results):
    if len(results) == 1:
        return results[0]
    if isinstance(results[0], list):
        return [element for result in results for element in result]
    return np.concatenate(results)


def _count_characters(text):
    if isinstance(text, (str, bytes)):
        return len(text)
    if hasattr(text, "text"):
        return len(text.text)
    return sum(map(_count_characters, text))
