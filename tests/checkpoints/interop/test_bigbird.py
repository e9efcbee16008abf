"""BigBird beside `transformers` in float64: block-sparse rows, random blocks, and its files."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf
import torch
import transformers

from keras_bert_impl.checkpoints.config import Adapter, EncoderConfig
from keras_bert_impl.checkpoints.interop import encoder_config, huggingface_config
from keras_bert_impl.utils.errors import InputError
from tests.checkpoints.interop.parity import (
    batch,
    original_features,
    original_outputs,
    padded_differences,
    saved_pair,
)
from tests.helpers import difference, to_numpy

TOLERANCE = 1e-5  # see test_parity.py
BASE = EncoderConfig.named("bigbird-roberta-base")
TINY = {
    "vocab_size": 53,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 128,
    "block_size": 4,
    "num_random_blocks": 2,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "sep_token_id": 2,
}
LONGEST_FULL = 36  # (5 + 2 * num_random_blocks) * block_size


def pair(directory, **settings):
    return saved_pair(transformers.BigBirdModel, TINY | settings, directory)


def features_of(*lengths):
    features = batch(TINY["vocab_size"], lengths)
    real = features["padding_mask"] == 1
    features["token_ids"] = np.where(real, np.maximum(features["token_ids"], 5), 0).astype("int32")
    return features


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return pair(tmp_path_factory.mktemp("theirs"))


@pytest.mark.parametrize(
    "lengths", [(LONGEST_FULL, 20), (37, 5, 36), (60, 60), (63, 31), (128, 101)], ids=str
)
def test_inference(tiny, lengths):
    """The longest row with full attention, and rows that do and do not fill their last block."""
    model, encoder = tiny
    features = features_of(*lengths)
    received = to_numpy(encoder.with_outputs("hidden_states", "attention_scores")(features))
    differences = padded_differences(received, original_outputs(model, features), features)
    assert len(differences["attention_scores"]) == 3
    assert max(map(max, differences.values())) < TOLERANCE


def training_difference(model, encoder, features):
    with torch.no_grad():
        arguments = original_features(model, features)
        expected = model.double().train()(**arguments).last_hidden_state.numpy()
    model.eval()
    received = to_numpy(encoder(features, training=True)["sequence_output"])
    real = features["padding_mask"] == 1
    return difference(received[real], expected[real])


@pytest.mark.parametrize("length", [37, 60, 127])
def test_random_blocks_of_training(tiny, length):
    """Every layer and head draws the blocks of `transformers`, whose seed is the layer's index."""
    model, encoder = tiny
    features = features_of(length, length // 2)
    assert training_difference(model, encoder, features) < TOLERANCE
    received = encoder(features, training=True)["sequence_output"]
    assert difference(received, encoder(features)["sequence_output"]) > 0.01


@pytest.mark.parametrize(
    ("length", "max_length", "block_size"),
    [(1024, 1024, 64), (1024, 1500, 64), (1024, 4096, 64), (3072, 4096, 64), (1100, 1111, 48)],
    ids=str,
)
def test_random_blocks_of_published_lengths(tmp_path, length, max_length, block_size):
    """At 1,024, 3,072 and 4,096 tokens, the blocks depend on the maximum length."""
    settings = {"max_position_embeddings": max_length, "num_random_blocks": 3}
    model, encoder = pair(tmp_path, block_size=block_size, num_hidden_layers=2, **settings)
    assert training_difference(model, encoder, features_of(length)) < TOLERANCE


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("jit_compile", [False, True])
def test_graph_of_any_length(tiny, training, jit_compile):
    """A graph that does not know the length chooses full or block-sparse attention itself."""
    _, encoder = tiny

    def run(token_ids, padding_mask):
        features = {"token_ids": token_ids, "padding_mask": padding_mask}
        return encoder(features, training=training)["sequence_output"]

    ids = tf.TensorSpec((None, None), "int32")
    graph = tf.function(run, [ids, ids], jit_compile=jit_compile)
    for lengths in ((3, 2), (37, 20), (63, 60)):
        features = features_of(*lengths)
        real = features["padding_mask"] == 1
        inputs = features["token_ids"], features["padding_mask"]
        assert difference(graph(*inputs)[real], run(*inputs)[real]) < TOLERANCE


def test_saved_encoder(tiny, tmp_path):
    _, encoder = tiny
    encoder.save(tmp_path / "encoder.keras")
    again = keras.saving.load_model(tmp_path / "encoder.keras")
    features = features_of(60, 13)
    for training in (False, True):
        expected = encoder(features, training=training)["sequence_output"]
        assert difference(again(features, training=training)["sequence_output"], expected) == 0


def test_packed_rows_attend_within_examples(tiny):
    _, encoder = tiny
    ids = features_of(60)["token_ids"]
    numbers = np.repeat(np.int32([[1, 2, 0]]), [25, 30, 5], axis=1)
    outputs = to_numpy(encoder({"token_ids": ids, "example_ids": numbers})["sequence_output"])
    changed = ids.copy()
    changed[numbers == 1] = 7
    again = to_numpy(encoder({"token_ids": changed, "example_ids": numbers})["sequence_output"])
    assert difference(outputs[numbers == 2], again[numbers == 2]) == 0
    assert difference(outputs[numbers == 1], again[numbers == 1]) > 0.1


def test_has_no_attention_logits(tiny):
    with pytest.raises(InputError, match="attention_logits are not available"):
        tiny[1].with_outputs("attention_logits")


# === Files ===


@pytest.mark.parametrize("kind", ["block_sparse", "original_full"])
def test_both_ways(kind, tmp_path):
    model, encoder = pair(tmp_path / "theirs", attention_type=kind)
    assert encoder.config.block_size == (4 if kind == "block_sparse" else None)
    encoder.save_pretrained(tmp_path / "ours")
    again = transformers.AutoModel.from_pretrained(tmp_path / "ours")
    assert again.config.attention_type == kind and again.config.num_random_blocks == 2
    theirs, ours = model.state_dict(), again.state_dict()
    assert theirs.keys() == ours.keys()
    assert all(torch.equal(theirs[name], ours[name]) for name in theirs)


def test_published_configuration():
    written = huggingface_config(BASE)
    theirs = transformers.BigBirdConfig(**written).to_dict()
    defaults = transformers.BigBirdConfig().to_dict()
    assert {name: value for name, value in theirs.items() if value != defaults.get(name)} == {
        "architectures": ["BigBirdModel"],
        "position_embedding_type": "absolute",
    }
    assert encoder_config(defaults) == BASE


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("use_bias", False),
        ("rescale_embeddings", True),
        ("attention_type", "sparse"),
        ("block_size", 0),
    ],
    ids=str,
)
def test_rejects_settings(key, value):
    with pytest.raises(InputError, match=f"config.json: {key}"):
        encoder_config(huggingface_config(BASE) | {key: value})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"architecture": "bert"}, "block_size requires the architecture big_bird"),
        (
            {"window": 4, "global_every": 2},
            "block_size requires the architecture big_bird, without",
        ),
        ({"causal": True}, "block_size cannot be causal"),
        ({"adapter": Adapter("prefix")}, "block_size does not support prefix adapters"),
    ],
    ids=str,
)
def test_rejects_configurations(fields, message):
    with pytest.raises(InputError, match=message):
        dataclasses.replace(BASE, **fields)
