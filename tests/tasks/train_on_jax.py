"""Trains a classifier on the backend in KERAS_BACKEND, from given weights, and saves its weights.

Then makes its training and its predictions fail, and trains a CRF with a metric.

Arguments: files of the weights before and after.
"""

import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.tasks import TokenClassifier
from keras_bert_impl.training.optimizers.adamw import AdamW
from keras_bert_impl.training.strategy import get_strategy
from tests.tasks.helpers import GOOD, classifier, encoder, examples, tokenizer


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


class Broken:
    """An objective that fails in the first step."""

    variables = ()

    def loss_totals(self, *batch):
        return 1.0

    def loss_share(self, *parts):
        raise RuntimeError("broken")


def check_errors_keep_the_weights(model):
    """Keras takes the values out of the variables and does not put them back after these errors."""
    before, (texts, labels) = model.get_weights(), examples(count=8)
    model.compile(AdamW(1e-3), objective=Broken())
    with pytest.raises(RuntimeError, match="broken"):
        model.fit(texts, labels, verbose=0)
    features = {name: np.asarray(value) for name, value in model.tokenizer(texts).items()}

    def batches():
        yield features
        raise RuntimeError("broken")

    spec = {name: tf.TensorSpec([None, None], "int32") for name in features}
    with pytest.raises(tf.errors.OpError, match="broken"):
        data = tf.data.Dataset.from_generator(batches, output_signature=spec)
        model.predict(data, verbose=0)
    for now, expected in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(now, expected)


def check_metrics_read_the_weights():
    """Those of a CRF need its transitions for the probabilities."""
    words = [text.split() for text in examples(count=8)[0]]
    labels = [["X" if word in GOOD else "O" for word in row] for row in words]
    model = TokenClassifier(encoder(dropout=0.0), tokenizer(), labels=["O", "X"], crf=True)
    model.compile(AdamW(1e-3), metrics=["macro_f1"])
    history = model.fit(words, labels, verbose=0).history
    assert 0 <= history["macro_f1"][0] <= 1


if __name__ == "__main__":
    before, after = sys.argv[1:]
    history, scores, model = trained(before)
    values = {f"history/{name}": value for name, value in history.items()}
    np.savez(after, *model.get_weights(), scores=scores, **values)
    check_errors_keep_the_weights(model)
    check_metrics_read_the_weights()
