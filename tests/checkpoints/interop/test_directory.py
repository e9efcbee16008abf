"""Model directories: round trips, names used in checkpoints, and damaged directories."""

import json
import logging
import stat
import struct

import keras
import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy
import transformers

from keras_bert_impl.checkpoints.interop import encoder_tensors, head_tensors, open_model
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.utils.errors import InputError
from tests.checkpoints.interop.parity import CONFIG, random_original
from tests.helpers import TINY, difference, random_features, randomize, small_disk, to_numpy

KEY = "encoder.layer.1.attention.self.key.weight"
WORDS = "embeddings.word_embeddings.weight"


@pytest.fixture(scope="module")
def encoder():
    model = Encoder(TINY)
    randomize(model)
    return model


@pytest.fixture
def directory(encoder, tmp_path):
    encoder.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def tensors(directory):
    return safetensors.numpy.load_file(directory / "model.safetensors")


def write_tensors(directory, arrays):
    safetensors.numpy.save_file(arrays, directory / "model.safetensors")


def assert_bits_equal(received, expected):
    assert received.keys() == expected.keys()
    for name, array in received.items():
        assert array.dtype == expected[name].dtype
        assert array.shape == expected[name].shape
        assert array.tobytes() == expected[name].tobytes(), name


# === Round trips ===


def test_round_trip_through_transformers(directory, encoder, tmp_path):
    original = transformers.BertModel.from_pretrained(directory)
    original.save_pretrained(tmp_path / "theirs")
    loaded = Encoder.from_pretrained(tmp_path / "theirs")
    assert loaded.config == TINY
    for weight, expected in zip(loaded.weights, encoder.weights):
        assert weight.path == expected.path
        assert to_numpy(weight.value).tobytes() == to_numpy(expected.value).tobytes()


def test_round_trip_from_transformers(tmp_path):
    random_original().save_pretrained(tmp_path / "theirs")
    Encoder.from_pretrained(tmp_path / "theirs").save_pretrained(tmp_path / "ours")
    assert_bits_equal(tensors(tmp_path / "ours"), tensors(tmp_path / "theirs"))
    again = transformers.AutoModel.from_pretrained(tmp_path / "ours")
    assert type(again) is transformers.BertModel
    for key in ("hidden_act", "layer_norm_eps", "type_vocab_size", "max_position_embeddings"):
        assert getattr(again.config, key) == getattr(CONFIG, key)


def test_written_files_are_readable_by_other_users(directory):
    modes = {stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()}
    (directory / "plain").write_text("")
    assert modes == {stat.S_IMODE((directory / "plain").stat().st_mode)}


def test_names_of_all_heads():
    names = encoder_tensors(Encoder(TINY).config)
    model = transformers.BertForPreTraining(
        transformers.BertConfig(**{**CONFIG.to_dict(), "num_hidden_layers": TINY.num_layers})
    )
    theirs = {name for name, _ in model.named_parameters(remove_duplicate=True)}
    heads = head_tensors(TINY, "masked_lm") + head_tensors(TINY, "next_sentence")
    ours = {f"bert.{name.tensor}" for name in names} | {name.tensor for name in heads}
    assert ours == theirs
    with pytest.raises(ValueError, match="head must be one of masked_lm, .*Received: 'ner'"):
        head_tensors(TINY, "ner")


# === Variants of checkpoints ===


def test_prefix_and_unused_tensors(tmp_path, caplog):
    original = random_original(transformers.BertForPreTraining)
    original.save_pretrained(tmp_path)
    with caplog.at_level(logging.WARNING):
        Encoder.from_pretrained(tmp_path).save_pretrained(tmp_path / "ours")
    expected = {
        name.removeprefix("bert."): array
        for name, array in tensors(tmp_path).items()
        if name.startswith("bert.")
    }
    assert_bits_equal(tensors(tmp_path / "ours"), expected)
    (message,) = caplog.messages
    assert "not loaded: cls.predictions.bias, cls.predictions.transform.LayerNorm.bias" in message
    assert "cls.seq_relationship.weight" in message and "bert." not in message


def test_old_names_of_layer_norm(directory, encoder, caplog):
    old = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): array
        for name, array in tensors(directory).items()
    }
    assert sum("gamma" in name for name in old) == 1 + 2 * TINY.num_layers
    write_tensors(directory, {f"bert.{name}": array for name, array in old.items()})
    loaded = Encoder.from_pretrained(directory)
    assert caplog.messages == []
    features = random_features(TINY, [5])
    assert difference(loaded(features)["pooled_output"], encoder(features)["pooled_output"]) == 0


def test_without_pooler(directory, encoder, caplog):
    without = {name: x for name, x in tensors(directory).items() if "pooler" not in name}
    write_tensors(directory, without)
    loaded = Encoder.from_pretrained(directory)
    (message,) = caplog.messages
    assert "newly initialized; train before use: pooler/dense/kernel, pooler/dense/bias" in message
    kernel, bias = (to_numpy(weight.value) for weight in loaded.pooler.weights)
    # Newly initialized: a normal of deviation 0.02 truncated at two deviations, and zeros.
    assert 0 < np.abs(kernel).max() <= 0.04 and (bias == 0).all()
    assert difference(loaded.blocks[1].weights[0], encoder.blocks[1].weights[0]) == 0
    caplog.clear()
    assert Encoder.from_pretrained(directory, use_pooler=False).pooler is None
    assert caplog.messages == []


@pytest.mark.parametrize("dtype", [np.float16, np.float64, ml_dtypes.bfloat16])
def test_other_float_types(directory, encoder, dtype):
    arrays = {name: array.astype(dtype) for name, array in tensors(directory).items()}
    write_tensors(directory, arrays)
    weights = {w.path: to_numpy(w.value) for w in Encoder.from_pretrained(directory).weights}
    for name in encoder_tensors(TINY):
        expected = arrays[name.tensor].astype("float32")
        assert weights[name.variable].dtype == np.float32
        assert (weights[name.variable] == (expected.T if name.transpose else expected)).all()


def test_does_not_warn_about_position_ids(directory, caplog):
    arrays = tensors(directory) | {"embeddings.position_ids": np.arange(12)[None]}
    write_tensors(directory, arrays)
    Encoder.from_pretrained(directory)
    assert caplog.messages == []


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_rejects_unsupported_dtypes(directory, caplog, value):
    arrays = tensors(directory)
    arrays[KEY][3, 2] = value
    write_tensors(directory, arrays)
    Encoder.from_pretrained(directory)
    (message,) = caplog.messages
    assert message.endswith(f"NaN or infinite values in: {KEY}")


def test_overrides_and_dtype(directory):
    loaded = Encoder.from_pretrained(directory, dtype="mixed_bfloat16", dropout=0.0)
    assert (loaded.config.dropout, loaded.embeddings.dropout.rate) == (0.0, 0.0)
    assert loaded.dtype_policy.name == "mixed_bfloat16"


def test_loading_leaves_no_uninitialized_variables(directory):
    Encoder.from_pretrained(directory)
    arrays = tensors(directory)
    del arrays[KEY]
    write_tensors(directory, arrays)
    with pytest.raises(InputError):
        Encoder.from_pretrained(directory)
    # At the end of a stateless scope, Keras initializes variables without values, and fails on
    # variables that already have them.
    with keras.StatelessScope():
        pass


def test_warns_about_unknown_keys(directory, caplog):
    edit_config(rope_theta=1e4, pooler_type="first_token_transform", note="x")(directory)
    Encoder.from_pretrained(directory)
    (message,) = caplog.messages
    assert message == f"{directory}: unknown keys are ignored: note, rope_theta"


# === Damaged directories ===


def edit_config(**changes):
    def damage(directory):
        path = directory / "config.json"
        config = {**json.loads(path.read_text()), **changes}
        path.write_text(json.dumps({k: v for k, v in config.items() if v is not ...}))

    return damage


def edit_file(name, change):
    return lambda directory: (directory / name).write_bytes(change((directory / name).read_bytes()))


def edit_tensors(change):
    def damage(directory):
        arrays = tensors(directory)
        change(arrays)
        write_tensors(directory, arrays)

    return damage


def write_header(header, size=76):
    """Writes a safetensors file with this header and `size` bytes of data."""
    if not isinstance(header, bytes):
        header = json.dumps(header).encode()
    return edit_file(
        "model.safetensors", lambda _: struct.pack("<Q", len(header)) + header + bytes(size)
    )


def entry(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def remove(name):
    return lambda directory: (directory / name).unlink()


TERABYTES = {"a": entry("F32", [10**6, 10**6], 0, 4 * 10**12)}
DUPLICATES = b'{"a":%s,"a":%s}' % (
    json.dumps(entry("F32", [4, 4], 0, 64)).encode(),
    json.dumps(entry("F32", [3], 64, 76)).encode(),
)


@pytest.mark.parametrize(
    ("damage", "message"),
    {
        "no config": (remove("config.json"), "model has no config.json"),
        "no JSON": (
            edit_file("config.json", lambda b: b[:-3]),
            r"config.json, line \d+, is not valid JSON",
        ),
        "no text": (edit_file("config.json", lambda b: b"\xff\xfe"), "line 1: not UTF-8 text"),
        "deep JSON": (edit_file("config.json", lambda b: b"[" * 10**5), "is nested too deeply"),
        "a list": (edit_file("config.json", lambda b: b"[1]"), "must contain one JSON object"),
        "no key": (edit_config(hidden_size=...), "config.json: hidden_size is missing"),
        "other model": (
            edit_config(model_type="gpt_neox"),
            "models of type 'gpt_neox' are not supported.*Supported types are bert, roberta",
        ),
        "relative positions": (
            edit_config(position_embedding_type="relative_key"),
            "position_embedding_type is 'relative_key'; only 'absolute'",
        ),
        "decoder": (edit_config(is_decoder=1), "is_decoder must be True or False, got 1"),
        "activation": (edit_config(hidden_act="silu"), "hidden_act is 'silu'; supported are gelu,"),
        "activation list": (
            edit_config(hidden_act=["gelu"]),
            "hidden_act must be a string, got .'gelu'.",
        ),
        "not divisible": (
            edit_config(num_attention_heads=3),
            "config.json: hidden_dim must be a multiple of num_heads.*16, num_heads=3",
        ),
        "text for a number": (edit_config(hidden_dropout_prob="x"), "config.json: "),
        "negative": (
            edit_config(num_hidden_layers=-2),
            r"num_hidden_layers must be an integer in \[1, 1000\], got -2",
        ),
        "very many layers": (
            edit_config(num_hidden_layers=900),
            "has 900 layers, but the weights have only 39 tensors",
        ),
        "huge": (edit_config(hidden_size=10**9), r"must have shape \(40, 1000000000\).*\(40, 16\)"),
        "architectures": (
            edit_config(architectures=["RobertaForMaskedLM"]),
            "model_type is 'bert', but architectures has RobertaForMaskedLM",
        ),
        "padding": (edit_config(pad_token_id=40), "pad_token_id must be less than.*=40.*=40"),
        "vocabulary": (edit_config(vocab_size=41), rf"{WORDS} must have shape \(41, 16\)"),
        "no weights": (
            remove("model.safetensors"),
            "model has no weights: neither model.safetensors nor pytorch_model.bin",
        ),
        "truncated": (edit_file("model.safetensors", lambda b: b[:-4]), "safetensors is damaged"),
        "header only": (edit_file("model.safetensors", lambda b: b[:20]), "is damaged"),
        "empty": (edit_file("model.safetensors", lambda b: b""), "is damaged"),
        "too long": (edit_file("model.safetensors", lambda b: b + b"more"), "is damaged"),
        "a pickle": (edit_file("model.safetensors", lambda b: b"\x80\x04]\x94."), "is damaged"),
        "header of terabytes": (
            edit_file("model.safetensors", lambda b: struct.pack("<Q", 10**13) + b[8:]),
            "is damaged: its header has .* more than the limit",
        ),
        "tensor of terabytes": (write_header(TERABYTES), "is damaged"),
        "duplicate keys": (write_header(DUPLICATES), "is damaged: .*`a`"),
        "overlapping": (
            write_header({name: entry("F32", [19], 0, 76) for name in "ab"}),
            "is damaged",
        ),
        "header is no JSON": (write_header(b"{oops"), "is damaged: .*invalid JSON"),
        "unknown numbers": (
            write_header({"a": entry("F32", [0], 0, 0), WORDS: entry("F8_E4M3", [76], 0, 76)}),
            f"tensor {WORDS} has dtype F8_E4M3; supported are F64, F32, F16, BF16",
        ),
        "tensor missing": (
            edit_tensors(lambda arrays: arrays.pop(KEY)),
            f"model: tensor {KEY} is missing",
        ),
        "wrong shape": (
            edit_tensors(lambda arrays: arrays.update({KEY: np.zeros((16, 8), "float32")})),
            rf"tensor {KEY} must have shape \(16, 16\). Received: \(16, 8\)",
        ),
        "wrong shape, transposed": (
            edit_tensors(
                lambda arrays: arrays.update(
                    {"encoder.layer.0.intermediate.dense.weight": np.zeros((16, 24), "float32")}
                )
            ),
            r"must have shape \(24, 16\). Received: \(16, 24\)",
        ),
    }.values(),
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_damaged(directory, damage, message):
    damage(directory)
    with pytest.raises(InputError, match=message) as caught:
        Encoder.from_pretrained(directory)
    assert "\n" not in str(caught.value)
    assert str(directory) in str(caught.value)


def test_no_directory(tmp_path):
    with pytest.raises(InputError, match="absent' does not exist"):
        open_model(tmp_path / "absent")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="file' is a file; pass the directory that contains it"):
        open_model(tmp_path / "file")


def test_full_disk(tmp_path):
    encoder = Encoder(TINY.__class__(**{**TINY.to_dict(), "vocabulary_size": 30_000}))
    disk = tmp_path / "disk"
    with small_disk(disk):
        with pytest.raises(
            InputError, match="cannot write .*disk/model: (No space|File too large)"
        ):
            encoder.save_pretrained(disk / "model")
        assert list(disk.iterdir()) == []
