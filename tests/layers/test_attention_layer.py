import numpy as np
import pytest

from keras_bert_impl.layers import AttentionBias, SelfAttention
from tests.helpers import difference, randomize, run_layer_test, to_numpy

BATCH, LENGTH, HIDDEN, HEADS = 3, 7, 12, 3
IDS = np.zeros((BATCH, LENGTH), "int32")
INPUTS = np.random.default_rng(0).normal(size=(BATCH, LENGTH, HIDDEN)).astype("float32")
# Full, padded and empty rows.
MASK = (np.arange(LENGTH)[None] < np.array([[7], [4], [0]])).astype("int32")
EXAMPLES = np.array([[1, 1, 1, 2, 2, 3, 3], [1, 1, 2, 2, 2, 0, 0], [0] * 7], "int32")
NO_BIAS = np.zeros((BATCH, 1, 1, LENGTH), "float32")


def closed_form(layer, inputs, visible):
    """`softmax(Q K^T / sqrt(d)) V` in float64, one head and one query at a time.

    `visible` is bool `[batch, query, key]`; the outputs of queries that see no key stay 0.
    """
    weights = {w.path.split("/", 1)[1]: to_numpy(w.value).astype("float64") for w in layer.weights}
    query, key, value = (
        inputs.astype("float64") @ weights[f"{part}/kernel"] + weights[f"{part}/bias"]
        for part in ("query", "key", "value")
    )
    size = HIDDEN // HEADS
    joined = np.zeros(inputs.shape)
    scores = np.zeros((BATCH, HEADS, LENGTH, LENGTH))
    for b in range(BATCH):
        for head in range(HEADS):
            columns = slice(head * size, (head + 1) * size)
            for q in range(LENGTH):
                exponents = key[b, :, columns] @ query[b, q, columns] / np.sqrt(size)
                mass = np.where(visible[b, q], np.exp(exponents), 0.0)
                scores[b, head, q] = mass / max(mass.sum(), 1e-300)
                joined[b, q, columns] = scores[b, head, q] @ value[b, :, columns]
    return joined @ weights["output/kernel"] + weights["output/bias"], scores


@pytest.mark.parametrize(
    "kind",
    [
        "no mask",
        "padding",
        "packed",
        "packed and padding",
        "window",
        "window, packed and padding",
        "causal",
        "causal, packed and padding",
        "causal, window",
    ],
)
def test_closed_form(kind):
    mask = MASK if "padding" in kind else None
    examples = EXAMPLES if "packed" in kind else None
    visible = np.ones((BATCH, LENGTH, LENGTH), bool)
    if mask is not None:
        visible &= mask[:, None, :] == 1
    if examples is not None:
        visible &= (examples[:, :, None] == examples[:, None, :]) & (examples[:, None, :] != 0)
    window = 2 if "window" in kind else None
    if window:
        place = np.arange(LENGTH)
        visible &= np.abs(place[:, None] - place) <= window
    if "causal" in kind:
        visible &= np.tri(LENGTH, dtype=bool)
    layer = SelfAttention(HEADS, window=window, name="attention")
    layer.build(INPUTS.shape)
    randomize(layer, scale=0.5)
    bias = AttentionBias(window, causal="causal" in kind)(
        IDS, padding_mask=mask, example_ids=examples
    )
    outputs, scores = layer(INPUTS, bias, return_attention_scores=True)
    expected_outputs, expected_scores = closed_form(layer, INPUTS, visible)
    # Three sums of 12 products of numbers up to about 4 in float32, with unit roundoff 2**-24.
    tolerance = 3 * 12 * 16 * 2.0**-24
    seeing = visible.any(-1)  # [batch, query]
    assert difference(to_numpy(outputs)[seeing], expected_outputs[seeing]) < tolerance
    by_query = to_numpy(scores).transpose(0, 2, 1, 3)[seeing]  # [queries, head, key]
    expected_by_query = expected_scores.transpose(0, 2, 1, 3)[seeing]
    assert difference(by_query, expected_by_query) < tolerance
    # The weight of hidden keys is exactly 0, not merely small.
    assert (by_query[expected_by_query == 0] == 0).all()
    assert difference(layer(INPUTS, bias), outputs) == 0


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16", "mixed_float16"])
def test_row_without_a_visible_token_is_finite(dtype):
    layer = SelfAttention(HEADS, dtype=dtype)
    bias = AttentionBias(dtype=dtype)(IDS, padding_mask=np.zeros_like(IDS))
    outputs, scores = layer(INPUTS, bias, return_attention_scores=True)
    assert np.isfinite(to_numpy(outputs).astype("float32")).all()
    assert difference(to_numpy(scores).sum(-1), np.ones(scores.shape[:3])) < LENGTH * 2.0**-24


def test_layer(tmp_path):
    layer = SelfAttention(HEADS, dropout=0.2, initializer_range=0.3)
    run_layer_test(layer, (INPUTS, NO_BIAS), 4 * (HIDDEN**2 + HIDDEN), tmp_path)


def test_layer_with_rotary_positions_and_without_biases(tmp_path):
    layer = SelfAttention(HEADS, initializer_range=0.3, use_bias=False, rotary_base=10.0)
    positions = np.tile(np.arange(LENGTH, dtype="int32")[::-1], (BATCH, 1))
    run_layer_test(layer, (INPUTS, NO_BIAS, positions), 4 * HIDDEN**2, tmp_path)
    outputs = layer(INPUTS, NO_BIAS, positions)
    moved = layer(INPUTS, NO_BIAS, positions + 3)
    # Only distances matter. Two sums of 12 products of up to 16, of angles up to 10.
    assert difference(moved, outputs) < 2 * 12 * 16 * 10 * 2.0**-24
    assert difference(layer(INPUTS, NO_BIAS, 2 * positions), outputs) > 0.01


def test_scores_are_taken_before_dropout():
    layer = SelfAttention(HEADS, dropout=0.5)
    outputs, scores = layer(INPUTS, NO_BIAS, return_attention_scores=True, training=True)
    # A softmax row sums to 1; each of the 7 terms is rounded.
    assert difference(to_numpy(scores).sum(-1), np.ones(scores.shape[:3])) < 7 * 2.0**-24
    assert difference(outputs, layer(INPUTS, NO_BIAS)) > 0


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("window", [None, 2])
@pytest.mark.parametrize("causal", [False, True])
def test_bias_symbols(causal, window, packed, dtype):
    import keras

    layer = AttentionBias(window, causal, dtype=dtype)
    ids = keras.Input((LENGTH,), dtype="int32")
    symbol = layer(ids, example_ids=ids if packed else None)
    tensor = layer(IDS, example_ids=EXAMPLES if packed else None)
    assert tuple(symbol.shape[1:]) == tuple(tensor.shape[1:])
    assert symbol.dtype == keras.backend.standardize_dtype(tensor.dtype) == "float32"
