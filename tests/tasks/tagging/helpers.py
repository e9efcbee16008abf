"""A tiny token classifier, and sentences with labels that it can learn."""

import keras
import numpy as np
import tensorflow as tf

from keras_bert_impl.tasks import TokenClassifier
from keras_bert_impl.tokenizers import WordPieceTokenizer
from tests.helpers import randomize
from tests.tasks.helpers import WORDS, encoder

LABELS = ["O", "B-X", "I-X"]
TOKENIZER = WordPieceTokenizer(
    ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, "##s", "##ly", ",", "."]
)


def tagger(strategy=None, seed=0, scale=0.0, **arguments):
    strategy = strategy or tf.distribute.get_strategy()
    with strategy.scope():
        parts = encoder(
            vocabulary_size=TOKENIZER.vocabulary_size, dropout=0.0, seed=seed, use_pooler=False
        )
        arguments = {"labels": LABELS, "max_length": 12, "doc_stride": 6} | arguments
        model = TokenClassifier(parts, TOKENIZER, **arguments)
        if scale:
            randomize(model, scale=scale)
        model.compile(keras.optimizers.SGD(0.5))
    return model


def sentences(count=24, most=25, seed=0):
    """Words, some with several subwords, and labels: an entity is `good` and the word after it."""
    draw = np.random.default_rng(seed)
    texts, labels = [], []
    for _ in range(count):
        words = [draw.choice(WORDS) + draw.choice(["", "", "s", "ly"]) for _ in range(most)]
        words = words[: draw.integers(1, most)]
        is_good = [word.startswith("good") for word in words]
        before = [False, *is_good[:-1]]
        labels.append(["B-X" if g else "I-X" if b else "O" for g, b in zip(is_good, before)])
        texts.append(words)
    return texts, labels


TEXTS, TAGS = sentences()
NUMBERS = [np.array([LABELS.index(tag) for tag in tags]) for tags in TAGS]


def flat_logits(model, words):
    """Computes the logits of a text in a single row, and the word of each token, by hand."""
    pieces = [TOKENIZER.tokenize([word]).to_list()[0] for word in words]
    ids = [2, *(piece for of_word in pieces for piece in of_word), 3]
    row = {
        "token_ids": np.array([ids], "int32"),
        "segment_ids": np.zeros((1, len(ids)), "int32"),
        "padding_mask": np.ones((1, len(ids)), "int32"),
    }
    word = [number for number, of_word in enumerate(pieces) for _ in of_word]
    return np.asarray(model(row))[0, 1:-1], np.array(word)
