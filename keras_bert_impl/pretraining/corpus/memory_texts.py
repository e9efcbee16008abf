"""In-memory texts as a corpus: lists, iterators and table columns."""

import contextlib
import json
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any

from keras_bert_impl.io import files
from keras_bert_impl.io.errors import InputError, listed

_LOOKED_AT = 100  # strings of a list that are tested for being paths
_LONGEST_PATH = 4_000
_URL = re.compile(r"\w+://")
_IN_FOLDER = re.compile(r"[/\\]")
_SUFFIX = re.compile(r"[^\s]\.\w{1,8}\Z")


@contextlib.contextmanager
def as_paths(
    inputs: Any, format: str = "auto", text_field: str = "text"
) -> Iterator[tuple[Any, str, str]]:
    """Context manager that yields corpus paths: the given ones, or a file with the given texts.

    Yields:
        (paths, format, text field), for `read_documents`.
    """
    texts = _texts_of(inputs, text_field)
    if texts is None:
        yield inputs, format, text_field
        return
    if format != "auto":
        raise InputError(f"format is only for files, not for texts. Received: format={format!r}")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "texts.jsonl")
        with open(path, "w", encoding="utf-8") as file:
            for number, text in enumerate(texts):
                file.write(json.dumps({"text": _as_str(text, number)}) + "\n")
        yield path, "jsonl", "text"


def _texts_of(inputs, text_field):
    """Returns an iterable of the texts, or None for paths."""
    if isinstance(inputs, (str, os.PathLike)):
        return None
    names = getattr(inputs, "column_names", None)  # `datasets` and Arrow
    if names is None:
        names = getattr(inputs, "columns", None)  # pandas
    if names is None and isinstance(inputs, Mapping):
        names = inputs.keys()
    if names is not None:
        if text_field not in list(names):
            raise InputError(
                f"the table has no column {text_field!r}; its columns are {listed(names)}. Pass "
                "the name of the text column as text_field=..."
            )
        return inputs[text_field]
    if not isinstance(inputs, (list, tuple)):
        return inputs
    some = inputs[:_LOOKED_AT]
    is_path = not some or any(_is_path(one) for one in some)
    return None if is_path else inputs


def _is_path(value):
    if not isinstance(value, str) or len(value) > _LONGEST_PATH or "\0" in value:
        return isinstance(value, os.PathLike)
    is_one_word = len(value.split()) == 1 and value == value.strip()
    is_place = is_one_word and (_IN_FOLDER.search(value) or _SUFFIX.search(value[-10:]))
    return bool(_URL.match(value) or is_place) or files.exists(value)


def _as_str(text, number):
    """Converts a text to a str; table columns and datasets have string types of their own."""
    for method in ("numpy", "as_py"):  # tensors and Arrow
        if hasattr(text, method):
            text = getattr(text, method)()
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    if not isinstance(text, str):
        raise InputError(f"text {number} must be a string, got {text!r:.60}.")
    return text
