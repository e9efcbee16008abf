import keras
import numpy as np
import pytest

from keras_bert_impl.layers import (
    ClassificationHead,
    Embeddings,
    GatherPositions,
    MaskedLMHead,
    ResidualHead,
)
from keras_bert_impl.layers.basic import gelu, gelu_tanh
from tests.helpers import difference, randomize, run_layer_test, to_numpy

SEQUENCE = np.random.default_rng(0).normal(size=(3, 5, 8)).astype("float32")


def test_gather_positions(tmp_path):
    positions = np.array([[4, 0], [1, 1], [0, 3]], "int32")
    outputs = run_layer_test(GatherPositions(), (SEQUENCE, positions), 0, tmp_path)
    assert (to_numpy(outputs) == SEQUENCE[np.arange(3)[:, None], positions]).all()


def test_classification_head(tmp_path):
    head = ClassificationHead(3, dropout=0.4, initializer_range=0.5)
    outputs = run_layer_test(head, (SEQUENCE[:, 0],), 8 * 3 + 3, tmp_path, output_dtype="float32")
    expected = SEQUENCE[:, 0].astype("float64") @ to_numpy(head.dense.kernel.value)
    assert difference(outputs, expected) < 8 * 4 * 2.0**-24


def test_classification_head_with_a_normalized_transform(tmp_path):
    head = ClassificationHead(
        3, dropout=0.4, transform="gelu", initializer_range=0.5, layer_norm_epsilon=1e-5
    )
    inputs = SEQUENCE[:, 0]
    number = 8 * 8 + 8 + 8 * 3 + 3  # a transform and a normalization without biases
    outputs = run_layer_test(head, (inputs,), number, tmp_path, output_dtype="float32")
    hidden = to_numpy(gelu(inputs @ to_numpy(head.transform.kernel.value))).astype("float64")
    hidden -= hidden.mean(-1, keepdims=True)
    hidden /= np.sqrt((hidden**2).mean(-1, keepdims=True) + 1e-5)
    # Same tolerance as for the masked language model's head below.
    tolerance = 4 * 2 * 8 * 4 * 2.0**-24
    assert difference(outputs, hidden @ to_numpy(head.dense.kernel.value)) < tolerance


def test_residual_head(tmp_path):
    head = ResidualHead(2, 20, "gelu_tanh", dropout=0.4, initializer_range=0.5)
    number = 8 * 20 + 20 + 20 * 8 + 8 + 2 * 8 + 8 * 2 + 2
    outputs = run_layer_test(head, (SEQUENCE,), number, tmp_path, output_dtype="float32")
    kernels = [head.intermediate, head.output_dense, head.dense]
    first, second, last = (to_numpy(layer.kernel.value).astype("float64") for layer in kernels)
    hidden = SEQUENCE + to_numpy(gelu_tanh(SEQUENCE @ first)) @ second
    hidden -= hidden.mean(-1, keepdims=True)
    hidden /= hidden.std(-1, keepdims=True)
    assert difference(outputs, hidden @ last) < 4 * 2 * 20 * 8 * 2.0**-24


def test_classification_head_rejects_a_normalization_without_a_transform():
    with pytest.raises(ValueError, match="layer_norm_epsilon needs a transform"):
        ClassificationHead(3, layer_norm_epsilon=1e-5)


def test_classification_head_drops_its_inputs():
    head = ClassificationHead(3, dropout=0.9)
    assert difference(head(SEQUENCE, training=True), head(SEQUENCE)) > 0


def test_classification_head_is_initialized_with_the_given_deviation():
    """A truncated normal distribution would have 0.88 of the deviation."""
    count = 2000 * 10
    head = ClassificationHead(10, initializer_range=0.02)
    head.build((None, 2000))
    deviation = to_numpy(head.dense.kernel.value).std()
    assert abs(deviation / 0.02 - 1) < 6 / np.sqrt(2 * count)  # six standard errors


@pytest.fixture
def embeddings():
    layer = Embeddings(11, 8, max_length=6, num_segments=2)
    layer.build()
    return layer


def test_masked_lm_head_closed_form(embeddings):
    head = MaskedLMHead(embeddings, initializer_range=0.5, name="head")
    head.build(SEQUENCE.shape)
    randomize(head, scale=0.5)
    # In addition to the table: dense layer, normalization, a bias per token.
    num_parameters = head.count_params() - embeddings.count_params()
    assert num_parameters == (8 * 8 + 8) + 2 * 8 + 11
    hidden = to_numpy(head.dense.kernel.value).astype("float64")
    hidden = SEQUENCE.astype("float64") @ hidden + to_numpy(head.dense.bias.value)
    hidden = to_numpy(gelu(keras.ops.convert_to_tensor(hidden, "float64")))
    hidden -= hidden.mean(-1, keepdims=True)
    hidden /= np.sqrt((hidden**2).mean(-1, keepdims=True) + 1e-12)
    hidden = hidden * to_numpy(head.layer_norm.gamma.value) + to_numpy(head.layer_norm.beta.value)
    expected = hidden @ to_numpy(embeddings.token_embeddings.value).T
    expected = expected + to_numpy(head.output_bias.value)
    # Two matrix products over 8 float32 numbers of up to 4, and a division by a deviation.
    assert difference(head(SEQUENCE), expected) < 4 * 2 * 8 * 4 * 2.0**-24


def test_masked_lm_head_is_tied_to_the_table(embeddings):
    head = MaskedLMHead(embeddings)
    before = head(SEQUENCE)
    embeddings.token_embeddings.assign(embeddings.token_embeddings * 2)
    assert difference(head(SEQUENCE), before * 2) < 1e-6


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_masked_lm_logits_are_float32(embeddings, dtype):
    head = MaskedLMHead(embeddings, dtype=dtype)
    symbol = head(keras.Input((5, 8)))
    tensor = head(SEQUENCE)
    assert (symbol.shape, symbol.dtype) == ((None, 5, 11), "float32")
    assert keras.backend.standardize_dtype(tensor.dtype) == "float32"
