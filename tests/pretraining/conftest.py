"""A synthetic language: 200 words of one subword token each, in sentences of random length."""

import json
import random

import pytest
import tensorflow as tf

from keras_bert_impl.pretraining.corpus.preparation import prepare
from keras_bert_impl.tokenizers import WordPieceTokenizer
from tests.pretraining.helpers import CONFIG, settings_of

WORDS = [f"{first}{second}" for first in "abcdefghij" for second in "abcdefghijklmnopqrst"]
SPECIAL = ["[PAD]", "[unused0]", "[unused1]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "."]


@pytest.fixture(scope="session")
def tokenizer():
    return WordPieceTokenizer(SPECIAL + WORDS)


@pytest.fixture(scope="session")
def write_corpus():
    """Writes `num_documents` documents in BERT's format."""

    def write(path, num_documents, seed=0):
        generator = random.Random(seed)
        with open(path, "w", encoding="utf-8") as file:
            for _ in range(num_documents):
                for _ in range(generator.randint(1, 12)):
                    words = generator.choices(WORDS, k=generator.randint(2, 14))
                    file.write(" ".join(words) + "\n")
                file.write("\n")
        return path

    return write


@pytest.fixture(scope="session")
def corpus(tmp_path_factory, write_corpus):
    return write_corpus(tmp_path_factory.mktemp("corpus") / "corpus.txt", 400)


@pytest.fixture(scope="session")
def records_directory(tmp_path_factory, corpus, tokenizer):
    """Records with rows of 32 tokens, in 9 shards of at most 64 rows."""
    directory = tmp_path_factory.mktemp("records") / "records"
    prepare(
        corpus,
        directory,
        tokenizer,
        length=32,
        held_out=0.1,
        block_characters=4000,
        num_open_shards=4,
        rows_per_shard=64,
        num_workers=1,
        seed=3,
    )
    return directory


@pytest.fixture
def bucket(records_directory):
    """A copy of the records in TensorFlow's own in-memory file system."""
    bucket = "ram://bucket/records"
    tf.io.gfile.makedirs(bucket)
    for path in records_directory.iterdir():
        with tf.io.gfile.GFile(f"{bucket}/{path.name}", "wb") as file:
            file.write(path.read_bytes())
    yield bucket
    tf.io.gfile.rmtree("ram://bucket")


@pytest.fixture(scope="module")
def shape(tmp_path_factory):
    """The `config.json` of a tiny encoder."""
    path = tmp_path_factory.mktemp("shape") / "config.json"
    path.write_text(json.dumps(CONFIG))
    return path


@pytest.fixture
def settings(shape):
    """Settings of a tiny run."""
    return settings_of(shape)
