import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from keras_bert_impl.layers import Embeddings
from tests.helpers import compiled, difference, randomize, run_layer_test, to_numpy

RANDOM = np.random.default_rng(0)
IDS = RANDOM.integers(0, 11, (3, 5)).astype("int32")
SEGMENTS = RANDOM.integers(0, 3, (3, 5)).astype("int32")
POSITIONS = RANDOM.integers(0, 6, (3, 5)).astype("int32")


def make():
    return Embeddings(11, 8, max_length=6, num_segments=3, initializer_range=0.3)


def test_layer(tmp_path):
    run_layer_test(
        make(), (IDS, SEGMENTS, POSITIONS), (11 + 6 + 3) * 8 + 2 * 8, tmp_path, "float32"
    )


def test_layer_without_positions_and_biases(tmp_path):
    layer = Embeddings(11, 8, max_length=0, num_segments=0, initializer_range=0.3, use_bias=False)
    run_layer_test(layer, (IDS,), 11 * 8 + 8, tmp_path, "float32")
    assert difference(layer(IDS, SEGMENTS, POSITIONS), layer(IDS)) == 0


def test_closed_form():
    layer = make()
    layer(IDS)
    randomize(layer)
    weights = {w.path.split("/", 1)[1]: to_numpy(w.value).astype("float64") for w in layer.weights}
    total = weights["token_embeddings"][IDS] + weights["segment_embeddings"][SEGMENTS]
    total += weights["position_embeddings"][POSITIONS]
    total -= total.mean(-1, keepdims=True)
    total /= np.sqrt((total**2).mean(-1, keepdims=True) + 1e-12)
    expected = total * weights["layer_norm/gamma"] + weights["layer_norm/beta"]
    # Mean and variance of 8 float32 numbers of magnitude 1.
    assert difference(layer(IDS, SEGMENTS, POSITIONS), expected) < 4 * 8 * 2.0**-24


def test_defaults_are_segment_0_and_counted_positions():
    layer = make()
    explicit = layer(IDS, np.zeros_like(IDS), np.tile(np.arange(5, dtype="int32"), (3, 1)))
    assert difference(layer(IDS), explicit) == 0


def eager(layer):
    return layer


@pytest.mark.parametrize("run", [compiled, eager])
@pytest.mark.parametrize(
    "feature, wrong", [(0, -1), (0, -11), (0, 11), (1, -1), (1, 3), (2, -1), (2, 6)]
)
def test_what_has_no_row_is_no_other_token(run, feature, wrong):
    """XLA would clamp to the nearest row; Keras would count negative ids from the table's end."""
    layer = make()
    features = [IDS.copy(), SEGMENTS.copy(), POSITIONS.copy()]
    expected = to_numpy(layer(*features))
    features[feature][1, 2] = wrong
    try:
        outputs = to_numpy(run(layer)(*map(ops.convert_to_tensor, features)))
    except tf.errors.InvalidArgumentError as error:
        assert run is eager and wrong > 0 and "indices[1,2]" in error.message
        return
    is_wrong = np.zeros((3, 5), bool)
    is_wrong[1, 2] = True
    assert np.isnan(outputs[is_wrong]).all()
    np.testing.assert_allclose(outputs[~is_wrong], expected[~is_wrong], rtol=0, atol=1e-6)


def test_positions_past_the_table_are_no_other_position():
    layer = Embeddings(11, 8, max_length=4, position_offset=2, pad_token_id=1)
    ids = np.full((1, 6), 5, "int32")
    outputs = to_numpy(compiled(layer)(ops.convert_to_tensor(ids)))
    is_nan = np.isnan(outputs).all(axis=-1)
    assert is_nan.tolist() == [[False] * 4 + [True] * 2]
