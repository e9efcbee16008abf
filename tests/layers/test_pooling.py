import numpy as np

from keras_bert_impl.layers import Pooler
from tests.helpers import difference, run_layer_test, to_numpy


def test_layer(tmp_path):
    inputs = np.random.default_rng(0).normal(size=(3, 8)).astype("float32")
    pooler = Pooler(initializer_range=0.5)
    outputs = run_layer_test(pooler, (inputs,), 8 * 8 + 8, tmp_path)
    expected = np.tanh(inputs.astype("float64") @ to_numpy(pooler.dense.kernel.value))
    # A sum of 8 products of up to 4 in float32.
    assert difference(outputs, expected) < 8 * 4 * 2.0**-24
