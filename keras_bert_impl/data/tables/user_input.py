"""Converts user input to a list of texts."""

import inspect
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_bert_impl.utils.errors import InputError, listed

LABELS = tuple("label labels target targets class category sentiment rating score y".split())
# Columns with these names are not used as texts by default.
NO_TEXTS = frozenset((*LABELS, "id", "idx", "index"))
# Columns with these names are used as texts. A name may have a suffix, such as sentence1 or text_b.
_TEXTS = frozenset(
    "a b anchor positive negative first second left right text pair sentence question answer "
    "context passage paragraph query document doc title body abstract premise hypothesis "
    "prompt response reference candidate source summary content article headline q s t".split()
)
_SUFFIX = re.compile("(?<=[a-z])_?([0-9]+|[ab]|pair)$")


def is_one_text(x: Any) -> bool:
    if isinstance(x, tuple):
        return bool(x) and all(isinstance(part, (str, bytes)) for part in x)
    return isinstance(x, (str, bytes))


def is_stream(x: Any) -> bool:
    return hasattr(x, "__next__")


def as_list(x: Any, names: Sequence[str] = (), most: int = 2) -> list:
    """Converts texts to a list of str, bytes or (first, second) tuples.

    Args:
        x: one text or one (first, second) tuple; a list, array, `Series`, Arrow array or string
            tensor of texts; or a table, see `from_columns`. For pairs: a list of tuples, a tuple of
            two lists, or an array `[n, 2]`.
    """
    return checked_list(from_columns(x, names, most))


def checked_list(x: Any) -> list:
    if is_one_text(x):
        x = [x]
    if isinstance(x, tuple):
        if len(x) != 2:
            raise InputError(
                f"a tuple must be a text pair. Received: {len(x)} elements; pass texts as a list."
            )
        first, second = as_list(x[0]), as_list(x[1])
        if len(first) != len(second):
            raise InputError(f"{len(first)} first segments, but {len(second)} second segments.")
        return checked(list(zip(first, second)))
    return checked(values(x, pairs=True))


def checked(texts: list) -> list:
    """Returns a list of texts or (first, second) tuples; raises for other values."""
    if set(map(type, texts)) <= {str, bytes}:
        return texts
    for position, text in enumerate(texts):
        is_pair = isinstance(text, tuple) and len(text) == 2
        for segment in text if is_pair else (text,):
            if not isinstance(segment, (str, bytes)):
                where = f"text {position}{': a segment' if is_pair else ''}"
                raise InputError(f"{where} {not_a_text(segment)}")
    return texts


def not_a_text(value: Any) -> str:
    """Returns the part of an error message that describes a value other than a text."""
    if is_missing(value):
        return f"is missing ({value}). Remove such rows, or use '' for an empty text."
    if isinstance(value, dict):
        return (
            f"is a dict with keys {listed(value)}. Pass only the texts: "
            f"[row[{next(iter(value), '')!r}] for row in rows]."
        )
    if isinstance(value, (list, tuple, np.ndarray)):
        return (
            f"is a {type(value).__name__} of length {len(value)}: {value!r:.60}. Pass a text pair "
            "as a tuple (first, second), and several texts as a list of strings."
        )
    return f"must be a string. Received: {type(value).__name__} {value!r:.60}"


def is_missing(value: Any) -> bool:
    is_nan = isinstance(value, (float, np.floating)) and value != value
    return value is None or is_nan or type(value).__name__ in ("NAType", "NaTType")


# === Columns of values ===


def values(x: Any, pairs: bool = False) -> list:
    """Converts a list, array, column or string tensor to a list.

    Args:
        pairs: whether to convert rows of an array `[n, 2]` to tuples instead of lists.
    """
    if isinstance(x, list):
        return x
    columns = None if isinstance(x, dict) else column_names(x)
    if columns is not None:
        if len(columns) != 1:
            raise InputError(f"expected one column. Received: the columns {listed(columns)}")
        return values(x[columns[0]])
    if is_stream(x):
        raise InputError(
            f"expected a list. Received: a {type(x).__name__}, which may be infinite. Convert it "
            "with list(...), or pass a generator of batches to fit, evaluate or predict."
        )
    # Methods of Arrow; of pandas, polars and ragged tensors; and of NumPy.
    for name in ("to_pylist", "to_list", "tolist"):
        if hasattr(x, name):
            return _convert_rows(getattr(x, name)(), getattr(x, "shape", ()), pairs)
    if hasattr(x, "numpy"):
        return values(x.numpy(), pairs)
    if isinstance(x, (str, bytes, dict, set, frozenset)) or not hasattr(x, "__len__"):
        call = f"; call it, {x.__name__}()" if inspect.isfunction(x) else ""
        raise InputError(f"expected a list. Received: {type(x).__name__} {x!r:.60}{call}")
    return list(x)


def _convert_rows(rows, shape, pairs):
    """If `pairs`, converts rows of two texts to tuples, and rows of one text to the text."""
    if not isinstance(rows, list):  # the array has no dimensions
        return [rows]
    if not pairs or len(shape) < 2 or not rows:
        return rows
    if len(shape) > 2 or shape[1] not in (1, 2):
        raise InputError(
            f"expected texts [n], or pairs [n, 2]. Received: an array of shape {list(shape)}"
        )
    return [row[0] for row in rows] if shape[1] == 1 else [tuple(row) for row in rows]


# === Tables ===


def from_columns(x: Any, names: Sequence[str] = (), most: int = 2) -> Any:
    """Extracts the texts of a table.

    Returns a list for one column, and a tuple of lists for two. A dict of features, and values that
    are not tables, are returned unchanged.
    """
    are_rows = isinstance(x, list) and bool(x) and all(isinstance(row, dict) for row in x)
    if are_rows:
        x = _transpose_rows(x)
    _check_is_no_row(x)
    columns = column_names(x)
    if columns is None or (isinstance(x, dict) and not any(map(_has_texts, x.values()))):
        return x
    _check_is_table(x, columns)
    texts = [x[name] for name in _choose_text_columns(x, columns, names, most, are_rows)]
    is_one_row = isinstance(x, dict) and all(isinstance(text, (str, bytes)) for text in texts)
    texts = texts if is_one_row else [values(column) for column in texts]
    return tuple(texts) if len(texts) > 1 else texts[0]


def _choose_text_columns(x, columns, names, most, are_rows):
    """Returns `names`, or all columns if the table does not have these columns.

    Raises if it is not clear which columns contain texts.
    """
    if names and set(names) <= set(columns):
        return list(names)
    doubtful = [
        name
        for name in columns
        if str(name).lower() in NO_TEXTS
        or not _has_texts(x[name])
        or (len(columns) > 1 and not names_texts(name))
    ]
    if doubtful or len(columns) > most:
        raise InputError(_describe_ambiguity(x, columns, doubtful, most, are_rows))
    return columns


def _check_is_no_row(x):
    index, name = getattr(x, "index", None), getattr(x, "name", None)
    if isinstance(name, (int, np.integer)) and getattr(index, "dtype", None) in ("object", "str"):
        raise InputError(
            f"a Series with the index {listed(list(index)[:4])} may be a row of a table. Pass "
            "table.iloc[[0]] for a row, or series.tolist() for a list of texts."
        )


def column_names(x: Any) -> list | None:
    if isinstance(x, dict):
        return list(x)
    for holder, name in ((x, "column_names"), (x, "columns"), (getattr(x, "dtype", None), "names")):
        names = getattr(holder, name, None)
        if names is not None and hasattr(type(x), "__getitem__"):
            return list(names)
    return None


def _transpose_rows(rows):
    names = list(rows[0])
    for number, row in enumerate(rows):
        if row.keys() != rows[0].keys():
            raise InputError(
                f"row {number} has {listed(row)}, but row 0 has {listed(names)}. All rows must "
                "have the same keys."
            )
    return {name: [row[name] for row in rows] for name in names}


def names_texts(name):
    name = str(name).lower()
    return name in _TEXTS or _SUFFIX.sub("", name) in _TEXTS


def _check_is_table(x, columns):
    if not columns:
        raise InputError("the table has no columns.")
    parts = [name for name in columns if isinstance(x, dict) and column_names(x[name])]
    if parts:
        raise InputError(
            f"expected one table. Received: a dict of tables {listed(parts)}; pass one of them, "
            f"x[{parts[0]!r}]."
        )
    if not hasattr(x, "__len__"):
        raise InputError(
            f"a {type(x).__name__} has no length. Pass a table in memory, or a generator of "
            "batches."
        )


def _has_texts(column):
    """Whether the first value of a column is a text. Missing values are ignored."""
    if isinstance(column, (str, bytes)):
        return True
    dtype = getattr(column, "dtype", None)
    if hasattr(column, "__len__") and not len(column):
        return True
    if getattr(dtype, "kind", None) in ("i", "u", "f", "b", "c") or not hasattr(column, "__len__"):
        return False
    if hasattr(column, "numpy") and getattr(dtype, "name", "string") != "string":
        return False  # the tensor is numeric
    first = next((value for value in values(column) if not is_missing(value)), "")
    if isinstance(first, list) and first:  # the text is a list of words
        first = first[0]
    return isinstance(first, (str, bytes))


def _describe_ambiguity(x, columns, doubtful, most, are_rows):
    able = [name for name in columns if str(name).lower() not in NO_TEXTS]
    able = [name for name in able if _has_texts(x[name])] or columns
    texts = [name for name in able if name not in doubtful]
    texts += [name for name in able if name in doubtful]
    column = "[row[{!r}] for row in x]" if are_rows else "x[{!r}]"
    single = column.format(texts[0])
    pair = f"({single}, {column.format(texts[min(1, len(texts) - 1)])})"
    line = single if len(texts) < 2 or most < 2 else f"{single}, or for pairs {pair}"
    return (
        f"it is not clear which columns contain the texts: {listed(columns)}. Pass {line}; labels "
        "are a separate argument."
    )
