"""The cross-entropy in blocks of the vocabulary, against PyTorch in float64."""

import keras
import numpy as np
import pytest
import torch

pytestmark = pytest.mark.skipif(keras.backend.backend() != "jax", reason="a loss on JAX")

POSITIONS, WIDTH = 6, 16


def scores(labels, *factors):
    from keras_bert_impl.layers.heads import VocabularyLogits
    from keras_bert_impl.layers.vocabulary_loss import vocabulary_scores

    return vocabulary_scores(labels, VocabularyLogits(*factors))


def drawn(vocabulary, dtype="float32"):
    import jax.numpy as jnp

    draw = np.random.default_rng(0)
    labels = draw.integers(0, vocabulary, (2, POSITIONS // 2)).astype("int32")
    labels[0, 0], labels[-1, -1] = 0, vocabulary - 1
    states = jnp.asarray(draw.normal(size=(*labels.shape, WIDTH)), dtype)
    table = jnp.asarray(jnp.asarray(draw.normal(size=(vocabulary, WIDTH)), dtype), "float32")
    bias = draw.normal(size=vocabulary).astype("float32")
    weights = draw.uniform(size=labels.shape).astype("float32")
    return labels, (states, table, jnp.asarray(bias)), weights


def by_pytorch(labels, factors, weights):
    tensors = [
        torch.tensor(np.asarray(part, "float64"), dtype=torch.float64, requires_grad=True)
        for part in factors
    ]
    states, table, bias = tensors
    logits = (states @ table.T + bias).reshape(-1, len(bias))
    losses = torch.nn.functional.cross_entropy(
        logits, torch.tensor(labels).long().reshape(-1), reduction="none"
    ).reshape(labels.shape)
    (losses * torch.tensor(weights)).sum().backward()
    hits = (logits.argmax(-1).reshape(labels.shape).numpy() == labels).astype("float32")
    return losses.detach().numpy(), hits, [tensor.grad.numpy() for tensor in tensors]


def by_blocks(labels, factors, weights):
    import jax

    def total(factors):
        result = scores(labels, *factors)
        return (result.losses * weights).sum(), result

    (_, result), gradients = jax.jit(jax.value_and_grad(total, has_aux=True))(factors)
    return result.losses, result.hits, gradients


# One block, two, and the last token of a full block; 30,522 leaves 198 rows of filling.
@pytest.mark.parametrize("vocabulary", [3, 128, 4097, 30522])
def test_equals_pytorch(vocabulary):
    labels, factors, weights = drawn(vocabulary)
    losses, hits, gradients = by_blocks(labels, factors, weights)
    expected_losses, expected_hits, expected_gradients = by_pytorch(labels, factors, weights)
    # Logits are sums of 16 products of up to 16; 30,522 exponentials add up with an error of 4
    # sqrt(n) units, as in tests/layers/test_cross_entropy.py.
    tolerance = (16 * 16 + 4 * np.sqrt(vocabulary)) * 2.0**-24
    np.testing.assert_allclose(losses, expected_losses, rtol=0, atol=tolerance)
    np.testing.assert_array_equal(hits, expected_hits)
    for received, expected in zip(gradients, expected_gradients):
        # A gradient is a sum of probabilities times states or rows, of up to 5.
        np.testing.assert_allclose(received, expected, rtol=0, atol=5 * tolerance)


def test_bfloat16_rounds_the_slopes_of_logits_alone():
    labels, factors, weights = drawn(5000, "bfloat16")
    losses, _, gradients = by_blocks(labels, factors, weights)
    expected, _, expected_gradients = by_pytorch(labels, factors, weights)
    # Products of bfloat16 are exact in float32, and so are the losses.
    np.testing.assert_allclose(losses, expected, rtol=0, atol=(256 + 283) * 2.0**-24)
    assert [str(gradient.dtype) for gradient in gradients] == ["bfloat16", "float32", "float32"]
    # A slope, which is at most 1 in sum, and for states the result are rounded by 2**-8 each;
    # states and rows are below 5.
    for received, exact in zip(gradients, expected_gradients):
        tolerance = 2 * 2.0**-8 * 2 * 5
        np.testing.assert_allclose(np.asarray(received, "float64"), exact, rtol=0, atol=tolerance)


def test_the_label_with_the_largest_logit_is_a_hit():
    labels, factors, _ = drawn(9000)
    states, table, bias = factors
    best = np.asarray(states @ table.T + bias).argmax(-1)
    assert scores(best, *factors).hits.min() == 1
    assert scores((best + 1) % 9000, *factors).hits.max() == 0


def test_large_logits_do_not_overflow():
    import jax.numpy as jnp

    states, table = jnp.array([[1000.0], [-1000.0]]), jnp.array([[1.0], [0.0]])
    losses = scores([1, 1], states, table, jnp.zeros(2)).losses
    np.testing.assert_allclose(losses, [1000.0, 0.0], rtol=0, atol=1e-6)


def test_nan_gives_nan():
    import jax.numpy as jnp

    losses = scores([0], jnp.array([[np.nan]]), jnp.ones((3, 1)), jnp.zeros(3)).losses
    assert np.isnan(losses).all()


def test_logits_are_never_whole():
    import jax
    import jax.numpy as jnp

    positions, vocabulary = 2048, 32768
    labels = np.zeros(positions, "int32")
    factors = jnp.ones((positions, 8)), jnp.ones((vocabulary, 8)), jnp.ones(vocabulary)
    total = jax.jit(jax.grad(lambda factors: scores(labels, *factors).losses.sum()))
    analysis = total.lower(factors).compile().memory_analysis()
    assert analysis.temp_size_in_bytes < positions * vocabulary * 4 / 2
