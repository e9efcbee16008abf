"""Semantic search: the nearest neighbors of queries among vectors."""

from __future__ import annotations

import tokenize
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow
import pyarrow.compute
import pyarrow.parquet

from keras_bert_impl.data.scores.decisions import unit_length
from keras_bert_impl.data.tables.table_rows import readable_errors
from keras_bert_impl.tasks.embedding.vector_source import check_same_model
from keras_bert_impl.tasks.embedding.vectors import PlacedText, places_of
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.first_guesses import known_arguments
from keras_bert_impl.utils.io.lines import read_lines, suffix_of
from keras_bert_impl.utils.io.paths import expanded
from keras_bert_impl.utils.io.reading import Document, parse_json_line
from keras_bert_impl.utils.settings import PositiveInt, check

if TYPE_CHECKING:
    from keras_bert_impl.tasks.embedding.model import TextEmbedder

_VECTORS, _QUERIES = 1 << 13, 256  # vectors compared at once


@known_arguments("search")
def search(
    embedder: TextEmbedder, queries: str | list[str], vectors: np.ndarray | str | Path, k: int = 5
) -> tuple[np.ndarray, np.ndarray]:
    """Finds the vectors with the highest cosine similarity to each query (exhaustive search).

    Queries and vectors are compared in blocks, to limit memory.

    Args:
        embedder: the `TextEmbedder` that computed the vectors.
        queries: list of str, or a single str. The embedder's prompt `"query"`, if any, is
            prepended.
        vectors: array `[texts, dim]`, from `encode` or `read_vectors`; may be memory-mapped. Or
            the path of a file from `write_vectors`.
        k: maximum number of results per query.

    Returns:
        `rows`, int64 `[queries, k]`: vector indices, best first; and `scores`, float32
        `[queries, k]`: cosine similarities. For equal scores, the lower index comes first.

    Raises:
        InputError: the vectors do not have the embedder's dimension, or contain NaN or infinite
            values; or a file states another model.

    Example:
        rows, scores = search(embedder, ["how to repair a bicycle"], embedder.encode(texts))
    """
    if isinstance(vectors, (str, Path)):
        path, vectors = vectors, read_vectors(vectors)
        check_same_model(path, embedder)
    if isinstance(vectors, (list, tuple)):
        if not len(vectors) or any(isinstance(vector, str) for vector in vectors):
            raise InputError(
                "vectors must be numbers, not texts. Write search(embedder, queries, "
                "embedder.encode(texts))."
            )
        vectors = np.asarray(vectors, "float32")
    if vectors.ndim != 2 or vectors.shape[1] != embedder.dim:
        raise InputError(
            f"vectors must be [texts, {embedder.dim}] for this model. Received: shape "
            f"{tuple(vectors.shape)}"
        )
    check("k", k, PositiveInt)
    queries = [queries] if isinstance(queries, str) else list(queries)
    prompt = "query" if "query" in embedder.prompts else None
    query_vectors = unit_length(embedder.encode(queries, prompt_name=prompt))  # [queries, dim]
    query_vectors = _check_finite(query_vectors, "the vector of query")
    rows = np.zeros((len(query_vectors), 0), "int64")
    scores = np.zeros((len(query_vectors), 0), "float32")
    for start in range(0, len(vectors), _VECTORS):
        block = unit_length(vectors[start : start + _VECTORS])
        block = _check_finite(block, "vector", start)
        columns, cosines = _find_nearest(query_vectors, block, k)
        rows = np.concatenate([rows, columns + start], axis=1)
        scores = np.concatenate([scores, cosines], axis=1)
        best = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        rows = np.take_along_axis(rows, best, axis=1)
        scores = np.take_along_axis(scores, best, axis=1)
    return rows, scores


def _find_nearest(query_vectors, block, k):
    """Returns the indices and cosines of the nearest vectors, [queries, min(k, vectors)].

    The results are sorted by index.

    Args:
        query_vectors: float32 [queries, dim]. Vectors of queries, with unit length.
        block: float32 [vectors, dim]. Vectors to search, with unit length.
    """
    k = min(k, len(block))
    columns = np.zeros((len(query_vectors), k), "int64")
    scores = np.zeros((len(query_vectors), k), "float32")
    for first in range(0, len(query_vectors), _QUERIES):
        part = slice(first, first + _QUERIES)
        cosines = query_vectors[part] @ block.T
        columns[part] = _select_highest(cosines, k)
        scores[part] = np.take_along_axis(cosines, columns[part], axis=1)
    return columns, scores


def _select_highest(cosines, k):
    """Returns the column indices of the k highest values per row, sorted, int64 [queries, k]."""
    if k == cosines.shape[1]:
        return np.broadcast_to(np.arange(k), cosines.shape)
    least = np.partition(cosines, -k, axis=1)[:, -k, None]  # lowest of the k highest values
    is_taken = cosines > least
    missing = k - is_taken.sum(axis=1, keepdims=True)
    is_equal = cosines == least
    is_taken |= is_equal & (np.cumsum(is_equal, axis=1, dtype="int32") <= missing)
    return np.nonzero(is_taken)[1].reshape(-1, k)


def _check_finite(vectors, name, start=0):
    wrong = np.flatnonzero(np.isnan(vectors).any(axis=1))
    if len(wrong):
        raise InputError(f"{name} {start + wrong[0]} contains NaN or infinite values.")
    return vectors


def read_vectors(path: str | Path) -> np.ndarray:
    """Opens the vectors of a `.npy` or `.parquet` file, float `[texts, dim]`.

    The vectors of a `.npy` file are memory-mapped.

    Raises:
        InputError: the file does not exist or does not contain vectors.
    """
    path = expanded(path)
    if suffix_of(path) == ".parquet":
        return _read_parquet(path)
    try:
        shape = _shape_in_header(path)
        # NumPy takes True for 1, and maps a negative number of bytes.
        if all(type(size) is int and size >= 0 for size in shape):
            vectors = np.load(path, mmap_mode="r", allow_pickle=False)
            if len(shape) == 2 and shape[1] and vectors.dtype.kind == "f":
                return vectors
    except (ValueError, OSError, EOFError, tokenize.TokenError) as error:
        raise InputError(
            f"{path} is not a complete .npy file of vectors. Write one with `keras-bert embed "
            "--out vectors.npy`."
        ) from error
    raise InputError(f"{path} must contain float vectors [texts, dim].")


def _shape_in_header(path):
    with open(path, "rb") as file:
        version = np.lib.format.read_magic(file)
        readers = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }
        if version not in readers:
            raise ValueError(f"format {version}")
        return readers[version](file)[0]


def _read_parquet(path):
    with readable_errors(path):
        table = pyarrow.parquet.read_table(path)
    if "vector" not in table.column_names:
        raise InputError(f"{path} has no column 'vector'. Write one with `keras-bert embed`.")
    column = table.column("vector").combine_chunks()
    is_nested = pyarrow.types.is_nested(column.type)
    numbers = column.flatten() if is_nested else column
    is_float = is_nested and pyarrow.types.is_floating(numbers.type)
    lengths = pyarrow.compute.list_value_length(column).unique().to_pylist() if is_float else []
    if len(lengths) != 1 or not lengths[0]:
        raise InputError(f"{path}: the column 'vector' must contain lists of floats, equally long.")
    return numbers.to_numpy(zero_copy_only=False).reshape(len(column), -1)


def read_places(path: str | Path, rows: Iterable[int], count: int) -> dict[int, PlacedText]:
    """Reads the texts at the indices `rows` of a vector file, from its `.jsonl` file if any."""
    indices, places, line = set(map(int, rows)), {}, 0
    if suffix_of(path) == ".parquet":
        with readable_errors(path):
            table = pyarrow.parquet.read_table(path)
        columns = [name for name in PlacedText._fields if name in table.column_names]
        texts = table.select(columns).take(sorted(indices)).to_pylist()
        return {
            row: _place(text, f"{path}, row {row}") for row, text in zip(sorted(indices), texts)
        }
    path = places_of(path)
    if not path.is_file():
        raise InputError(
            f"{path}, which contains the texts of the vectors, is missing. Run `keras-bert embed` "
            "again."
        )
    for line, content in read_lines(path):
        if line - 1 in indices:
            where = f"{path}, line {line}"
            places[line - 1] = _place(parse_json_line(content, where), where)
    if line != count:
        raise InputError(
            f"{path} has {line} lines for {count} vectors. Run `keras-bert embed` again."
        )
    return places


def _place(value, where):
    if not isinstance(value, dict) or set(value) - {"id"} != {"path", "line", "text"}:
        raise InputError(f"{where}: expected an object with path, line and text.")
    place = Document(value, where)
    names = place.text("path"), place.integer("line"), place.text("text")
    return PlacedText(*names, place.text("id", None))
