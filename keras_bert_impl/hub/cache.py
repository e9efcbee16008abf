"""What both hubs' caches share: free space, checksums, and records of complete models."""

import contextlib
import hashlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from keras_bert_impl.hub.transfer import limit
from keras_bert_impl.io.errors import InputError
from keras_bert_impl.io.files import replace_file
from keras_bert_impl.io.reading import read_json


@contextlib.contextmanager
def disk_errors(source: str, cache: Path, variable: str) -> Iterator[None]:
    """Converts disk errors to an `InputError`; `variable` sets the location of the cache."""
    try:
        yield
    except OSError as error:
        raise InputError(
            f"{source}: cannot write to the cache in {cache}: {error.strerror}. Free some space or "
            f"set {variable} to another disk."
        ) from error


def check_size(folder: Path, source: str, name: str, size: int, done: int, variable: str) -> None:
    """Checks that a file may be downloaded."""
    if size > limit("MAX_BYTES"):
        raise InputError(
            f"{source}: {name} has {size:.3g} bytes; KERAS_BERT_HUB_MAX_BYTES is "
            f"{limit('MAX_BYTES'):.3g}."
        )
    free = shutil.disk_usage(folder).free
    if free < size - done:
        raise InputError(
            f"{folder} has {free:,} bytes free, and {name} of {source} needs {size - done:,}. Free "
            f"some space or set {variable} to another disk."
        )


def digest_of(path: Path, digest: Any) -> bytes:
    """Returns the digest of a file's content, added to a `hashlib` object."""
    with path.open("rb") as file:
        while block := file.read(2**20):
            digest.update(block)
    return digest.digest()


def checksum_of(path: Path, like: str) -> str:
    """Returns a file's SHA-256, or git's SHA-1, in hex: whichever is as long as `like`."""
    if len(like) == 64:
        return digest_of(path, hashlib.sha256()).hex()
    header = f"blob {path.stat().st_size}\0".encode()
    return digest_of(path, hashlib.sha1(header, usedforsecurity=False)).hex()


def existing(directory: Path, name: str) -> Path | None:
    """Returns the path of a file in a directory, or None if there is no such file."""
    path = directory / name
    return path if path.exists() else None


def write_record(record: Path, files: dict[str, Path]) -> None:
    """Records that all files of a model, from `gather`, are present and verified."""
    sizes = {name: path.stat().st_size for name, path in files.items()}
    with replace_file(record) as temporary:
        temporary.write_text(json.dumps(sizes, indent=1), encoding="utf-8")


def is_complete(record: Path, directory: Path) -> bool:
    """Returns whether `record` exists and the directory's files still have their recorded sizes."""
    try:
        sizes = read_json(record)
        return all((directory / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError):  # an InputError is a ValueError
        return False
