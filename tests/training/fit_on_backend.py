"""Trains on the backend in KERAS_BACKEND; prints weights and imported modules as JSON."""

import json
import sys

import keras
import numpy as np

from keras_bert_impl.training.optimizers.adamw import AdamW
from keras_bert_impl.training.optimizers.schedules import LinearWarmupDecay
from keras_bert_impl.training.steps.trainer import ReplicatedTrainer
from keras_bert_impl.training.strategy import get_strategy


class Regressor(ReplicatedTrainer, keras.Model):
    """Halves the mean squared error, so that only `loss_share` can have computed the loss."""

    def loss_share(self, x, y, y_pred, sample_weight, totals):
        return keras.ops.sum((y - y_pred) ** 2) / 2 / totals


class Doubled:
    """An objective with a trained variable: twice the loss of a model, plus the variable."""

    def __init__(self, model):
        self._model = model
        self._offset = keras.Variable(1.0, name="offset")
        self.variables = [self._offset]

    def loss_totals(self, *batch):
        return self._model.loss_totals(*batch)

    def loss_share(self, *parts):
        return 2 * self._model.loss_share(*parts) + self._offset / 2  # in each of two micro-batches


def run():
    """Trains for three steps.

    Returns losses and weights, and whether creating the model imported TensorFlow.
    """
    inputs = keras.Input((3,))
    with get_strategy("auto").scope():
        model = Regressor(
            inputs, keras.layers.Dense(1, kernel_initializer="ones", name="dense")(inputs)
        )
        optimizer = AdamW(LinearWarmupDecay(0.1, 1, 4), weight_decay=0.5, global_clipnorm=0.1)
        objective = Doubled(model)
        model.compile(optimizer=optimizer, accumulation_steps=2, objective=objective)
    imported = "tensorflow" in sys.modules
    x = np.arange(12, dtype="float32").reshape(4, 3) / 10
    history = model.fit(x, x[:, :1], batch_size=4, epochs=3, verbose=0).history
    arrays = [*model.get_weights(), *map(keras.ops.convert_to_numpy, objective.variables)]
    weights = [array.ravel().tolist() for array in arrays]
    return {"imported": imported, "loss": history["loss"], "weights": weights}


if __name__ == "__main__":
    print(json.dumps(run()))
