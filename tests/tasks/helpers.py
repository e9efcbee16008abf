"""A tiny encoder, a tokenizer of a few words, and texts whose labels can be learned."""

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np

from keras_bert_impl.config import EncoderConfig
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.tasks import TextClassifier
from keras_bert_impl.tokenizers import WordPieceTokenizer

ROOT = Path(__file__).parents[2]
WORDS = "good bad film a the is great awful dull joy what very not plot".split()
GOOD = {"good", "great", "joy"}


@functools.cache
def tokenizer():
    """One for all: a tokenizer never changes, and each would trace graphs of its own."""
    return WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS])


def encoder(dtype=None, dropout=0.1, seed=0, **overrides):
    keras.utils.set_random_seed(seed)
    config = {
        "vocabulary_size": 5 + len(WORDS),
        "hidden_dim": 16,
        "num_layers": 1,
        "num_heads": 2,
        "intermediate_dim": 32,
        "max_length": 32,
        "dropout": dropout,
        "attention_dropout": dropout,
        "initializer_range": 0.2,
    }
    return Encoder(EncoderConfig(**config | overrides), dtype=dtype)


def classifier(labels=("negative", "positive"), dtype=None, dropout=0.1, seed=0, **arguments):
    arguments = {"labels": labels} | arguments
    return TextClassifier(encoder(dtype, dropout, seed), tokenizer(), **arguments)


def examples(count=40, seed=0):
    """Texts of 1 to 11 words, and whether a good word is among them."""
    draw = np.random.default_rng(seed)
    texts = [" ".join(draw.choice(WORDS, draw.integers(1, 12))) for _ in range(count)]
    labels = ["positive" if GOOD & set(text.split()) else "negative" for text in texts]
    return texts, labels


def weights(model):
    return np.concatenate([np.ravel(weight) for weight in model.get_weights()])


def run_python(code, *arguments):
    """Runs code in a process of its own; returns what it printed as JSON on its last line."""
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "-1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.strip().splitlines()[-1])
