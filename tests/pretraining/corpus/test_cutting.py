"""Corpora in memory: the records equal those of the same text in a file."""

import json
import time

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf

from keras_bert_impl.pretraining.corpus.cutting import as_paths
from keras_bert_impl.pretraining.corpus.preparation import prepare
from keras_bert_impl.utils.errors import InputError

TEXTS = [f"{first}a {first}b. {first}c {first}d.\n{first}e {first}f." for first in "abcdefgh"]


class Frame:
    """The part of a pandas data frame that is used."""

    def __init__(self, **columns):
        self.columns, self._columns = list(columns), columns

    def __getitem__(self, name):
        return iter(self._columns[name])  # a column need not be a list


def shards(directory):
    return {path.name: path.read_bytes() for path in directory.glob("*.gz")}


def test_texts_in_memory_give_the_records_of_a_file(tmp_path, tokenizer):
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    prepare(path, tmp_path / "file", tokenizer, num_workers=1)
    for number, inputs in enumerate([TEXTS, iter(TEXTS), Frame(text=TEXTS, label=range(8))]):
        manifest = prepare(inputs, tmp_path / str(number), tokenizer, num_workers=1)
        assert manifest["documents"] == len(TEXTS)
        assert shards(tmp_path / str(number)) == shards(tmp_path / "file")


@pytest.mark.parametrize(
    "inputs",
    [
        TEXTS,
        tuple(TEXTS),
        (text for text in TEXTS),
        np.array(TEXTS),
        Frame(text=TEXTS),
        {"text": TEXTS, "label": range(8)},
        pa.table({"text": TEXTS}),
        tf.data.Dataset.from_tensor_slices(TEXTS),
        [text.encode() for text in TEXTS],
    ],
    ids=lambda inputs: type(inputs).__name__,
)
def test_texts_may_be_lists_iterators_or_tables(inputs):
    with as_paths(inputs) as (path, format, field):
        lines = open(path, encoding="utf-8").read().splitlines()
    assert [json.loads(line)[field] for line in lines] == TEXTS and format == "jsonl"


def test_paths_stay_paths(tmp_path):
    (tmp_path / "a corpus").write_text("aa")
    for inputs in (
        "corpus.txt", tmp_path, [tmp_path], ["gone.txt"], [str(tmp_path / "a corpus")],
        ["gs://bucket/corpus"], ["tfds://name:train"], ["folder/name"], [],
    ):  # fmt: skip
        with as_paths(inputs) as (paths, format, _):
            assert paths is inputs and format == "auto"


@pytest.mark.parametrize("text", ["/" * 3900 + " x", "a/b c", "see x.txt", "x", "a. b", " a/b"])
def test_texts_stay_texts(text):
    begin = time.process_time()
    with as_paths([text] * 100) as (_, format, _):
        assert format == "jsonl"
    assert time.process_time() - begin < 1  # runs of slashes once took seconds


@pytest.mark.parametrize(
    ("inputs", "arguments", "message"),
    [
        ({"body": TEXTS}, {}, "no column 'text'; its columns are 'body'"),
        (["aa ab.", None], {}, "text 1 must be a string, got None"),
        (iter(["aa", float("nan")]), {}, "text 1 must be a string, got nan"),
        (TEXTS, {"input_format": "sentences"}, "format is only for files"),
        (["aa ab. ac ad."], {}, r"one distinct document \(text 0\)"),
        ([" "], {}, "^the texts: no text found"),
        (["gone.txt"], {}, r"gone.txt does not exist.*iter\(texts\)"),
    ],
)
def test_rejected_input_leaves_no_files(tmp_path, tokenizer, inputs, arguments, message):
    with pytest.raises(InputError, match=message):
        prepare(inputs, tmp_path / "records", tokenizer, **arguments)
    assert not list(tmp_path.iterdir())
