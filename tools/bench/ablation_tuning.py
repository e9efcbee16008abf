#!/usr/bin/env python
"""Tunes a small pre-trained encoder on 10,000 texts of SST-2, and on MRPC.

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

from keras_bert_impl.tasks import TextClassifier, metrics, read_glue
from keras_bert_impl.training.optimizer import default_optimizer

SAMPLE = 10_000  # texts of SST-2, those that docs/finetuning.md names
RECIPES = {  # epochs, learning rate, tokens
    "sst2": (3, 5e-4, 64),
    "mrpc": (4, 1e-4, 128),
}
BATCH_SIZE, DROPOUT = 32, 0.1


class LastTokenClassifier(TextClassifier):
    """Classifies the last state of a text's last token, which has read all the others."""

    @staticmethod
    def row_vectors(encoder, inputs):
        states = encoder(inputs)["sequence_output"]  # [batch, length, hidden]
        last = ops.sum(inputs["padding_mask"], axis=1) - 1
        return ops.take_along_axis(states, last[:, None, None], axis=1)[:, 0]


class BiLSTMClassifier(TextClassifier):
    """Classifies the last states of a BiLSTM, as wide as the encoder, over its states."""

    @staticmethod
    def row_vectors(encoder, inputs):
        states = encoder(inputs)["sequence_output"]
        lstm = keras.layers.LSTM(encoder.config.hidden_dim // 2, name="lstm")
        is_token = ops.not_equal(inputs["padding_mask"], 0)
        return keras.layers.Bidirectional(lstm, name="bilstm")(states, mask=is_token)


CLASSIFIERS = {"own": TextClassifier, "last": LastTokenClassifier, "bilstm": BiLSTMClassifier}


def read(task, data):
    """(train, dev) of a task: texts and class numbers of each, and the names of the classes."""
    train, dev = (read_glue(task, data / "glue", split) for split in ("train", "dev"))
    names = train.label_names or sorted(set(train.labels))
    rows = list(zip(train.texts, train.class_numbers(names)))
    if len(rows) > SAMPLE:
        rows = random.Random(1234).sample(rows, SAMPLE)
    texts, labels = zip(*rows)
    return (list(texts), list(labels)), (dev.texts, dev.class_numbers(names)), names, dev.metrics


def tune(model, classifier_class, task, data, seed, dtype):
    """dict of metric -> score of one run."""
    epochs, rate, length = RECIPES[task]
    train, (texts, labels), names, wanted = read(task, data)
    keras.backend.clear_session()
    keras.utils.set_random_seed(seed)
    classifier = classifier_class.from_pretrained(
        model, labels=names, max_length=length, dropout=DROPOUT, dtype=dtype
    )
    steps = epochs * classifier.steps_per_epoch(train[0], BATCH_SIZE)
    classifier.compile(default_optimizer(steps, rate), metrics=[], seed=seed)
    classifier.fit(*train, batch_size=BATCH_SIZE, epochs=epochs, verbose=2)
    predicted = classifier.predict(texts, verbose=0).argmax(axis=-1)
    return {name: metrics.METRICS[name](labels, predicted) for name in wanted}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--vector", choices=CLASSIFIERS, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--dtype", default="float32", help="a Keras dtype policy")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    classifier_class = CLASSIFIERS[arguments.vector]
    scores = {
        task: tune(
            arguments.model, classifier_class, task, arguments.data, arguments.seed, arguments.dtype
        )
        for task in RECIPES
    }
    arguments.out.write_text(json.dumps(scores))


if __name__ == "__main__":
    main()
