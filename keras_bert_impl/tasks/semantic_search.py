"""Semantic search: the texts whose vectors are nearest to a query's."""

import json

import numpy as np

from keras_bert_impl.document import Document
from keras_bert_impl.errors import InputError
from keras_bert_impl.reading import parse_json_line
from keras_bert_impl.tasks.tables import read_lines
from keras_bert_impl.tasks.vectors import PlacedText, places_of

_CHUNK = 1 << 16  # vectors compared at once


def search(embedder, queries, vectors, k=5):
    """The vectors with the largest cosines to each query; every one is looked at.

    Args:
        embedder: `TextEmbedder`, the one that made the vectors.
        queries: list of str.
        vectors: array `[texts, dim]`, such as of `embed` or `read_vectors`; it may lie on disk.
        k: int. How many to find, at most.

    Returns:
        (rows, scores): int64 and float32 `[queries, k]`, the numbers of the vectors and the
        cosines, best first; of equal ones the first.

    Raises:
        InputError: vectors of another width than the embedder's.

    Example:
        rows, scores = search(embedder, ["how to mend a bicycle"], embedder.embed(texts))
    """
    if vectors.ndim != 2 or vectors.shape[1] != embedder.dim:
        raise InputError(
            f"vectors must be [texts, {embedder.dim}], as this model makes them. Received: shape "
            f"{tuple(vectors.shape)}"
        )
    if k < 1:
        raise InputError(f"k must be at least 1. Received: k={k}")
    wanted = unit_length(embedder.embed(queries))  # [queries, dim]
    rows = np.zeros((len(wanted), 0), "int64")
    scores = np.zeros((len(wanted), 0), "float32")
    for start in range(0, len(vectors), _CHUNK):
        chunk = unit_length(vectors[start : start + _CHUNK])
        numbers = np.broadcast_to(np.arange(start, start + len(chunk)), (len(wanted), len(chunk)))
        rows = np.concatenate([rows, numbers], axis=1)
        scores = np.concatenate([scores, wanted @ chunk.T], axis=1)
        best = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        rows = np.take_along_axis(rows, best, axis=1)
        scores = np.take_along_axis(scores, best, axis=1)
    return rows, scores


def unit_length(vectors):
    """float32 array of vectors `[..., dim]`, brought to length 1; those of zeros stay."""
    vectors = np.asarray(vectors, "float32")
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors / np.maximum(lengths, 1e-12)


def read_vectors(path):
    """The vectors of a `.npy` file, float `[texts, dim]`, left on disk until they are used.

    Raises:
        InputError: no such file, or one that holds something else.
    """
    try:
        vectors = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise InputError(f"{path} cannot be read as a .npy file of vectors: {error}.") from error
    if not isinstance(vectors, np.ndarray) or vectors.ndim != 2 or vectors.dtype.kind != "f":
        raise InputError(f"{path} holds no vectors, float [texts, dim].")
    return vectors


def read_places(path, rows, count):
    """What some vectors of a `.npy` file are of, from the `.jsonl` file beside it.

    Args:
        path: str or `Path` of the `.npy` file.
        rows: numbers of vectors.
        count: int, the number of all vectors.

    Returns:
        dict of number to `PlacedText`, with the beginning of the text.

    Raises:
        InputError: no such file, a damaged line, or another number of lines than vectors.
    """
    path = places_of(path)
    wanted, found, line = set(map(int, rows)), {}, 0
    for line, content in read_lines(path):
        if line - 1 in wanted:
            found[line - 1] = _place(content, f"{path}, line {line}")
    if line != count:
        raise InputError(
            f"{path} has {line} lines, for {count} vectors: they do not belong together."
        )
    return found


def _place(content, where):
    value = parse_json_line(content, where)
    if not isinstance(value, dict) or set(value) != {"path", "line", "text"}:
        raise InputError(f"{where}: expected an object with path, line and text.")
    place = Document(value, where)
    return PlacedText(place.text("path"), place.integer("line"), place.text("text"))
