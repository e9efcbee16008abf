"""Blocks finished by an interrupted `prepare`, from which the same command resumes."""

import dataclasses
import hashlib
import itertools
import json
import os
import shutil
from pathlib import Path
from typing import Any

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.io.files import check_is_no_link, claim
from keras_bert_impl.pretraining.corpus import blocks
from keras_bert_impl.pretraining.examples import draws
from keras_bert_impl.pretraining.examples.manifest import FORMAT_VERSION
from keras_bert_impl.tokenizers import Tokenizer
from keras_bert_impl.version import __version__

RESUME = "Finished blocks are kept; run the same command again to resume."


class Interrupted(InputError):
    """An interruption not caused by the input; finished blocks are kept."""


class FinishedBlocks:
    """Rows of finished blocks, in a hidden folder beside the records until these are complete."""

    def __init__(
        self, output_directory: Path, settings: blocks.Settings, tokenizer: Tokenizer
    ) -> None:
        parent = output_directory.parent
        # The same place in each run, whether or not the records exist already.
        if os.path.ismount(output_directory) or not os.access(parent, os.W_OK | os.X_OK):
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
        """Creates and locks the folder; raises `InputError` if another process has locked it."""
        check_is_no_link(self._folder)
        self._folder.mkdir(exist_ok=True)
        self._lock = claim(self._folder / "lock")
        if self._lock is None:
            raise Interrupted(
                f"another prepare is writing to {self._folder}; wait for it to finish."
            )

    def read(self, text_block: blocks.TextBlock) -> blocks.BuiltBlock | None:
        """Returns the `BuiltBlock` of a `TextBlock`, or None if it is not finished."""
        path = self._path(text_block)
        if not path.is_file():
            return None
        content, _, checksum = path.read_bytes().rpartition(b"\n")
        if _checksum(content) != checksum:  # truncated when the machine went down
            return None
        header, _, joined = content.partition(b"\n")
        header = json.loads(header)
        if header["key"] != self._key(text_block):
            return None
        ends = itertools.accumulate(header["lengths"], initial=0)
        rows = [joined[start:end] for start, end in itertools.pairwise(ends)]
        return blocks.BuiltBlock(rows, blocks.Counts(**header["counts"]))

    def write(self, text_block: blocks.TextBlock, built: blocks.BuiltBlock) -> None:
        """Stores the `BuiltBlock` of a `TextBlock`."""
        header = {
            "key": self._key(text_block),
            "counts": dataclasses.asdict(built.counts),
            "lengths": [len(row) for row in built.rows],
        }
        content = b"".join([json.dumps(header).encode(), b"\n", *built.rows])
        path = self._path(text_block)
        aside = path.with_suffix(".part")
        with open(aside, "wb") as file:
            file.writelines([content, b"\n", _checksum(content)])
        aside.replace(path)

    def _path(self, text_block):
        return self._folder / f"{text_block.number:08d}.block"

    def _key(self, text_block):
        documents = [
            (number, document.is_split, len(document.paragraphs), document.text_hash)
            for number, document in text_block.documents
        ]
        return draws.stable_hash(*self._made_by, text_block.split, text_block.number, documents)


def _checksum(content):
    """Returns a hexadecimal checksum as bytes."""
    return hashlib.blake2b(content, digest_size=16).hexdigest().encode()
