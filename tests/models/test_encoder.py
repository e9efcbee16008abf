import dataclasses
import warnings

import keras
import numpy as np
import pytest

from keras_bert_impl.checkpoints.config import EncoderConfig
from keras_bert_impl.layers import ClassificationHead, Dropout
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.utils.errors import InputError
from tests.helpers import MODERN, TINY, compiled, difference, random_features, randomize, to_numpy

# Bound on the effect of another summation order in float32: some 20 successive sums of at most 24
# products of numbers up to about 4.
REORDERED = 20 * 24 * 4 * 2.0**-24


@pytest.fixture(scope="module")
def encoder():
    model = Encoder(TINY)
    randomize(model)
    return model


@pytest.fixture(scope="module")
def features():
    return random_features(TINY, [9, 5, 1])


@pytest.mark.parametrize("use_pooler", [True, False])
@pytest.mark.parametrize("num_layers", [1, 3])
def test_number_of_parameters(num_layers, use_pooler):
    config = dataclasses.replace(TINY, num_layers=num_layers, use_pooler=use_pooler)
    assert Encoder(config).count_params() == config.num_parameters()


def test_smallest_published_model():
    encoder = Encoder(EncoderConfig.named("bert_uncased_L-2_H-128_A-2"))
    assert encoder.count_params() == 4_385_920
    # The table is initialized from a normal distribution with standard deviation 0.02, truncated at
    # two of them, which leaves 0.8796 of it. 30522 * 128 draws estimate it to 1 in 2,800.
    table = to_numpy(encoder.embeddings.token_embeddings.value)
    assert abs(table.std() / (0.02 * 0.8796) - 1) < 5 / np.sqrt(2 * table.size)
    assert np.abs(table).max() <= 0.04


def test_shapes_and_dtypes(encoder, features):
    outputs = encoder(features)
    assert {name: tuple(value.shape) for name, value in outputs.items()} == {
        "sequence_output": (3, 9, 16),
        "pooled_output": (3, 16),
    }
    assert {str(to_numpy(value).dtype) for value in outputs.values()} == {"float32"}


def test_without_pooler_the_first_state_is_pooled(features):
    encoder = Encoder(dataclasses.replace(TINY, use_pooler=False))
    outputs = encoder(features)
    assert difference(outputs["pooled_output"], outputs["sequence_output"][:, 0]) == 0


def test_defaults_equal_explicit_inputs(encoder):
    ids = random_features(TINY, [7, 7])["token_ids"]
    explicit = {
        "token_ids": ids,
        "segment_ids": np.zeros_like(ids),
        "padding_mask": np.ones_like(ids),
        "position_ids": np.tile(np.arange(7, dtype="int32"), (2, 1)),
        "example_ids": np.ones_like(ids),
    }
    expected = encoder(explicit)["sequence_output"]
    for inputs in (ids, ids.tolist(), {"token_ids": ids}, {"token_ids": ids, "segment_ids": None}):
        assert difference(encoder(inputs)["sequence_output"], expected) < REORDERED


@pytest.mark.parametrize("dtype", ["bool", "int64", "uint8"])
def test_masks_may_have_any_integer_dtype(encoder, features, dtype):
    mask = features["padding_mask"].astype(dtype)
    received = encoder(features | {"padding_mask": mask})["sequence_output"]
    assert difference(received, encoder(features)["sequence_output"]) == 0


def test_padding_changes_nothing(encoder, features):
    padded = encoder(features)["sequence_output"]
    noisy = dict(features, token_ids=np.where(features["padding_mask"], features["token_ids"], 7))
    assert difference(encoder(noisy)["sequence_output"][1, :5], padded[1, :5]) == 0
    alone = {name: value[1:2, :5] for name, value in features.items()}
    assert difference(encoder(alone)["sequence_output"][0], padded[1, :5]) < REORDERED


def test_every_input_matters(encoder, features):
    expected = encoder(features)["sequence_output"]
    for change in (
        {"token_ids": (features["token_ids"] + 1) % TINY.vocabulary_size},
        {"segment_ids": (features["segment_ids"] + 1) % TINY.num_segments},
        {"padding_mask": None},
        {"position_ids": np.full_like(features["token_ids"], 3)},
        {"example_ids": np.tile(np.repeat([1, 2, 3], 3), (3, 1)).astype("int32")},
    ):
        assert difference(encoder(features | change)["sequence_output"], expected) > 1e-3


@pytest.mark.parametrize("lengths", [[12], [3, 4, 5], [1] * 12, [5, 4], [2, 9, 1]])
def test_packed_equals_separate(encoder, lengths):
    assert_packed_equals_separate(encoder, lengths)


def assert_packed_equals_separate(encoder, lengths):
    # One row of 12 tokens holds all examples; the rest is padding.
    width = TINY.max_length
    separate = [random_features(encoder.config, [n], seed=i) for i, n in enumerate(lengths)]
    packed = {
        "token_ids": [int(i) for row in separate for i in row["token_ids"][0]],
        "segment_ids": [int(i) for row in separate for i in row["segment_ids"][0]],
        "position_ids": [i for n in lengths for i in range(n)],
        "example_ids": [i + 1 for i, n in enumerate(lengths) for _ in range(n)],
    }
    packed = {
        name: np.array([values + [0] * (width - len(values))], "int32")
        for name, values in packed.items()
    }
    model = encoder.with_outputs("hidden_states")
    received = model(packed)["hidden_states"]
    ends = np.cumsum(lengths)
    for row, end in zip(separate, ends):
        expected = model(row)["hidden_states"]
        length = row["token_ids"].shape[1]
        for states, separate_states in zip(received, expected):
            assert difference(states[0, end - length : end], separate_states[0]) < REORDERED
    assert np.isfinite(to_numpy(received[-1])).all()


def test_with_outputs(encoder, features):
    outputs = encoder.with_outputs("hidden_states", "attention_scores")(features)
    assert set(outputs) == {"sequence_output", "pooled_output", "hidden_states", "attention_scores"}
    assert [tuple(x.shape) for x in outputs["hidden_states"]] == [(3, 9, 16)] * 3
    assert [tuple(x.shape) for x in outputs["attention_scores"]] == [(3, 4, 9, 9)] * 2
    expected = encoder(features)
    for name in expected:
        assert difference(outputs[name], expected[name]) < REORDERED
    # In layer order: embeddings first, the encoder's output last.
    states = outputs["hidden_states"]
    embedded = encoder.embeddings(features["token_ids"], features["segment_ids"])
    assert difference(states[0], embedded) < REORDERED
    assert difference(states[-1], outputs["sequence_output"]) == 0
    for scores in outputs["attention_scores"]:
        # Each query's weights sum to 1, and padding has weight 0.
        assert difference(to_numpy(scores).sum(-1), np.ones((3, 4, 9))) < 9 * 2.0**-24
        assert (to_numpy(scores)[1, :, :, 5:] == 0).all()


def test_attention_logits_are_the_inputs_of_the_softmax(encoder, features):
    logits = encoder.with_outputs("attention_logits")(features)["attention_logits"]
    scores = encoder.with_outputs("attention_scores")(features)["attention_scores"]
    hidden = np.where(to_numpy(features["padding_mask"]), 0.0, -np.inf)[:, None, None]
    for layer, expected in zip(logits, scores, strict=True):
        exponents = np.exp(to_numpy(layer).astype("float64") + hidden)
        assert difference(exponents / exponents.sum(-1, keepdims=True), expected) < 9 * 2.0**-24
        assert np.isfinite(to_numpy(layer)).all()  # padding included


def test_a_model_around_with_outputs_is_saved(encoder, features, tmp_path):
    inputs = {n: keras.Input((None,), dtype="int32", name=n) for n in ("token_ids", "padding_mask")}
    detailed = encoder.with_outputs("hidden_states")(inputs)["hidden_states"]
    both = keras.layers.Add()([detailed[1], encoder(inputs)["sequence_output"]])
    model = keras.Model(inputs, both)
    x = {name: features[name] for name in inputs}
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert len(loaded.weights) == len(model.weights) == len(encoder.weights)
    np.testing.assert_array_equal(loaded.predict(x), model.predict(x))


@pytest.mark.parametrize("segment_ids", [None, np.zeros((2, 7), "int32")])
def test_a_model_of_a_layers_output_takes_the_features_of_a_tokenizer(encoder, segment_ids):
    model = keras.Model(encoder.input, encoder.get_layer("layer_0").output)
    ids = np.arange(14, dtype="int32").reshape(2, 7) + 1
    batch = {"token_ids": ids, "segment_ids": segment_ids, "padding_mask": np.ones_like(ids)}
    assert batch.keys() == encoder.input.keys()
    states = encoder.with_outputs("hidden_states")(batch)["hidden_states"]
    np.testing.assert_array_equal(to_numpy(model(batch)), to_numpy(states[1]))


@pytest.mark.parametrize("names", [("token_ids",), ("token_ids", "example_ids")])
def test_a_direct_call_in_training_has_dropout(encoder, names):
    ids = dict.fromkeys(names, np.arange(1, 8, dtype="int32")[None])
    trained, inferred = (encoder.call(ids, training=is_training) for is_training in (True, False))
    states = encoder(ids, training=False)["sequence_output"]
    np.testing.assert_array_equal(to_numpy(inferred["sequence_output"]), to_numpy(states))
    assert difference(trained["sequence_output"], states) > 1e-3


def test_a_call_with_padding_and_without_a_mask_warns(encoder):
    ids = np.array([[5, 6, encoder.config.pad_token_id]])
    with pytest.warns(UserWarning, match="Pass the dict that tokenizer"):
        encoder(ids)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        encoder({"token_ids": ids, "padding_mask": ids != encoder.config.pad_token_id})
        encoder(ids[:, :2])


def test_two_encoders_in_one_model_have_two_names():
    inputs = {"token_ids": keras.Input((None,), dtype="int32", name="token_ids")}
    vectors = [Encoder(TINY)(inputs)["pooled_output"] for _ in range(2)]
    model = keras.Model(inputs, keras.layers.Add()(vectors))
    assert len({layer.name for layer in model.layers}) == len(model.layers)


def test_with_outputs_predicts_and_shares_weights(encoder, features):
    model = encoder.with_outputs("hidden_states")
    predicted = model.predict(features, verbose=0)
    assert "attention_scores" not in predicted
    expected = model(features)["hidden_states"]
    assert difference(predicted["hidden_states"][1], expected[1]) < REORDERED
    assert model.count_params() == encoder.count_params()


@pytest.mark.parametrize(
    "names",
    [(), ("logits",), ("hidden_states", "attentions"), ("attention_scores", "attention_logits")],
)
def test_with_outputs_rejects_unknown_names(encoder, names):
    with pytest.raises(ValueError, match='may be "hidden_states" and one of "attention_scores"'):
        encoder.with_outputs(*names)


ONE_ROW = {"token_ids": np.zeros((1, 4), "int32")}


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"token_ids": np.full((1, 4), 40)}, r"token_ids must be in \[0, 40\). Received: 40"),
        ({"token_ids": np.full((1, 4), -1)}, r"token_ids must be in \[0, 40\). Received: -1"),
        ({"segment_ids": np.full((1, 4), 3)}, r"segment_ids must be in \[0, 3\). Received: 3"),
        ({"token_ids": np.array([[1, 2, 2**33 + 5]])}, r"Received: 8589934597 at \[0, 2\]"),
        ({"position_ids": np.full((1, 4), 12)}, r"position_ids must be in \[0, 12\). Received: 12"),
        ({"token_ids": np.zeros((1, 13), int)}, "up to max_length=12 long. Received: length=13"),
        ({"token_ids": np.zeros(4, int)}, r"token_ids must be \[batch, length\].*shape=\(4,\)"),
        ({"token_ids": np.zeros((1, 4, 1), int)}, r"token_ids must be .*shape=\(1, 4, 1\)"),
        ({"token_ids": np.zeros((1, 4))}, "token_ids must be integers. Received: dtype=float"),
        ({"padding_mask": np.zeros((1, 4), "float32")}, "padding_mask must be integers.*float32"),
        ({"segment_ids": np.zeros((1, 3), int)}, r"shape of token_ids, \(1, 4\).*\(1, 3\)"),
        ({"padding_mask": np.zeros((2, 4), int)}, r"padding_mask must have the shape.*\(2, 4\)"),
        ({"token_ids": None}, r"must have token_ids and may have segment_ids"),
        ({"input_ids": np.zeros((1, 4), int)}, r"Received: \['input_ids', 'token_ids'\]"),
    ],
)
def test_bad_inputs(encoder, bad, message):
    for model in (encoder, encoder.with_outputs("hidden_states")):
        with pytest.raises(ValueError, match=message):
            model(ONE_ROW | bad)


def test_bad_symbols(encoder):
    with pytest.raises(ValueError, match="up to max_length=12 long. Received: length=13"):
        encoder({"token_ids": keras.Input((13,), dtype="int32")})
    with pytest.raises(ValueError, match="token_ids must be integers. Received: dtype=float32"):
        encoder({"token_ids": keras.Input((4,))})


def test_saves_and_loads_as_keras_file(encoder, features, tmp_path):
    encoder.save(tmp_path / "encoder.keras")
    loaded = keras.saving.load_model(tmp_path / "encoder.keras")
    assert loaded.config == TINY
    expected = encoder(features)
    for name, value in loaded(features).items():
        assert difference(value, expected[name]) == 0


def test_config_round_trip():
    encoder = Encoder(TINY, dtype="mixed_bfloat16", name="reader", trainable=False)
    copy = Encoder.from_config(encoder.get_config())
    assert (copy.config, copy.name, copy.trainable) == (TINY, "reader", False)
    assert copy.dtype_policy.name == "mixed_bfloat16"
    assert copy.blocks[0].attention.query.dtype_policy.name == "mixed_bfloat16"


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
@pytest.mark.parametrize("length", [None, 6])
def test_symbols_announce_shapes_and_dtypes(length, dtype):
    encoder = Encoder(TINY, dtype=dtype)
    symbols = encoder({"token_ids": keras.Input((length,), dtype="int32")})
    assert symbols["sequence_output"].shape == (None, length, 16)
    assert symbols["pooled_output"].shape == (None, 16)
    for name, value in encoder(ONE_ROW).items():
        assert symbols[name].dtype == keras.backend.standardize_dtype(value.dtype)


def test_functional_model_trains(tmp_path):
    encoder = Encoder(dataclasses.replace(TINY, num_layers=1))
    names = ("token_ids", "padding_mask")
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in names}
    symbols = encoder(inputs)
    model = keras.Model(inputs, ClassificationHead(2)(symbols["pooled_output"]))
    data = random_features(TINY, [6] * 8)
    data = {name: data[name] for name in names}
    # One word decides the label, which a few steps can learn.
    labels = np.arange(8) % 2
    data["token_ids"][:, 1] = np.where(labels, 5, 6)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.01), loss)
    history = model.fit(data, labels, batch_size=8, epochs=15, verbose=0).history["loss"]
    assert history[-1] < history[0] / 2
    assert (model.predict(data, verbose=0).argmax(-1) == labels).all()
    model.save(tmp_path / "classifier.keras")
    loaded = keras.saving.load_model(tmp_path / "classifier.keras")
    received = loaded.predict(data, verbose=0)
    assert difference(received, model.predict(data, verbose=0)) < REORDERED


def test_predict_and_dataset_equal_a_call(encoder, features):
    expected = encoder(features)["pooled_output"]
    predicted = encoder.predict(features, batch_size=2, verbose=0)["pooled_output"]
    assert difference(predicted, expected) < REORDERED


def test_bfloat16_is_close_to_float32(encoder, features):
    assert_bfloat16_is_close_to_float32(encoder, features)


def assert_bfloat16_is_close_to_float32(encoder, features):
    half = Encoder(encoder.config, dtype="mixed_bfloat16")
    half.set_weights(encoder.get_weights())
    half_outputs, outputs = half(features), encoder(features)
    dtypes = {"sequence_output": "float32", "pooled_output": "bfloat16"}
    for name, value in half_outputs.items():
        assert keras.backend.standardize_dtype(value.dtype) == dtypes[name]
        # On the path through each layer, some 12 successive roundings to 8 bits (2**-9 of a number
        # up to 4) add up at worst. Each normalization rescales them along with its outputs.
        error = difference(value, outputs[name])
        assert 0 < error < encoder.config.num_layers * 12 * 4 * 2.0**-9
    assert {weight.dtype for weight in half.weights} == {"float32"}


@pytest.mark.parametrize("embedding_dim", [None, 8])
def test_hidden_states_have_the_symbolic_dtype(features, embedding_dim):
    config = dataclasses.replace(TINY, embedding_dim=embedding_dim)
    model = Encoder(config, dtype="mixed_bfloat16").with_outputs("hidden_states")
    symbols = {name: keras.Input((None,), dtype="int32") for name in features}
    announced = model.compute_output_spec(symbols)["hidden_states"]
    dtypes = [keras.backend.standardize_dtype(s.dtype) for s in model(features)["hidden_states"]]
    assert dtypes == [symbol.dtype for symbol in announced] == ["float32"] * len(dtypes)


def test_dropout_paths_are_unique(encoder):
    paths = [layer.path for layer in encoder._flatten_layers() if isinstance(layer, Dropout)]
    assert len(paths) == 1 + 3 * TINY.num_layers == len(set(paths))


def test_dropout_applies_only_in_training(encoder, features):
    first = encoder(features, training=True)["sequence_output"]
    assert difference(first, encoder(features, training=True)["sequence_output"]) > 0.01
    once, again = (encoder(features)["sequence_output"] for _ in range(2))
    assert difference(once, again) == 0


def test_rejects_saving_to_a_file(encoder, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="file is a file. Pass the name of a directory"):
        encoder.save_pretrained(tmp_path / "file")


# === Rotary positions and local layers ===


@pytest.fixture(scope="module")
def modern():
    model = Encoder(MODERN)
    randomize(model)
    return model


def test_modern_number_of_parameters(modern):
    assert modern.count_params() == MODERN.num_parameters()
    biases = dataclasses.replace(MODERN, use_bias=True)
    assert Encoder(biases).count_params() == biases.num_parameters()


@pytest.mark.parametrize("lengths", [[12], [3, 4, 5], [2, 9, 1]])
def test_modern_packed_equals_separate(modern, lengths):
    assert_packed_equals_separate(modern, lengths)


def test_local_layers_attend_only_in_their_window(modern, features):
    scores = modern.with_outputs("attention_scores")(features)["attention_scores"]
    distance = np.abs(np.arange(9)[:, None] - np.arange(9))
    for index, weights in enumerate(to_numpy(scores)):
        visible = weights[0].min(0) > 0  # [9, 9], in the row without padding
        assert (visible == ((distance <= 2) | (index % 2 == 0))).all()


def test_modern_outputs_depend_on_relative_positions(modern, features):
    features = features | {"position_ids": np.tile(np.arange(9, dtype="int32"), (3, 1))}
    expected = modern(features)["sequence_output"]
    moved = modern(features | {"position_ids": features["position_ids"] + 3})
    assert difference(moved["sequence_output"], expected) < REORDERED
    reverse = modern(features | {"position_ids": features["position_ids"][:, ::-1]})
    assert difference(reverse["sequence_output"], expected) > 1e-3


def test_modern_saves_and_compiles(modern, features, tmp_path):
    expected = modern(features)
    modern.save(tmp_path / "encoder.keras")
    loaded = keras.saving.load_model(tmp_path / "encoder.keras")
    assert loaded.config == MODERN
    tensors = {name: keras.ops.convert_to_tensor(value) for name, value in features.items()}
    by_xla = compiled(modern)(tensors)
    for name, value in loaded(features).items():
        assert difference(value, expected[name]) == 0
        assert difference(by_xla[name], expected[name]) < REORDERED


def test_modern_in_half_precision(modern, features):
    assert_bfloat16_is_close_to_float32(modern, features)
