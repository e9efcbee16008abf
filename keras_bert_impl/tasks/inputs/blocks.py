"""Processes texts in blocks, so that memory beside the result does not grow with their number."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from keras_bert_impl.tasks.scores.decisions import UndefinedScoresError

MOST_TEXTS, MOST_CHARACTERS = 1024, 1 << 20  # per block


def blocks(
    texts: list, most_texts: int | None = None, most_characters: int | None = None
) -> Iterator[list]:
    """Splits a list of texts into blocks, in order.

    Args:
        texts: list of str or bytes, `Words`, or tuples and lists of these.
        most_texts: maximum number of texts per block. Default 1,024.
        most_characters: a block ends at the text that reaches this number of characters. Default
            1,048,576.

    Returns:
        Iterator of lists; one empty list if there are no texts.
    """
    most_texts = most_texts or MOST_TEXTS
    most_characters = most_characters or MOST_CHARACTERS
    start, characters = 0, 0
    for number, text in enumerate(texts):
        characters += _characters(text)
        if number + 1 - start == most_texts or characters >= most_characters:
            yield texts[start : number + 1]
            start, characters = number + 1, 0
    if start < len(texts) or not len(texts):
        yield texts[start:]


def in_blocks(
    function: Callable[[list], Any],
    texts: list,
    most_texts: int | None = None,
    most_characters: int | None = None,
    done: Callable[[int], Any] = lambda count: None,
) -> Any:
    """Calls a function on one block of texts at a time and joins the results.

    Args:
        function: function of a list of texts; returns a list or a numpy array with one entry per
            text.
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
    if hasattr(text, "text"):  # `Words`
        return len(text.text)
    return sum(map(_characters, text))
