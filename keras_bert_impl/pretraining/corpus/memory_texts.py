"""Texts that a program holds, as a corpus: lists, iterators, columns of tables."""

import contextlib
import json
import os
import re
from collections.abc import Mapping

from keras_bert_impl.io import files
from keras_bert_impl.io.errors import InputError, listed

_LOOKED_AT = 100  # strings of a list, for whether they are paths
_LONGEST_PATH = 4_000
_URL = re.compile(r"\w+://")
_IN_FOLDER = re.compile(r"[/\\]")
_SUFFIX = re.compile(r"[^\s]\.\w{1,8}\Z")


@contextlib.contextmanager
def as_paths(inputs, format="auto", text_field="text"):
    """Paths of a corpus: those that are given, or of a file with the texts that are given.

    The file is a temporary one of JSON lines, so that memory does not grow with an iterator.

    Args:
        inputs: what `read_documents` takes; or texts, each a document, a paragraph a line: a list of
            str none of which is a path, an iterator or generator of str, a column of a table; or a
            table (pandas, `datasets`, a dict of columns), of which `text_field` names the column.
        format, text_field: as in `read_documents`; texts have no format.

    Yields:
        (paths, format, text field), for `read_documents`.

    Raises:
        InputError: a column that there is not, a text that is no string, or a format for texts.
    """
    texts = _texts_of(inputs, text_field)
    if texts is None:
        yield inputs, format, text_field
        return
    if format != "auto":
        raise InputError(f"a format is for files, and these are texts. Received: {format}")
    with files.temporary_directory() as folder:
        path = str(folder / "texts.jsonl")
        with open(path, "w", encoding="utf-8") as file:
            for number, text in enumerate(texts):
                file.write(json.dumps({"text": _as_str(text, number)}) + "\n")
        yield path, "jsonl", "text"


def are_texts(inputs, text_field="text"):
    """bool. Whether these are texts, and not the paths of some."""
    return _texts_of(inputs, text_field) is not None


def _texts_of(inputs, text_field):
    """Iterable of the texts; None for paths."""
    if isinstance(inputs, (str, os.PathLike)):
        return None
    names = getattr(inputs, "column_names", None)  # of `datasets` and Arrow
    if names is None:
        names = getattr(inputs, "columns", None)  # of pandas
    if names is None and isinstance(inputs, Mapping):
        names = inputs.keys()
    if names is not None:
        if text_field not in list(names):
            raise InputError(
                f"the table has no column {text_field!r}, but {listed(names)}; name the column of "
                "the texts, text_field=..."
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
    """A text as a str: columns and data sets have their own kinds of strings."""
    for method in ("numpy", "as_py"):  # of a tensor, and of Arrow
        if hasattr(text, method):
            text = getattr(text, method)()
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    if not isinstance(text, str):
        raise InputError(f"text {number} must be a string, got {text!r:.60}.")
    return text
