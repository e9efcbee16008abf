"""BigBird's attention against full attention in float64 with a mask."""

import numpy as np
import pytest
from keras import ops

from keras_bert_impl.layers import BigBirdAttention, BlockSparsity, ExampleIds, TransformerBlock
from keras_bert_impl.layers.basic import dropout_seed, recomputation
from tests.helpers import compiled, difference, gradient, randomize, to_numpy

BATCH, LENGTH, HIDDEN, HEADS, SIZE, RANDOM = 3, 29, 12, 3, 3, 2
SPARSITY = BlockSparsity(SIZE, RANDOM, max_length=40, seed=5)
IDS = np.zeros((BATCH, LENGTH), "int32")
INPUTS = np.random.default_rng(0).normal(size=(BATCH, LENGTH, HIDDEN)).astype("float32")
# Full, padded and empty rows.
MASK = (np.arange(LENGTH)[None] < np.array([[LENGTH], [17], [0]])).astype("int32")
EXAMPLES = np.repeat(np.int32([[1, 2, 0], [1, 2, 3], [0, 0, 0]]), [11, 13, 5], axis=1)
# Sums of 12 products of numbers up to about 4, in float32, in three layers.
TOLERANCE = 3 * 12 * 16 * 2.0**-24


def made(**settings):
    layer = BigBirdAttention(HEADS, dropout=0.0, sparsity=SPARSITY, name="attention", **settings)
    layer.build(INPUTS.shape)
    randomize(layer, scale=0.5)
    return layer


def closed_form(layer, examples, training):
    """Attention as in the paper, in float64; each key counts as often as its block is listed."""
    weights = {w.path.split("/", 1)[1]: to_numpy(w.value).astype("float64") for w in layer.weights}

    def heads(name):
        mapped = INPUTS.astype("float64") @ weights[f"{name}/kernel"] + weights[f"{name}/bias"]
        return mapped.reshape(BATCH, LENGTH, HEADS, -1).transpose(0, 2, 1, 3)

    number = -(-LENGTH // SIZE)
    drawn = to_numpy(SPARSITY.random_blocks(number, HEADS))
    counts = np.zeros((HEADS, number, number))
    counts[:, [0, -1]] = 1
    for head in range(HEADS):
        for block in range(1, number - 1):
            listed = {0, block - 1, block, block + 1, number - 1}
            random_keys = drawn[head, block - 1] if training else [0] * RANDOM
            for key in [*listed, *random_keys]:
                counts[head, block, key] += 1
    counts = counts.repeat(SIZE, 1).repeat(SIZE, 2)[:, :LENGTH, :LENGTH]
    same = (examples[:, :, None] == examples[:, None, :]) & (examples[:, None, :] != 0)
    query, key, value = (heads(name) for name in ("query", "key", "value"))
    logits = query @ key.transpose(0, 1, 3, 2) / np.sqrt(HIDDEN // HEADS)
    mass = counts * same[:, None] * np.exp(logits)
    scores = mass / np.maximum(mass.sum(-1, keepdims=True), 1e-300)
    outputs = (scores @ value).transpose(0, 2, 1, 3).reshape(INPUTS.shape)
    return outputs @ weights["output/kernel"] + weights["output/bias"], scores


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("kind", ["no mask", "padding", "packed", "packed and padding"])
def test_closed_form(kind, training):
    features, examples = {}, np.ones_like(IDS)
    if "packed" in kind:
        features["example_ids"] = examples = EXAMPLES
    if "padding" in kind:
        features["padding_mask"] = MASK
        examples = examples * MASK
    layer, ids = made(), ExampleIds()(IDS, **features)
    outputs, scores = layer(INPUTS, ids, return_attention_scores=True, training=training)
    expected_outputs, expected_scores = closed_form(layer, examples, training)
    real = examples != 0
    assert difference(to_numpy(outputs)[real], expected_outputs[real]) < TOLERANCE
    by_query, expected = (
        to_numpy(s).transpose(0, 2, 1, 3)[real] for s in (scores, expected_scores)
    )
    assert difference(by_query, expected) < TOLERANCE
    assert (by_query[expected == 0] == 0).all()
    assert np.isfinite(to_numpy(outputs)).all()
    again = compiled(lambda inputs: layer(inputs, ids, training=training))(INPUTS)
    assert difference(to_numpy(again)[real], to_numpy(outputs)[real]) < TOLERANCE


@pytest.mark.parametrize(
    ("block_size", "max_length"), [(64, 4096), (64, 1024), (16, 2000), (3, 50)]
)
def test_random_blocks_are_legal(block_size, max_length):
    """They are distinct, and none is global or a neighbor, except near the end of the longest row."""
    sparsity = BlockSparsity(block_size, 3, max_length, seed=1)
    for number in range(12, max_length // block_size + 1, 7):
        drawn = to_numpy(sparsity.random_blocks(number, 2))
        assert drawn.shape == (2, number - 2, 3)
        row = np.arange(1, number - 1)[None, :, None]
        is_free = row < max_length // block_size - 3
        assert ((np.abs(drawn - row) > 1) | ~is_free).all() and (drawn > 0).all()
        assert (drawn < number - 1).all()
        assert (np.diff(np.sort(drawn, axis=-1), axis=-1) > 0).all()
    assert (drawn[0] != drawn[1]).any()


def test_no_gradient_of_padding():
    layer, ids = made(), ExampleIds()(IDS, padding_mask=MASK)
    real = MASK[..., None].astype("float32")
    slope = to_numpy(gradient(lambda x: ops.sum((layer(x, ids) * real) ** 2), INPUTS))
    assert (slope[MASK == 0] == 0).all() and (slope[MASK == 1] != 0).all()


@pytest.mark.parametrize("dtype", ["mixed_bfloat16", "mixed_float16"])
def test_mixed_precision(dtype):
    layer, half = made(), made(dtype=dtype)
    half.set_weights(layer.get_weights())
    ids = ExampleIds(dtype=dtype)(IDS, padding_mask=MASK)
    outputs = to_numpy(half(INPUTS, ids)).astype("float32")
    real = MASK == 1
    # 8 significant bits, through four products of numbers up to 16.
    assert difference(outputs[real], to_numpy(layer(INPUTS, ids))[real]) < 4 * 16 * 2.0**-8


def test_recomputation_changes_no_gradient():
    block = TransformerBlock(HEADS, 20, sparsity=SPARSITY, dropout=0.3)
    block.build(INPUTS.shape)
    randomize(block)
    ids = ExampleIds()(IDS, padding_mask=MASK)

    def slope(on):
        def total(inputs):
            return ops.sum(block(inputs, ids, training=True) ** 2)

        with recomputation(on), dropout_seed(np.array([1, 2], "int32")):
            return gradient(total, INPUTS)

    assert difference(slope(True), slope(False)) < 1e-5
    again = TransformerBlock.from_config(block.get_config())
    assert again.attention.sparsity == SPARSITY
