"""Rows of unmasked examples on disk: compressed TFRecord shards and a `manifest.json`.

A record is a `tf.train.Example` of one row. L is the row length, E the maximum number of examples
per row. All features except `row_id` are stored as raw little-endian arrays, which are written in a
fraction of the time of lists of integers. They are int32, except that `token_ids` are uint16 for a
vocabulary of up to 2¹⁶ tokens.

| feature | shape | content |
|---|---|---|
| token_ids | [L] | the examples one after another, with [CLS] and [SEP], then padding |
| example_lengths | [E] | tokens of each example; 0 in unused slots |
| first_lengths | [E] | tokens of its first segment, with [CLS] and [SEP] |
| pair_labels | [E] | 1 if the second segment is from a random other document or, for sentence \
order, if the two are swapped |
| row_id | [], int64 | the row's name in random draws: block · 2³² + number in the block |
"""

import concurrent.futures
import contextlib
import hashlib
import json
import os
import shutil
from pathlib import Path

import numpy as np
import tensorflow as tf
from isal import igzip

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.io.files import is_remote, recover, temporary_directory
from keras_bert_impl.io.remote_files import os_errors, replace_file
from keras_bert_impl.pretraining.examples.manifest import SPLITS, checked_manifest
from keras_bert_impl.tokenizers import Tokenizer

MANIFEST = "manifest.json"
_ROWS_AT_ONCE = 256
_OF_EXAMPLES = ("example_lengths", "first_lengths", "pair_labels")


def token_type(vocabulary_size):
    """Returns the numpy dtype of `token_ids` in a record."""
    return np.dtype("<u2" if vocabulary_size <= 1 << 16 else "<i4")


def serialize_rows(arrays, vocabulary_size, first_id):
    """Serializes rows to records, as a list of bytes.

    Args:
        arrays: dict of int32 arrays [rows, ...]: the features in the table above except `row_id`.
        vocabulary_size: int.
        first_id: int. The `row_id` of the first row; the following rows count up from it.
    """
    dtypes = dict.fromkeys(_OF_EXAMPLES, "<i4") | {"token_ids": token_type(vocabulary_size)}
    example = tf.train.Example()
    feature = example.features.feature
    for name in dtypes:
        feature[name].bytes_list.value.append(b"")
    feature["row_id"].int64_list.value.append(0)
    # One message is reused: creating its parts for each row takes most of the time.
    lists = [feature[name].bytes_list.value for name in dtypes]
    arrays = [arrays[name].astype(dtype, casting="unsafe") for name, dtype in dtypes.items()]
    row_ids, serialized = feature["row_id"].int64_list.value, []
    for number, values in enumerate(zip(*arrays), first_id):
        for one_list, row in zip(lists, values):
            one_list[0] = row.tobytes()
        row_ids[0] = number
        serialized.append(example.SerializeToString(deterministic=True))
    return serialized


def parse_rows(serialized, manifest):
    """Parses a batch of records to tensors, in graph.

    Args:
        serialized: string tensor [batch].
        manifest: dict. The manifest of the records.

    Returns:
        Dict of the features in the table above: int32 [batch, …], and `row_id` int64 [batch].
    """
    names = ("token_ids", *_OF_EXAMPLES)
    spec = {name: tf.io.FixedLenFeature([], tf.string) for name in names}
    rows = tf.io.parse_example(serialized, spec | {"row_id": tf.io.FixedLenFeature([], tf.int64)})
    dtype = tf.as_dtype(token_type(manifest["tokenizer"]["vocabulary_size"]))
    token_ids = tf.cast(tf.io.decode_raw(rows["token_ids"], dtype), tf.int32)
    arrays = {"token_ids": tf.ensure_shape(token_ids, [None, manifest["settings"]["length"]])}
    for name in _OF_EXAMPLES:
        values = tf.io.decode_raw(rows[name], tf.int32)
        arrays[name] = tf.ensure_shape(values, [None, manifest["settings"]["max_examples_per_row"]])
    return rows | arrays


def check_pair_labels(manifest, split):
    """Rejects segment pairs that all have one label, from which nothing can be learned.

    Args:
        manifest: dict. The manifest of the records.
        split: str.

    Raises:
        InputError: the split has pairs for an objective, and all have the same label.
    """
    counts, objective = manifest["splits"][split], manifest["settings"]["objective"]
    if objective == "mlm" or 0 < counts["pairs_labelled_1"] < counts["examples"]:
        return
    wrong, right = {
        "mlm_nsp": ("of two documents", "of one document"),
        "mlm_sop": ("swapped", "in order"),
    }[objective]
    which = wrong if counts["pairs_labelled_1"] else right
    raise InputError(
        f"all {counts['examples']} pairs of the {split} split are {which}, of which nothing can be "
        "learned. Give more documents, of several sentences each and shorter than a row, or choose "
        "--objective mlm."
    )


class Dealer:
    """Assigns rows to open shards in turn; a full shard is closed and another is opened.

    Rows that are adjacent in the corpus thus end up in different shards, and each shard is small
    enough to be shuffled in memory as a whole when read.

    Args:
        num_open_shards: int. Shards that are filled side by side.
        rows_per_shard: int. Maximum rows of a shard.
    """

    def __init__(self, num_open_shards, rows_per_shard):
        self.rows_per_shard = rows_per_shard
        self.num_shards = 0
        self._open = [None] * num_open_shards  # each [shard, number of rows]

    def deal(self, count, first_shard):
        """Yields (shard, position in the shard) for `count` rows.

        The first row goes to the open shard `first_shard` (modulo their number), and so on in turn.
        """
        for number in range(first_shard, first_shard + count):
            slot = number % len(self._open)
            if self._open[slot] is None:
                self._open[slot] = [self.num_shards, 0]
                self.num_shards += 1
            shard, rows = self._open[slot]
            full = rows + 1 == self.rows_per_shard
            self._open[slot] = None if full else [shard, rows + 1]
            yield shard, rows


def shard_name(split, shard):
    """Returns the file name of a shard, such as `train-00000.tfrecord.gz`."""
    return f"{split}-{shard:05d}.tfrecord.gz"


class ShardWriter:
    """Writes the rows of a split to shards assigned by a `Dealer`.

    Args:
        directory: `Path` to write into.
        split: str. `"train"` or `"held_out"`.
        num_open_shards, rows_per_shard: see `Dealer`.
    """

    def __init__(self, directory, split, num_open_shards=16, rows_per_shard=32768):
        self._directory = Path(directory)
        self._split = split
        self._dealer = Dealer(num_open_shards, rows_per_shard)
        self._open = {}  # shard -> writer
        self._rows = []

    def write(self, rows, first_shard):
        """Writes serialized rows; for `first_shard` see `Dealer.deal`."""
        with os_errors():
            for row, (shard, place) in zip(rows, self._dealer.deal(len(rows), first_shard)):
                if place == 0:
                    self._open[shard] = ShardFile(self._directory / shard_name(self._split, shard))
                    self._rows.append(0)
                self._open[shard].write(row)
                self._rows[shard] += 1
                if place + 1 == self._dealer.rows_per_shard:
                    self._open.pop(shard).close()

    def close(self):
        """Closes the shards.

        Returns:
            List of dicts `file`, `rows`, `bytes`, `sha256`, for the manifest.
        """
        with os_errors():
            for writer in self._open.values():
                writer.close()
        return [
            describe_shard(self._directory / shard_name(self._split, shard), rows)
            for shard, rows in enumerate(self._rows)
        ]


class ShardFile:
    """Writes serialized rows and compresses them when closed.

    Compressing while writing, as TensorFlow's writer does, takes six times the processor time for
    the same file size.

    Args:
        path: `Path` of the shard. Until it is closed, the rows are in a file beside it.
    """

    def __init__(self, path):
        self._path = path
        self._plain = path.with_name(f"{path.name}.plain")
        self._writer = tf.io.TFRecordWriter(str(self._plain))

    def write(self, row):
        """Adds a row (bytes)."""
        self._writer.write(row)

    def close(self):
        """Compresses the rows to `path` and removes the uncompressed file."""
        self._writer.close()
        with open(self._plain, "rb") as plain, open(self._path, "wb") as file:
            # Without name and time, so that equal rows give equal bytes.
            with igzip.IGzipFile("", "wb", compresslevel=1, fileobj=file, mtime=0) as compressed:
                shutil.copyfileobj(plain, compressed, 1 << 20)
        self._plain.unlink()


def describe_shard(path, rows):
    """Returns the manifest entry (dict) of a written shard."""
    return {"file": path.name, "rows": rows, "bytes": path.stat().st_size, "sha256": _sha256(path)}


def _sha256(path):
    digest = hashlib.sha256()
    with tf.io.gfile.GFile(str(path), "rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def write_manifest(directory, manifest):
    """Writes `manifest.json` into a local folder or a folder on a bucket."""
    text = json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"
    with replace_file(os.path.join(directory, MANIFEST)) as temporary:
        temporary.write_text(text, encoding="utf-8")


def absolute(directory):
    """Returns a records folder (str) under a name that is valid in other processes and machines."""
    directory = os.fspath(directory)
    return directory if is_remote(directory) else os.path.abspath(directory)


def read_manifest(directory):
    """Reads and validates the manifest of a records folder, and checks the sizes of its shards.

    Args:
        directory: str or `Path` of a folder written by `prepare`, or str of one on a bucket, such
            as `gs://bucket/records`. Any file system that TensorFlow supports works.

    Returns:
        dict, as returned by `prepare`.

    Raises:
        InputError: the folder has no records or another format version, a shard is missing or has
            another size, or the bucket cannot be read.
    """
    if not is_remote(directory):
        recover(directory)
    path = os.path.join(os.fspath(directory), MANIFEST)
    try:
        if not tf.io.gfile.exists(path):
            raise InputError(
                f"{directory} holds no records: there is no manifest.json; run prepare."
            )
        with tf.io.gfile.GFile(path, "rb") as file:
            text = file.read()
        manifest, names, expected = checked_manifest(path, text)
        files = [os.path.join(os.fspath(directory), name) for name in names]
        with concurrent.futures.ThreadPoolExecutor(32) as pool:  # buckets have high latency
            sizes = list(pool.map(_size, files))
    except tf.errors.OpError as error:
        raise InputError(f"cannot read {path}: {error.message}") from error
    for file, size, size_then in zip(files, sizes, expected):
        if size is None:
            raise InputError(f"the shard {file} is missing; copy it again or run prepare again.")
        if size != size_then:
            raise InputError(
                f"the shard {file} is cut short or changed: {size} bytes, the manifest has "
                f"{size_then}; copy it again or run prepare again."
            )
    return manifest


def _size(path):
    """Returns the size in bytes, or None if the file does not exist."""
    try:
        return tf.io.gfile.stat(path).length
    except tf.errors.NotFoundError:
        return None


def read_tokenizer(directory):
    """Loads the `Tokenizer` beside the shards; for `directory` see `read_manifest`."""
    if not is_remote(directory):
        return Tokenizer.from_pretrained(Path(directory))
    with temporary_directory() as copy:
        for name in tf.io.gfile.listdir(directory):
            if not name.endswith((".tfrecord.gz", "/")):
                tf.io.gfile.copy(os.path.join(directory, name), os.path.join(copy, name))
        return Tokenizer.from_pretrained(Path(copy))


def check_tokenizer(manifest, tokenizer):
    """Raises `InputError` unless the records were made with this tokenizer."""
    made_with = manifest["tokenizer"]["fingerprint"]
    if tokenizer.fingerprint != made_with:
        raise InputError(
            f"the records were made with another tokenizer (fingerprint {made_with[:12]}, this "
            f"one has {tokenizer.fingerprint[:12]}); use the one in the records folder or run "
            "prepare again, with this one."
        )


def check_shards(directory):
    """Raises `InputError` naming the first shard whose checksum or rows differ from the manifest.

    Reads every byte; `read_manifest` checks only sizes.
    """
    manifest = read_manifest(directory)
    for split in SPLITS:
        for shard in manifest["splits"][split]["shards"]:
            file = os.path.join(os.fspath(directory), shard["file"])
            if _sha256(file) != shard["sha256"]:
                raise InputError(
                    f"the shard {file} is damaged: its checksum is not the manifest's; copy it "
                    "again or run prepare again."
                )
            if _count_rows(file, manifest) != shard["rows"]:
                raise _other_rows(file)


def check_first_rows(directory, manifest):
    """Raises `InputError` if the first rows of a folder do not match its manifest."""
    for split in SPLITS:
        for shard in manifest["splits"][split]["shards"][:1]:
            _count_rows(os.path.join(os.fspath(directory), shard["file"]), manifest, most=1)


def _count_rows(file, manifest, most=-1):
    """Parses and counts the rows of a shard, up to `most`."""
    rows = tf.data.TFRecordDataset(file, compression_type="GZIP").take(most).batch(_ROWS_AT_ONCE)
    try:
        parsed = [parse_rows(serialized, manifest)["row_id"] for serialized in rows]
    except (tf.errors.DataLossError, tf.errors.InvalidArgumentError, ValueError) as error:
        raise _other_rows(file) from error
    return sum(map(len, parsed))


def _other_rows(file):
    return InputError(
        f"the shard {file} does not hold rows as its manifest.json describes them; run prepare "
        "again."
    )


@contextlib.contextmanager
def clear_read_errors(directory):
    """Context manager that turns errors from damaged records into one that names the shard.

    Example:
        from keras_bert_impl.pretraining import pretraining_dataset
        from keras_bert_impl.pretraining.examples.records import clear_read_errors
        with clear_read_errors("records"):
            model.fit(pretraining_dataset("records", batch_size=32), steps_per_epoch=1000)
    """
    try:
        yield
    except (tf.errors.DataLossError, tf.errors.InvalidArgumentError, tf.errors.NotFoundError):
        check_shards(directory)
        raise
