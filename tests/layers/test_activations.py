import math

import keras
import numpy as np
import pytest
from keras import ops

from keras_bert_impl.checkpoints.config import EncoderConfig
from keras_bert_impl.layers.basic import ACTIVATIONS, gelu, gelu_tanh, in_training
from tests.helpers import TINY, difference, gradient, to_numpy

POINTS = np.linspace(-8, 8, 4001)
# A few float32 roundings (2**-24 each) of numbers up to 8.
TOLERANCE = 4 * 8 * 2.0**-24


def test_gelu_is_exact():
    expected = [x * 0.5 * (1 + math.erf(x / math.sqrt(2))) for x in POINTS]
    assert difference(gelu(ops.convert_to_tensor(POINTS, "float32")), expected) <= TOLERANCE


def test_gelu_tanh_is_the_approximation():
    expected = [
        0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) for x in POINTS
    ]
    received = gelu_tanh(ops.convert_to_tensor(POINTS, "float32"))
    assert difference(received, expected) <= TOLERANCE
    # A different function: off by 4.7e-4 at most.
    assert 1e-4 < difference(received, gelu(ops.convert_to_tensor(POINTS, "float32"))) < 5e-4


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_every_activation_can_be_configured(name):
    assert EncoderConfig(**{**TINY.to_dict(), "activation": name}).activation == name


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_gelu_in_training_has_the_values_and_the_gradient_of_gelu(dtype):
    inputs = ops.cast(POINTS, dtype)
    points = to_numpy(ops.cast(inputs, "float32")).astype("float64")
    probability = np.array([0.5 * (1 + math.erf(x / math.sqrt(2))) for x in points])
    slopes = probability + points * np.exp(-(points**2) / 2) / math.sqrt(2 * math.pi)
    trained = in_training(gelu)
    values = ops.cast(trained(inputs), "float32")
    slope = ops.cast(gradient(lambda x: ops.sum(trained(x)), inputs), "float32")
    if dtype == "float32":
        assert difference(values, points * probability) <= TOLERANCE
        assert difference(slope, slopes) <= TOLERANCE
    elif keras.backend.backend() == "tensorflow":
        # Computed in float32 and rounded to 8 bits once.
        limit = 2.0**-8 * np.abs(points * probability) + TOLERANCE
        assert (np.abs(to_numpy(values) - points * probability) <= limit).all()
        assert (np.abs(to_numpy(slope) - slopes) <= 2.0**-8 * np.abs(slopes) + TOLERANCE).all()


def test_other_activations_are_the_same_in_training():
    assert in_training(gelu_tanh) is gelu_tanh
