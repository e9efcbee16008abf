"""Trains on the backend in KERAS_BACKEND; prints weights and imported modules as JSON."""

import json
import sys

import keras
import numpy as np

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.training.optimizers.adamw import AdamW
from keras_bert_impl.training.optimizers.schedules import LinearWarmupDecay
from keras_bert_impl.training.steps.trainer import ReplicatedTrainer
from keras_bert_impl.training.strategy import get_strategy


class Regressor(ReplicatedTrainer, keras.Model):
    """Halves the mean squared error, so that only `loss_share` can have computed the loss."""

    def loss_share(self, x, y, y_pred, sample_weight, totals):
        return keras.ops.sum((y - y_pred) ** 2) / 2 / totals


def run():
    """Trains for three steps.

    Returns losses and weights, whether creating the model imported TensorFlow, and whether an
    invalid objective was rejected.
    """
    inputs = keras.Input((3,))
    with get_strategy("auto").scope():
        model = Regressor(
            inputs, keras.layers.Dense(1, kernel_initializer="ones", name="dense")(inputs)
        )
        optimizer = AdamW(LinearWarmupDecay(0.1, 1, 4), weight_decay=0.5, global_clipnorm=0.1)
        model.compile(optimizer=optimizer, accumulation_steps=2)
    imported = "tensorflow" in sys.modules
    x = np.arange(12, dtype="float32").reshape(4, 3) / 10
    history = model.fit(x, x[:, :1], batch_size=4, epochs=3, verbose=0).history
    try:
        model.compile(optimizer="sgd", objective=object())
        refused = False
    except InputError:
        refused = True
    weights = [array.ravel().tolist() for array in model.get_weights()]
    return {
        "imported": imported,
        "refused": refused,
        "loss": history["loss"],
        "weights": weights,
    }


if __name__ == "__main__":
    print(json.dumps(run()))
