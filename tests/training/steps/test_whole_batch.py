"""Losses over the whole batch: the same weights however the batch is split."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from keras_bert_impl.layers import Dropout, dropout_seed
from keras_bert_impl.training.steps.trainer import ReplicatedTrainer
from keras_bert_impl.training.steps.whole_batch import WholeBatchTrainer
from keras_bert_impl.utils.errors import InputError
from tests.helpers import mirrored

DRAW = np.random.default_rng(0)
# The last batch of 8 has one example, so the second of two replicas gets none.
X = DRAW.normal(size=(17, 6)).astype("float32")
Y = DRAW.normal(size=(17,)).astype("float32")
RATE = 0.05


class Ranker(WholeBatchTrainer, ReplicatedTrainer, keras.Model):
    """Differences between outputs should equal those between labels."""

    def batch_loss(self, y, y_pred):
        values = y_pred[:, 0] - y
        return ops.sum((values[:, None] - values[None, :]) ** 2) / 8


def ranker(strategy=None, dropout=0.0, **arguments):
    with (strategy or mirrored(1)).scope():
        keras.utils.set_random_seed(0)
        inputs = keras.Input((6,))
        hidden = Dropout(dropout, name="dropout")(keras.layers.Dense(5, "tanh")(inputs))
        model = Ranker(inputs, keras.layers.Dense(1)(hidden))
        model.compile(keras.optimizers.SGD(RATE), dropout_seed=3, **arguments)
    return model


def fitted(replicas=1, **arguments):
    model = ranker(mirrored(replicas), **arguments)
    data = tf.data.Dataset.from_tensor_slices((X, Y)).batch(8)
    history = model.fit(data, epochs=2, shuffle=False, verbose=0).history
    return [*model.get_weights(), np.array(history["loss"])], model.evaluate(data, verbose=0)


@pytest.fixture(scope="module")
def expected():
    return fitted()


@pytest.mark.parametrize(
    "cut",
    [
        {"replicas": 2, "steps_per_execution": 3},
        {"accumulation_steps": 3},
        {"replicas": 2, "accumulation_steps": 2},
    ],
    ids=str,
)
def test_splitting_the_batch_changes_nothing(expected, cut):
    weights, loss = fitted(**cut)
    # Float32 values near 1, summed in another order in six steps.
    for weight, expected_weight in zip(weights, expected[0], strict=True):
        np.testing.assert_allclose(weight, expected_weight, rtol=1e-5, atol=2e-6)
    assert loss == pytest.approx(expected[1], rel=1e-5)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_both_passes_drop_the_same_units(jit_compile):
    # One step by hand: each half of the batch uses the dropout of its micro-batch.
    model = ranker(dropout=0.5, accumulation_steps=2, jit_compile=jit_compile)
    step = tf.random.experimental.stateless_fold_in(tf.constant([3, 0]), 0)  # of replica 0

    @tf.function(jit_compile=jit_compile, autograph=False)
    def by_hand():
        with tf.GradientTape() as tape:
            outputs = []
            for half in range(2):
                with dropout_seed(tf.random.experimental.stateless_fold_in(step, half)):
                    outputs.append(model(X[4 * half : 4 * half + 4], training=True))
            loss = model.batch_loss(Y[:8], tf.concat(outputs, axis=0))
        return loss, tape.gradient(loss, model.trainable_variables)

    loss, gradients = by_hand()
    before = model.get_weights()
    history = model.fit(X[:8], Y[:8], batch_size=8, shuffle=False, verbose=0).history
    assert history["loss"][0] == pytest.approx(float(loss), rel=1e-5)
    for new, old, gradient in zip(model.get_weights(), before, gradients, strict=True):
        np.testing.assert_allclose(new, old - RATE * gradient.numpy(), rtol=1e-5, atol=5e-6)


def test_rejects_sample_weights():
    with pytest.raises(InputError, match="sample_weight has no meaning"):
        ranker().fit(X, Y, sample_weight=np.ones(17), verbose=0)
