"""Longformer's attention against full attention in float64 with a mask and two projections."""

import numpy as np
import pytest
from keras import ops

from keras_bert_impl.checkpoints.config import Adapter
from keras_bert_impl.layers import (
    GlobalAttentionBias,
    LongformerAttention,
    LoRADense,
    TransformerBlock,
)
from keras_bert_impl.layers.basic import dropout_seed, recomputation
from tests.helpers import compiled, difference, gradient, randomize, to_numpy
from tests.tasks import helpers

BATCH, LENGTH, HIDDEN, HEADS, WINDOW, SLOTS = 3, 11, 12, 3, 2, 5
IDS = np.zeros((BATCH, LENGTH), "int32")
INPUTS = np.random.default_rng(0).normal(size=(BATCH, LENGTH, HIDDEN)).astype("float32")
# Full, padded and empty rows.
MASK = (np.arange(LENGTH)[None] < np.array([[11], [6], [0]])).astype("int32")
EXAMPLES = np.array([[1] * 4 + [2] * 6 + [0], [1] * 5 + [2] * 3 + [3] * 3, [0] * 11], "int32")
GLOBAL = np.zeros_like(IDS)
GLOBAL[0, [0, 3, 4, 9]] = 1
GLOBAL[1, [2, 10]] = 1
# Sums of 12 products of numbers up to about 4, in float32, in three layers.
TOLERANCE = 3 * 12 * 16 * 2.0**-24


def made(**settings):
    layer = LongformerAttention(HEADS, window=WINDOW, name="attention", **settings)
    layer.build(INPUTS.shape)
    randomize(layer, scale=0.5)
    return layer


def bias_of(**features):
    return GlobalAttentionBias(WINDOW, SLOTS)(IDS, **features)


def closed_form(layer, examples, is_global):
    """Attention as in the paper's equations, in float64.

    Args:
        examples: `[batch, length]`, 0 for padding.
        is_global: bool `[batch, length]`.
    """
    weights = {w.path.split("/", 1)[1]: to_numpy(w.value).astype("float64") for w in layer.weights}

    def heads(name):
        mapped = INPUTS.astype("float64") @ weights[f"{name}/kernel"] + weights[f"{name}/bias"]
        return mapped.reshape(BATCH, LENGTH, HEADS, -1).transpose(0, 2, 1, 3)

    def attend(suffix, visible):
        query, key, value = (heads(name + suffix) for name in ("query", "key", "value"))
        logits = query @ key.transpose(0, 1, 3, 2) / np.sqrt(HIDDEN // HEADS)
        mass = np.where(visible[:, None], np.exp(logits), 0.0)
        scores = mass / np.maximum(mass.sum(-1, keepdims=True), 1e-300)
        return scores @ value, scores

    place = np.arange(LENGTH)
    same = (examples[:, :, None] == examples[:, None, :]) & (examples[:, None, :] != 0)
    near = np.abs(place[:, None] - place) <= WINDOW
    local, local_scores = attend("", same & (near | is_global[:, None, :]))
    whole, whole_scores = attend("_global", same)
    is_whole = is_global[:, None, :, None]
    outputs = np.where(is_whole, whole, local).transpose(0, 2, 1, 3).reshape(INPUTS.shape)
    scores = np.where(is_whole, whole_scores, local_scores)
    return outputs @ weights["output/kernel"] + weights["output/bias"], scores


@pytest.mark.parametrize("kind", ["no mask", "padding", "packed", "packed and padding"])
@pytest.mark.parametrize("mask", ["default", "given", "none"])
def test_closed_form(kind, mask):
    features = {}
    examples = np.ones_like(IDS)
    if "packed" in kind:
        features["example_ids"] = examples = EXAMPLES
    if "padding" in kind:
        features["padding_mask"] = MASK
        examples = examples * MASK
    starts = np.diff(features.get("example_ids", IDS + 1), prepend=0) != 0
    if mask != "default":
        features["global_mask"] = GLOBAL if mask == "given" else 0 * GLOBAL
    is_global = np.asarray(features.get("global_mask", starts), bool) & (examples != 0)
    layer = made()
    bias = bias_of(**features)
    outputs, scores = layer(INPUTS, bias, return_attention_scores=True)
    expected_outputs, expected_scores = closed_form(layer, examples, is_global)
    seeing = examples != 0
    assert difference(to_numpy(outputs)[seeing], expected_outputs[seeing]) < TOLERANCE
    by_query, expected = (
        to_numpy(s).transpose(0, 2, 1, 3)[seeing] for s in (scores, expected_scores)
    )
    assert difference(by_query, expected) < TOLERANCE
    assert (by_query[expected == 0] == 0).all()
    assert np.isfinite(to_numpy(outputs)).all()
    assert difference(layer(INPUTS, bias), outputs) == 0


def test_compiled_with_any_length():
    """The layer fills blocks itself: no length of the rows changes the outputs of a token."""
    layer = made()

    def outputs(length):
        mask = MASK[:, :length]
        features = {"padding_mask": mask, "global_mask": GLOBAL[:, :length]}

        def run(inputs):
            bias = GlobalAttentionBias(WINDOW, SLOTS)(IDS[:, :length], **features)
            return layer(inputs, bias)

        return to_numpy(compiled(run)(INPUTS[:, :length]))

    padded = [outputs(length)[1, :6] for length in (6, 7, LENGTH)]  # row 1 has 6 tokens
    assert max(difference(states, padded[0]) for states in padded[1:]) < TOLERANCE


def test_more_global_tokens_than_slots_are_not_a_number():
    mask = np.zeros_like(IDS)
    mask[0, : SLOTS + 1] = mask[1, :SLOTS] = 1
    outputs = to_numpy(made()(INPUTS, bias_of(global_mask=mask)))
    assert np.isnan(outputs[0]).any(-1)[SLOTS + 1 :].all()
    assert np.isfinite(outputs[1:]).all()


def test_no_gradient_of_padding():
    layer = made()
    bias = bias_of(padding_mask=MASK, global_mask=GLOBAL)
    real = MASK[..., None].astype("float32")
    slope = to_numpy(gradient(lambda x: ops.sum((layer(x, bias) * real) ** 2), INPUTS))
    assert (slope[MASK == 0] == 0).all() and (slope[MASK == 1] != 0).all()


@pytest.mark.parametrize("dtype", ["mixed_bfloat16", "mixed_float16"])
def test_mixed_precision(dtype):
    layer, half = made(), made(dtype=dtype)
    half.set_weights(layer.get_weights())
    features = {"padding_mask": MASK, "global_mask": GLOBAL}
    outputs, scores = half(
        INPUTS,
        GlobalAttentionBias(WINDOW, SLOTS, dtype=dtype)(IDS, **features),
        return_attention_scores=True,
    )
    assert np.isfinite(to_numpy(outputs).astype("float32")).all()
    real = MASK == 1
    sums = to_numpy(scores).sum(-1).transpose(0, 2, 1)[real]
    assert difference(sums, np.ones(sums.shape)) < LENGTH * 2.0**-23
    expected = to_numpy(layer(INPUTS, bias_of(**features)))[real]
    # 8 significant bits, through four products of numbers up to 16.
    assert difference(to_numpy(outputs).astype("float32")[real], expected) < 4 * 16 * 2.0**-8


def test_block_with_lora_and_frozen_parts():
    block = TransformerBlock(
        HEADS, 20, window=WINDOW, has_global_tokens=True, adapter=Adapter("lora"), trainable=False
    )
    outputs = block(INPUTS, bias_of())
    assert outputs.shape == INPUTS.shape and not block.trainable_variables
    parts = [layer.name for layer in block.dense_layers() if isinstance(layer, LoRADense)]
    assert {"query_global", "key_global", "value_global"} < set(parts) and len(parts) == 9
    assert TransformerBlock.from_config(block.get_config()).has_global_tokens


def test_recomputation_changes_no_gradient():
    block = TransformerBlock(HEADS, 20, window=WINDOW, has_global_tokens=True, dropout=0.3)
    bias = bias_of(global_mask=GLOBAL)
    block.build(INPUTS.shape)
    randomize(block)

    def slope(on):
        def total(inputs):
            return ops.sum(block(inputs, bias, training=True) ** 2)

        with recomputation(on), dropout_seed(np.array([1, 2], "int32")):
            return gradient(total, INPUTS)

    assert difference(slope(True), slope(False)) < 1e-5


@pytest.mark.filterwarnings("error")
def test_an_encoder_is_built_without_warnings():
    helpers.encoder(
        architecture="longformer", num_segments=1, window=2, max_global_tokens=8, position_offset=1
    )
