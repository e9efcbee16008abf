"""Adapters in an encoder: their outputs, their number of weights, and which of them learn."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.checkpoints.config import ADAPTER_KINDS, Adapter
from keras_bert_impl.layers import SelfAttention, is_added
from keras_bert_impl.layers.adapters import AdapterDense, LoRADense
from keras_bert_impl.layers.basic import ACTIVATIONS
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.utils.errors import InputError
from tests.helpers import MODERN, TINY, difference, random_features, randomize, to_numpy

SHARED = dataclasses.replace(TINY, num_layer_groups=1)
SIZE = 3
HIDDEN, INNER = TINY.hidden_dim, TINY.intermediate_dim


def encoder_of(config, kind, **settings):
    keras.utils.set_random_seed(0)
    return Encoder(dataclasses.replace(config, adapter=Adapter(kind, SIZE, **settings)))


def features_of(config):
    features = random_features(config, [7, 11])
    return features if config.num_segments else features | {"segment_ids": None}


@pytest.mark.parametrize(
    "kind, a_block, once",
    [
        ("lora", SIZE * (4 * (HIDDEN + HIDDEN) + 2 * (HIDDEN + INNER)), 0),
        ("houlsby", 2 * (2 * HIDDEN * SIZE + SIZE + HIDDEN), 0),
        ("pfeiffer", 2 * HIDDEN * SIZE + SIZE + HIDDEN, 0),
        ("prefix", 2 * SIZE * HIDDEN, 0),
        ("prompt", 0, SIZE * HIDDEN),
    ],
)
@pytest.mark.on_tensorflow
def test_only_added_weights_and_the_pooler_are_trained(kind, a_block, once):
    pooler = HIDDEN * HIDDEN + HIDDEN
    for config, blocks in ((SHARED, 1), (TINY, 2)):
        encoder = encoder_of(config, kind)
        trainable = sum(np.prod(w.shape) for w in encoder.trainable_weights)
        assert trainable == blocks * a_block + once + pooler
        frozen = sum(np.prod(w.shape) for w in encoder.non_trainable_weights)
        assert frozen == config.num_parameters() - pooler
    randomize(encoder, scale=0.5)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(encoder(features_of(TINY))["pooled_output"] ** 2)
    learned = tape.gradient(loss, [w.value for w in encoder.trainable_weights])
    for weight, gradient in zip(encoder.trainable_weights, learned):
        assert np.abs(gradient).max() > 0, weight.path


def test_lora_is_on_the_gates_of_gated_blocks():
    encoder = encoder_of(MODERN, "lora")
    attention = 4 * (HIDDEN + HIDDEN)
    feed_forward = 3 * (HIDDEN + INNER)
    added = sum(np.prod(w.shape) for w in encoder.weights if is_added(w.path))
    assert added == 4 * SIZE * (attention + feed_forward)


@pytest.mark.parametrize("kind", ADAPTER_KINDS)
@pytest.mark.parametrize("config", [TINY, MODERN], ids=["bert", "modernbert"])
def test_keras_file_round_trip(config, kind, tmp_path):
    encoder = encoder_of(config, kind, dropout=0.25)
    randomize(encoder)
    features = {n: f for n, f in features_of(config).items() if f is not None}
    encoder.save(tmp_path / "encoder.keras")
    loaded = keras.saving.load_model(tmp_path / "encoder.keras")
    assert loaded.config == encoder.config
    assert [w.path for w in loaded.trainable_weights] == [w.path for w in encoder.trainable_weights]
    for name, output in encoder(features).items():
        assert output.shape[:-1] == ((2, 11) if name == "sequence_output" else (2,))
        np.testing.assert_array_equal(loaded(features)[name], output)


@pytest.mark.parametrize("kind", ADAPTER_KINDS)
def test_mixed_precision_keeps_float32_weights(kind):
    adapter = Adapter(kind, SIZE)
    encoder = Encoder(dataclasses.replace(TINY, adapter=adapter), dtype="mixed_bfloat16")
    assert {w.dtype for w in encoder.weights} == {"float32"}
    exact = Encoder(dataclasses.replace(TINY, adapter=adapter), dtype="float32")
    randomize(encoder)
    exact.set_weights(encoder.get_weights())
    outputs, expected = encoder(features_of(TINY)), exact(features_of(TINY))
    assert outputs["pooled_output"].dtype == "bfloat16"
    # Normalized outputs of up to 4 pass some twenty roundings to 8 bits.
    outputs = {name: np.asarray(output, "float32") for name, output in outputs.items()}
    assert difference(outputs["sequence_output"], expected["sequence_output"]) < 20 * 4 / 256


INPUTS = np.random.default_rng(0).normal(size=(2, 5, 6)).astype("float32")


def test_lora_equals_its_formula_and_starts_as_a_dense_layer():
    layer = LoRADense(4, rank=2, alpha=5.0, adapter_dropout=0.5, activation="tanh")
    outputs = layer(INPUTS)
    plain = np.tanh(INPUTS @ layer.kernel.numpy())
    assert difference(outputs, plain) < 1e-6  # sums of 6 products below 10, in float32
    randomize(layer, scale=0.5)
    a, b = layer.lora.a.numpy(), layer.lora.b.numpy()
    inner = INPUTS @ (layer.kernel.numpy() + 5.0 / 2 * a @ b) + layer.bias.numpy()
    assert difference(layer(INPUTS), np.tanh(inner)) < 2e-6
    merged = INPUTS @ layer.merged_kernel() + layer.bias.numpy()
    assert difference(layer(INPUTS), np.tanh(merged)) < 2e-6


def test_lora_dropout_affects_only_its_product_in_training():
    layer = LoRADense(4, rank=2, alpha=2.0, adapter_dropout=0.5)
    layer.build(INPUTS.shape)
    np.testing.assert_array_equal(layer(INPUTS, training=True), layer(INPUTS))  # B is 0
    randomize(layer)
    assert difference(layer(INPUTS, training=True), layer(INPUTS)) > 1e-3
    encoder = encoder_of(
        dataclasses.replace(TINY, dropout=0.0, attention_dropout=0.0), "lora", dropout=0.5
    )
    randomize(encoder, scale=0.5)
    features = features_of(TINY)
    trained, inferred = (encoder(features, training=t)["pooled_output"] for t in (True, False))
    assert difference(trained, inferred) > 1e-3


@pytest.mark.parametrize("activation", ["gelu", "relu"])
def test_bottleneck_equals_its_formula_and_starts_near_a_dense_layer(activation):
    layer = AdapterDense(4, width=3, adapter_activation=activation)
    outputs = to_numpy(layer(INPUTS))
    plain = INPUTS @ layer.kernel.numpy()
    # Products of two weights below 0.02, 4 * 3 of them, with outputs below 10.
    assert difference(outputs, plain) < 12 * 0.02**2 * 10
    randomize(layer, scale=0.5)
    plain = INPUTS @ layer.kernel.numpy() + layer.bias.numpy()
    down, up = layer.adapter.down, layer.adapter.up
    narrow = to_numpy(ACTIVATIONS[activation](plain @ down.kernel.numpy() + down.bias.numpy()))
    expected = plain + narrow @ up.kernel.numpy() + up.bias.numpy()
    assert difference(layer(INPUTS), expected) < 1e-5  # sums of numbers up to 20, in float32


def test_prefix_prepends_keys_and_values():
    adapter = Adapter("prefix", SIZE)
    layer = SelfAttention(2, initializer_range=0.5, adapter=adapter)
    hidden = np.random.default_rng(0).normal(size=(2, 5, 8)).astype("float32")
    mask = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])
    bias = np.where(mask, 0.0, -3e4)[:, None, None].astype("float32")
    layer.build(hidden.shape)
    randomize(layer, scale=0.5)
    outputs, weights = layer(hidden, bias, return_attention_scores=True)

    def heads(dense):  # [batch, heads, length, 4]
        return to_numpy(dense(hidden)).reshape(2, 5, 2, 4).transpose(0, 2, 1, 3)

    def in_front(prefix, tensor):
        return np.concatenate([np.stack([prefix.numpy()] * 2), tensor], axis=2)

    keys = in_front(layer.prefix.keys, heads(layer.key))
    values = in_front(layer.prefix.values, heads(layer.value))
    scores = heads(layer.query) @ keys.transpose(0, 1, 3, 2) / 2.0
    scores[..., SIZE:] += bias
    expected = np.exp(scores - scores.max(-1, keepdims=True))
    expected /= expected.sum(-1, keepdims=True)
    joined = (expected @ values).transpose(0, 2, 1, 3).reshape(2, 5, 8)
    assert difference(weights, expected[..., SIZE:]) < 1e-6
    assert difference(outputs, layer.output_dense(joined)) < 1e-5  # sums of numbers up to 20


def test_every_window_attends_to_the_prefix():
    encoder = encoder_of(MODERN, "prefix")
    features = features_of(MODERN)
    before = to_numpy(encoder(features)["sequence_output"])
    # Changes only the second block, which is local: every token must see its prefix.
    encoder.blocks[1].attention.prefix.values.assign_add(
        np.ones(encoder.blocks[1].attention.prefix.values.shape)
    )
    moved = np.abs(to_numpy(encoder(features)["sequence_output"]) - before).max(axis=-1)
    assert (moved > 1e-4).all()


@pytest.mark.parametrize("config", [TINY, MODERN], ids=["bert", "modernbert"])
def test_virtual_tokens_are_prepended_to_the_embeddings(config):
    encoder = encoder_of(config, "prompt")
    randomize(encoder)
    features = features_of(config)
    inner = encoder.with_outputs("hidden_states", "attention_scores")(features)
    embedded = encoder.embeddings(features["token_ids"], features["segment_ids"])
    assert difference(inner["hidden_states"][0], embedded) == 0
    # Compares with passing the same rows to the blocks as states.
    rows = to_numpy(embedded)
    state = np.concatenate([[encoder.virtual_tokens.vectors.numpy()] * 2, rows], axis=1)
    mask = np.pad(features["padding_mask"], [[0, 0], [SIZE, 0]], constant_values=1)
    plain = Encoder(dataclasses.replace(config, max_length=20))
    for block, layer in zip(encoder.blocks, plain.attention_biases):
        state = block(state, layer(mask, mask))
    if encoder.final_layer_norm is not None:
        state = encoder.final_layer_norm(state)
    state = to_numpy(state)[:, SIZE:]
    assert difference(inner["sequence_output"], state) < 1e-5
    scores = to_numpy(inner["attention_scores"][0])
    assert scores.shape == (2, 4, 11, 11) and scores.sum(-1).max() < 1


@pytest.mark.parametrize("config", [TINY, MODERN], ids=["bert", "modernbert"])
def test_virtual_tokens_start_as_given_tokens(config):
    encoder = encoder_of(config, "prompt")
    randomize(encoder)
    token_ids = [3, 5, 8]
    encoder.virtual_tokens.begin_as(encoder.embeddings, token_ids)
    rows = to_numpy(encoder.embeddings(np.repeat(np.array(token_ids)[:, None], SIZE, axis=1)))
    for position, vector in enumerate(encoder.virtual_tokens.vectors.numpy()):
        assert np.abs(rows[:, position] - vector).max(axis=-1).min() < 1e-6


def test_rejects_virtual_tokens_in_packed_rows():
    encoder = encoder_of(TINY, "prompt")
    ids = np.ones((1, 4), "int32")
    with pytest.raises(InputError, match="virtual tokens does not support example_ids"):
        encoder({"token_ids": ids, "example_ids": ids})


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"kind": "loha"}, "kind must be one of lora, houlsby, pfeiffer, prefix, prompt"),
        ({"kind": "lora", "size": 0}, "size must be a positive integer"),
        ({"kind": "lora", "alpha": float("nan")}, "alpha must be a positive number"),
        ({"kind": "lora", "dropout": 1.0}, r"dropout must be a number in \[0, 1\)"),
        (
            {"kind": "lora", "projections": ("pooler",)},
            "projections must be a list of values, each one of query",
        ),
    ],
)
def test_bad_settings_are_named(settings, message):
    with pytest.raises(InputError, match=message):
        Adapter(**settings)
