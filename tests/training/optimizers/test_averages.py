"""Evaluation with moving averages of the weights."""

import keras
import numpy as np
import pytest

from keras_bert_impl.training.optimizers.adamw import EvaluatesAverages, use_averages
from tests.helpers import mirrored
from tests.training.helpers import adamw, build, dataset, train, weights


def averaging():
    return adamw(use_ema=True, ema_momentum=0.7)


class Watch(keras.callbacks.Callback):
    """Records weights and averages after training and during evaluation."""

    def on_train_begin(self, logs=None):
        self.seen = []

    def on_epoch_end(self, epoch, logs=None):
        self.seen.append(("trained", weights(self.model), self.averages()))

    def on_test_batch_end(self, batch, logs=None):
        self.seen.append(("evaluated", weights(self.model), self.averages()))

    def averages(self):
        averages = self.model.optimizer._model_variables_moving_average
        return [np.asarray(average.numpy(), "float64") for average in averages]


@pytest.mark.parametrize("replicas", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_fit_evaluates_the_averages_and_trains_the_weights(replicas):
    with mirrored(replicas).scope():
        model = build()
        model.compile(averaging(), jit_compile=False)
    watch, held_out = Watch(), dataset(16, 16)
    history = model.fit(
        dataset(16, 32),
        validation_data=held_out,
        epochs=2,
        verbose=0,
        callbacks=[EvaluatesAverages(), watch],
    ).history
    for kind, values, averages in watch.seen:
        same = all(map(np.array_equal, values, averages))
        assert same == (kind == "evaluated")
    # `fit` ends with the averages, which were evaluated last.
    assert model.evaluate(held_out, verbose=0) == pytest.approx(history["val_loss"][-1], rel=1e-6)
    # Evaluation does not affect training.
    plain, _ = train(replicas, data=dataset(16, 32), optimizer=averaging)
    for received, expected in zip(weights(model), weights(plain), strict=True):
        np.testing.assert_array_equal(received, expected)
    use_averages(model)  # again: the averages are already set
    for received, expected in zip(weights(model), weights(plain), strict=True):
        np.testing.assert_array_equal(received, expected)
