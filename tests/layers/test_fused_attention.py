"""Fused attention on JAX, against the formula in float64.

The kernels run on the CPU: that of a TPU in Pallas's interpreter, that of NVIDIA as the same call
with the implementation "xla".
"""

import dataclasses

import keras
import numpy as np
import pytest

from keras_bert_impl import Encoder
from keras_bert_impl.layers import AttentionBias, SelfAttention, attention
from keras_bert_impl.layers import fused_attention as fused
from tests.helpers import MODERN, randomize, to_numpy

pytestmark = pytest.mark.skipif(keras.backend.backend() != "jax", reason="a kernel of JAX")

BATCH, HEADS, WIDTH = 2, 2, 64
# The bound of one rounding in bfloat16. Weights, products with values, scores' gradients and
# results are rounded once each; sums are float32.
ROUNDINGS = 4 * 2.0**-8 * (1 + 2.0**-6)


@pytest.fixture(params=["splash", "xla"])
def kernel(request, monkeypatch):
    monkeypatch.setattr(fused, "fused_kernel", lambda: request.param)
    return request.param


def drawn(length):
    import jax.numpy as jnp

    draws = np.random.default_rng(0).normal(size=(4, BATCH, HEADS, length, WIDTH))
    draws[0] *= WIDTH**-0.5
    return jnp.asarray(draws, "bfloat16")


def example_ids(kind, length):
    places = np.arange(length)
    rows = {
        "full": [places * 0 + 1] * 2,
        "padded": [places < length - 37, places < 21],
        "packed": [1 + (places > 30) + (places > 150), (1 + (places > 70)) * (places < 140)],
    }
    return np.array(rows[kind], "int32")


def closed_form(query, key, value, slope, visible):
    """Outputs and gradients in float64, and the sums of absolute values that roundings scale with.

    `visible` is bool `[batch, 1, query, key]`; `slope` is the gradient of the outputs.
    """
    query, key, value, slope = (np.asarray(part, "float64") for part in (query, key, value, slope))
    scores = np.where(visible, query @ key.swapaxes(-1, -2), -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)

    def results(slope, query, key, value, sign):
        of_weights = slope @ value.swapaxes(-1, -2)
        mean = (weights * of_weights).sum(-1, keepdims=True)
        of_scores = weights * (of_weights + sign * mean)
        return (
            weights @ value,
            of_scores @ key,
            of_scores.swapaxes(-1, -2) @ query,
            weights.swapaxes(-1, -2) @ slope,
        )

    exact = results(slope, query, key, value, -1)
    return exact, results(*(np.abs(part) for part in (slope, query, key, value)), 1)


@pytest.mark.parametrize("length", [256, 200])
@pytest.mark.parametrize("window", [None, 64])
@pytest.mark.parametrize("kind", ["full", "padded", "packed"])
def test_outputs_and_gradients_equal_the_formula(kernel, kind, window, length):
    import jax

    ids = example_ids(kind, length)
    if kind == "packed":
        bias = AttentionBias(window)(ids, example_ids=ids)
    else:
        bias = AttentionBias(window)(ids, padding_mask=None if kind == "full" else ids)
    query, key, value, slope = drawn(length)
    slope = slope * (ids != 0)[:, None, :, None]  # no loss at padding

    def attend(query, key, value):
        return fused.fused_attention(query, key, value, bias, window)

    if kernel == "splash" and length % 128:
        assert attend(query, key, value) is None
        return
    outputs, pull = jax.vjp(jax.jit(attend), query, key, value)
    received = [outputs, *pull(slope)]
    visible = (ids[:, :, None] == ids[:, None, :]) & (ids[:, None, :] != 0)
    visible |= np.eye(length, dtype=bool)  # of padding, anything but no key
    if window:
        visible &= np.abs(np.arange(length)[:, None] - np.arange(length)) <= window
    expected, scale = closed_form(query, key, value, slope, visible[:, None])
    for array, exact, size in zip(received, expected, scale):
        array = np.asarray(array, "float64")
        assert np.isfinite(array).all()
        is_real = np.broadcast_to((ids != 0)[:, None, :, None], array.shape)
        assert (np.abs(array - exact) <= ROUNDINGS * size)[is_real].all()


def test_no_row_sees_padding(kernel):
    ids = example_ids("padded", 256)
    bias = AttentionBias()(ids, padding_mask=ids)
    query, key, value, _ = drawn(256)
    hidden = (ids == 0)[:, None, :, None]
    outputs = fused.fused_attention(query, key, value, bias)
    altered = fused.fused_attention(query, key + 5 * hidden, value + 5 * hidden, bias)
    real = np.broadcast_to(~hidden, outputs.shape)
    np.testing.assert_array_equal(np.asarray(outputs)[real], np.asarray(altered)[real])


@pytest.mark.parametrize("window", [None, 2])
def test_rows_of_padding_alone_are_finite(kernel, window):
    layer = SelfAttention(HEADS, dropout=0.0, window=window, dtype="mixed_bfloat16")
    inputs = np.ones((BATCH, 128, HEADS * 8), "float32")
    nothing = np.zeros((BATCH, 128), "int32")
    bias = AttentionBias(window, dtype="mixed_bfloat16")(nothing, padding_mask=nothing)
    assert np.isfinite(np.asarray(layer(inputs, bias), "float32")).all()


def encoder_outputs(config, dtype, features):
    keras.utils.set_random_seed(0)
    encoder = Encoder(config, dtype=dtype)
    randomize(encoder)
    return to_numpy(encoder(features)["sequence_output"])[features["example_ids"] != 0]


CONFIG = dataclasses.replace(MODERN, hidden_dim=32, max_length=128, window=16)
FEATURES = {
    "token_ids": np.random.default_rng(1).integers(0, 40, (2, 128)).astype("int32"),
    "example_ids": np.array([[1] * 50 + [2] * 60 + [0] * 18, [1] * 128], "int32"),
}


def test_an_encoder_uses_it_until_it_is_disabled(kernel, monkeypatch):
    calls = []

    def attend(*inputs):
        calls.append(kernel)
        return fused.fused_attention(*inputs)

    monkeypatch.setattr(attention, "fused_attention", attend)
    received = encoder_outputs(CONFIG, "mixed_bfloat16", FEATURES)
    assert len(calls) == CONFIG.num_layers
    monkeypatch.setattr(attention, "fused_attention", lambda *inputs: None)
    plain = encoder_outputs(CONFIG, "mixed_bfloat16", FEATURES)
    exact = encoder_outputs(CONFIG, "float32", FEATURES)
    # As far from float32 as the plain path in bfloat16, which rounds at the same places.
    assert np.abs(received - exact).max() < 2 * np.abs(plain - exact).max()


def test_float32_on_a_tpu_takes_the_plain_path(monkeypatch):
    plain = encoder_outputs(CONFIG, "float32", FEATURES)
    monkeypatch.setattr(fused, "fused_kernel", lambda: "splash")
    np.testing.assert_array_equal(encoder_outputs(CONFIG, "float32", FEATURES), plain)


@pytest.mark.parametrize(
    ("rate", "options", "is_fused"),
    [
        (0.0, {"training": True}, True),
        (0.1, {"training": False}, True),
        (0.1, {"training": True}, False),
        (0.0, {"return_attention_scores": True}, False),
    ],
)
def test_only_without_dropout_and_maps(monkeypatch, rate, options, is_fused):
    calls = []
    monkeypatch.setattr(attention, "fused_attention", lambda *inputs: calls.append(1))
    layer = SelfAttention(HEADS, dropout=rate, dtype="mixed_bfloat16")
    layer(np.ones((1, 8, 16)), np.zeros((1, 1, 1, 8)), **options)
    assert bool(calls) == is_fused


def test_causal_encoders_and_prefixes_take_the_plain_path(monkeypatch):
    monkeypatch.setattr(fused, "fused_kernel", lambda: "splash")
    assert AttentionBias(causal=True)(np.ones((1, 8), "int32")).shape == (1, 1, 8, 8)
    monkeypatch.setattr(attention, "fused_attention", lambda *inputs: pytest.fail("called"))
    layer = SelfAttention(HEADS, adapter={"kind": "prefix", "size": 3})
    ids = np.ones((1, 8), "int32")
    assert layer(np.ones((1, 8, 16)), AttentionBias()(ids)).shape == (1, 8, 16)


@pytest.mark.parametrize(
    ("platform", "capability", "kernel"),
    [("tpu", 0, "splash"), ("gpu", 8.0, "cudnn"), ("gpu", 7.5, None), ("cpu", 0, None)],
)
def test_the_kernel_is_that_of_the_device_unless_disabled(
    monkeypatch, platform, capability, kernel
):
    monkeypatch.setattr(fused, "jax_platform", lambda: platform)
    monkeypatch.setattr(fused, "_compute_capability", lambda: capability)
    assert fused.fused_kernel() == kernel
    keras.config.disable_flash_attention()
    try:
        assert fused.fused_kernel() is None
    finally:
        keras.config.enable_flash_attention()


def test_a_device_chosen_for_a_block_counts():
    import jax

    with jax.default_device(jax.devices("cpu")[0]):
        assert fused.fused_kernel() is None
    with jax.default_device("cpu"):
        assert fused.fused_kernel() is None


def test_cudnn_declines_what_it_cannot_compute(monkeypatch):
    import jax.numpy as jnp

    def declines(length, width, capability=8.0):
        monkeypatch.setattr(fused, "fused_kernel", lambda: "xla")
        monkeypatch.setattr(fused, "_compute_capability", lambda: capability)
        part = jnp.ones((1, 1, length, width), "bfloat16")
        return fused.fused_attention(part, part, part, jnp.zeros((1, 1, 1, length))) is None

    assert not declines(8, 64) and not declines(8, 256, capability=9.0)
    assert declines(7, 64) and declines(8, 60) and declines(8, 256)
    odd = jnp.ones((1, 1, 7, 64), "bfloat16")
    assert fused.fused_attention(odd, odd, odd, jnp.ones((1, 7), "int32")) is None


@pytest.mark.parametrize(
    ("kernel", "length", "window", "packed", "capability", "expected"),
    [
        ("splash", 128, 64, False, 0.0, True),
        ("cudnn", 2048, None, True, 9.0, True),
        ("cudnn", 2048, None, True, 8.0, False),
        ("cudnn", 2048, None, False, 9.0, False),
        ("cudnn", 2048, 64, True, 9.0, False),
        ("cudnn", 512, None, True, 9.0, False),
        ("cudnn", None, None, True, 9.0, False),
        (None, 2048, None, True, 9.0, False),
    ],
)
def test_long_packed_rows_have_ids_in_place_of_a_bias(
    monkeypatch, kernel, length, window, packed, capability, expected
):
    monkeypatch.setattr(fused, "fused_kernel", lambda: kernel)
    monkeypatch.setattr(fused, "_compute_capability", lambda: capability)
    assert fused.reads_example_ids(length, window, packed) is expected


def test_devices_share_the_batch(kernel):
    """On the devices of `keras.distribution`, each computes its rows."""
    import jax

    if len(jax.devices()) < 2:
        pytest.skip("needs several devices")
    ids = example_ids("packed", 256)
    bias = AttentionBias(64)(ids, example_ids=ids)
    query, key, value, slope = drawn(256)

    def gradients(query, key, value):
        attend = lambda *parts: fused.fused_attention(*parts, bias, 64)  # noqa: E731
        outputs, pull = jax.vjp(attend, query, key, value)
        return [outputs, *pull(slope)]

    expected = jax.jit(gradients)(query, key, value)
    keras.distribution.set_distribution(
        keras.distribution.DataParallel(devices=keras.distribution.list_devices()[:2])
    )
    try:
        mesh = keras.distribution.distribution().device_mesh.backend_mesh
        layout = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("batch"))
        parts = [jax.device_put(part, layout) for part in (query, key, value)]
        received = jax.jit(gradients)(*parts)
        if kernel == "splash":  # a batch that does not divide takes the plain path
            assert fused.fused_attention(query[:1], key[:1], value[:1], bias[:1], 64) is None
    finally:
        keras.distribution.set_distribution(None)
    for array, reference in zip(received, expected):
        assert array.sharding.is_equivalent_to(layout, array.ndim)
        # XLA may round to bfloat16 at other places of a program for several devices.
        array, reference = (np.asarray(part, "float32") for part in (array, reference))
        np.testing.assert_allclose(array, reference, rtol=2.0**-7, atol=1e-6)
