"""Semantic search: the nearest neighbors of queries among vectors."""

from __future__ import annotations

import tokenize
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from keras_bert_impl.first_guesses import known_arguments
from keras_bert_impl.io.errors import InputError
from keras_bert_impl.io.lines import read_lines
from keras_bert_impl.io.paths import expanded
from keras_bert_impl.io.reading import Document, parse_json_line
from keras_bert_impl.io.settings import PositiveInt, check
from keras_bert_impl.tasks.embedding.vectors import (
    SHOWN_CHARACTERS,
    PlacedText,
    document_prompt,
    places_of,
)
from keras_bert_impl.tasks.scores.decisions import unit_length

if TYPE_CHECKING:
    from keras_bert_impl.tasks.embedding.model import TextEmbedder

_VECTORS, _QUERIES = 1 << 13, 256  # vectors compared at once
_LEAST_COSINE = 0.9  # minimum cosine with the stored vector; it is above 0.99 for the same model


@known_arguments("search")
def search(
    embedder: TextEmbedder, queries: str | list[str], vectors: np.ndarray, k: int = 5
) -> tuple[np.ndarray, np.ndarray]:
    """Finds the vectors with the highest cosine similarity to each query (exhaustive search).

    Queries and vectors are compared in blocks, to limit memory.

    Args:
        embedder: the `TextEmbedder` that computed the vectors.
        queries: list of str, or a single str. The embedder's prompt `"query"`, if any, is
            prepended.
        vectors: array `[texts, dim]`, from `encode` or `read_vectors`; may be memory-mapped.
        k: maximum number of results per query.

    Returns:
        `rows`, int64 `[queries, k]`: vector indices, best first; and `scores`, float32
        `[queries, k]`: cosine similarities. For equal scores, the lower index comes first.

    Raises:
        InputError: the vectors do not have the embedder's dimension, or contain NaN or infinite
            values.

    Example:
        rows, scores = search(embedder, ["how to repair a bicycle"], embedder.encode(texts))
    """
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
    wanted = unit_length(embedder.encode(queries, prompt_name=prompt))  # [queries, dim]
    wanted = _finite(wanted, "the vector of query")
    rows = np.zeros((len(wanted), 0), "int64")
    scores = np.zeros((len(wanted), 0), "float32")
    for start in range(0, len(vectors), _VECTORS):
        block = unit_length(vectors[start : start + _VECTORS])
        block = _finite(block, "vector", start)
        columns, cosines = _nearest(wanted, block, k)
        rows = np.concatenate([rows, columns + start], axis=1)
        scores = np.concatenate([scores, cosines], axis=1)
        best = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        rows = np.take_along_axis(rows, best, axis=1)
        scores = np.take_along_axis(scores, best, axis=1)
    return rows, scores


def _nearest(wanted, block, k):
    """Returns the indices and cosines of the nearest vectors, [queries, min(k, vectors)].

    The results are sorted by index.

    Args:
        wanted: float32 [queries, dim]. Vectors of queries, with unit length.
        block: float32 [vectors, dim]. Vectors to search, with unit length.
    """
    k = min(k, len(block))
    columns = np.zeros((len(wanted), k), "int64")
    found = np.zeros((len(wanted), k), "float32")
    for first in range(0, len(wanted), _QUERIES):
        part = slice(first, first + _QUERIES)
        cosines = wanted[part] @ block.T
        columns[part] = _highest(cosines, k)
        found[part] = np.take_along_axis(cosines, columns[part], axis=1)
    return columns, found


def _highest(cosines, k):
    """Returns the column indices of the k highest values per row, sorted, int64 [queries, k]."""
    if k == cosines.shape[1]:
        return np.broadcast_to(np.arange(k), cosines.shape)
    least = np.partition(cosines, -k, axis=1)[:, -k, None]  # lowest of the k highest values
    is_taken = cosines > least
    missing = k - is_taken.sum(axis=1, keepdims=True)
    is_equal = cosines == least
    is_taken |= is_equal & (np.cumsum(is_equal, axis=1, dtype="int32") <= missing)
    return np.nonzero(is_taken)[1].reshape(-1, k)


def _finite(vectors, what, start=0):
    wrong = np.flatnonzero(np.isnan(vectors).any(axis=1))
    if len(wrong):
        raise InputError(f"{what} {start + wrong[0]} contains NaN or infinite values.")
    return vectors


def read_vectors(path: str | Path) -> np.ndarray:
    """Opens the vectors of a `.npy` file, float `[texts, dim]`, memory-mapped.

    Raises:
        InputError: the file does not exist or does not contain vectors.
    """
    try:
        vectors = np.load(expanded(path), mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError, tokenize.TokenError) as error:
        raise InputError(
            f"{path} is not a complete .npy file of vectors. Write one with `keras-bert embed "
            "--out vectors.npy`."
        ) from error
    if not isinstance(vectors, np.ndarray) or vectors.ndim != 2 or vectors.dtype.kind != "f":
        raise InputError(f"{path} must contain float vectors [texts, dim].")
    return vectors


def read_places(path: str | Path, rows: Iterable[int], count: int) -> dict[int, PlacedText]:
    """Reads the texts at the indices `rows` from the `.jsonl` file of a vector file."""
    path = places_of(path)
    wanted, found, line = set(map(int, rows)), {}, 0
    for line, content in read_lines(path):
        if line - 1 in wanted:
            found[line - 1] = _place(content, f"{path}, line {line}")
    if line != count:
        raise InputError(
            f"{path} has {line} lines for {count} vectors. Run `keras-bert embed` again."
        )
    return found


def check_vectors(
    embedder: TextEmbedder, vectors: np.ndarray, places: dict[int, PlacedText]
) -> None:
    """Raises if `vectors` were computed with another model than `embedder`.

    Args:
        vectors: array `[texts, dim]`, from `read_vectors`.
    """
    whole = [row for row, place in places.items() if len(place.text) < SHOWN_CHARACTERS]
    if not whole:
        return
    row = min(whole, key=lambda row: len(places[row].text))
    prompt = document_prompt(embedder)
    text = f"{embedder.prompts[prompt] if prompt else ''}{places[row].text}"
    if len(embedder.tokenizer([text])["token_ids"][0]) > embedder.max_length:
        return
    again = embedder.encode([places[row].text], prompt)
    cosine = float(unit_length(again)[0] @ unit_length(vectors[row : row + 1])[0])
    if cosine < _LEAST_COSINE:
        place = places[row]
        raise InputError(
            f"the vectors are from a different model: the stored and new vectors of "
            f"{place.path}:{place.line} have a cosine similarity of {cosine:.2f}. Pass the --model that "
            "`keras-bert embed` used, or embed the texts again."
        )


def _place(content, where):
    value = parse_json_line(content, where)
    if not isinstance(value, dict) or set(value) != {"path", "line", "text"}:
        raise InputError(f"{where}: expected an object with path, line and text.")
    place = Document(value, where)
    return PlacedText(place.text("path"), place.integer("line"), place.text("text"))
