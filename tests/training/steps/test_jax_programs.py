"""Programs and micro-batches of JAX; they need no Keras, so they run in a process of any backend."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from keras_bert_impl.training.steps.jax_step import (
    are_always_zero,
    of_micro_batches,
    over_micro_batches,
)

WEIGHTS = [np.eye(3, dtype="float32")] * 3


def plain(weights, x):
    return jnp.sum(jnp.tanh(x @ weights[0]) @ weights[1])  # not the third


def recomputed(weights, x):
    return jnp.sum(jax.checkpoint(lambda a, b: jnp.tanh(a @ b))(x @ weights[0], weights[1]))


@pytest.mark.parametrize("function", [plain, recomputed, jax.jit(plain)])
def test_gradient_of_an_unused_weight_is_always_zero(function):
    gradients = jax.grad(lambda *arguments: function(*arguments))
    inputs = WEIGHTS, np.ones((2, 3), "float32")
    assert are_always_zero(gradients, *inputs) == [False, False, True]
    # Also inside another program, as in a training step.
    answers = []
    jax.jit(lambda *arguments: answers.append(are_always_zero(gradients, *arguments)))(*inputs)
    assert answers == [[False, False, True]]


def test_other_constants_are_not_zero():
    """The gradient of a linear term is a constant, too."""

    def share(weights):
        return (
            weights[0] / 2 + jax.lax.stop_gradient(weights[1]) + jnp.sum(weights[2] * jnp.ones(3))
        )

    weights = [np.float32(1), np.float32(0), np.zeros(3, "float32")]
    assert are_always_zero(jax.grad(share), weights) == [False, True, False]


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7, 9])
def test_every_row_is_in_one_micro_batch(count):
    """7 rows: in equal parts, in parts that differ by a row, and in fewer parts than asked for."""
    batch = {"x": np.arange(7.0), "y": np.arange(14.0).reshape(7, 2)}

    def add(sums, rows, index):
        return sums[0] + rows["x"].sum() * rows["y"].shape[1], sums[1] + rows["x"].shape[
            0
        ] * 10**index

    total, numbers = over_micro_batches(add, (0.0, 0), batch, count)
    assert total == 42
    assert sum(map(int, str(int(numbers)))) == 7  # a digit for each micro-batch
    outputs = of_micro_batches(lambda rows, index: rows["y"] * 2, batch, count)
    np.testing.assert_array_equal(outputs, batch["y"] * 2)
