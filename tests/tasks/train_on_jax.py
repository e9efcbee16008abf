"""Trains a classifier on the backend in KERAS_BACKEND, from given weights, and saves its weights.

Arguments: files of the weights before and after.
"""

import sys

import keras
import numpy as np

from keras_bert_impl.training.optimizers.adamw import AdamW
from keras_bert_impl.training.strategy import get_strategy
from tests.tasks.helpers import classifier, examples


def trained(weights):
    """Returns (history, predictions, model) after two epochs of 21 texts."""
    texts, labels = examples(count=21)
    with get_strategy("auto" if keras.backend.backend() == "jax" else "one_device").scope():
        model = classifier(dropout=0.0)
        model.load_weights(weights)
        model.compile(AdamW(1e-3, global_clipnorm=1.0), accumulation_steps=2)
    history = model.fit(
        texts, labels, batch_size=8, epochs=2, validation_data=(texts, labels), verbose=0
    )
    return history.history, model.predict(texts, batch_size=6, verbose=0), model


if __name__ == "__main__":
    before, after = sys.argv[1:]
    history, scores, model = trained(before)
    values = {f"history/{name}": value for name, value in history.items()}
    np.savez(after, *model.get_weights(), scores=scores, **values)
