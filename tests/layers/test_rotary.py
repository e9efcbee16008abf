import numpy as np
import pytest

from keras_bert_impl.layers import RotaryPositions
from tests.helpers import difference, run_layer_test, to_numpy

INPUTS = np.random.default_rng(0).normal(size=(3, 2, 5, 8)).astype("float32")
POSITIONS = np.array([[0, 1, 2, 3, 4], [0, 1, 0, 1, 2], [9, 0, 300, 8191, 2]], "int32")


def closed_form(inputs, positions, base):
    """Rotates each pair of numbers as a complex number, in float64."""
    half = inputs.shape[-1] // 2
    points = inputs[..., :half] + 1j * inputs[..., half:]
    angles = positions[:, None, :, None] * np.power(base, -2 * np.arange(half) / (2 * half))
    points = points.astype("complex128") * np.exp(1j * angles)
    return np.concatenate([points.real, points.imag], axis=-1)


def test_layer(tmp_path):
    run_layer_test(RotaryPositions(10000.0), (INPUTS, POSITIONS), 0, tmp_path)


@pytest.mark.parametrize("base", [10_000.0, 160_000.0])
def test_closed_form(base):
    received = RotaryPositions(base)(INPUTS, POSITIONS)
    expected = closed_form(INPUTS, POSITIONS, base)
    # An angle is rounded to 24 bits twice, which moves numbers of up to 4 by this much.
    tolerance = 4 * (2 * 2.0**-24 * POSITIONS[:, None, :, None] + 4 * 2.0**-24)
    assert (np.abs(to_numpy(received) - expected) < tolerance).all()


def test_products_depend_only_on_the_distance():
    layer = RotaryPositions(100.0)
    near, far = (layer(INPUTS, POSITIONS[:1] + shift) for shift in (0, 50))
    products = [to_numpy(x) @ to_numpy(x).swapaxes(-1, -2) for x in (near, far)]
    # Sums of 8 products of up to 16, of angles up to 54.
    assert difference(*products) < 8 * 16 * 2 * 54 * 2.0**-24
    assert difference(near, far) > 0.1


def test_counted_positions_are_the_default():
    layer = RotaryPositions(100.0)
    positions = np.tile(np.arange(5, dtype="int32"), (3, 1))
    assert difference(layer(INPUTS), layer(INPUTS, positions)) == 0


@pytest.mark.parametrize("dtype", ["mixed_bfloat16", "mixed_float16"])
def test_angles_are_exact_in_half_precision(dtype):
    positions = np.array([[8187, 8188, 8189, 8190, 8191]], "int32")
    received = RotaryPositions(10_000.0, dtype=dtype)(INPUTS, positions)
    expected = closed_form(INPUTS, positions, 10_000.0)
    # Inputs and outputs of up to 4 are rounded to 8 bits, angles to 24.
    assert difference(received, expected) < 4 * (3 * 2.0**-9 + 2 * 8191 * 2.0**-24)
