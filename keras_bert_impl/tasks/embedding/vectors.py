"""Embeds texts from files and folders; writes a vector file and an index of the texts."""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
import pyarrow
import pyarrow.parquet

from keras_bert_impl.data.batches.blocks import blocks
from keras_bert_impl.data.tables.layout import Layout, cells
from keras_bert_impl.data.tables.tables import FORMATS, open_table, text_lines
from keras_bert_impl.tasks.embedding.vector_source import (
    KEY,
    brief_hash,
    check_may_replace,
    describe_source,
    document_prompt,
    file_hash,
    source_file,
)
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.io.cache import Cache, key_of
from keras_bert_impl.utils.io.files import replace_file, replace_files
from keras_bert_impl.utils.io.lines import LONGEST_LINE, read_lines, suffix_of
from keras_bert_impl.utils.io.paths import local_path
from keras_bert_impl.utils.settings import OneOf, check

if TYPE_CHECKING:
    from keras_bert_impl.tasks.embedding.model import TextEmbedder

UNITS = ("line", "file")
_LONGEST_FILE = 4 * LONGEST_LINE  # maximum characters of a file that is one text
_CHUNK_TEXTS, _CHUNK_CHARACTERS = 4096, 1 << 24  # texts embedded at once
SHOWN_CHARACTERS = 200  # maximum characters of a text in the index


class PlacedText(NamedTuple):
    """A text and its location.

    Attributes:
        path: file name.
        line: 1-based line number; for a row of a table, the number of its last line.
        id: value of the id column of a table, if it was read.
    """

    path: str
    line: int
    text: str
    id: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Returns the values by name, without a missing id."""
        return {name: value for name, value in self._asdict().items() if value is not None}


def read_texts(
    paths: str | Path | Iterable[str | Path],
    column: str | int = "text",
    unit: str = "line",
    delimiter: str | None = None,
    header: bool = True,
    id: str | int | None = None,
) -> Iterator[PlacedText]:
    """Iterates over the texts in files and folders, in order; skips blank texts.

    Folders are searched recursively in sorted order, without hidden files, for `.txt` and the
    formats of `read_table`. Each row of a table is a text.

    Args:
        paths: str or `Path`, or a list of them.
        column: name of the table column or JSON field with the texts.
        unit: `"line"` or `"file"`: whether each line of a `.txt` file is a text, or the whole file.
        delimiter, header: format of tables; see `read_table`. If a delimiter is given, `.txt` files
            are read as tables, and files in `paths` may have any suffix.
        id: name of the table column with an id of each text. All files must be tables.

    Returns:
        Iterator of `PlacedText`.

    Raises:
        InputError: a path does not exist, or a folder contains no text files or tables; or, during
            iteration, a file is invalid.
    """
    check("unit", unit, Annotated[str, OneOf(*UNITS)])
    paths = [paths] if isinstance(paths, (str, Path)) else list(paths)
    files = [
        file for path in paths for file in _find_files(local_path(path), delimiter is not None)
    ]
    layout = Layout(str(column), id=None if id is None else str(id), header=header)
    texts = (text for file in files for text in _read(file, layout, unit, delimiter))
    return (text for text in texts if text.text.strip())


def _find_files(path, are_tables):
    if not path.exists():
        raise InputError(f"{path} does not exist.")
    if path.is_file():
        if not are_tables and not _is_read(path):
            raise InputError(f"{path}: the name must end in .txt, {', '.join(FORMATS)}.")
        return [path]
    inside = (file for file in sorted(path.rglob("*")) if file.is_file() and _is_read(file))
    files = [
        file
        for file in inside
        if not any(part.startswith(".") for part in file.relative_to(path).parts)
    ]
    if not files:
        raise InputError(f"{path} contains no file that ends in .txt, {', '.join(FORMATS)}.")
    return files


def _is_read(path):
    return suffix_of(path) in {".txt", *FORMATS}


def _read(path, layout, unit, delimiter):
    if suffix_of(path) != ".txt" or delimiter is not None:
        rows = _read_rows(path, layout, delimiter)
    elif layout.id is not None:
        raise InputError(f"{path} is not a table, so it has no column {layout.id!r} with ids.")
    elif unit == "line":
        rows = text_lines(path)
    else:
        rows = [(1, _read_whole(path))]
    return (PlacedText(str(path), *row) for row in rows)


def _read_whole(path):
    lines, size = [], 0
    for _, line in read_lines(path):
        lines.append(f"{line}\n")
        size += len(line)
        if size > _LONGEST_FILE:
            raise InputError(
                f"{path} has more than {_LONGEST_FILE:,} characters, too long for one text. Split "
                "the file, or embed its lines."
            )
    return "".join(lines)


def _read_rows(path, layout, delimiter):
    table = open_table(path, layout, delimiter)
    for number, read in table.rows:
        try:
            row = cells(read(), layout)
            yield number, row[layout.text], row[layout.id] if layout.id else None
        except InputError as error:
            raise InputError(f"{path}, {table.unit} {number}: {error}") from error


def write_vectors(
    embedder: TextEmbedder,
    texts: Iterable[PlacedText],
    path: str | Path,
    batch_size: int | None = None,
    progress: Callable[[int], Any] | None = None,
    cache_bytes: int = 0,
    name: str | None = None,
) -> int:
    """Embeds texts in chunks and writes the vectors to a file.

    If `path` ends in `.npy`, the vectors are an array, float32 `[texts, dim]`, and a `.jsonl` file
    with the same name contains the path, line, beginning and id of each text. A `.parquet` file has
    the columns `path`, `line`, `text`, `id` and `vector`. The fingerprint of the model and of the
    files of the texts is in a `.meta` file with the same name, or in the metadata of the `.parquet`
    file. An existing file is replaced only if it contains vectors of this model and these files.

    Args:
        embedder: `TextEmbedder`. Its prompt `"document"`, `"passage"` or `"corpus"`, if any, is
            prepended to the texts.
        texts: iterable of `PlacedText`, from `read_texts`.
        path: str or `Path` that ends in `.npy` or `.parquet`.
        batch_size: default 32.
        progress: function that is called with the number of finished texts; None for no calls.
        cache_bytes: maximum memory of cached vectors. Texts in the cache are not encoded again.
        name: name or directory of the model, for messages.

    Returns:
        Number of texts.

    Raises:
        InputError: the suffix is wrong, there are no texts, or the output file is one of the
            inputs, or contains vectors of another model or other texts.

    Example:
        from keras_bert_impl.tasks import read_texts, write_vectors
        write_vectors(embedder, read_texts("folder"), "vectors.npy")
    """
    path = local_path(path)
    if path.suffix not in _WRITERS:
        raise InputError(f"{path}: the name must end in {' or '.join(_WRITERS)}.")
    count = 0
    prompt = document_prompt(embedder)
    encode = functools.partial(embedder.encode, prompt_name=prompt, batch_size=batch_size)
    if cache_bytes:
        encode = functools.partial(_encode_missing, encode, Cache(cache_bytes))
    written = {place.resolve() for place in _list_written(path)}
    source_of_vectors = describe_source(embedder, name)
    hashes = source_of_vectors["files"]
    with _WRITERS[path.suffix](path, source_of_vectors) as write:
        for chunk in filter(None, blocks(texts, _CHUNK_TEXTS, _CHUNK_CHARACTERS)):
            for source in dict.fromkeys(text.path for text in chunk):
                if Path(source).resolve() in written:
                    raise InputError(
                        f"{source} would be overwritten, but it is an input file. Choose another "
                        f"name than {path}."
                    )
                if source not in hashes:
                    hashes[source] = file_hash(source)
            if not count:
                check_may_replace(path, source_of_vectors)
            write(chunk, encode([placed.text for placed in chunk]))
            count += len(chunk)
            if progress is not None:
                progress(count)
        if not count:
            raise InputError("there are no texts to embed.")
    return count


def _encode_missing(encode, cache, texts):
    keys = [key_of(text) for text in texts]
    entries = dict(zip(keys, cache.get(keys)))
    missing = {key: text for key, text in zip(keys, texts) if entries[key] is None}
    if missing:
        for key, vector in zip(missing, encode(list(missing.values()))):
            entries[key] = {"vector": vector}
            cache.put(key, entries[key])
    return np.stack([entries[key]["vector"] for key in keys])


def _list_written(path):
    return [path, places_of(path), source_file(path)] if path.suffix == ".npy" else [path]


@contextlib.contextmanager
def _write_npy(path, source):
    dim = source["dim"]
    # Without the texts, which are moved last, `search` raises; the vectors can be written again.
    files = source_file(path), path, places_of(path)
    with replace_files(*files) as (source_aside, aside, places_aside):
        with open(aside, "wb") as vectors, open(places_aside, "w", encoding="utf-8") as places:
            _write_header(vectors, 0, dim)

            def write(texts, batch):
                vectors.write(np.ascontiguousarray(batch, "<f4").data)
                for text in texts:
                    entry = text._replace(text=text.text[:SHOWN_CHARACTERS]).as_dict()
                    places.write(json.dumps(entry) + "\n")

            yield write
            count = (vectors.tell() - _HEADER) // (4 * dim)
            vectors.seek(0)
            _write_header(vectors, count, dim)
        source["parts"] = {part.suffix: brief_hash(part) for part in (aside, places_aside)}
        source_aside.write_text(json.dumps(source, indent=2) + "\n", encoding="utf-8")


_HEADER = 128  # bytes; fixed, because the number of vectors is written last


def _write_header(file, count, dim):
    header = str({"descr": "<f4", "fortran_order": False, "shape": (count, dim)})
    magic = np.lib.format.magic(1, 0)
    length = _HEADER - len(magic) - 2
    file.write(magic + length.to_bytes(2, "little") + header.ljust(length - 1).encode() + b"\n")


@contextlib.contextmanager
def _write_parquet(path, source):
    dim, string = source["dim"], pyarrow.string()
    columns = {"path": string, "line": pyarrow.int64(), "text": string, "id": string}
    columns["vector"] = pyarrow.list_(pyarrow.float32(), dim)
    schema = pyarrow.schema(columns)
    with replace_file(path) as aside, pyarrow.parquet.ParquetWriter(aside, schema) as file:

        def write(texts, batch):
            flat = pyarrow.array(np.asarray(batch, "float32").ravel())
            arrays = [
                pyarrow.array([text.path for text in texts]),
                pyarrow.array([text.line for text in texts], pyarrow.int64()),
                pyarrow.array([text.text[:SHOWN_CHARACTERS] for text in texts]),
                pyarrow.array([text.id for text in texts], string),
                pyarrow.FixedSizeListArray.from_arrays(flat, dim),
            ]
            file.write_table(pyarrow.Table.from_arrays(arrays, schema=schema))

        yield write
        file.add_key_value_metadata({KEY: json.dumps(source)})


_WRITERS = {".npy": _write_npy, ".parquet": _write_parquet}


def places_of(path: str | Path) -> Path:
    """Returns the path of the text index of a `.npy` file."""
    return local_path(path).with_suffix(".jsonl")
