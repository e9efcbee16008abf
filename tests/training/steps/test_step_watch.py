"""Per-step training statistics: gradient norms, the highest loss, and waits for data."""

import time

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.training.steps.tensorflow_parts import StepWatch
from tests.training.helpers import MaskedTokenModel, build, dataset, train, weights

RATE = 0.5


def sgd():
    return keras.optimizers.SGD(RATE)


class Steps(keras.callbacks.Callback):
    """Records the weights before the first step and after every step."""

    def on_train_begin(self, logs=None):
        self.weights = [weights(self.model)]

    def on_train_batch_end(self, batch, logs=None):
        self.weights.append(weights(self.model))


def check_norms(history, steps):
    # Gradient descent moves weights by the rate times the gradient.
    moved = [
        np.sqrt(sum(((a - b) ** 2).sum() for a, b in zip(before, after, strict=True))) / RATE
        for before, after in zip(steps[:-1], steps[1:])
    ]
    # 1,900 weights near 1 are rounded to 2**-24; norms are above 0.1.
    assert history["gradient_norm"] == pytest.approx([np.mean(moved[:3]), np.mean(moved[3:])], 1e-4)


@pytest.mark.parametrize("replicas", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_gradient_norm_is_the_mean_over_the_steps(replicas):
    watch = Steps()
    _, history = train(
        replicas,
        data=dataset(16, 48),
        optimizer=sgd,
        callbacks=[watch],
        watch_steps=True,
        accumulation_steps=2,
    )
    check_norms(history, watch.weights)


def test_norm_is_measured_before_clipping():
    clipped = train(
        data=dataset(16, 16),
        epochs=1,
        optimizer=lambda: keras.optimizers.SGD(RATE, global_clipnorm=1e-3),
        watch_steps=True,
    )[1]
    plain = train(data=dataset(16, 16), epochs=1, optimizer=sgd, watch_steps=True)[1]
    assert clipped["gradient_norm"] == plain["gradient_norm"]
    assert plain["gradient_norm"][0] > 0.01


class Scripted(MaskedTokenModel):
    """A model with one weight whose losses are its labels."""

    def loss_totals(self, x, y, sample_weight):
        return tf.constant(1.0)

    def loss_share(self, x, y, y_pred, sample_weight, totals):
        return tf.reduce_mean(y) + 0.0 * tf.reduce_sum(y_pred)


def scripted(losses, optimizer="sgd", steps_per_execution=1, **compiled):
    inputs = keras.Input((1,))
    model = Scripted(inputs, keras.layers.Dense(1)(inputs))
    model.compile(
        optimizer, watch_steps=True, steps_per_execution=steps_per_execution, jit_compile=False
    )
    losses = np.float32(losses)[:, None]
    data = tf.data.Dataset.from_tensor_slices((np.ones((len(losses), 1, 1)), losses))
    history = model.fit(data, steps_per_epoch=3, epochs=len(losses) // 3, verbose=0).history
    return model, history


@pytest.mark.parametrize("steps_per_execution", [1, 3])
def test_highest_loss_is_the_worst_step_of_the_epoch(steps_per_execution):
    _, history = scripted([1, 7, 2, 3, 2, 1], steps_per_execution=steps_per_execution)
    assert history["highest_loss"] == [7, 3]
    assert history["loss"] == pytest.approx([10 / 3, 2])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_nan_loss_counts_as_infinite(bad):
    _, history = scripted([1, bad, 2, 1, 1, 1])
    assert history["highest_loss"][0] == np.inf
    assert np.isfinite(history["gradient_norm"][0])  # of the other steps


def test_records_nothing_by_default():
    model = build()
    model.compile(sgd(), jit_compile=False)
    assert set(model.fit(dataset(16, 16), verbose=0).history) == {"loss"}


def test_adds_up_waits_for_data():
    def slow():
        for _ in range(3):
            time.sleep(0.1)
            yield np.ones((1, 1), "float32"), np.ones(1, "float32")

    spec = tf.TensorSpec([1, 1]), tf.TensorSpec([1])
    model, _ = scripted([1, 1, 1])
    model.fit(tf.data.Dataset.from_generator(slow, output_signature=spec), verbose=0)
    # Later batches may be prepared while a step runs.
    assert model.step_watch.input_wait() > 0.1 * 0.99


def test_clock_set_back_gives_no_negative_wait(monkeypatch):
    times = iter([1000.0, 1002.5, 1000.0, 400.0, 400.0, 401.0])
    monkeypatch.setattr(tf, "timestamp", lambda: tf.constant(next(times), tf.float64))
    watch = StepWatch()
    waits = []
    for _ in range(3):
        watch.timed(lambda: (None, []))
        waits.append(watch.input_wait())
    assert waits == [2.5, 2.5, 3.5]
