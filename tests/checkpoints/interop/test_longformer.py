"""Longformer beside `transformers` in float64: long rows, global tokens, and its files."""

import dataclasses

import keras
import numpy as np
import pytest
import torch
import transformers

from keras_bert_impl.checkpoints.config import Adapter, EncoderConfig
from keras_bert_impl.checkpoints.interop import encoder_config, huggingface_config
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.utils.errors import InputError
from tests.checkpoints.interop.parity import batch, original_outputs, padded_differences, saved_pair
from tests.helpers import difference, to_numpy

TOLERANCE = 1e-5  # see test_parity.py
BASE = EncoderConfig.named("longformer-base-4096")
TINY = {
    "vocab_size": 53,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 1026,
    "type_vocab_size": 1,
    "layer_norm_eps": 1e-5,
    "attention_window": 8,
}


def pair(directory, **settings):
    return saved_pair(transformers.LongformerModel, TINY | settings, directory)


def features_of(lengths, share):
    """Features of padded rows in which a random `share` of the tokens is global."""
    features = batch(TINY["vocab_size"], lengths, 1)
    real = features["padding_mask"] == 1
    token_ids = np.maximum(features["token_ids"], 5)
    features["token_ids"] = np.where(real, token_ids, 1).astype("int32")
    drawn = np.random.default_rng(1).random(real.shape) < share
    return features | {"global_mask": (drawn & real).astype("int32")}


def state_differences(model, encoder, features):
    """The largest difference of each hidden state at real tokens."""
    inputs = {name: torch.tensor(values).long() for name, values in features.items()}
    with torch.no_grad():
        expected = model.double()(
            inputs["token_ids"],
            inputs["padding_mask"],
            inputs["global_mask"],
            output_hidden_states=True,
        ).hidden_states
    received = to_numpy(encoder.with_outputs("hidden_states")(features)["hidden_states"])
    real = features["padding_mask"] == 1
    return [difference(a[real], b.numpy()[real]) for a, b in zip(received, expected)]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return pair(tmp_path_factory.mktemp("theirs"))


@pytest.mark.parametrize(
    ("lengths", "share"), [([45, 30, 7], 0.15), ([16, 3], 0.0), ([37, 5], 1.0)], ids=str
)
def test_global_tokens(tiny, lengths, share):
    """Lengths that are no multiple of the window; some tokens, none, and all are global."""
    model, encoder = tiny
    features = features_of(lengths, share)
    received = to_numpy(encoder.with_outputs("hidden_states", "attention_scores")(features))
    differences = padded_differences(received, original_outputs(model, features), features)
    assert max(map(max, differences.values())) < TOLERANCE


def test_long_rows(tiny):
    model, encoder = tiny
    features = features_of([1024, 1001, 514], 0.05)
    assert features["global_mask"].sum(1).max() > 30
    assert max(state_differences(model, encoder, features)) < TOLERANCE


@pytest.mark.slow
def test_published_length_and_window(tmp_path):
    settings = {"max_position_embeddings": 4098, "attention_window": 512}
    model, encoder = pair(tmp_path, **settings)
    assert (encoder.config.max_length, encoder.config.window) == (4096, 256)
    differences = state_differences(model, encoder, features_of([4096, 3001], 0.02))
    assert max(differences) < TOLERANCE


def test_packed_rows_equal_separate_ones(tiny):
    """By default, the first token of each packed example is global."""
    _, encoder = tiny
    lengths = [20, 11, 14]
    features = features_of(lengths, 0.0)
    del features["global_mask"]
    separate = to_numpy(encoder(features)["sequence_output"])
    real = features["padding_mask"] == 1
    number = np.repeat(np.arange(1, 4, dtype="int32"), lengths)[None]
    place = np.concatenate([np.arange(n, dtype="int32") for n in lengths])[None]
    packed = {
        "token_ids": features["token_ids"][real][None],
        "example_ids": number,
        "position_ids": place,
    }
    received = to_numpy(encoder(packed)["sequence_output"])[0]
    assert difference(received, separate[real]) < TOLERANCE


def test_saved_encoder(tiny, tmp_path):
    _, encoder = tiny
    encoder.save(tmp_path / "encoder.keras")
    again = keras.saving.load_model(tmp_path / "encoder.keras")
    features = features_of([20, 13], 0.2)
    expected = encoder(features)["sequence_output"]
    assert difference(again(features)["sequence_output"], expected) == 0


def test_default_is_the_first_token(tiny):
    _, encoder = tiny
    features = features_of([20, 13], 0.0)
    features["global_mask"][:, 0] = 1
    output = encoder(features)["sequence_output"]
    del features["global_mask"]
    assert difference(encoder(features)["sequence_output"], output) == 0


def test_rejects_masks(tiny):
    _, encoder = tiny
    features = features_of([200, 150], 1.0)
    with pytest.raises(InputError, match="max_global_tokens=128 tokens in a row. Received: 200"):
        encoder(features)
    bert = Encoder(EncoderConfig(53, 16, 1, 2, 32))
    with pytest.raises(InputError, match="a bert encoder has no global tokens"):
        bert({name: features[name] for name in ("token_ids", "global_mask")})
    with pytest.raises(InputError, match="attention_logits are not available"):
        encoder.with_outputs("attention_logits")


# === Files ===


def test_transformers_reads_ours():
    config = dataclasses.replace(BASE, max_global_tokens=200)
    written = huggingface_config(config)
    theirs = transformers.LongformerConfig(**written)
    assert theirs.attention_window == [512] * 12
    assert (theirs.max_position_embeddings, theirs.pad_token_id) == (4098, 1)
    assert encoder_config(theirs.to_dict()) == config  # `transformers` keeps our key


@pytest.mark.parametrize("window", [512, [512] * 12], ids=["number", "list"])
def test_forms_of_the_window(window):
    written = huggingface_config(BASE) | {"attention_window": window}
    del written["max_global_tokens"]
    assert encoder_config(written) == BASE


@pytest.mark.parametrize(
    "window", [[512] * 11 + [256], [512] * 11, [511] * 12, [], 0, "all"], ids=str
)
def test_rejects_windows(window):
    written = huggingface_config(BASE) | {"attention_window": window}
    with pytest.raises(InputError, match="config.json: .*attention_window"):
        encoder_config(written)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"max_global_tokens": None}, "max_global_tokens is required for a longformer"),
        ({"architecture": "roberta"}, "not allowed for other architectures"),
        ({"window": None}, "a longformer requires window"),
        ({"global_every": 2}, "a longformer requires window"),
        ({"causal": True}, "a longformer cannot be causal"),
        ({"adapter": Adapter("prefix")}, "a longformer does not support prefix adapters"),
        ({"adapter": Adapter("prompt")}, "a longformer does not support prompt adapters"),
    ],
    ids=str,
)
def test_rejects_configurations(fields, message):
    with pytest.raises(InputError, match=message):
        dataclasses.replace(BASE, **fields)
