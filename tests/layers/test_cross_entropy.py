"""Softmax cross entropy and its gradient, against PyTorch in float64."""

import numpy as np
import pytest
import tensorflow as tf
import torch

from keras_bert_impl.layers.losses import cross_entropy

UNIT = 2.0**-24  # of rounding, in float32


def drawn(*shape):
    draw = np.random.default_rng(0)
    labels = draw.integers(0, shape[-1], shape[:-1]).astype("int32")
    weights = draw.uniform(size=shape[:-1]).astype("float32")
    return labels, draw.normal(scale=4.0, size=shape).astype("float32"), weights


def tolerance(classes):
    """Bounds the rounding of a loss.

    A sum of n positive numbers, in any order, has a relative error over 4 sqrt(n) units in less
    than one case of a thousand (Higham and Mary, 2019, "A New Approach to Probabilistic Rounding
    Error Analysis"), which is the absolute error of its logarithm. Differences of logits, below 64
    here, exponential and logarithm each round once.
    """
    return (4 * np.sqrt(classes) + 64 + 2) * UNIT


def with_slopes(labels, logits, weights):
    logits = tf.convert_to_tensor(logits)
    with tf.GradientTape() as tape:
        tape.watch(logits)
        losses = cross_entropy(labels, logits)
        total = tf.reduce_sum(losses * weights)
    return losses, tape.gradient(total, logits)


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("shape", [(5, 3), (4, 7, 100), (2, 3, 30522)])
def test_losses_and_gradients_equal_pytorch(shape, jit_compile):
    labels, logits, weights = drawn(*shape)
    received = tf.function(with_slopes, jit_compile=jit_compile)(labels, logits, weights)
    expected_logits = torch.tensor(logits, dtype=torch.float64, requires_grad=True)
    expected = torch.nn.functional.cross_entropy(
        expected_logits.reshape(-1, shape[-1]),
        torch.tensor(labels).long().reshape(-1),
        reduction="none",
    ).reshape(shape[:-1])
    (expected * torch.tensor(weights)).sum().backward()
    np.testing.assert_allclose(received[0], expected.detach(), rtol=0, atol=tolerance(shape[-1]))
    np.testing.assert_allclose(received[1], expected_logits.grad, rtol=0, atol=tolerance(shape[-1]))


def test_large_logits_do_not_overflow():
    logits = np.array([[1000.0, 0.0], [1000.0, 0.0], [-1000.0, -1000.0]], "float32")
    losses, slopes = with_slopes(np.array([0, 1, 1], "int32"), logits, np.ones(3, "float32"))
    np.testing.assert_allclose(losses, [0.0, 1000.0, np.log(2.0)], rtol=0, atol=1e-6)
    np.testing.assert_allclose(slopes, [[0, 0], [1, -1], [0.5, -0.5]], rtol=0, atol=1e-6)


def test_nan_logits_give_nan_losses():
    losses, _ = with_slopes(*(np.array(x, "float32") for x in ([0], [[np.nan, 0.0]], [1.0])))
    assert np.isnan(losses).all()
