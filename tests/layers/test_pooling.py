import numpy as np

from keras_bert_impl.layers import LastPooling, LayerMix, MaxPooling, MeanPooling, Pooler
from tests.helpers import difference, run_layer_test, to_numpy


def test_layer(tmp_path):
    inputs = np.random.default_rng(0).normal(size=(3, 8)).astype("float32")
    pooler = Pooler(initializer_range=0.5)
    outputs = run_layer_test(pooler, (inputs,), 8 * 8 + 8, tmp_path)
    expected = np.tanh(inputs.astype("float64") @ to_numpy(pooler.dense.kernel.value))
    # A sum of 8 float32 products of up to 4.
    assert difference(outputs, expected) < 8 * 4 * 2.0**-24


def test_mean_of_the_real_tokens(tmp_path):
    inputs = np.random.default_rng(0).normal(size=(3, 5, 8)).astype("float32")
    mask = (np.arange(5) < np.array([[5], [2], [0]])).astype("int32")
    outputs = run_layer_test(MeanPooling(), (inputs, mask), 0, tmp_path)
    expected = np.stack([inputs[0].mean(0), inputs[1, :2].mean(0), np.zeros(8)])
    # A sum of 5 float32 numbers of up to 4.
    assert difference(outputs, expected) < 5 * 4 * 2.0**-24
    assert difference(MeanPooling()(inputs), inputs.mean(1)) < 5 * 4 * 2.0**-24


def test_largest_of_the_real_tokens(tmp_path):
    inputs = np.random.default_rng(0).normal(size=(3, 5, 8)).astype("float32") - 3
    mask = (np.arange(5) < np.array([[5], [2], [0]])).astype("int32")
    outputs = run_layer_test(MaxPooling(), (inputs, mask), 0, tmp_path)
    expected = np.stack([inputs[0].max(0), inputs[1, :2].max(0), np.zeros(8)])
    np.testing.assert_array_equal(outputs, expected)
    np.testing.assert_array_equal(MaxPooling()(inputs), inputs.max(1))


def test_last_of_the_real_tokens(tmp_path):
    inputs = np.random.default_rng(0).normal(size=(4, 5, 8)).astype("float32")
    mask = np.array([[1] * 5, [1, 1, 0, 0, 0], [0] * 5, [0, 0, 1, 1, 0]], "int32")
    outputs = run_layer_test(LastPooling(), (inputs, mask), 0, tmp_path)
    np.testing.assert_array_equal(outputs, inputs[range(4), [4, 1, 0, 3]])
    np.testing.assert_array_equal(LastPooling()(inputs), inputs[:, -1])


def test_mix_of_layers():
    layers = np.random.default_rng(0).normal(size=(3, 2, 5, 8)).astype("float32")
    mix = LayerMix([1, 2, 5])
    expected = np.average(layers.astype("float64"), axis=0, weights=[1, 2, 5])
    # Three float32 products of up to 4.
    assert difference(mix(list(layers)), expected) < 3 * 4 * 2.0**-24
    assert len(mix.trainable_weights) == 1 and not LayerMix([1], trainable=False).trainable
    assert mix.get_config()["layer_weights"] == [1, 2, 5]
