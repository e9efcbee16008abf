"""What a file of vectors states about itself: the model, and the files of the texts."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import pyarrow.parquet

from keras_bert_impl.data.tables.examples import content_hash
from keras_bert_impl.data.tables.table_rows import readable_errors
from keras_bert_impl.utils.errors import InputError, listed
from keras_bert_impl.utils.io.paths import local_path
from keras_bert_impl.utils.io.reading import Document, parse_json, read_json

if TYPE_CHECKING:
    from keras_bert_impl.tasks.embedding.model import TextEmbedder

_LOG = logging.getLogger(__name__)
_MIB = 1 << 20
KEY = b"keras_bert_impl"  # of the metadata of a Parquet file
_PROMPTS = ("document", "passage", "corpus")  # prompt names, as in `sentence-transformers`
# Settings that change the vectors of short texts.
_SETTINGS = (
    *("pooling", "num_layers", "projections", "normalize", "truncate_dim", "do_lower_case"),
    *("prompts", "default_prompt_name"),
)


def document_prompt(embedder: TextEmbedder) -> str | None:
    return next((name for name in _PROMPTS if name in embedder.prompts), None)


def embedder_fingerprint(embedder: TextEmbedder) -> str:
    """Returns the SHA-256 (hex) of the weights, the tokenizer and the settings of an embedder.

    It does not depend on the backend, the dtype policy or the file format of the model.
    """
    settings = [getattr(embedder, name) for name in _SETTINGS]
    digest = hashlib.sha256(content_hash(embedder.tokenizer.fingerprint, settings).encode())
    for variable in embedder.weights:
        if "pooler" not in variable.path and "seed" not in variable.path:  # not used by `predict`
            array = np.ascontiguousarray(keras.ops.convert_to_numpy(variable), "<f4")
            digest.update(str(array.shape).encode() + array.tobytes())
    return digest.hexdigest()


def describe_source(embedder: TextEmbedder, name: str | None) -> dict[str, Any]:
    """Returns what a file of vectors states. The writer adds the `files`: path -> SHA-256."""
    prompt = document_prompt(embedder) or embedder.default_prompt_name
    return {
        "model": name,
        "fingerprint": embedder_fingerprint(embedder),
        "dim": embedder.dim,
        "normalized": embedder.normalize,
        "prompt": embedder.prompts.get(prompt, ""),
        "files": {},
    }


def file_hash(path: str | Path) -> str | None:
    """Returns the SHA-256 (hex) of a file, or None if there is no such file."""
    if not local_path(path).is_file():
        return None
    with open(local_path(path), "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def brief_hash(path: str | Path) -> str:
    """Returns the SHA-256 (hex) of the size, the first and the last MiB of a file."""
    with open(local_path(path), "rb") as file:
        size = file.seek(0, os.SEEK_END)
        digest = hashlib.sha256(str(size).encode())
        for start in (0, max(0, size - _MIB)):
            file.seek(start)
            digest.update(file.read(_MIB))
    return digest.hexdigest()


def source_file(path: str | Path) -> Path:
    """Returns the file next to a `.npy` file that states its model and texts."""
    return local_path(path).with_suffix(".meta")


def read_source(path: str | Path) -> Document | None:
    """Returns what a file of vectors states; None if it states nothing."""
    path = local_path(path)
    if path.suffix != ".parquet":
        return read_json(source_file(path)) if source_file(path).is_file() else None
    if not path.is_file():
        return None
    with readable_errors(path):
        content = (pyarrow.parquet.read_metadata(path).metadata or {}).get(KEY)
    return None if content is None else Document(parse_json(content, path), path)


def check_same_model(path: str | Path, embedder: TextEmbedder, name: str | None = None) -> None:
    """Raises `InputError` if a file of vectors states another model than `embedder`.

    Also raises an error if the `.npy` and `.jsonl` files are not from the same call. Logs a warning
    if the file does not state its model.

    Args:
        name: name or directory of `embedder`, for messages.
    """
    source = read_source(path)
    if source is None:
        _LOG.warning(
            "%s does not state the model of its vectors; with vectors of another model, the scores "
            "have no meaning",
            path,
        )
    elif source.text("fingerprint") != embedder_fingerprint(embedder):
        raise InputError(
            f"the vectors in {path} are from a different model: {_describe_model(source)}, not "
            f"{name or 'this model'}. Search with their model, or embed the texts again with "
            f"--model {name or 'MODEL'} and another --out."
        )
    hashes = Document({}, path) if source is None else source.mapping("parts")
    for part in map(local_path(path).with_suffix, hashes and (".npy", ".jsonl")):
        if part.is_file() and brief_hash(part) != hashes.text(part.suffix):
            raise InputError(
                f"{part} does not belong to {source_file(path)}, because the two files were not "
                "written together. Run `keras-bert embed` again."
            )


def _describe_model(source):
    name, fingerprint = source.text("model", None), source.text("fingerprint")
    return f"{name or 'a model'} (SHA-256 {fingerprint[:8]})"


def check_may_replace(path: Path, source: dict[str, Any]) -> None:
    """Raises `InputError` if a file exists that does not contain vectors of this model and texts.

    Args:
        source: statement of the new vectors, with the files of the first texts.
    """
    before = read_source(path)
    if before is None and not path.exists():
        return
    if before is None:
        contents = "does not state the model of its vectors"
    elif before.text("fingerprint") != source["fingerprint"]:
        contents = f"contains vectors of another model, {_describe_model(before)}"
    elif before.mapping("files").keys().isdisjoint(source["files"]):
        contents = f"contains vectors of other texts, {listed(before.mapping('files'))}"
    else:
        return
    raise InputError(f"{path} {contents}. Choose another name for the new vectors.")


def changed_files(path: str | Path, texts: Iterable[str]) -> list[str]:
    """Returns the files of texts that have changed since their texts were embedded."""
    source = read_source(path)
    before = {} if source is None else source.mapping("files")
    hashes = {text: file_hash(text) for text in dict.fromkeys(texts) if text in before}
    return [text for text, digest in hashes.items() if digest not in (None, before[text])]
