"""Packed unmasked examples on disk: compressed TFRecord shards and a `manifest.json`.

A record is a `tf.train.Example` of one row. L is the sequence length, E the maximum number of
examples per row. All features except `row_id` are raw little-endian arrays, because lists of
integers are slower to write. The arrays have the dtype int32. `token_ids` has the dtype uint16 if
all ids are less than 2¹⁶. In segmented text, a Chinese character that continues a word is stored as
`token id + vocabulary size`.

| feature | shape | content |
|---|---|---|
| token_ids | [L] | the concatenated examples with [CLS] and [SEP], then padding |
| example_lengths | [E] | tokens of each example; 0 in unused slots |
| first_lengths | [E] | tokens of the example's first segment, with [CLS] and [SEP] |
| pair_labels | [E] | for `mlm_nsp`, 1 if the second segment is random; for `mlm_sop`, 1 if the \
segments are swapped; for `tlm`, see `rows.translation_examples` |
| row_id | [], int64 | unique number of the row, used as a seed: block number · 2³² + number of \
the row in the block |
"""

import concurrent.futures
import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from isal import igzip

from keras_bert_impl.pretraining.settings import RECORDS_OBJECTIVES
from keras_bert_impl.tokenizers import Tokenizer
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.io.files import is_remote
from keras_bert_impl.utils.io.paths import expanded, local_path
from keras_bert_impl.utils.io.reading import Document, is_plain_name, parse_json
from keras_bert_impl.utils.io.remote_files import os_errors, replace_file

MANIFEST = "manifest.json"
ROWS_ARE_MISSING = "rows are missing"  # error message of the graph that reads a shard
_ROWS_AT_ONCE = 256
PER_EXAMPLE = ("example_lengths", "first_lengths", "pair_labels")
FORMAT_VERSION = 3
SPLITS = ("train", "held_out")
_LONGEST_ROW = 1 << 20  # tokens
_MOST = 1 << 62
_COUNTS = ("rows", "tokens", "examples", "pairs_labelled_1", "examples_in_fullest_row")


def num_ids(vocabulary_size: int, segmented: bool) -> int:
    """Returns the number of different values that `token_ids` can have."""
    return 2 * vocabulary_size if segmented else vocabulary_size


def token_type(num_ids: int) -> np.dtype:
    return np.dtype("<u2" if num_ids <= 1 << 16 else "<i4")


def serialize_rows(arrays: dict[str, np.ndarray], num_ids: int, first_id: int) -> list[bytes]:
    """Serializes rows to a list of records.

    Args:
        arrays: int32 arrays [rows, ...] of all features except `row_id`; see the table above.
    """
    dtypes = dict.fromkeys(PER_EXAMPLE, np.dtype("<i4"))
    dtypes["token_ids"] = token_type(num_ids)
    example = tf.train.Example()
    feature = example.features.feature
    for name in dtypes:
        feature[name].bytes_list.value.append(b"")
    feature["row_id"].int64_list.value.append(0)
    # One message object is reused, because creating it for each row takes most of the time.
    lists = [feature[name].bytes_list.value for name in dtypes]
    columns = [arrays[name].astype(dtype, casting="unsafe") for name, dtype in dtypes.items()]
    row_ids, serialized = feature["row_id"].int64_list.value, []
    for number, values in enumerate(zip(*columns), first_id):
        for one_list, row in zip(lists, values):
            one_list[0] = row.tobytes()
        row_ids[0] = number
        serialized.append(example.SerializeToString(deterministic=True))
    return serialized


def parse_rows(serialized: tf.Tensor, manifest: dict[str, Any]) -> dict[str, tf.Tensor]:
    """Parses records (string [batch]) in a graph; returns the features in the table above."""
    spec = dict.fromkeys(("token_ids", *PER_EXAMPLE), tf.io.FixedLenFeature([], tf.string))
    rows = tf.io.parse_example(serialized, spec | {"row_id": tf.io.FixedLenFeature([], tf.int64)})
    vocabulary_size = manifest["tokenizer"]["vocabulary_size"]
    segmented = manifest["settings"].get("segmented", False)
    dtype = tf.as_dtype(token_type(num_ids(vocabulary_size, segmented)))
    token_ids = tf.cast(tf.io.decode_raw(rows["token_ids"], dtype), tf.int32)
    token_ids = tf.ensure_shape(token_ids, [None, manifest["settings"]["length"]])
    arrays = {"token_ids": token_ids}
    if segmented:
        is_inside = token_ids >= vocabulary_size
        arrays = {"token_ids": token_ids % vocabulary_size, "inside_word": is_inside}
    for name in PER_EXAMPLE:
        values = tf.io.decode_raw(rows[name], tf.int32)
        arrays[name] = tf.ensure_shape(values, [None, manifest["settings"]["max_examples_per_row"]])
    return rows | arrays


def check_pair_labels(manifest: dict[str, Any], split: str) -> None:
    """Raises `InputError` if all segment pairs of a split have the same label."""
    counts, objective = manifest["splits"][split], manifest["settings"]["objective"]
    if objective in ("mlm", "tlm") or 0 < counts["pairs_labelled_1"] < counts["examples"]:
        return
    positive, negative = {
        "mlm_nsp": ("random", "consecutive"),
        "mlm_sop": ("swapped", "in order"),
    }[objective]
    pair_kind = positive if counts["pairs_labelled_1"] else negative
    raise InputError(
        f"all {counts['examples']} segment pairs of the {split} split are {pair_kind}, so all "
        "labels are equal. Add documents with several short sentences, or choose --objective mlm."
    )


class Dealer:
    """Assigns rows to the open shards round-robin. If a shard is full, a new shard is opened."""

    def __init__(self, num_open_shards: int, rows_per_shard: int) -> None:
        self.rows_per_shard = rows_per_shard
        self.num_shards = 0
        self._open: list[tuple[int, int] | None] = [None] * num_open_shards  # (shard, rows)

    def deal(self, count: int, first_shard: int) -> Iterator[tuple[int, int]]:
        """Yields (shard number, position in the shard) for `count` rows."""
        for number in range(first_shard, first_shard + count):
            slot = number % len(self._open)
            if self._open[slot] is None:
                self._open[slot] = (self.num_shards, 0)
                self.num_shards += 1
            shard, rows = self._open[slot]
            full = rows + 1 == self.rows_per_shard
            self._open[slot] = None if full else (shard, rows + 1)
            yield shard, rows


def shard_name(split: str, shard: int) -> str:
    """Returns the file name of a shard, such as `train-00000.tfrecord.gz`."""
    return f"{split}-{shard:05d}.tfrecord.gz"


class ShardWriter:
    """Writes the rows of a split to shards."""

    def __init__(
        self,
        directory: str | Path,
        split: str,
        num_open_shards: int = 16,
        rows_per_shard: int = 32768,
    ) -> None:
        self._directory = Path(directory)
        self._split = split
        self._dealer = Dealer(num_open_shards, rows_per_shard)
        self._open: dict[int, ShardFile] = {}  # by shard
        self._rows: list[int] = []

    def write(self, rows: Sequence[bytes], first_shard: int) -> None:
        with os_errors():
            for row, (shard, place) in zip(rows, self._dealer.deal(len(rows), first_shard)):
                if place == 0:
                    self._open[shard] = ShardFile(self._directory / shard_name(self._split, shard))
                    self._rows.append(0)
                self._open[shard].write(row)
                self._rows[shard] += 1
                if place + 1 == self._dealer.rows_per_shard:
                    self._open.pop(shard).close()

    def close(self) -> list[dict[str, Any]]:
        """Closes the shards; returns the manifest entry of each shard."""
        with os_errors():
            for writer in self._open.values():
                writer.close()
        return [
            describe_shard(self._directory / shard_name(self._split, shard), rows)
            for shard, rows in enumerate(self._rows)
        ]


class ShardFile:
    """Writes the rows of a shard to a temporary file. `close` writes the compressed shard."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._plain = path.with_name(f"{path.name}.plain")
        self._writer = tf.io.TFRecordWriter(str(self._plain))

    def write(self, row: bytes) -> None:
        self._writer.write(row)

    def close(self) -> None:
        self._writer.close()
        with open(self._plain, "rb") as plain, open(self._path, "wb") as file:
            # The gzip header has no file name or time stamp, so equal rows give equal bytes.
            with igzip.IGzipFile("", "wb", compresslevel=1, fileobj=file, mtime=0) as compressed:
                shutil.copyfileobj(plain, compressed, 1 << 20)
        self._plain.unlink()


def describe_shard(path: Path, rows: int) -> dict[str, Any]:
    return {
        "file": path.name,
        "rows": rows,
        "bytes": path.stat().st_size,
        "sha256": _hash_file(path),
    }


def _hash_file(path):
    digest = hashlib.sha256()
    with tf.io.gfile.GFile(str(path), "rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def write_manifest(directory: str | Path, manifest: dict[str, Any]) -> None:
    """Writes `manifest.json` to a local folder or a folder in a bucket."""
    text = json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"
    with replace_file(os.path.join(directory, MANIFEST)) as temporary:
        temporary.write_text(text, encoding="utf-8")


def absolute(directory: str | Path) -> str:
    """Returns an absolute path. Paths in a bucket are not changed."""
    return os.fspath(directory) if is_remote(directory) else os.path.abspath(expanded(directory))


def read_manifest(directory: str | Path) -> dict[str, Any]:
    """Reads and validates the manifest of a records folder, and checks the sizes of the shards.

    Args:
        directory: Folder written by `prepare`. For a bucket or another TensorFlow file system, a
            str such as `gs://bucket/records`.

    Raises:
        InputError: The folder contains no records of a supported version, a shard is missing or has
            the wrong size, or the bucket cannot be read.
    """
    directory = expanded(directory)
    path = os.path.join(directory, MANIFEST)
    try:
        if not tf.io.gfile.exists(path):
            raise InputError(f"{directory} contains no records (no {MANIFEST}); run prepare.")
        with tf.io.gfile.GFile(path, "rb") as file:
            text = file.read()
        manifest, names, expected = checked_manifest(path, text)
        files = [os.path.join(directory, name) for name in names]
        with concurrent.futures.ThreadPoolExecutor(32) as pool:  # Buckets have high latency.
            sizes = list(pool.map(_measure_size, files))
    except tf.errors.OpError as error:
        raise InputError(f"cannot read {path}: {error.message}") from error
    for file, size, size_then in zip(files, sizes, expected):
        if size is None:
            raise InputError(f"the shard {file} is missing; copy it again or run prepare again.")
        if size != size_then:
            raise InputError(
                f"the shard {file} is truncated or changed: it has {size} bytes, but the "
                f"manifest lists {size_then}. Copy it again or run prepare again."
            )
    return manifest


def _measure_size(path):
    try:
        return tf.io.gfile.stat(path).length
    except tf.errors.NotFoundError:
        return None


def read_tokenizer(directory: str | Path) -> Tokenizer:
    if not is_remote(directory):
        return Tokenizer.from_pretrained(local_path(directory))
    with tempfile.TemporaryDirectory() as copy:
        for name in tf.io.gfile.listdir(directory):
            if not name.endswith((".tfrecord.gz", "/")):
                tf.io.gfile.copy(os.path.join(directory, name), os.path.join(copy, name))
        return Tokenizer.from_pretrained(Path(copy))


def check_tokenizer(manifest: dict[str, Any], tokenizer: Tokenizer) -> None:
    made_with = manifest["tokenizer"]["fingerprint"]
    if tokenizer.fingerprint != made_with:
        raise InputError(
            f"the records were prepared with another tokenizer (fingerprint {made_with[:12]}, not "
            f"{tokenizer.fingerprint[:12]}). Use the tokenizer in the records folder, or run "
            "prepare again with this one."
        )


def check_shards(directory: str | Path) -> None:
    """Raises `InputError` if the checksum or row count of a shard differs from the manifest."""
    directory = expanded(directory)
    manifest = read_manifest(directory)
    for split in SPLITS:
        for shard in manifest["splits"][split]["shards"]:
            file = os.path.join(directory, shard["file"])
            if _hash_file(file) != shard["sha256"]:
                raise InputError(
                    f"the shard {file} is damaged: its checksum does not match the manifest. "
                    "Copy it again or run prepare again."
                )
            if _count_rows(file, manifest) != shard["rows"]:
                raise _make_rows_error(file)


def check_first_rows(directory: str | Path, manifest: dict[str, Any]) -> None:
    """Raises `InputError` if the first rows of a folder do not match its manifest."""
    for split in SPLITS:
        for shard in manifest["splits"][split]["shards"][:1]:
            _count_rows(os.path.join(directory, shard["file"]), manifest, most=1)


def _count_rows(file, manifest, most=-1):
    """Counts at most `most` rows of a shard (-1: all). Raises `InputError` for an invalid row."""
    rows = tf.data.TFRecordDataset(file, compression_type="GZIP").take(most).batch(_ROWS_AT_ONCE)
    try:
        parsed = [parse_rows(serialized, manifest)["row_id"] for serialized in rows]
    except (tf.errors.DataLossError, tf.errors.InvalidArgumentError, ValueError) as error:
        raise _make_rows_error(file) from error
    return sum(map(len, parsed))


def _make_rows_error(file):
    return InputError(f"the rows of the shard {file} do not match {MANIFEST}; run prepare again.")


@contextlib.contextmanager
def clear_read_errors(directory: str | Path) -> Iterator[None]:
    """Context manager that converts read errors to an `InputError` with the name of the shard."""
    try:
        yield
    except (
        tf.errors.DataLossError,
        tf.errors.InvalidArgumentError,
        tf.errors.NotFoundError,
    ) as error:
        check_shards(directory)
        if ROWS_ARE_MISSING in str(error):  # Another `prepare` has replaced the shards since.
            raise InputError(
                f"the records in {directory} were replaced while they were read. Read them again."
            ) from error
        raise


def checked_manifest(path: str, text: bytes) -> tuple[Document, list[str], list[int]]:
    """Parses a manifest; returns (manifest, names of the shards, sizes in bytes)."""
    try:
        value = parse_json(text, path)
        manifest = Document(value if isinstance(value, dict) else {}, path)
        version = manifest.integer("version")
        if version == FORMAT_VERSION:
            return manifest, *_validate_shards(manifest)
    except InputError as error:
        raise InputError(f"{path} is damaged; run prepare again: {error}") from None
    raise InputError(
        f"{path} has format version {version}, but this program reads version {FORMAT_VERSION}; "
        "run prepare again."
    )


def _validate_shards(manifest):
    names, sizes = [], []
    settings, tokenizer = manifest.mapping("settings"), manifest.mapping("tokenizer")
    for name in SPLITS:
        split = manifest.mapping("splits").mapping(name)
        shards = split.list_of("shards", dict)
        for shard in shards:
            names.append(shard.text("file"))
            if not is_plain_name(names[-1]):
                raise shard.error("file", "the name of a file in the folder")
            sizes.append(shard.integer("bytes", least=0, most=_MOST))
            shard.integer("rows", least=1, most=_MOST)
            shard.text("sha256")
        for count in _COUNTS:
            split.integer(count, least=0, most=_MOST)
        if split["rows"] != sum(shard["rows"] for shard in shards):
            raise split.error("rows", "the sum of the rows of its shards")
    tokenizer.text("fingerprint")
    tokenizer.integer("vocabulary_size", least=1)
    settings.text("objective", choices=tuple(RECORDS_OBJECTIVES))
    settings.flag("segmented", False)
    settings.list_of("languages", str, [])
    settings.integer("length", least=8, most=_LONGEST_ROW)
    settings.integer("max_examples_per_row", least=1, most=_LONGEST_ROW)
    return names, sizes
