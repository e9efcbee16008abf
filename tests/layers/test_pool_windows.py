import numpy as np
import pytest

from keras_bert_impl.layers import PoolWindows
from tests.helpers import run_layer_test, to_numpy

RANDOM = np.random.default_rng(0)
VECTORS = RANDOM.normal(size=(6, 5)).astype("float32")  # two documents of up to three windows
MASK = np.ones((2, 3, 4), "int32")
MASK[1, 1:] = 0  # the second document has one window
MASK[0, 2, 2:] = 0


@pytest.mark.parametrize("pooling", ["mean", "max", "attention"])
def test_pools_the_windows_of_each_document(pooling):
    layer = PoolWindows(pooling, initializer_range=0.5)
    pooled = to_numpy(layer(VECTORS, MASK))
    first = VECTORS[:3]
    if pooling == "mean":
        expected = first.mean(axis=0)
    elif pooling == "max":
        expected = first.max(axis=0)
    else:
        kernel, bias, score = layer.get_weights()
        scores = np.exp(np.tanh(first @ kernel + bias) @ score)
        expected = (scores / scores.sum() * first).sum(axis=0)
    # Sums of three float32 numbers near 1.
    np.testing.assert_allclose(pooled[0], expected, atol=1e-6)
    np.testing.assert_allclose(pooled[1], VECTORS[3], atol=1e-6)
    assert layer.count_params() == (5 * 5 + 5 + 5 if pooling == "attention" else 0)
    assert layer(VECTORS[:0], MASK[:0]).shape == (0, 5)


@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_layer(tmp_path, pooling):
    # The shared test needs inputs with equal numbers of rows, so each document has one window.
    run_layer_test(PoolWindows(pooling), (VECTORS[:2], MASK[:, :1]), 0, tmp_path)


def test_rejects_an_unknown_pooling():
    with pytest.raises(ValueError, match="pooling must be mean, max or attention"):
        PoolWindows("sum")
