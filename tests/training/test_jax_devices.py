"""Devices on JAX: one and eight reach the weights of one TensorFlow device."""

import numpy as np
import pytest

from keras_bert_impl.training.strategy import get_strategy
from tests.training.encoder_on_devices import build, train
from tests.training.helpers import result_of, start


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
        facts = result_of(process) | {"tensorflow": {"history": history}}
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
    for case in "one", "devices", "model":
        assert distance(weights["tensorflow"], weights[case]) < 2e-6, case
        loss, expected = (facts[name]["history"]["loss"] for name in (case, "tensorflow"))
        np.testing.assert_allclose(loss, expected, rtol=1e-5)
