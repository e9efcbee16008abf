"""Devices on JAX: one and eight reach the weights of one TensorFlow device."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.training.sharding import nearest_multiples
from keras_bert_impl.training.strategy import get_strategy
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.lazy import keep_accelerators_for_jax
from tests.training.encoder_on_devices import STEPS, build, train
from tests.training.helpers import last_json, output_of, start


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """(weights of each case, facts of each case); see `encoder_on_devices`."""
    folder = tmp_path_factory.mktemp("devices")
    with get_strategy("one_device").scope():
        model = build()
    np.savez(folder / "first.npz", *model.get_weights())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KERAS_BACKEND", "jax")
        patch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
        process = start("encoder_on_devices.py", folder / "first.npz", folder)
        history = train(model)
        facts = last_json(output_of(process, timeout=900)) | {"tensorflow": {"history": history}}
    weights = {"tensorflow": model.get_weights()}
    for path in folder.glob("*.npz"):
        with np.load(path) as saved:
            weights[path.stem] = [saved[name] for name in saved.files]
    return weights, facts


def distance(first, second):
    pairs = zip(first, second, strict=True)
    return max(float(np.abs(a - b).max()) for a, b in pairs if a.dtype == np.float32)


@pytest.mark.slow
def test_weights_do_not_depend_on_devices(results):
    weights, facts = results
    assert distance(weights["first"], weights["tensorflow"]) > 1e-2  # they moved
    # Per step, Adam amplifies the rounding of the clipped gradients by up to 10.
    tolerance = STEPS * 10 * 2**-24
    for case, replicas in ("one", 1), ("devices", 8), ("model", 2):
        assert facts[case]["replicas"] == replicas
        assert distance(weights["tensorflow"], weights[case]) < tolerance, case
        for name, expected in facts["tensorflow"]["history"].items():
            np.testing.assert_allclose(facts[case]["history"][name], expected, rtol=1e-5)
    assert facts["again"] == facts["devices"]["history"]


@pytest.mark.slow
def test_bfloat16_weights_are_equal_to_its_rounding(results):
    weights, _ = results
    moved = distance(weights["first"], weights["one_bf16"])
    # A step is off by the rounding of its gradients, a share of 2 ** -8 of them.
    assert distance(weights["one_bf16"], weights["devices_bf16"]) < STEPS * 2**-8 * moved


@pytest.mark.slow
def test_devices_divide_optimizer_state_and_weights(results):
    _, facts = results
    single, devices, model = (facts[name] for name in ("one", "devices", "model"))
    assert devices["weights"] == single["weights"]
    # Only the bias of 3 values and the scalars are whole on each.
    assert single["slots"] / 8 < devices["slots"] < single["slots"] / 8 + 250
    # Embeddings, attention and feed-forward matrices are split in 4, and their slots in 2 more.
    assert model["weights"] < 0.4 * single["weights"]
    assert model["slots"] < 0.2 * single["slots"]


@pytest.mark.slow
def test_errors_name_the_way_out(results):
    errors = results[1]["errors"]
    assert errors["batch"] == (
        "a batch of 12 rows cannot be divided evenly among 8 devices. Use batches of 8 or 16 rows, or "
        "strategy='one_device'."
    )
    assert "JAX finds no TPU, only 8 device(s) of kind cpu. Choose 'auto'" in errors["tpu"]
    assert "must divide the 8 devices: choose one of 1, 2, 4, 8" in errors["model_devices"]
    assert "Name at least two workers in the environment variable TF_CONFIG" in errors["workers"]
    assert "before JAX is initialized" in errors["cpu devices"]
    for name in "one device of theirs", "model devices of theirs":
        assert "Choose strategy 'auto' to keep that distribution" in errors[name]


def test_tensorflow_has_no_model_devices():
    with pytest.raises(InputError, match="model_devices=... needs the JAX backend"):
        get_strategy("auto", model_devices=2)
    with pytest.raises(InputError, match="model_devices must be"):
        get_strategy("auto", model_devices=0)


def test_a_strategy_is_returned_as_it_is():
    strategy = get_strategy("one_device")
    assert get_strategy(strategy) is strategy


def test_multiples_around_a_number():
    assert nearest_multiples(12, 8) == "8 or 16"
    assert nearest_multiples(3, 8) == nearest_multiples(0, 8) == "8"


class _GPU:
    """Stands in for `tf.config` of a machine with a GPU."""

    def __init__(self, is_started):
        self.visible, self.is_started = {"GPU": ["GPU:0"], "TPU": []}, is_started

    def get_visible_devices(self, kind):
        return self.visible[kind]

    def set_visible_devices(self, devices, kind):
        if self.is_started:
            raise RuntimeError("Visible devices cannot be modified after being initialized")
        self.visible[kind] = devices


def test_gpus_are_hidden_from_tensorflow_on_jax(monkeypatch):
    gpu = _GPU(is_started=False)
    monkeypatch.setattr(tf, "config", gpu)
    keep_accelerators_for_jax()
    assert gpu.visible["GPU"] == ["GPU:0"]  # on the TensorFlow backend
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    keep_accelerators_for_jax()
    assert gpu.visible["GPU"] == []
    monkeypatch.setattr(tf, "config", _GPU(is_started=True))
    with pytest.raises(InputError, match="already uses the GPU.*PREALLOCATE=false"):
        keep_accelerators_for_jax()
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    keep_accelerators_for_jax()  # they share it
