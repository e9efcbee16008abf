"""SIGTERM ends a run after it has been saved."""

import signal
import threading

import keras
import numpy as np

from keras_bert_impl.training.runs.checkpoints import EndsOnSigterm
from keras_bert_impl.training.steps.trainer import ReplicatedTrainer


class Regressor(ReplicatedTrainer, keras.Model):
    pass


def epochs_of(callback, signals=(), epochs=4):
    """Returns the epochs that `fit` reached, with SIGTERM at the start of those in `signals`."""
    inputs = keras.Input((1,))
    model = Regressor(inputs, keras.layers.Dense(1)(inputs))
    model.compile("sgd", loss="mse", jit_compile=False)

    class Raises(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            if epoch in signals:
                signal.raise_signal(signal.SIGTERM)

    ones = np.ones((4, 1), "float32")
    history = model.fit(
        ones, ones, batch_size=2, epochs=epochs, verbose=0, callbacks=[Raises(), callback]
    )
    return history.epoch


def test_fit_ends_with_the_epoch_of_the_signal():
    before = signal.getsignal(signal.SIGTERM)
    with EndsOnSigterm() as preemption:
        assert epochs_of(preemption, signals=[1]) == [0, 1]
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL  # a second SIGTERM ends at once
    assert preemption.has_ended
    assert signal.getsignal(signal.SIGTERM) is before


def test_without_a_signal_nothing_happens():
    with EndsOnSigterm() as preemption:
        assert epochs_of(preemption, epochs=2) == [0, 1]
    assert not preemption.has_ended


def test_ignores_signals_in_another_thread():
    errors = []

    def work():
        try:
            with EndsOnSigterm():
                pass
        except ValueError as error:  # Python's error for handlers outside the main thread
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert not errors
