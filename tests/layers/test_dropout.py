import math

import keras
import numpy as np
import pytest
from keras import ops

from keras_bert_impl.layers.basic import Dropout, dropout_seed
from tests.helpers import compiled, difference, gradient, to_numpy

ONES = np.ones((200, 501), "float32")  # an odd number of units


def seed(*numbers, dtype="int32"):
    return ops.convert_to_tensor(numbers, dtype=dtype)


def drop(layer, numbers=(1, 2), inputs=ONES):
    with dropout_seed(seed(*numbers)):
        return to_numpy(layer(inputs, training=True))


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_rate_and_scale(rate):
    outputs = drop(Dropout(rate))
    # The share of kept units is binomial. Five standard deviations are exceeded with p = 6e-7, and
    # the seed is fixed. The rate itself is exact to half of 1 / 65536.
    deviation = math.sqrt(rate * (1 - rate) / ONES.size)
    share = (outputs != 0).mean()
    assert abs(share - (1 - rate)) < 5 * deviation + 2**-17
    # Kept units are scaled to preserve the expectation.
    scaled = outputs[outputs != 0]
    assert (scaled == scaled[0]).all()
    assert abs(scaled[0] * (1 - rate) - 1) < 2**-17 / (1 - rate) + 1e-6


def test_units_are_independent_of_their_neighbors():
    # Two units share one random number; whether one is dropped must not predict the other.
    mask = (drop(Dropout(0.5)) != 0).ravel()
    agree = mask[:-1] == mask[1:]
    for share in (agree[::2].mean(), agree[1::2].mean()):
        assert abs(share - 0.5) < 5 * 0.5 / math.sqrt(agree.size / 2)


@pytest.mark.parametrize("rate", [0.001, 0.1, 0.9, 0.9985])
def test_the_rate_is_finer_than_the_bits_of_a_unit(rate):
    # With 8 bits alone, 0.1 would be 26 / 256: 10 standard deviations from here.
    inputs = np.ones((40_000, 101), "float32")
    dropped = (drop(Dropout(rate), inputs=inputs) == 0).mean()
    assert abs(dropped - rate) < 5 * math.sqrt(rate * (1 - rate) / inputs.size) + 2**-17


def test_units_of_a_row_are_independent_although_they_share_a_threshold():
    mask = drop(Dropout(0.1), inputs=np.ones((4_000, 1_000), "float32")) != 0
    # Independent units: the number kept in a row has the variance of a binomial distribution.
    # Five standard deviations of the variance of 4,000 rows.
    variance = mask.sum(axis=1).var() / (1_000 * 0.09)
    assert abs(variance - 1) < 5 * math.sqrt(2 / 4_000) + 1_000 * 0.25 / 256**2 / 0.09


def test_same_seed_same_units():
    layer = Dropout(0.3)
    assert (drop(layer) == drop(layer)).all()
    assert (drop(Dropout(0.3, name="twin")) == drop(Dropout(0.3, name="twin"))).all()


@pytest.mark.parametrize("numbers", [(1, 3), (2, 2), (1, -2), (2**31 - 1, 2**31 - 1)])
def test_other_seed_other_units(numbers):
    layer = Dropout(0.5)
    # Independent draws agree in half of the units.
    agree = ((drop(layer) != 0) == (drop(layer, numbers) != 0)).mean()
    assert abs(agree - 0.5) < 5 * 0.5 / math.sqrt(ONES.size)


def test_other_path_other_units():
    first, second = drop(Dropout(0.5, name="first")), drop(Dropout(0.5, name="second"))
    assert abs(((first != 0) == (second != 0)).mean() - 0.5) < 5 * 0.5 / math.sqrt(ONES.size)


@pytest.mark.parametrize("dtype", ["int32", "uint32"])
def test_both_seed_types(dtype):
    layer = Dropout(0.5)
    with dropout_seed(seed(7, 8, dtype=dtype)):
        received = to_numpy(layer(ONES, training=True))
    assert (received == drop(layer, (7, 8))).all()


def test_contexts_nest_and_end():
    layer = Dropout(0.5)
    inner, outer = drop(layer, (5, 6)), drop(layer, (3, 4))
    with dropout_seed(seed(3, 4)):
        with dropout_seed(seed(5, 6)):
            assert (to_numpy(layer(ONES, training=True)) == inner).all()
        assert (to_numpy(layer(ONES, training=True)) == outer).all()
    assert (to_numpy(layer(ONES, training=True)) != outer).any()


def test_outside_a_context_every_call_differs():
    layer = Dropout(0.5, seed=3)
    assert difference(layer(ONES, training=True), layer(ONES, training=True)) == 2.0


def test_inference_and_rate_zero_are_the_identity():
    inputs = np.random.default_rng(0).normal(size=(3, 4)).astype("float32")
    assert (to_numpy(Dropout(0.5)(inputs)) == inputs).all()
    assert (to_numpy(Dropout(0.5)(inputs, training=False)) == inputs).all()
    assert (drop(Dropout(0.0), inputs=inputs) == inputs).all()


def test_gradient_flows_only_through_kept_units():
    layer = Dropout(0.5)

    def total(inputs):
        with dropout_seed(seed(1, 2)):
            return ops.sum(layer(inputs, training=True))

    assert (to_numpy(gradient(total, ONES)) == drop(layer)).all()


def test_compiled():
    layer = Dropout(0.4)

    @compiled
    def run(inputs, numbers):
        with dropout_seed(numbers):
            return layer(inputs, training=True)

    inputs = ops.convert_to_tensor(ONES)
    first, again = run(inputs, seed(1, 2)), run(inputs, seed(1, 2))
    assert (to_numpy(first) == to_numpy(again)).all()
    share = (to_numpy(first) != 0).mean()
    assert abs(share - 0.6) < 5 * math.sqrt(0.24 / ONES.size) + 2**-17
    # The seed must be an input of the compiled function, not a constant in it.
    assert (to_numpy(first) != to_numpy(run(inputs, seed(1, 3)))).any()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_dtype_shape_and_config(dtype):
    layer = Dropout(0.25, seed=5, dtype=dtype, name="drop")
    copy = Dropout.from_config(layer.get_config())
    assert copy.get_config() == layer.get_config()
    assert (copy.rate, copy.seed, copy.weights) == (0.25, 5, [])
    symbol = layer(keras.Input((7, 2), dtype=dtype), training=True)
    assert (symbol.shape, symbol.dtype) == ((None, 7, 2), dtype)
    tensor = layer(np.ones((3, 7, 2), dtype), training=True)
    assert keras.backend.standardize_dtype(tensor.dtype) == dtype
