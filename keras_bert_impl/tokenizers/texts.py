"""Conversion of user input to string tensors."""

import re
from typing import Any

import tensorflow as tf

from keras_bert_impl.io.errors import InputError

_CUT = re.compile(r"(?<=[A-Za-z0-9]) (?=[A-Za-z0-9])")  # nothing joins the two sides
_CHARACTERS_OF_TOKEN = 16  # almost all texts have fewer per token


def beginning(text: str, num_tokens: int) -> str:
    """Returns the beginning of a text, almost always with at least `num_tokens` tokens."""
    place = _CHARACTERS_OF_TOKEN * num_tokens
    cut = _CUT.search(text, place, 2 * place) if len(text) > 2 * place else None
    return text[: cut.start()] if cut else text


def as_strings(texts: Any) -> tf.Tensor:
    """Converts a list of str or bytes, one text, or a string tensor to a string tensor [batch]."""
    if not tf.is_tensor(texts):
        texts = as_bytes(texts)
        return tf.constant(texts, tf.string, shape=[len(texts)])
    if texts.dtype != tf.string or texts.shape.rank != 1:
        raise InputError(
            f"expected a string tensor of shape [batch]. Received: {texts.dtype.name} {texts.shape}"
        )
    return texts


def as_bytes(texts: Any) -> list[bytes]:
    """Converts a list of str or bytes, or one text, to a list of bytes in UTF-8."""
    if isinstance(texts, (str, bytes)):
        texts = [texts]
    _check_no_table(texts)
    texts = list(texts)
    try:
        return [*map(str.encode, texts)]
    except (TypeError, UnicodeEncodeError):  # bytes, no texts, or unpaired surrogates
        return [_as_bytes(text, position) for position, text in enumerate(texts)]


def _as_batch(texts):
    return as_strings(texts) if tf.is_tensor(texts) else as_bytes(texts)


def _check_no_table(texts):
    if isinstance(texts, dict) or hasattr(texts, "columns"):
        raise InputError(
            f"expected a list of texts. Received: {type(texts).__name__}; give one of its columns, "
            'such as table["text"].'
        )
    if not hasattr(texts, "__iter__"):
        raise InputError(f"expected a list of texts. Received: {texts!r:.60}")


def _as_bytes(text, position):
    if isinstance(text, bytes):
        return text
    if not isinstance(text, str):
        raise InputError(
            f"text {position} must be a string, not {type(text).__name__}: {text!r:.60}"
        )
    try:
        return text.encode()
    except UnicodeEncodeError:  # unpaired surrogates become U+FFFD, as in UTF-8
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def segments(texts: Any) -> tuple[Any, Any, list[bool] | None]:
    """Returns first and second segments and which rows have a second one."""
    if type(texts).__name__ == "KerasTensor":
        raise InputError(
            "a keras.Input has no strings to tokenize: tokenize before, dataset.map(lambda "
            "texts: tokenizer(texts, length=128)), and make a keras.Input of each feature."
        )
    if isinstance(texts, tuple):
        if len(texts) != 2:
            raise InputError(f"a tuple is a pair of segments. Received: {len(texts)} members.")
        first, second = map(_as_batch, texts)
        sizes = [part.shape[0] if tf.is_tensor(part) else len(part) for part in (first, second)]
        if None not in sizes and sizes[0] != sizes[1]:
            raise InputError(f"{sizes[0]} first segments but {sizes[1]} second ones.")
        return first, second, None
    if tf.is_tensor(texts) or isinstance(texts, (str, bytes)):
        return _as_batch(texts), None, None
    _check_no_table(texts)
    texts = list(texts)
    is_pair = [isinstance(text, tuple) for text in texts]
    if not any(is_pair):
        return as_bytes(texts), None, None
    for position, text in enumerate(texts):
        if is_pair[position] and len(text) != 2:
            raise InputError(f"text {position} is a tuple of {len(text)}; a pair has two segments.")
    pairs = [text if pair else (text, "") for text, pair in zip(texts, is_pair)]
    first, second = zip(*pairs)
    return as_bytes(first), as_bytes(second), is_pair
