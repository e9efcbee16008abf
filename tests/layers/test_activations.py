import math

import numpy as np
import pytest
from keras import ops

from keras_bert_impl.config import EncoderConfig
from keras_bert_impl.layers.activations import ACTIVATIONS, gelu, gelu_tanh
from tests.helpers import TINY, difference

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
