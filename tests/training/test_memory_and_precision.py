"""Activation checkpointing, and float16 with loss scaling, against the plain step."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.models.encoder import Encoder
from tests.helpers import TINY, mirrored
from tests.training.helpers import (
    Classifier,
    MaskedTokenModel,
    adamw,
    build,
    cross_entropy,
    dataset,
    distance,
    train,
    weights,
)

LENGTH, ROWS = 6, 8


def encoder_model(remat, replicas=1, **changes):
    """Creates a compiled classifier on a small encoder with dropout everywhere."""
    config = dataclasses.replace(TINY, dropout=0.3, attention_dropout=0.3, **changes)
    with mirrored(replicas).scope():
        keras.utils.set_random_seed(0)
        inputs = {
            name: keras.Input((LENGTH,), dtype="int32", name=name)
            for name in ("token_ids", "padding_mask")
        }
        outputs = keras.layers.Dense(3)(Encoder(config)(inputs)["pooled_output"])
        model = Classifier(inputs, outputs)
        model.compile(
            adamw(),
            loss=cross_entropy(),
            jit_compile=False,
            remat=remat,
            accumulation_steps=2,
        )
    return model


def data():
    draw = np.random.default_rng(0)
    features = {
        "token_ids": draw.integers(1, TINY.vocabulary_size, (2 * ROWS, LENGTH)).astype("int32"),
        "padding_mask": np.ones((2 * ROWS, LENGTH), "int32"),
    }
    labels = draw.integers(0, 3, 2 * ROWS).astype("int32")
    return tf.data.Dataset.from_tensor_slices((features, labels)).batch(ROWS, drop_remainder=True)


def num_products(model):
    """Counts the matrix products in the graph of a step."""
    step = tf.function(model.train_step, autograph=False).get_concrete_function(next(iter(data())))
    functions = [step.graph.as_graph_def().node]
    functions += [function.node_def for function in step.graph.as_graph_def().library.function]
    return sum("MatMul" in node.op for nodes in functions for node in nodes)


@pytest.mark.parametrize(
    ("replicas", "changes"),
    [
        (1, {}),
        # Shared blocks drop different units in every layer.
        pytest.param(1, {"num_layers": 4, "num_layer_groups": 1}, marks=pytest.mark.slow),
        pytest.param(2, {}, marks=pytest.mark.slow),
    ],
)
def test_remat_reaches_the_weights_of_the_plain_step(replicas, changes):
    plain, remat = (encoder_model(on, replicas, **changes) for on in (False, True))
    for model in (plain, remat):
        model.fit(data(), verbose=0)
    # Dropping other units in the second pass would change gradients: 1e-2 in two steps of Adam.
    assert distance(plain, remat) < 1e-6
    if replicas == 1:
        assert num_products(remat) > num_products(plain)


def test_float16_scales_the_loss_and_stays_near_float32():
    def sgd():
        return keras.optimizers.SGD(0.1)

    full, history = train(data=dataset(16, 48), optimizer=sgd, watch_steps=True)
    half, half_history = train(
        data=dataset(16, 48), optimizer=sgd, model={"dtype": "mixed_float16"}, watch_steps=True
    )
    assert isinstance(half.optimizer, keras.optimizers.LossScaleOptimizer)
    assert int(half.optimizer.iterations.numpy()) == 6  # no overflow
    assert {weight.dtype for weight in half.trainable_weights} == {"float32"}
    # float16 is accurate to 2**-11. A gradient of up to 1 is a sum of parts of both signs, some of
    # them larger: 2e-3, times the rate of 0.1, in 6 steps.
    assert distance(full, half) < 1.2e-3
    assert distance(full, build()) > 1e-2
    # Norms of the gradients, not of those of the scaled loss.
    np.testing.assert_allclose(half_history["gradient_norm"], history["gradient_norm"], rtol=1e-2)
    np.testing.assert_allclose(half_history["highest_loss"], history["highest_loss"], rtol=1e-3)


class Tiny(MaskedTokenModel):
    """Scales the loss down so far that unscaled gradients are 0 in float16."""

    def loss_share(self, *arguments):
        return super().loss_share(*arguments) * 1e-7


@pytest.mark.slow
def test_loss_scaling_keeps_gradients_that_float16_would_lose():
    # 1e-7 times a gradient of 0.1 over 16 rows is below the smallest float16, 6e-8.
    model, _ = train(
        kind=Tiny,
        data=dataset(16, 16),
        epochs=1,
        optimizer=lambda: keras.optimizers.SGD(1e5),
        model={"dtype": "mixed_float16"},
    )
    start = build(Tiny)
    moved = [np.abs(a - b).max() > 0 for a, b in zip(weights(model), weights(start), strict=True)]
    assert np.mean(moved) > 0.9
