import numpy as np

from keras_bert_impl.layers import Dropout, TransformerBlock
from tests.helpers import difference, run_layer_test

INPUTS = np.random.default_rng(0).normal(size=(3, 5, 8)).astype("float32")
BIAS = np.zeros((3, 1, 1, 5), "float32")


def test_layer(tmp_path):
    layer = TransformerBlock(2, 20, activation="gelu_tanh", initializer_range=0.3, name="block")
    hidden, inner = 8, 20
    attention = 4 * (hidden**2 + hidden)
    feed_forward = 2 * hidden * inner + inner + hidden
    run_layer_test(layer, (INPUTS, BIAS), attention + feed_forward + 4 * hidden, tmp_path)


def test_outputs_are_normalized():
    layer = TransformerBlock(2, 20, initializer_range=0.3)
    outputs = np.asarray(layer(INPUTS, BIAS), dtype="float64")
    # Scale 1 and shift 0 at the start; 8 numbers in float32.
    assert np.abs(outputs.mean(-1)).max() < 8 * 2.0**-24
    assert np.abs(outputs.std(-1) - 1).max() < 8 * 2.0**-24


def test_every_dropout_has_a_path_of_its_own():
    layer = TransformerBlock(2, 20, name="block")
    layer(INPUTS, BIAS)
    paths = [part.path for part in layer._flatten_layers() if isinstance(part, Dropout)]
    assert sorted(paths) == [
        "block/attention/dropout", "block/attention_output_dropout", "block/output_dropout",
    ]


def test_activation_is_used():
    first, second = (TransformerBlock(2, 20, activation=name) for name in ("gelu", "relu"))
    first(INPUTS, BIAS), second(INPUTS, BIAS)
    second.set_weights(first.get_weights())
    assert difference(first(INPUTS, BIAS), second(INPUTS, BIAS)) > 1e-6
