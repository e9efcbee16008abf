"""Manages the output folder of `prepare`.

Existing records are replaced only when the new records are complete. If `prepare` is interrupted,
the finished blocks are kept in a hidden folder next to the output, and the same command resumes.
"""

import contextlib
import dataclasses
import getpass
import hashlib
import itertools
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tensorflow as tf

from keras_bert_impl.pretraining.corpus import blocks
from keras_bert_impl.pretraining.examples import records, rows
from keras_bert_impl.pretraining.examples.records import FORMAT_VERSION
from keras_bert_impl.tokenizers import Tokenizer
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.io import remote_files
from keras_bert_impl.utils.io.files import (
    absolute,
    check_is_no_link,
    claim,
    is_remote,
    replace_directory,
)
from keras_bert_impl.utils.io.paths import is_own
from keras_bert_impl.utils.io.reading import read_json
from keras_bert_impl.utils.version import __version__

RESUME = "Finished blocks are kept; run the same command again to resume."


def place_of(output_directory: str | Path, settings: dict[str, Any], tokenizer: Tokenizer) -> Path:
    """Returns the absolute path of the local folder where the records are built."""
    if not is_remote(output_directory):
        place = absolute(output_directory)
        _check_replaceable(place, settings, tokenizer.fingerprint)
        return place
    try:
        tf.io.gfile.makedirs(output_directory)  # raises an error if the bucket is not writable
        has_records = tf.io.gfile.exists(os.path.join(output_directory, records.MANIFEST))
    except tf.errors.OpError as error:
        raise InputError(f"cannot write {output_directory}: {error.message}") from error
    if has_records:
        raise InputError(f"{output_directory} contains records. Name another folder.")
    name = f"{rows.stable_hash(str(output_directory).rstrip('/')):016x}"
    return _create_private_folder() / name


def _create_private_folder():
    """Returns a folder in the temporary directory that only this user can access."""
    folder = Path(tempfile.gettempdir()) / f"keras-bert-{getpass.getuser()}"
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    status = folder.lstat()
    is_private = os.name == "nt" or not status.st_mode & 0o077  # per-user folder on Windows
    if not (stat.S_ISDIR(status.st_mode) and is_own(status) and is_private):
        raise InputError(
            f"{folder} does not belong to you or is writable by others. Set TMPDIR to another folder."
        )
    return folder


def check_is_no_input(place: Path, paths: list[str]) -> None:
    """Raises `InputError` if the output folder `place` is inside one of the input `paths`."""
    for path in paths:
        is_inside = f"{place}{os.sep}".startswith(f"{os.path.abspath(path)}{os.sep}")
        if is_inside and place.is_dir() and any(e.name[0] != "." for e in place.iterdir()):
            raise InputError(
                f"the output folder {place} is inside the input {path}, so its files would be "
                "read as text. Choose an output folder outside the input."
            )


@contextlib.contextmanager
def new_records(
    output_directory: str | Path, place: Path, runner: str | None
) -> Iterator[str | Path]:
    """Context manager that yields the folder to write to. `place` is from `place_of`."""
    is_bucket = is_remote(output_directory)
    if is_bucket and runner is not None:
        yield output_directory
        return
    with replace_directory(place) as directory:
        yield directory
        if is_bucket:
            try:
                remote_files.upload(directory, str(output_directory), last=records.MANIFEST)
            except InputError as error:
                raise Interrupted(f"{error}. {RESUME}") from error
    if is_bucket:
        shutil.rmtree(place)
    else:
        _remove_unlisted_shards(place)


def save_tokenizer(tokenizer: Tokenizer, directory: str | Path) -> None:
    if not is_remote(directory):
        tokenizer.save_pretrained(directory)
        return
    with tempfile.TemporaryDirectory() as copy:
        tokenizer.save_pretrained(copy)
        remote_files.upload(Path(copy), str(directory))


def _check_replaceable(directory, settings, fingerprint):
    """Raises `InputError` unless the folder is empty or has records with these settings."""
    prefix = f".{directory.name}."  # left by interrupted runs
    if directory.is_dir() and not all(e.name.startswith(prefix) for e in directory.iterdir()):
        if not _has_records(directory):
            raise InputError(f"{directory} contains other files. Name a new or empty folder.")
        try:
            manifest = records.read_manifest(directory)
        except InputError:  # damaged records and records of another version may be replaced
            return
        way_out = "name another folder."
        if manifest["tokenizer"]["fingerprint"] != fingerprint:
            raise InputError(f"{directory} contains records of another tokenizer; {way_out}")
        before = manifest["settings"]
        for name, value in settings.items():
            if before.get(name, value) != value:
                raise InputError(
                    f"{directory} contains records with {name}={before[name]}, not {value}; "
                    f"{way_out}"
                )


def _has_records(directory):
    """Returns whether a folder contains records, which may be incomplete or damaged."""
    if not (directory / records.MANIFEST).is_file():
        return False
    try:
        manifest = read_json(directory / records.MANIFEST)
    except InputError:  # damaged
        manifest = {}
    return "splits" in manifest or any(directory.glob("*-[0-9][0-9][0-9][0-9][0-9].tfrecord.gz"))


def _remove_unlisted_shards(directory):
    for split, split_manifest in records.read_manifest(directory)["splits"].items():
        named = {shard["file"] for shard in split_manifest["shards"]}
        for path in directory.glob(f"{split}-[0-9][0-9][0-9][0-9][0-9].tfrecord.gz"):
            if path.name not in named:
                path.unlink()


class Interrupted(InputError):
    """An error after which the finished blocks are kept, so that `prepare` can resume."""


class FinishedBlocks:
    """A hidden folder with the rows of finished blocks, kept until the records are complete."""

    def __init__(
        self, output_directory: Path, settings: blocks.Settings, tokenizer: Tokenizer
    ) -> None:
        parent = output_directory.parent
        # The path must not depend on whether the records already exist.
        is_closed = parent.exists() and not os.access(parent, os.W_OK | os.X_OK)
        if os.path.ismount(output_directory) or is_closed:
            parent = output_directory
        self._folder = parent / f".{output_directory.name}.unfinished"
        self._made_by = __version__, FORMAT_VERSION, repr(settings), tokenizer.fingerprint
        self._lock: Any = None

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        if kind is None or (issubclass(kind, InputError) and not issubclass(kind, Interrupted)):
            shutil.rmtree(self._folder, ignore_errors=True)
        if self._lock:
            self._lock.release()

    def open(self) -> None:
        """Creates and locks the folder. Raises `Interrupted` if another process holds the lock."""
        check_is_no_link(self._folder)
        self._folder.mkdir(exist_ok=True)
        self._lock = claim(self._folder / "lock")
        if self._lock is None:
            raise Interrupted(
                f"another prepare is writing to {self._folder}; wait for it to finish."
            )

    def read(self, text_block: blocks.TextBlock) -> blocks.BuiltBlock | None:
        """Reads the rows of a block. Returns None if the block is not finished."""
        path = self._name_block_file(text_block)
        if not path.is_file():
            return None
        content, _, checksum = path.read_bytes().rpartition(b"\n")
        if _compute_checksum(content) != checksum:  # a crash of the machine truncated the file
            return None
        header, _, joined = content.partition(b"\n")
        header = json.loads(header)
        if header["key"] != self._hash_block(text_block):
            return None
        ends = itertools.accumulate(header["lengths"], initial=0)
        serialized = [joined[start:end] for start, end in itertools.pairwise(ends)]
        return blocks.BuiltBlock(serialized, blocks.Counts(**header["counts"]))

    def write(self, text_block: blocks.TextBlock, built: blocks.BuiltBlock) -> None:
        header = {
            "key": self._hash_block(text_block),
            "counts": dataclasses.asdict(built.counts),
            "lengths": [len(row) for row in built.rows],
        }
        content = b"".join([json.dumps(header).encode(), b"\n", *built.rows])
        path = self._name_block_file(text_block)
        aside = path.with_suffix(".part")
        with open(aside, "wb") as file:
            file.writelines([content, b"\n", _compute_checksum(content)])
        aside.replace(path)

    def _name_block_file(self, text_block):
        return self._folder / f"{text_block.number:08d}.block"

    def _hash_block(self, text_block):
        documents = [
            (number, document.is_split, len(document.paragraphs), document.text_hash)
            for number, document in text_block.documents
        ]
        return rows.stable_hash(*self._made_by, text_block.split, text_block.number, documents)


def _compute_checksum(content):
    return hashlib.blake2b(content, digest_size=16).hexdigest().encode()
