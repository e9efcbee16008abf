"""Processes texts in blocks, so that memory beside the result does not grow with their number."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from keras_bert_impl.tasks.scores.decisions import UndefinedScoresError

MOST_TEXTS, MOST_CHARACTERS = 1024, 1 << 20  # per block


def blocks(
    texts: Iterable, most_texts: int | None = None, most_characters: int | None = None
) -> Iterator[list]:
    """Splits texts into blocks, in order, with one block in memory at once.

    Args:
        texts: str or bytes, objects with a `text`, or tuples and lists of these.
        most_texts: maximum number of texts per block. Default 1,024.
        most_characters: a block ends at the text that reaches this number of characters. Default
            1,048,576.

    Returns:
        Iterator of lists; one empty list if there are no texts.
    """
    most_texts = most_texts or MOST_TEXTS
    most_characters = most_characters or MOST_CHARACTERS
    block: list = []
    count, characters = 0, 0
    for text in texts:
        block.append(text)
        characters += _characters(text)
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
    """Calls a function on one block of texts at a time and joins the results.

    Args:
        function: function of a list of texts, which is empty if there are none; returns a list or a
            numpy array with one entry per text.
        texts, most_texts, most_characters: see `blocks`.
        done: function called with the number of texts of each block.

    Returns:
        list or numpy array.

    Raises:
        UndefinedScoresError: raised by the function; gives the index of the text in all texts.
    """
    results, count = [], 0
    for block in blocks(texts, most_texts, most_characters):
        try:
            results.append(function(block))
        except UndefinedScoresError as error:
            raise UndefinedScoresError(error.what, count + error.number) from error
        count += len(block)
        done(len(block))
    return _joined(results)


def _joined(results):
    if len(results) == 1:
        return results[0]
    if isinstance(results[0], list):
        return [one for result in results for one in result]
    return np.concatenate(results)


def _characters(text):
    if isinstance(text, (str, bytes)):
        return len(text)
    if hasattr(text, "text"):
        return len(text.text)
    return sum(map(_characters, text))
