import numpy as np

from keras_bert_impl.layers import Embeddings
from tests.helpers import difference, randomize, run_layer_test, to_numpy

RANDOM = np.random.default_rng(0)
IDS = RANDOM.integers(0, 11, (3, 5)).astype("int32")
SEGMENTS = RANDOM.integers(0, 3, (3, 5)).astype("int32")
POSITIONS = RANDOM.integers(0, 6, (3, 5)).astype("int32")


def make():
    return Embeddings(11, 8, max_length=6, num_segments=3, initializer_range=0.3)


def test_layer(tmp_path):
    run_layer_test(make(), (IDS, SEGMENTS, POSITIONS), (11 + 6 + 3) * 8 + 2 * 8, tmp_path, "float32")


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
    # A mean and a variance of 8 numbers of about 1 in float32.
    assert difference(layer(IDS, SEGMENTS, POSITIONS), expected) < 4 * 8 * 2.0**-24


def test_defaults_are_segment_0_and_counted_positions():
    layer = make()
    explicit = layer(IDS, np.zeros_like(IDS), np.tile(np.arange(5, dtype="int32"), (3, 1)))
    assert difference(layer(IDS), explicit) == 0
