import numpy as np

from keras_bert_impl.layers import ScalarMix
from tests.helpers import run_layer_test, to_numpy

INPUTS = np.random.default_rng(0).normal(size=(2, 3, 4, 5)).astype("float32")


def test_layer(tmp_path):
    outputs = run_layer_test(ScalarMix(), (INPUTS,), 4 + 1, tmp_path)
    # Initially the mean, of four float32 numbers near 1.
    np.testing.assert_allclose(to_numpy(outputs), INPUTS.mean(axis=2), atol=1e-6)


def test_weights_are_a_softmax():
    layer = ScalarMix()
    layer(INPUTS)
    layer.set_weights([np.log([1.0, 2.0, 3.0, 4.0]), np.array([2.0])])
    expected = 2 * np.einsum("btlh,l->bth", INPUTS, np.array([0.1, 0.2, 0.3, 0.4]))
    np.testing.assert_allclose(to_numpy(layer(INPUTS)), expected, atol=1e-6)
