"""Settings that must be made before TensorFlow starts, and a fixture of many folders."""

import contextlib
import gc
import os

import pytest

# The compiler of PyTorch for GPUs. PyTorch and TensorFlow each bundle LLVM; importing Triton after
# TensorFlow crashes the process.
with contextlib.suppress(ImportError):
    import triton  # noqa: F401

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")


def pytest_configure(config):
    """Starts TensorFlow, except in the process that only distributes tests to workers."""
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        return
    # Tracing creates many objects and hardly any cycles. At the default threshold, about a hundred
    # full collections take a thirtieth of the test time.
    gc.set_threshold(10_000, 20, 100)
    import keras

    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        # Four logical devices on one CPU, for strategies with 1, 2 and 4 replicas.
        tf.config.set_logical_device_configuration(
            tf.config.list_physical_devices("CPU")[0],
            [tf.config.LogicalDeviceConfiguration()] * 4,
        )


def pytest_collection_modifyitems(items):
    """Skips the tests that call TensorFlow directly on another backend."""
    if os.environ.get("KERAS_BACKEND", "tensorflow") == "tensorflow":
        return
    for item in items:
        if item.get_closest_marker("on_tensorflow"):
            item.add_marker(pytest.mark.skip(reason="calls TensorFlow directly"))


@pytest.fixture(autouse=True, scope="module")
def survivors_are_not_searched_again():
    """Exempts surviving graphs and modules from later collections, which would take seconds."""
    yield
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """A model directory of a tiny encoder."""
    from tests.tasks.helpers import save_base

    return save_base(tmp_path_factory.mktemp("base"))
