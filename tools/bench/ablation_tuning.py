#!/usr/bin/env python
"""Fine-tunes a small pre-trained encoder: 10,000 texts of SST-2, MRPC, and part-of-speech tagging.

    python tools/bench/ablation_tuning.py --model RUN/model --data DATA --vector own --seed 1 \\
        --out scores.json

Called by `ablations.py`.
"""

import argparse
import json
import random
from pathlib import Path

import keras
from keras import ops

from keras_bert_impl import Encoder, Tokenizer
from keras_bert_impl.tasks import (
    TextClassifier,
    TokenClassifier,
    read_conllu,
    read_glue,
    score_tags,
)
from keras_bert_impl.tasks.scores import metrics
from keras_bert_impl.training.optimizers.adamw import default_optimizer

SAMPLE = 10_000  # texts of SST-2, as in docs/text-classification.md
RECIPES = {  # epochs, learning rate, tokens
    "sst2": (3, 5e-4, 64),
    "mrpc": (4, 1e-4, 128),
    "ewt": (2, 5e-4, 128),
}
BATCH_SIZE, DROPOUT = 32, 0.1


class BiLSTMClassifier(TextClassifier):
    """Classifies the final states of a BiLSTM over the encoder's states, with the same width."""

    @staticmethod
    def row_vectors(encoder, inputs):
        return _bilstm(encoder, inputs)


class BiLSTMTagger(TokenClassifier):
    """Classifies each state of a BiLSTM, which is the same as in `BiLSTMClassifier`."""

    @staticmethod
    def token_vectors(encoder, inputs):
        return _bilstm(encoder, inputs, return_sequences=True)


def _bilstm(encoder, inputs, **kwargs):
    states = encoder(inputs)["sequence_output"]
    lstm = keras.layers.LSTM(encoder.config.hidden_dim // 2, name="lstm", **kwargs)
    is_token = ops.not_equal(inputs["padding_mask"], 0)
    return keras.layers.Bidirectional(lstm, name="bilstm")(states, mask=is_token)


# heads for texts and for words
CLASSIFIERS = {
    "own": (TextClassifier, TokenClassifier),
    "bilstm": (BiLSTMClassifier, BiLSTMTagger),
}


def read(task, data):
    """Returns (train, dev, label names) of a task; `train` is (texts, labels)."""
    if task == "ewt":
        files = (data / f"tagging/en_ewt-ud-{split}.conllu" for split in ("train", "dev"))
        train, dev = map(read_conllu, files)
        return (train.texts, train.labels), dev, train.label_names
    train, dev = (read_glue(task, data / "glue", split) for split in ("train", "dev"))
    names = train.label_names or sorted(set(train.labels))
    rows = list(zip(train.texts, train.class_numbers(names)))
    if len(rows) > SAMPLE:
        rows = random.Random(1234).sample(rows, SAMPLE)
    texts, labels = zip(*rows)
    return (list(texts), list(labels)), dev, names


def score(classifier, dev, names):
    """Returns a dict of metric -> score on the development set."""
    if isinstance(classifier, TokenClassifier):
        return {"accuracy": score_tags(dev, classifier.tag(dev.texts))["accuracy"]}
    predicted = classifier.predict(dev.texts, verbose=0).argmax(axis=-1)
    labels = dev.class_numbers(names)
    return {name: metrics.METRICS[name](labels, predicted) for name in dev.metrics}


def tune(model, vector, task, data, seed, dtype):
    """Fine-tunes once; returns a dict of metric -> score."""
    epochs, rate, length = RECIPES[task]
    train, dev, names = read(task, data)
    keras.backend.clear_session()
    keras.utils.set_random_seed(seed)
    encoder = Encoder.from_pretrained(
        model, dtype=dtype, dropout=DROPOUT, attention_dropout=DROPOUT
    )
    classifier = CLASSIFIERS[vector][task == "ewt"](
        encoder, Tokenizer.from_pretrained(model), labels=names, max_length=length
    )
    steps = epochs * classifier.steps_per_epoch(train[0], BATCH_SIZE)
    classifier.compile(default_optimizer(steps, rate), metrics=[], seed=seed)
    classifier.fit(*train, batch_size=BATCH_SIZE, epochs=epochs, verbose=2)
    return score(classifier, dev, names)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--vector", choices=CLASSIFIERS, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--tasks", nargs="+", choices=RECIPES, default=list(RECIPES))
    parser.add_argument("--dtype", default="float32", help="a Keras dtype policy")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    scores = {
        task: tune(
            arguments.model, arguments.vector, task, arguments.data, arguments.seed, arguments.dtype
        )
        for task in arguments.tasks
    }
    arguments.out.write_text(json.dumps(scores))


if __name__ == "__main__":
    main()
