import keras
import numpy as np
import pytest

from keras_bert_impl.layers import Dropout, TransformerBlock
from keras_bert_impl.layers.basic import gelu
from tests.helpers import difference, run_layer_test, to_numpy

INPUTS = np.random.default_rng(0).normal(size=(3, 5, 8)).astype("float32")
BIAS = np.zeros((3, 1, 1, 5), "float32")
FLOAT32 = "float32"  # output dtype, in mixed precision too


def test_layer(tmp_path):
    layer = TransformerBlock(2, 20, activation="gelu_tanh", initializer_range=0.3, name="block")
    hidden, inner = 8, 20
    attention = 4 * (hidden**2 + hidden)
    feed_forward = 2 * hidden * inner + inner + hidden
    run_layer_test(layer, (INPUTS, BIAS), attention + feed_forward + 4 * hidden, tmp_path, FLOAT32)


def test_gated_layer_without_biases(tmp_path):
    layer = TransformerBlock(
        2,
        20,
        initializer_range=0.3,
        pre_norm=True,
        attention_norm=False,
        use_bias=False,
        gated=True,
        rotary_base=10.0,
        name="block",
    )
    outputs = run_layer_test(layer, (INPUTS, BIAS), 4 * 8**2 + 3 * 8 * 20 + 8, tmp_path, FLOAT32)
    attended = INPUTS + to_numpy(layer.attention(INPUTS, BIAS))
    normal = to_numpy(layer.output_layer_norm(attended))
    weights = {
        name: to_numpy(getattr(layer, name).kernel.value)
        for name in ("intermediate", "gate", "output_dense")
    }
    inner = to_numpy(gelu(normal @ weights["intermediate"])) * (normal @ weights["gate"])
    # The same float32 operations in another order: 20 products of numbers up to 4.
    assert difference(outputs, attended + inner @ weights["output_dense"]) < 2 * 20 * 16 * 2.0**-24


def test_outputs_are_normalized():
    layer = TransformerBlock(2, 20, initializer_range=0.3)
    outputs = np.asarray(layer(INPUTS, BIAS), dtype="float64")
    # Initially scale 1 and shift 0; means of 8 numbers in float32.
    assert np.abs(outputs.mean(-1)).max() < 8 * 2.0**-24
    assert np.abs(outputs.std(-1) - 1).max() < 8 * 2.0**-24


@pytest.mark.parametrize("pre_norm", [False, True])
@pytest.mark.parametrize("dtype", ["mixed_bfloat16", "mixed_float16"])
def test_states_keep_the_precision_of_the_variables(dtype, pre_norm):
    # With zero weights, a block reduces to its normalizations, or to the identity.
    arguments = {"initializer_range": 0.0, "pre_norm": pre_norm}
    mixed, whole = (TransformerBlock(2, 20, dtype=policy, **arguments) for policy in (dtype, None))
    outputs = mixed(INPUTS, BIAS)
    assert keras.backend.standardize_dtype(outputs.dtype) == "float32"
    np.testing.assert_array_equal(to_numpy(outputs), to_numpy(whole(INPUTS, BIAS)))


def test_all_dropout_paths_of_an_encoder_differ():
    layer = TransformerBlock(2, 20, name="block")
    layer(INPUTS, BIAS)
    paths = [part.path for part in layer._flatten_layers() if isinstance(part, Dropout)]
    assert sorted(paths) == [
        "block/attention/dropout",
        "block/attention_output_dropout",
        "block/output_dropout",
    ]


def test_activation_is_used():
    first, second = (TransformerBlock(2, 20, activation=name) for name in ("gelu", "relu"))
    first(INPUTS, BIAS), second(INPUTS, BIAS)
    second.set_weights(first.get_weights())
    assert difference(first(INPUTS, BIAS), second(INPUTS, BIAS)) > 1e-6
